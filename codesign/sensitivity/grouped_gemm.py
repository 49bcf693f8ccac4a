"""Grouped GEMM and fused MoE: one multiply per expert hit, in one launch.

A fused MoE op runs gate and up as one (rows, k) x (k, 2n) multiply per expert, then down
as (rows, n) x (n, k). Rows per expert are even in a balanced batch. A skewed
``distribution`` is timed on the rank that holds the popular experts: its rows are
multiplied, and its step waits for the fullest expert.
"""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sensitivity.gemm import (
    FALLBACKS,
    OUT_BYTES,
    QUANTIZED,
    TILE_PARAMETERS,
    cast_s,
    fixed_s,
    tile_rates,
)
from codesign.sensitivity.hardware_arrays import PRECISION_INDEX, Array, HardwareArrays
from codesign.sensitivity.op_model import (
    Features,
    OpModel,
    Parameter,
    Terms,
    mapped,
    numbers,
    strings,
)
from codesign.sensitivity.tiles import Multiply, memory_terms, tiled_terms

_PARAMETERS = (
    *TILE_PARAMETERS,
    Parameter("kernels", 2.0, 0.5, 30.0, "launches for routing, permuting and activation",
              prior_sd=0.4),
    Parameter("kernel_s", 1e-5, 1e-7, 5e-5, "fixed time of those kernels; no lever moves it"),
    Parameter("skew_rows", 0.15, -0.5, 1.5, "log growth of the rank's rows per unit of skew",
              log=False, prior_sd=0.5),
    Parameter("skew_experts", 0.1, -0.5, 2.0, "log fall of the experts hit per unit of skew",
              log=False, prior_sd=0.5),
    Parameter("row_passes", 2.0, 0.05, 20.0, "passes over the rows outside the multiplies",
              prior_sd=1.0),
    Parameter("row_clocks", 0.02, 1e-5, 2.0, "SM clocks per byte of those passes", prior_sd=2.0),
    Parameter("skew_alone", 1.2, 0.0, 2.5, "more log growth where the rank holds one expert",
              log=False, prior_sd=0.5),
)  # fmt: skip
SPLITS = (1, 4)
"""Split-K factors of grouped kernels: experts fill the SMs, so few are made."""
ALONE_EXPONENT = 0.7
"""How the extra rows of a popular rank fall with the experts that it holds: read off the
balanced and power-law rows of the training GPUs at 1 to 128 experts a rank."""
_SKEW = re.compile(r"power_law_(\d{1,2}(?:\.\d{1,6})?)")


class GroupedGemmModel(OpModel):
    """MoE and grouped GEMM, as the ops contract defines ``m, n, k, experts, fused``."""

    name: ClassVar[str] = "grouped_gemm"
    op_classes: ClassVar[tuple[str, ...]] = ("grouped_gemm",)

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows with m, n, k, experts, precision and count."""
        known = numbers(ops, "count") > 0
        for column in ("m", "n", "k", "experts"):
            known &= numbers(ops, column) > 0
        known &= np.isin(strings(ops, "precision"), list(PRECISION_INDEX))
        return known & np.isin(strings(ops, "op_class"), self.op_classes)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """The precision."""
        return strings(ops, "precision")

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The nearest precision that was measured."""
        return FALLBACKS.get(variant, ())

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """Those of the tile model, and of routing."""
        return _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Shape, experts and skew of one call."""
        precision = strings(ops, "precision")
        fused = strings(ops, "fused")
        return {
            "m": numbers(ops, "m"),
            "n": numbers(ops, "n"),
            "k": numbers(ops, "k"),
            "experts": numbers(ops, "experts"),
            "skew": skews(strings(ops, "distribution")),
            "up": np.select([fused == "moe_gated", fused == "moe_ungated"], [2.0, 1.0], 1.0),
            "down": np.isin(fused, ("moe_gated", "moe_ungated")).astype(np.float64),
            "in_bytes": mapped(precision, BYTES_PER_ELEMENT),
            "precision": mapped(precision, PRECISION_INDEX),
            "quantized": np.isin(precision, QUANTIZED).astype(np.float64),
        }

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """``tensor, l2, hbm, launch, wave, quantize, host`` and their combined ``time``."""
        return self._evaluate(theta, features, hw, detail=True)

    def combine(self, theta: Array, terms: Terms) -> Array:  # noqa: ARG002
        """The tile choice has combined them already."""
        return terms["time"]

    def times(self, theta: Array, features: Features, hw: HardwareArrays) -> Array:
        """As the combined terms, without keeping those of the winning tile."""
        return self._evaluate(theta, features, hw, detail=False)["time"]

    def _evaluate(self, theta: Array, f: Features, hw: HardwareArrays, detail: bool) -> Terms:
        rates = tile_rates(theta)
        (kernels, kernel_s, skew_rows, skew_experts, row_passes, row_clocks, skew_alone) = theta[
            len(TILE_PARAMETERS) :
        ]
        # Fewer experts on a rank average less of the skew out.
        alone = f["experts"] ** -ALONE_EXPONENT
        rows = f["m"] * np.exp(f["skew"] * (skew_rows + skew_alone * alone))
        hit = f["experts"] * -np.expm1(-rows / f["experts"])
        hit = np.clip(hit * np.exp(-skew_experts * f["skew"]), 1.0, np.maximum(rows, 1.0))
        per_expert = np.maximum(rows / hit, 1.0)
        parts = []
        for n, k, runs in ((f["up"] * f["n"], f["k"], np.ones_like(rows)),
                           (f["k"], f["n"], f["down"])):  # fmt: skip
            weights = hit * f["in_bytes"] * k * n
            moved = weights + rows * (f["in_bytes"] * k + theta[13] * OUT_BYTES * n)
            memory_s = memory_terms(moved, float(theta[7]), float(theta[8]), rates, hw)
            work = Multiply(per_expert, n, k, hit, f["in_bytes"], f["precision"])
            best = tiled_terms(work, rates, memory_s, hw, detail, SPLITS)
            best |= {"hbm": memory_s[0], "l2_stream": memory_s[1]}
            parts.append({name: runs * value for name, value in best.items()})
        fused = f["down"]
        passes = row_passes * rows * OUT_BYTES * (f["k"] + f["n"]) * fused
        shuffle_s = passes / hw.hbm_bandwidth_bytes_per_s
        shuffle_s = shuffle_s + row_clocks * passes / (hw.sm_count * hw.boost_clock_hz)
        quantize_s = cast_s(theta, f["quantized"] * rows * (f["k"] + fused * f["n"]) * 3.0, hw)
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


def skews(distributions: NDArray[np.str_]) -> Array:
    """(ops,) `skew` of each distribution."""
    names, inverse = np.unique(distributions, return_inverse=True)
    return np.array([skew(str(name)) for name in names])[inverse.ravel()]


def skew(distribution: str) -> float:
    """Exponent of a power-law token distribution; 0 for a balanced or unnamed one."""
    match = _SKEW.match(distribution)
    return float(match[1]) if match else 0.0
