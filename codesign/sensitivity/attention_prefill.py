"""Prefill and training attention: tiles of queries over keys, on waves of SMs.

    time = launch + p-norm(makespan of tiles on SMs, HBM time)

A tile costs tensor time (its padded FLOPs at the fitted efficiency of the head size)
and special-function time (an exponential per score, at a rate that goes with SMs and
clock but not with the tensor peak: what binds Blackwell), overlapped as far as the fit
says. Makespan: the work spread evenly, or the longest query block, or whole waves.
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
    element_bytes,
    exp_per_clock_sm,
    is_attention,
    is_decode,
    is_latent,
    missed_in_l2,
    precision_index,
    shape_of,
    synchronous,
    tiled_keys,
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

_PARAMETERS = (
    Parameter("launches", 1.0, 0.1, 10.0, "smallest-kernel times that the op costs",
              prior_sd=0.3),
    Parameter("gap_s", 8e-6, 1e-7, 5e-5, "fixed time of the several kernels that no lever moves"),
    Parameter("tile_s", 3e-7, 1e-9, 3e-6, "latency of one key tile of the longest block"),
    Parameter("block_clocks", 1500.0, 10.0, 3e4, "SM clocks to start and end a query block"),
    Parameter("tensor_efficiency", 0.75, 0.15, 1.0, "share of the dense peak, head size 128"),
    Parameter("dim_slope", 0.0, -1.0, 1.0, "change of efficiency per log2 of head size",
              log=False, prior_sd=0.5),
    Parameter("exp_efficiency", 0.75, 0.1, 4.0, "share of the special-function rate",
              prior_sd=0.25),
    Parameter("overlap_p", 2.0, 1.0, 8.0, "p of the norm over tensor and exponentials",
              prior_sd=0.3),
    Parameter("wave_share", 0.3, 0.001, 1.0, "share of whole-wave scheduling"),
    Parameter("query_passes", 2.0, 0.3, 10.0, "passes over queries and output in HBM",
              prior_sd=0.7),
    Parameter("key_passes", 2.0, 0.3, 10.0, "passes over keys and values in HBM",
              prior_sd=0.7),
    Parameter("l2_share", 0.4, 0.05, 1.5, "share of L2 that keeps operands", prior_sd=0.7),
    Parameter("synchronous_share", 0.7, 0.2, 1.2, "tensor efficiency on synchronous SMs, relative",
              prior_sd=0.3),
)  # fmt: skip


class PrefillAttentionModel(OpModel):
    """Attention of many query tokens. See the module for the form."""

    name: ClassVar[str] = "attention_prefill"
    op_classes: ClassVar[tuple[str, ...]] = ("attention",)

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Attention rows that are not decode."""
        return is_attention(ops) & ~is_decode(ops)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """Precision, a narrower cache beside it, and whether heads are MLA's."""
        shape = shape_of(ops)
        latent = np.where(is_latent(ops), "mla_", "")
        cache = np.where(_narrow_cache(shape), "_kv8", "")
        return np.char.add(np.char.add(latent.astype(np.str_), shape.precision), cache)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The same kernel family in a precision that was measured."""
        base = variant.removesuffix("_kv8")
        plain = base.removeprefix("mla_")
        kind = "mla_" if base.startswith("mla_") else ""
        order = (base, f"{kind}bf16", f"{kind}fp8", plain, "bf16", "fp16", "fp8")
        return tuple(dict.fromkeys(v for v in order if v != variant))

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """The same for every precision."""
        return _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Blocks, key columns and bytes of one call, the backward pass as 2.5 forwards."""
        shape = shape_of(ops)
        blocks, columns, longest = tiled_keys(shape)
        times = np.where(shape.backward, BACKWARD_WORK, 1.0)
        batch_heads = shape.batch * shape.heads
        q_bytes = element_bytes(shape.precision)
        kv_bytes = element_bytes(shape.kv_precision)
        query_row = shape.heads * (shape.dim * q_bytes + shape.dim_v * 2.0)
        key_row = shape.kv_heads * (shape.dim + shape.dim_v) * kv_bytes
        return {
            "blocks": batch_heads * blocks,
            "scores": batch_heads * columns * TILE * times,
            "longest_share": longest / np.maximum(columns, 1.0) / batch_heads,
            "tiles_in_row": longest / TILE * times,
            "dims": shape.dim + shape.dim_v,
            "query_bytes": shape.batch * shape.q_len * query_row * times,
            "key_bytes": shape.batch * shape.kv_len * key_row * times,
            "precision": precision_index(np.where(_narrow_cache(shape), "fp8", shape.precision)),
        }

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``launch``, ``tensor``, ``sfu``, ``sm`` (block overhead) and ``hbm``."""
        launches, gap_s, tile_s, block_clocks, efficiency, slope, exp_rate = theta[:7]
        wave_share, query_passes, key_passes, l2_share, sync_share = theta[8:13]
        clock = hw.boost_clock_hz
        dims = features["dims"]
        reached = np.clip(efficiency * (1.0 + slope * np.log2(dims / 256.0)), 0.05, 1.0)
        reached = reached * np.where(synchronous(hw), sync_share, 1.0)
        peak = hw.peak_flops_per_s(features["precision"])
        tensor = 2.0 * dims * features["scores"] / (peak * reached)
        exp_per_s = exp_per_clock_sm(hw) * hw.sm_count * clock
        moved = query_passes * features["query_bytes"] + key_passes * features["key_bytes"]
        held = features["query_bytes"] + features["key_bytes"]
        stretch = _stretch(features, hw.sm_count, float(wave_share))
        waves = features["blocks"] / hw.sm_count
        return {
            "launch": launches * hw.launch_latency_s
            + gap_s
            + tile_s * features["tiles_in_row"] * REFERENCE_CLOCK_HZ / clock,
            "tensor": tensor * stretch / hw.power_ratio**POWER_CLOCK_EXPONENT,
            "sfu": features["scores"] / (exp_rate * exp_per_s) * stretch,
            "sm": np.ceil(waves) * block_clocks / clock,
            "hbm": missed_in_l2(held / (l2_share * hw.l2_capacity_bytes))
            * moved
            / hw.hbm_bandwidth_bytes_per_s,
        }

    def combine(self, theta: Array, terms: Terms) -> Array:
        """Launch, then the slower of the tiles' makespan and HBM, smoothly."""
        tiles = p_norm(float(theta[7]), terms["tensor"], terms["sfu"]) + terms["sm"]
        return terms["launch"] + p_norm(3.0, tiles, terms["hbm"])


def _stretch(features: Features, sm_count: Array, wave_share: float) -> Array:
    """Makespan over perfectly even work: at least 1, falls as SMs fall.

    ``sm_count`` x the share of the longest block bounds it from below; whole waves of
    equal blocks are the pessimist's schedule. Even work itself goes as 1 / SMs.
    """
    longest = np.maximum(1.0, sm_count * features["longest_share"])
    blocks = features["blocks"]
    whole = np.ceil(blocks / sm_count) * sm_count / blocks
    mixed: Array = (1.0 - wave_share) * longest + wave_share * np.maximum(whole, longest)
    return mixed


def _narrow_cache(shape: AttentionShape) -> NDArray[np.bool_]:
    """Rows whose cache is fp8 under bf16 queries: kernels then multiply in fp8.

    TensorRT-LLM's tables show it: such rows take the time of fp8 attention.
    """
    wide = np.isin(shape.precision, ["bf16", "fp16"])
    result: NDArray[np.bool_] = wide & (shape.kv_precision == "fp8")
    return result
