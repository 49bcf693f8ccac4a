"""Prefill and training attention: a pass over the operands, then tiles of queries over keys.

    time = launch + pass over Q, K, V (rotary embedding, cache write)
         + p-norm(makespan of query blocks on SMs, HBM time)

A query block costs a fixed time (start, end, its rows of output) and for each key tile
tensor time (its FLOPs at the fitted efficiency) and special-function time (an exponential
per score, at a rate that goes with SMs and clock but not with the tensor peak: what binds
Blackwell), overlapped as far as the fit says. Makespan: the work spread evenly, whole
waves, or the longest block, whichever is longest.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.attention_work import (
    BACKWARD_WORK,
    TILE,
    AttentionShape,
    between,
    element_bytes,
    exp_per_clock_sm,
    is_attention,
    is_decode,
    is_latent,
    is_portable,
    missed_in_l2,
    precision_index,
    shape_of,
    synchronous,
    tensor_memory,
    tiled_keys,
    without_window,
)
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.kernels import VENDOR, kernel_fallbacks, split_kernel, with_kernel
from codesign.sensitivity.op_model import (
    ON_CHIP,
    POWER_CLOCK_EXPONENT,
    Features,
    OpModel,
    Parameter,
    Terms,
    p_norm,
    strings,
)

LATENT_WIDTH = 576.0
"""Columns of MLA's cache: 512 of the latent and 64 of the rotary key (DeepSeek-V2, V3)."""
TILES_IN_TURN = 2.0
"""Query tiles of one block with tensor memory: one is multiplied while the other takes its
exponentials (TensorRT-LLM's and FlashAttention's kernels for Blackwell)."""
SMALL_TILE = 32.0
"""Rows and columns to which a tile shrinks when the sequence is shorter."""

_PARAMETERS = (
    Parameter("launches", 1.0, 0.1, 10.0, "smallest-kernel times that the op costs",
              prior_sd=0.3),
    Parameter("gap_s", 5e-6, 1e-7, 5e-5, "fixed time of the several kernels that no lever moves"),
    Parameter("block_clocks", 5000.0, 10.0, 5e4, "SM clocks to start and end a query block",
              prior_sd=0.7),
    Parameter("tensor_efficiency", 0.8, 0.02, 1.0, "share of the dense peak, head size 128",
              prior_sd=0.3),
    Parameter("dim_slope", 0.0, -1.0, 1.0, "change of efficiency per log2 of head size",
              log=False, prior_sd=0.3),
    Parameter("exp_efficiency", 0.8, 0.05, 4.0, "share of the special-function rate",
              prior_sd=0.25),
    Parameter("overlap_p", 1.3, 1.0, 8.0, "p of the norm over tensor and exponentials",
              prior_sd=0.3),
    Parameter("wave_share", 0.5, 0.001, 1.0, "share of whole-wave scheduling"),
    Parameter("hbm_efficiency", 0.87, 0.4, 1.0, "reached share of HBM bandwidth", prior_sd=0.05),
    Parameter("query_passes", 1.0, 0.01, 6.0, "passes over queries before the kernel"),
    Parameter("key_passes", 2.0, 0.01, 8.0, "passes over keys and values before the kernel"),
    Parameter("l2_share", 0.4, 0.05, 1.5, "share of L2 that keeps operands", prior_sd=0.7),
    Parameter("synchronous_share", 0.7, 0.2, 4.0, "tensor efficiency on synchronous SMs, relative",
              prior_sd=0.3),
    Parameter("packing", 0.5, 0.0, 1.0, "how far short queries of a group share a block",
              log=False, prior_sd=0.5),
    Parameter("pass_bytes_per_clock_sm", 20.0, 2.0, 200.0, "bytes that an SM moves per clock",
              prior_sd=0.7),
    Parameter("lone_tile", 1.2, 0.5, 5.0, "time of a tile of the longest block over the mean one",
              prior_sd=0.4),
    # Kernels do not carry over to parts with tensor memory, whose instructions are others. There
    # products no longer wait in the registers of the warps that take exponentials, so that two
    # tiles of a block take turns; blocks cost, and the tensor cores reach, what they do with
    # Hopper's bf16 kernels; and SGLang and vLLM run TensorRT-LLM's kernels, which do not pack
    # the queries of a group in prefill.
    Parameter("tensor_memory_overlap_p", 2.0, 1.0, 8.0, "overlap_p with tensor memory",
              prior_sd=0.3),
    Parameter("tensor_memory_block_clocks", 5000.0, 10.0, 5e4, "block_clocks with tensor memory",
              prior_sd=0.3),
    Parameter("tensor_memory_efficiency", 0.8, 0.1, 1.0, "tensor_efficiency with tensor memory, "
              "any head size", prior_sd=0.2),
    Parameter("tensor_memory_packing", 0.1, 0.0, 1.0, "packing with tensor memory", log=False,
              prior_sd=0.1),
)  # fmt: skip


