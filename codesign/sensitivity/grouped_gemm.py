"""Grouped GEMM and fused MoE: one multiply per expert hit, in one launch.

A fused MoE op runs gate and up as one (rows, k) x (k, 2n) multiply per expert, then down
as (rows, n) x (n, k). Rows per expert are even in a balanced batch; under a skewed
``distribution`` the time is that of the busiest rank (`workload.imbalance`). Around the
multiplies the op passes over its rows (permute, activation, cast) and over the tokens that
enter it (gather, and the sum over experts), whether or not an expert here wants them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.gemm import (
    FALLBACKS,
    OUT_BYTES,
    TILE_PARAMETERS,
    TiledModel,
    cast_s,
    fixed_s,
    precision_features,
    tile_rates,
)
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.kernels import kernel_fallbacks, split_kernel, with_kernel
from codesign.sensitivity.op_model import (
    Features,
    Parameter,
    Terms,
    numbers,
    strings,
)
from codesign.sensitivity.tiles import Multiply, memory_terms, tiled_terms
from codesign.workload.imbalance import busiest_rank

_PARAMETERS = (
    *TILE_PARAMETERS,
    Parameter("kernels", 2.0, 0.5, 30.0, "launches for routing, permuting and activation",
              prior_sd=0.4),
    Parameter("kernel_s", 1e-5, 1e-7, 5e-5, "fixed time of those kernels; no lever moves it"),
    Parameter("skew_share", 1.0, 0.0, 1.5, "share of the log of the busiest rank's excess rows",
              log=False, prior_sd=0.2),
    Parameter("row_passes", 2.0, 0.05, 20.0, "passes over the rows outside the multiplies",
              prior_sd=1.0),
    Parameter("row_clocks", 0.02, 1e-5, 2.0, "SM clocks per byte of those passes", prior_sd=2.0),
    Parameter("token_passes", 1.0, 0.02, 20.0, "passes over the tokens that enter",
              prior_sd=1.0),
    Parameter("token_clocks", 0.02, 1e-5, 2.0, "SM clocks per byte of those passes", prior_sd=2.0),
)  # fmt: skip
SPLITS = (1, 4)
"""Split-K factors of grouped kernels: experts fill the SMs, so few are made."""


class GroupedGemmModel(TiledModel):
    """MoE and grouped GEMM, as the ops contract defines ``m, n, k, experts, fused``."""

    name: ClassVar[str] = "grouped_gemm"
    op_classes: ClassVar[tuple[str, ...]] = ("grouped_gemm",)
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k", "experts")

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """The precision, and the family of the kernel: Triton's, say, reach far less."""
        return with_kernel(strings(ops, "precision"), ops)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The same family of kernels in the nearest precision, then a near family."""
        return kernel_fallbacks(variant, FALLBACKS.get(split_kernel(variant)[0], ()))

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """Those of the tile model, and of routing."""
        return _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Shape, experts and skew of one call."""
        fused = strings(ops, "fused")
        m, experts = numbers(ops, "m"), numbers(ops, "experts")
        total = _or(numbers(ops, "experts_total"), experts)
        topk = numbers(ops, "topk", 1.0)
        excess, hit = _loads(ops, m, experts, total, topk)
        return {
            "m": m,
            "n": numbers(ops, "n"),
            "k": numbers(ops, "k"),
            "excess": excess,
            "hit": hit,
            "tokens": _or(numbers(ops, "tokens"), _entering(m, total / experts, topk)),
            "up": np.select([fused == "moe_gated", fused == "moe_ungated"], [2.0, 1.0], 1.0),
            "down": np.isin(fused, ("moe_gated", "moe_ungated")).astype(np.float64),
            **precision_features(ops),
        }

    def evaluate(self, theta: Array, f: Features, hw: HardwareArrays, detail: bool) -> Terms:
        """See `TiledModel.evaluate`."""
        rates = tile_rates(theta)
        (kernels, kernel_s, skew_share, row_passes, row_clocks, token_passes, token_clocks) = theta[
            len(TILE_PARAMETERS) :
        ]
        rows = f["m"] * f["excess"] ** skew_share
        hit = np.minimum(f["hit"], np.maximum(rows, 1.0))
        per_expert = np.maximum(rows / hit, 1.0)
        parts = []
        for n, k, runs in ((f["up"] * f["n"], f["k"], np.ones_like(rows)),
                           (f["k"], f["n"], f["down"])):  # fmt: skip
            weights = hit * f["in_bytes"] * k * n
            moved = weights + rows * (f["in_bytes"] * k + theta[13] * OUT_BYTES * n)
            memory_s = memory_terms(moved, float(theta[7]), float(theta[8]), rates, hw)
            work = Multiply(per_expert, n, k, hit, f["in_bytes"], f["precision"],
                            f["block_scaled"])  # fmt: skip
            best = tiled_terms(work, rates, memory_s, hw, detail, SPLITS)
            best |= {"hbm": memory_s[0], "l2_stream": memory_s[1]}
            parts.append({name: runs * value for name, value in best.items()})
        fused = f["down"]
        row_bytes = row_passes * rows * OUT_BYTES * (f["k"] + f["n"]) * fused
        token_bytes = token_passes * f["tokens"] * OUT_BYTES * f["k"] * fused
        clocks = row_clocks * row_bytes + token_clocks * token_bytes
        shuffle_s = (row_bytes + token_bytes) / hw.hbm_bandwidth_bytes_per_s
        shuffle_s = shuffle_s + clocks / (hw.sm_count * hw.boost_clock_hz)
        cast_rows = f["row_scaled"] * rows * (1.0 + fused)
        cast_bytes = f["quantized"] * rows * (f["k"] + fused * f["n"]) * 3.0
        quantize_s = cast_s(theta, cast_rows, cast_bytes, hw)
        launch_s, host_s = fixed_s(theta, hw, f["quantized"])
        launch_s = launch_s + (kernels * hw.launch_latency_s) * fused
        host_s = host_s + kernel_s * fused
        time_s = parts[0]["time"] + parts[1]["time"] + shuffle_s + quantize_s + launch_s + host_s
        if not detail:
            return {"time": time_s}
        total = {name: parts[0][name] + parts[1][name] for name in parts[0]}
        return {
            "time": time_s,
            "tensor": total["tensor"],
            "l2": np.maximum(total["feed"], total["l2_stream"]),
            "hbm": total["hbm"] + shuffle_s,
            "launch": launch_s + np.zeros_like(time_s),
            "wave": total["wave"],
            "quantize": quantize_s,
            "host": host_s + np.zeros_like(time_s),
        }


def _or(values: Array, default: Array) -> Array:
    return np.where(np.isnan(values), default, values)


def _entering(m: Array, ranks: Array, topk: Array) -> Array:
    """(ops,) distinct tokens behind ``m`` rows a rank: each meets a rank in one of topk tries."""
    met = -np.expm1(topk * np.log1p(-1.0 / np.maximum(ranks, 2.0)))
    return m * ranks / topk * np.where(ranks > 1.0, met, 1.0)


def _loads(
    ops: pd.DataFrame, m: Array, experts: Array, total: Array, topk: Array
) -> tuple[Array, Array]:
    """((ops,) rows of the busiest rank / mean rows, (ops,) experts that it hits)."""
    loads = [
        busiest_rank(str(name), *(max(round(float(v)), 1) for v in sizes))
        for name, *sizes in zip(strings(ops, "distribution"), m, experts, total, topk, strict=True)
    ]
    return (np.array([load.rows_ratio for load in loads], dtype=np.float64),
            np.array([load.experts_hit for load in loads], dtype=np.float64))  # fmt: skip
