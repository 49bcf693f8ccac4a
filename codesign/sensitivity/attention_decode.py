"""Decode attention: a cache read once, split over SMs; GQA packed; MLA absorbed.

    time = launch + chain + p-norm(HBM time, SM bandwidth time, tensor time)

The cache comes from HBM as far as it does not stay in L2, and no faster than the busy
SMs can draw it: batch x kv heads x splits of the cache against the SMs. A split walks
its tiles one after another (chain), and merging splits costs a fixed part more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.attention_work import (
    element_bytes,
    is_attention,
    is_decode,
    is_latent,
    missed_in_l2,
    precision_index,
    shape_of,
    synchronous,
)
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.op_model import (
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

_PARAMETERS = (
    Parameter("launches", 1.2, 0.1, 10.0, "smallest-kernel times that the op costs", prior_sd=0.5),
    Parameter("overhead_s", 4e-6, 1e-7, 5e-5, "fixed on-chip time at 1.8 GHz", prior_sd=0.7),
    Parameter("merge_s", 6e-6, 1e-8, 3e-5, "time to split the cache and merge, at 1.8 GHz",
              prior_sd=0.7),
    Parameter("unit_clocks", 5000.0, 50.0, 5e4, "SM clocks of a unit of work apart from its keys",
              prior_sd=0.7),
    Parameter("tile_clocks", 200.0, 10.0, 2e4, "SM clocks of a tile of 128 keys of width 256"),
    Parameter("width_exponent", 0.3, 0.0, 1.5, "how SM clocks grow with the head size",
              log=False, prior_sd=0.3),
    Parameter("min_tiles", 1.2, 0.5, 4.0, "key tiles below which a cache is not split",
              prior_sd=0.4),
    Parameter("oversplit", 4.0, 1.0, 16.0, "waves of units that splitting may make", prior_sd=0.5),
    Parameter("hbm_efficiency", 0.85, 0.4, 1.0, "reached share of the HBM bandwidth",
              prior_sd=0.1),
    Parameter("l2_share", 0.5, 0.1, 1.5, "share of L2 that keeps a cache between calls",
              prior_sd=0.5),
    Parameter("tensor_efficiency", 0.3, 0.05, 1.0, "share of the dense peak on padded groups"),
    Parameter(
        "synchronous_clocks", 1.0, 0.3, 4.0, "SM clocks of synchronous SMs over the others",
        prior_sd=0.5,
    ),
    Parameter("overlap_p", 2.2, 1.0, 8.0, "p of the norm over HBM, SM and tensor time",
              prior_sd=0.4),
)  # fmt: skip
"""Starting points and widths are the present public kernels': FlashDecoding-like splits, about
two microseconds to start and end a block of threads, 80 to 90 % of HBM bandwidth (STREAM)."""

_LATENT_PARAMETERS = tuple(
    replace(p, initial=10.0, upper=300.0) if p.name == "synchronous_clocks" else p
    for p in _PARAMETERS
)


class DecodeAttentionModel(OpModel):
    """Attention of few query tokens over a cache. See the module for the form."""

    name: ClassVar[str] = "attention_decode"
    op_classes: ClassVar[tuple[str, ...]] = ("attention",)

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Attention rows with at most eight query tokens and a longer cache."""
        return is_attention(ops) & is_decode(ops)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """Precision of the cache, and whether it is MLA's latent one."""
        shape = shape_of(ops)
        group = shape.heads / shape.kv_heads
        kinds = [is_latent(ops), group == 1, group > PACKED_GROUP]
        kind = np.select(kinds, ["mla_", "mha_", "wide_"], "gqa_")
        return np.char.add(kind.astype(np.str_), shape.kv_precision)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The same kernel family with a cache that was measured."""
        kind, _, _ = variant.partition("_")
        order = (f"{kind}_bf16", f"{kind}_fp8", "gqa_bf16", "gqa_fp8", "mha_bf16")
        return tuple(dict.fromkeys(v for v in order if v != variant))

    def parameters(self, variant: str) -> tuple[Parameter, ...]:
        """The same for every kind of cache, but for MLA's other kernel on older SMs."""
        return _LATENT_PARAMETERS if variant.startswith("mla_") else _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Units of work, keys, cache and other bytes, padded FLOPs of one call."""
        shape = shape_of(ops)
        keys = np.minimum(shape.kv_len, shape.window)
        rows = shape.q_len * shape.heads / shape.kv_heads
        padded = np.ceil(rows / GROUP_TILE) * GROUP_TILE
        # A group that is not packed runs as if every query head had its own cache.
        unpacked = (rows / shape.q_len > PACKED_GROUP) & ~is_latent(ops)
        units = shape.batch * shape.kv_heads
        # Absorbed MLA reads one latent vector of 576, whose first 512 are the value.
        latent = (shape.kv_heads == 1) & (shape.dim > shape.dim_v)
        width = np.where(latent, shape.dim, shape.dim + shape.dim_v)
        cache = units * keys * width * element_bytes(shape.kv_precision)
        io = shape.batch * shape.q_len * shape.heads * (shape.dim + shape.dim_v) * 2.0
        return {
            "units": units * np.where(unpacked, rows, np.ceil(rows / 64.0)),
            "tiles": np.ceil(keys / KEY_TILE),
            "cache_bytes": cache,
            "io_bytes": io,
            "flops": 2.0 * units * padded * keys * (shape.dim + shape.dim_v),
            "width": width / 256.0,
            "latent": latent.astype(np.float64),
            "precision": precision_index(shape.precision),
        }

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``launch``, ``sm`` (chain and draw), ``hbm`` and ``tensor``."""
        launches, overhead_s, merge_s, unit_clocks, tile_clocks, exponent = theta[:6]
        min_tiles, oversplit, hbm_efficiency, l2_share, tensor_efficiency, sync_clocks = theta[6:12]
        clock = hw.boost_clock_hz
        units, tiles = features["units"], features["tiles"]
        # MLA needs asynchronous copies and 228 KB of shared memory for a split kernel:
        # without them one SM walks a whole cache.
        whole = synchronous(hw) & (features["latent"] > 0)
        most = np.maximum(1.0, tiles / min_tiles)
        splits = np.minimum(np.maximum(1.0, oversplit * hw.sm_count / units), most)
        merged = np.minimum(np.maximum(1.0, oversplit * MERGE_SMS / units), most)
        splits = np.where(whole, 1.0, splits)
        busy = np.minimum(hw.sm_count, units * splits)
        tile_clocks = tile_clocks * np.where(whole, sync_clocks, 1.0)
        clocks = (unit_clocks + tile_clocks * tiles / splits) * features["width"] ** exponent
        clocks = clocks * np.where(synchronous(hw) & ~whole, sync_clocks, 1.0)
        size = features["cache_bytes"] + features["io_bytes"]
        return {
            "launch": launches * hw.launch_latency_s
            + REFERENCE_CLOCK_HZ
            / clock
            * (overhead_s + np.where(whole, 0.0, merge_s * (1.0 - 1.0 / merged))),
            "sm": units * splits / busy * clocks / clock,
            "hbm": missed_in_l2(size / (l2_share * hw.l2_capacity_bytes))
            * size
            / (hbm_efficiency * hw.hbm_bandwidth_bytes_per_s),
            "tensor": features["flops"]
            / (hw.peak_flops_per_s(features["precision"]) * tensor_efficiency)
            * (hw.sm_count / busy)
            / hw.power_ratio**POWER_CLOCK_EXPONENT,
        }

    def combine(self, theta: Array, terms: Terms) -> Array:
        """Launch, then the slowest of chain, HBM, SM and tensor time, smoothly."""
        bound = p_norm(float(theta[12]), terms["hbm"], terms["sm"], terms["tensor"])
        return terms["launch"] + bound