class PrefillAttentionModel(OpModel):
    """Attention of many query tokens. See the module for the form."""

    name: ClassVar[str] = "attention_prefill"
    op_classes: ClassVar[tuple[str, ...]] = ("attention",)
    reads: ClassVar[frozenset[str]] = ON_CHIP

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Attention rows that are not decode."""
        return is_attention(ops) & ~is_decode(ops)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """Precision, a narrower cache beside it, whether heads are MLA's, and the kernel."""
        shape = shape_of(ops)
        latent = np.where(is_latent(ops), "mla_", "")
        cache = np.where(_narrow_cache(shape), "_kv8", "")
        name = np.char.add(np.char.add(latent.astype(np.str_), shape.precision), cache)
        return with_kernel(name, ops)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The same kernel family in a precision that was measured, then a near family.

        TensorRT-LLM's come last for others: its tables time the pass over the operands too.
        """
        base = split_kernel(variant)[0].removesuffix("_kv8")
        kind = "mla_" if base.startswith("mla_") else ""
        plain = base.removeprefix("mla_")
        order = [base, f"{kind}bf16", f"{kind}fp8", plain, "bf16", "fp16", "fp8"]
        return kernel_fallbacks(variant, order, last=VENDOR)

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """The same for every precision."""
        return _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Blocks, key columns and bytes of one call, the backward pass as 2.5 forwards."""
        shape = shape_of(ops)
        # Portable kernels mask the keys outside a window, but visit them.
        blocks, columns, longest = tiled_keys(without_window(shape, is_portable(ops)))
        times = np.where(shape.backward, BACKWARD_WORK, 1.0)
        batch_heads = shape.batch * shape.heads
        group = shape.heads / shape.kv_heads
        # Short queries leave part of a tile empty, unless those of a group share it.
        columns = np.minimum(columns, blocks * np.ceil(shape.kv_len / SMALL_TILE) * SMALL_TILE)
        tiles = batch_heads * columns / TILE * times
        single = np.minimum(np.ceil(shape.q_len / SMALL_TILE) * SMALL_TILE, TILE)
        group_rows = np.minimum(shape.q_len * group, TILE)
        shared = np.minimum(np.ceil(group_rows / SMALL_TILE) * SMALL_TILE, TILE)
        packed = shape.batch * shape.kv_heads * np.ceil(shape.q_len * group / TILE)
        packed = np.minimum(packed, batch_heads * blocks)
        fewer = packed / (batch_heads * blocks)
        packed_tiles = np.minimum(tiles * fewer * shared, tiles * single) / TILE
        # A library may send single tokens to its decode kernel, which packs.
        decode = np.char.find(strings(ops, "kernel"), "decode") >= 0
        q_bytes = element_bytes(shape.precision)
        kv_bytes = element_bytes(shape.kv_precision)
        query_row = shape.heads * shape.dim * q_bytes
        # Absorbed MLA: the values are the first columns of the keys.
        latent = (shape.kv_heads == 1) & (shape.dim > shape.dim_v) & (shape.heads > 1)
        width = np.where(latent, shape.dim, shape.dim + shape.dim_v)
        key_row = shape.kv_heads * width * kv_bytes
        # What the pass before the kernel writes to the cache: of MLA, its latent alone.
        cached = np.where(shape.dim > shape.dim_v, LATENT_WIDTH, shape.kv_heads * width)
        tokens = shape.batch * shape.q_len
        narrow, portable = _narrow_cache(shape), is_portable(ops)
        return {
            "blocks": np.where(decode, packed, batch_heads * blocks),
            "passes": times,
            "packed_blocks": packed,
            "tiles": np.where(decode, packed_tiles, tiles * single / TILE),
            "packed_tiles": packed_tiles,
            "longest_tiles": longest / TILE * times,
            "dims": shape.dim + shape.dim_v,
            "query_bytes": tokens * query_row * times,
            "io_bytes": (tokens * (query_row + shape.heads * shape.dim_v * 2.0)
                         + shape.batch * shape.kv_len * key_row) * times,
            "key_bytes": tokens * cached * (q_bytes + kv_bytes) / 2.0 * times,
            "portable": portable.astype(np.float64),
            "tiles_in_turn": np.minimum(blocks, TILES_IN_TURN),
            "precision": precision_index(np.where(narrow, "fp8", shape.precision)),
            "wide_precision": precision_index(shape.precision),
            "widens": (narrow & (portable | is_latent(ops))).astype(np.float64),
        }  # fmt: skip

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``launch``, ``pass``, ``tensor``, ``sfu``, ``sm`` (blocks) and ``hbm``."""
        launches, gap_s, block_clocks, efficiency, slope, exp_rate = theta[:6]
        wave_share, hbm_efficiency, query_passes, key_passes, l2_share, sync_share = theta[7:13]
        packing, pass_bytes, lone_tile = theta[13:16]
        clock, sms = hw.boost_clock_hz, hw.sm_count
        dims = features["dims"]
        reached = np.clip(efficiency * (1.0 + slope * np.log2(dims / 256.0)), 0.02, 1.0)
        own = tensor_memory(hw) & (features["portable"] == 0)
        reached = np.where(own, theta[18], reached * np.where(synchronous(hw), sync_share, 1.0))
        # Portable kernels, MLA's before tensor memory, and all on synchronous SMs widen a narrow
        # cache before they multiply: their tables with and without one agree.
        widens = synchronous(hw) | ((features["widens"] > 0) & ~own)
        peak = np.where(
            widens,
            hw.rate_flops_per_s(features["wide_precision"]),
            hw.rate_flops_per_s(features["precision"]),
        )
        # Of one tile on one SM.
        tensor_s = 2.0 * dims * TILE**2 * sms / (peak * reached)
        tensor_s = tensor_s / hw.power_ratio**POWER_CLOCK_EXPONENT
        sfu_s = TILE**2 / (exp_rate * exp_per_clock_sm(hw) * clock)
        packing = np.where(own, theta[19], packing)
        blocks = between(features["blocks"], features["packed_blocks"], packing)
        tiles = between(features["tiles"], features["packed_tiles"], packing)
        fill = blocks / sms
        in_turn = np.where(own, features["tiles_in_turn"], 1.0)
        rounds = fill / in_turn
        stretch = (1.0 - wave_share) * np.maximum(rounds, 1.0) + wave_share * np.ceil(rounds)
        stretch = stretch / rounds
        block_s = np.where(own, theta[17], block_clocks) / clock
        # Where blocks are shorter, what a first block took is the op's fixed time all the same.
        first_s = np.where(own, np.maximum(block_clocks - theta[17], 0.0), 0.0) / clock
        # Blocks of unlike length: the last one ends later than even work would.
        busy = p_norm(2.0, stretch * tiles / sms, lone_tile * in_turn * features["longest_tiles"])
        moved = query_passes * features["query_bytes"] + key_passes * features["key_bytes"]
        missed = missed_in_l2(features["io_bytes"] / (l2_share * hw.l2_capacity_bytes))
        hbm_rate = hbm_efficiency * hw.hbm_bandwidth_bytes_per_s
        return {
            "launch": launches * hw.launch_latency_s + gap_s + first_s + 0.0 * tensor_s,
            "pass": p_norm(3.0, missed * moved / hbm_rate, moved / (pass_bytes * sms * clock)),
            "tensor": busy * tensor_s,
            "sfu": busy * sfu_s,
            "time": busy
            * np.where(
                own,
                p_norm(float(theta[16]), tensor_s, sfu_s),
                p_norm(float(theta[6]), tensor_s, sfu_s),
            ),
            "sm": stretch * fill * block_s * features["passes"],
            "hbm": missed * features["io_bytes"] / hbm_rate,
        }

    def combine(self, theta: Array, terms: Terms) -> Array:  # noqa: ARG002
        """Launch and pass, then the slower of the tiles' makespan and HBM, smoothly."""
        tiles = terms["time"] + terms["sm"]
        return terms["launch"] + terms["pass"] + p_norm(3.0, tiles, terms["hbm"])


def _narrow_cache(shape: AttentionShape) -> NDArray[np.bool_]:
    """Rows whose cache is fp8 under bf16 queries: kernels then multiply in fp8.

    TensorRT-LLM's tables show it: such rows take the time of fp8 attention.
    """
    wide = np.isin(shape.precision, ["bf16", "fp16"])
    result: NDArray[np.bool_] = wide & (shape.kv_precision == "fp8")
    return result
