"""Decode attention: a cache read once, split over SMs; GQA packed; MLA absorbed.

    time = launch + merge + p-norm(max(HBM time, L2 time), SM time, tensor time)

The cache comes from HBM as far as it does not stay in L2, and through L2 no faster than the
busy SMs can draw it: batch x kv heads x splits of the cache against the SMs. Each such unit
of work costs SM time whatever its keys, and merging splits a fixed time more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.attention_work import (
    between,
    element_bytes,
    is_attention,
    is_decode,
    is_latent,
    is_portable,
    missed_in_l2,
    precision_index,
    shape_of,
    synchronous,
    tensor_memory,
)
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.kernels import VENDOR, kernel_fallbacks, with_kernel
from codesign.sensitivity.op_model import (
    ON_CHIP,
    POWER_CLOCK_EXPONENT,
    Features,
    OpModel,
    Parameter,
    Terms,
    p_norm,
)

REFERENCE_CLOCK_HZ = 1.8e9
KEY_TILE = 128.0
MERGE_SMS = 128.0
"""SMs against which the cost of merging splits is counted. The number of the system would make
more SMs cost time; a kernel with more SMs is free to split no further."""
PACKED_GROUP = 32
"""Query heads a key head up to which kernels put the group into one tile."""
GROUP_TILE = 16.0
"""Query rows that a tensor instruction takes at least; smaller GQA groups are padded."""
STREAM_P = 6.0
"""The cache streams through HBM and L2 at once: the slower one sets the pace."""
UNIT_ROWS = 64.0
"""Query rows of one unit of work: what one asynchronous instruction of Hopper takes."""
TENSOR_MEMORY_ROWS = 128.0
"""The same with tensor memory, whose lanes are 128."""

_PARAMETERS = (
    Parameter("launches", 1.2, 0.1, 10.0, "smallest-kernel times that the op costs", prior_sd=0.5),
    Parameter("overhead_s", 4e-6, 1e-7, 5e-5, "fixed on-chip time at 1.8 GHz", prior_sd=0.7),
    Parameter("merge_s", 4e-6, 1e-8, 3e-5, "time to split the cache and merge, at 1.8 GHz",
              prior_sd=0.7),
    Parameter("unit_clocks", 7000.0, 50.0, 5e4, "SM clocks of a unit of work apart from its keys",
              prior_sd=0.7),
    Parameter("draw_bytes_per_clock_sm", 32.0, 0.5, 200.0, "cache bytes that an SM takes a clock",
              prior_sd=0.5),
    Parameter("width_exponent", 0.3, 0.0, 1.5, "how a unit's clocks grow with the head size",
              log=False, prior_sd=0.3),
    Parameter("min_tiles", 1.2, 0.5, 4.0, "key tiles below which a cache is not split",
              prior_sd=0.4),
    Parameter("oversplit", 4.0, 1.0, 16.0, "waves of units that splitting may make", prior_sd=0.5),
    Parameter("hbm_efficiency", 0.9, 0.4, 1.0, "reached share of the HBM bandwidth",
              prior_sd=0.05),
    Parameter("l2_share", 0.8, 0.1, 1.5, "share of L2 that keeps a cache between calls",
              prior_sd=0.3),
    Parameter("tensor_efficiency", 0.3, 0.02, 1.0, "share of the dense peak on padded groups"),
    Parameter(
        "synchronous_clocks", 1.0, 0.3, 4.0, "SM clocks of synchronous SMs over the others",
        prior_sd=0.5,
    ),
    Parameter("overlap_p", 2.2, 1.0, 8.0, "p of the norm over HBM, SM and tensor time",
              prior_sd=0.4),
    # Kernels do not carry over to parts with tensor memory, whose instructions are others: theirs
    # are expected where those of Hopper are at best. TensorRT-LLM's asynchronous kernel for an
    # fp8 cache takes 1.6 to 1.9 us a unit there; bf16 caches come at half of the 64 bytes a
    # clock that an SM takes from L2, without the conversions that slow fp8 ones; merging takes
    # 3 us. The op's fixed time is the mean over TensorRT-LLM, SGLang and vLLM on Hopper.
    Parameter("tensor_memory_clocks", 3300.0, 500.0, 2e4, "SM clocks of a unit apart from its "
              "keys, with tensor memory", prior_sd=0.3),
    Parameter("tensor_memory_draw", 32.0, 2.0, 200.0, "bytes of cache that an SM takes a clock, "
              "with tensor memory", prior_sd=0.3),
    Parameter("tensor_memory_merge_s", 3e-6, 1e-7, 3e-5, "merge_s with tensor memory",
              prior_sd=0.5),
    Parameter("tensor_memory_overhead_s", 6.5e-6, 1e-7, 5e-5, "overhead_s with tensor memory",
              prior_sd=0.3),
    Parameter("window_splits", 0.3, 0.0, 1.0, "how far splits go by the whole cache, not by the "
              "window", log=False, prior_sd=0.4),
    Parameter("packing", 0.5, 0.0, 1.0, "how far groups of more heads than a tile share units",
              log=False, prior_sd=0.5),
)  # fmt: skip
"""Starting points and widths are the present public kernels': FlashDecoding-like splits, about
two microseconds to start and end a block of threads, 80 to 90 % of HBM bandwidth (STREAM), half
of the 64 bytes that an SM takes from L2 a clock."""

_LATENT_PARAMETERS = tuple(
    replace(p, initial=10.0, upper=300.0) if p.name == "synchronous_clocks" else p
    for p in _PARAMETERS
)


class DecodeAttentionModel(OpModel):
    """Attention of few query tokens over a cache. See the module for the form."""

    name: ClassVar[str] = "attention_decode"
    op_classes: ClassVar[tuple[str, ...]] = ("attention",)
    reads: ClassVar[frozenset[str]] = ON_CHIP

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Attention rows with at most eight query tokens and a longer cache."""
        return is_attention(ops) & is_decode(ops)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """Precision of the cache, whether it is MLA's latent one, how wide groups are, kernel."""
        shape = shape_of(ops)
        group = shape.heads / shape.kv_heads
        kinds = [is_latent(ops), group == 1, group > PACKED_GROUP]
        kind = np.select(kinds, ["mla_", "mha_", "wide_"], "gqa_")
        return with_kernel(np.char.add(kind.astype(np.str_), shape.kv_precision), ops)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The same kernel family with a cache that was measured, then a near family."""
        kind, _, _ = variant.partition("_")
        order = [f"{kind}_bf16", f"{kind}_fp8", "gqa_bf16", "gqa_fp8", "mha_bf16"]
        return kernel_fallbacks(variant, order, last=VENDOR)

    def parameters(self, variant: str) -> tuple[Parameter, ...]:
        """The same for every kind of cache, but for MLA's other kernel on older SMs."""
        return _LATENT_PARAMETERS if variant.startswith("mla_") else _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Units of work, keys, cache and other bytes, padded FLOPs of one call."""
        shape = shape_of(ops)
        keys = np.minimum(shape.kv_len, shape.window)
        rows = shape.q_len * shape.heads / shape.kv_heads
        padded = np.ceil(rows / GROUP_TILE) * GROUP_TILE
        units = shape.batch * shape.kv_heads
        # A wide group may run as if every query head had its own cache.
        wide = (rows / shape.q_len > PACKED_GROUP) & ~is_latent(ops)
        # Absorbed MLA reads one latent vector of 576, whose first 512 are the value.
        latent = (shape.kv_heads == 1) & (shape.dim > shape.dim_v)
        width = np.where(latent, shape.dim, shape.dim + shape.dim_v)
        # Triton's tiles have powers of two as sides.
        portable = is_portable(ops)
        key_bytes = width * element_bytes(shape.kv_precision)
        io = shape.batch * shape.q_len * shape.heads * (shape.dim + shape.dim_v) * 2.0
        # A window starts inside a tile, so that it straddles one more.
        whole = np.ceil(shape.kv_len / KEY_TILE)
        tiles = np.minimum(np.ceil(keys / KEY_TILE) + (shape.kv_len > shape.window), whole)
        return {
            "units": units,
            "rows": rows,
            "wide": wide.astype(np.float64),
            "tiles": tiles,
            "whole_tiles": whole,
            "unit_bytes": np.minimum(tiles * KEY_TILE, shape.kv_len) * key_bytes,
            "bytes": units * keys * key_bytes + io,
            "flops": 2.0 * units * padded * keys * (shape.dim + shape.dim_v),
            "width": np.where(portable, 2.0 ** np.ceil(np.log2(width)), width) / 256.0,
            "portable": portable.astype(np.float64),
            "latent": latent.astype(np.float64),
            "precision": precision_index(shape.precision),
            "cache_precision": precision_index(shape.kv_precision),
        }

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``launch`` (and merging), ``sm`` (units), ``l2``, ``hbm`` and ``tensor``."""
        launches, overhead_s, merge_s, unit_clocks, draw_bytes, exponent = theta[:6]
        min_tiles, oversplit, hbm_efficiency, l2_share, tensor_efficiency, sync_clocks = theta[6:12]
        clock = hw.boost_clock_hz
        other = tensor_memory(hw) & (features["portable"] == 0)
        packed = np.ceil(features["rows"] / np.where(other, TENSOR_MEMORY_ROWS, UNIT_ROWS))
        apart = np.where(features["wide"] > 0, features["rows"], packed)
        units = features["units"] * between(apart, packed, float(theta[18]))
        tiles = between(features["tiles"], features["whole_tiles"], float(theta[17]))
        # MLA needs asynchronous copies and 228 KB of shared memory for a split kernel:
        # without them one SM walks a whole cache.
        whole = synchronous(hw) & (features["latent"] > 0)
        most = np.maximum(1.0, tiles / min_tiles)
        splits = np.minimum(np.maximum(1.0, oversplit * hw.sm_count / units), most)
        merged = np.minimum(np.maximum(1.0, oversplit * MERGE_SMS / units), most)
        splits = np.where(whole, 1.0, splits)
        busy = np.minimum(hw.sm_count, units * splits)
        slower = np.where(synchronous(hw), sync_clocks, 1.0)
        # Portable kernels do carry over, and MLA's on Hopper are asynchronous already.
        own = other & (features["latent"] == 0)
        base = np.where(own, theta[13], unit_clocks * np.where(whole, 1.0, slower))
        rate = np.where(other, theta[14], draw_bytes / np.where(whole, slower, 1.0))
        merge_s = np.where(other, theta[15], np.where(whole, 0.0, merge_s))
        overhead_s = np.where(own, theta[16], overhead_s)
        waves = units * splits / busy
        unit_s = base * features["width"] ** exponent / clock
        size = features["bytes"]
        # Over an fp8 cache MLA's kernels for tensor memory cast the query and multiply in fp8;
        # Hopper's widen the cache to bf16.
        narrow = other & (features["latent"] > 0)
        tensor_rate = np.where(
            narrow,
            hw.rate_flops_per_s(features["cache_precision"]),
            hw.rate_flops_per_s(features["precision"]),
        )
        return {
            "launch": launches * hw.launch_latency_s
            + REFERENCE_CLOCK_HZ / clock * (overhead_s + merge_s * (1.0 - 1.0 / merged)),
            "sm": waves * unit_s,
            "l2": waves * features["unit_bytes"] / splits / (rate * clock),
            "hbm": missed_in_l2(size / (l2_share * hw.l2_capacity_bytes))
            * size
            / (hbm_efficiency * hw.hbm_bandwidth_bytes_per_s),
            "tensor": features["flops"]
            / (tensor_rate * tensor_efficiency)
            * (hw.sm_count / busy)
            / hw.power_ratio**POWER_CLOCK_EXPONENT,
        }

    def combine(self, theta: Array, terms: Terms) -> Array:
        """Launch, then the slowest of HBM, SM and tensor time, smoothly."""
        stream = p_norm(STREAM_P, terms["hbm"], terms["l2"])
        return terms["launch"] + p_norm(float(theta[12]), stream, terms["sm"], terms["tensor"])
