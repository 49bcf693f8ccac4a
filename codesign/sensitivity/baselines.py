"""Two baselines that the fitted models must beat, on the same interface.

``roofline``: datasheet peaks, the slower of compute and HBM. ``roofline4``: a p-norm of
both with a launch floor, four parameters per op class and precision (efficiency of
compute, efficiency of HBM, p, floor). Half of every published gain over "roofline" is
the floor, so the second is the one to compare with.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.hardware_arrays import PRECISION_INDEX, Array, HardwareArrays
from codesign.sensitivity.op_model import (
    Features,
    OpModel,
    Parameter,
    Terms,
    mapped,
    numbers,
    p_norm,
    strings,
)

_CLASSES = ("gemm", "grouped_gemm", "attention", "quantize")
_FREE = (
    Parameter("compute_efficiency", 0.7, 0.05, 1.0, "reached share of the dense peak"),
    Parameter("hbm_efficiency", 0.7, 0.05, 1.0, "reached share of HBM bandwidth"),
    Parameter("overlap_p", 2.0, 1.0, 12.0, "p of the norm"),
    Parameter("floor_s", 3e-6, 1e-7, 1e-3, "fixed time"),
)


class Roofline4(OpModel):
    """p-norm of compute and HBM time with a fitted floor: 4 parameters."""

    name: ClassVar[str] = "roofline4"
    op_classes: ClassVar[tuple[str, ...]] = _CLASSES

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows of compute classes with known bytes; FLOPs may be unknown (memory-bound)."""
        known = (numbers(ops, "bytes") > 0) & (numbers(ops, "count") > 0)
        known &= np.isin(strings(ops, "precision"), list(PRECISION_INDEX))
        return known & np.isin(strings(ops, "op_class"), _CLASSES)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """Op class, phase if any, and precision."""
        parts = [strings(ops, c) for c in ("op_class", "phase", "precision")]
        joined = [":".join(p for p in row if p) for row in zip(*parts, strict=True)]
        return np.array(joined, dtype=np.str_)

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """The same four in every variant."""
        return _FREE

    def features(self, ops: pd.DataFrame) -> Features:
        """FLOPs and bytes of one call."""
        count = numbers(ops, "count")
        precision = strings(ops, "precision")
        return {
            "flops": numbers(ops, "flops", 0.0) / count,
            "bytes": numbers(ops, "bytes") / count,
            "precision": mapped(precision, PRECISION_INDEX),
        }

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``tensor``, ``hbm`` and ``launch``."""
        peak = hw.peak_flops_per_s(features["precision"])
        hbm = features["bytes"] / (theta[1] * hw.hbm_bandwidth_bytes_per_s)
        return {
            "tensor": features["flops"] / (theta[0] * peak),
            "hbm": hbm,
            "launch": np.full_like(hbm, theta[3]),
        }

    def combine(self, theta: Array, terms: Terms) -> Array:
        """p-norm plus floor."""
        return p_norm(float(theta[2]), terms["tensor"], terms["hbm"]) + terms["launch"]


class Roofline(Roofline4):
    """The datasheet roofline: no parameter is fitted, nothing costs time but the limits."""

    name: ClassVar[str] = "roofline"

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """None."""
        return ()

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:  # noqa: ARG002
        """Seconds on ``tensor`` and ``hbm`` at the datasheet's rates."""
        peak = hw.peak_flops_per_s(features["precision"])
        hbm = features["bytes"] / hw.hbm_bandwidth_bytes_per_s
        return {"tensor": features["flops"] / peak, "hbm": hbm}

    def combine(self, theta: Array, terms: Terms) -> Array:  # noqa: ARG002
        """The slower of the two."""
        return np.maximum(terms["tensor"], terms["hbm"])
