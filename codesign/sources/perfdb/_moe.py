"""Time of a fused MoE layer from the measured ones around it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sources.perfdb._curve import Answer, Curve, OutOfRangeError, span
from codesign.workload.accounting import expected_experts, grouped_gemm_flops, moe_bytes

MATRICES = {"moe_gated": 3.0, "moe_ungated": 2.0}
_FAR = 3.0
"""Largest distance, in doublings summed over the dims, of a stand-in shape."""


class Shape(NamedTuple):
    """What tells one measured layer from another; the fields of the ops contract."""

    n: int
    k: int
    experts: int
    topk: int
    experts_total: int

    def __str__(self) -> str:
        """As a source names it."""
        return " ".join(f"{name}={value}" for name, value in self._asdict().items())


@dataclass(frozen=True)
class MoeTable:
    """Measured MoE layers of one precision, form and distribution."""

    curves: dict[Shape, Curve]
    """Shape -> time over token-expert rows."""
    matrices: float
    width: float
    balanced: bool
    floor_s: float
    flops_per_s: float
    bytes_per_s: float
    source: str

    @classmethod
    def of(
        cls, rows: pd.DataFrame, precision: str, fused: str, distribution: str, source: str
    ) -> MoeTable | None:
        """Index of the matching rows; None if there are none."""
        wanted = (rows["precision"] == precision) & (rows["fused"] == fused)
        rows = rows[wanted & (rows["distribution"] == distribution)]
        if rows.empty:
            return None
        curves = {}
        for key, part in rows.groupby(list(Shape._fields), sort=True):
            x, t = (part[c].to_numpy(dtype=float) for c in ("m", "time_s"))
            # Of several kernels that were measured, the one that an autotuner would take.
            curves[Shape(*(int(str(value)) for value in key))] = Curve.of(x, t, np.min)
        table = cls(
            curves, MATRICES[fused], BYTES_PER_ELEMENT[precision], distribution == "balanced",
            float(rows["time_s"].min()), 1.0, 1.0, source,
        )  # fmt: skip
        flops_rate, byte_rate = 1.0, 1.0
        for shape, curve in curves.items():
            for i in {0, len(curve.x) // 2, len(curve.x) - 1}:
                flops, size = table.work(float(curve.x[i]), shape)
                flops_rate = max(flops_rate, flops / curve.time_s[i])
                byte_rate = max(byte_rate, size / curve.time_s[i])
        return cls(curves, table.matrices, table.width, table.balanced, table.floor_s,
                   flops_rate, byte_rate, source)  # fmt: skip

    def work(self, m: float, shape: Shape) -> tuple[float, float]:
        """FLOPs and bytes of a call."""
        n, k, count = float(shape.n), float(shape.k), float(shape.experts)
        hit = min(m, count) if self.balanced else expected_experts(m, count)
        size = moe_bytes(m, n, k, experts_hit=hit, matrices=self.matrices,
                         weight_bytes=self.width, io_bytes=2.0)  # fmt: skip
        return grouped_gemm_flops(m, n, k, self.matrices), size

    def speed_of_light_s(self, m: float, shape: Shape) -> float:
        """Time at the best rates reached in the table."""
        flops, size = self.work(m, shape)
        return self.floor_s + max(flops / self.flops_per_s, size / self.bytes_per_s)

    def holds(self, m: int, shape: Shape) -> bool:
        """Whether this very shape was measured at these rows or around them."""
        curve = self.curves.get(shape)
        return curve is not None and curve.covers(m)

    def time(self, m: int, shape: Shape) -> Answer:
        """Time of ``m`` token-expert rows of a layer of ``shape`` on this GPU.

        Interpolated over the rows of the very shape; else by the utilization of the
        nearest shape at as many rows an expert. Raises OutOfRangeError beyond the
        measured rows or where no shape is near.
        """
        curve = self.curves.get(shape)
        if curve is not None and curve.covers(m):
            evidence = "measured" if curve.exact(m) else "interpolated"
            return Answer(curve.at(m), evidence, self.source)
        ideal = self.speed_of_light_s(m, shape)
        best = self._nearest(m, shape)
        near_m = m * best.experts / shape.experts
        near = self.curves[best]
        inside = min(max(near_m, near.x[0]), near.x[-1])
        utilization = self.speed_of_light_s(inside, best) / near.at(inside)
        estimate = ideal / utilization
        distance = _distance(shape, best)
        if inside != near_m or distance > _FAR:
            measured = span(curve.x) if curve is not None else f"{span(near.x)} at {best}"
            raise OutOfRangeError(f"m = {m} rows (measured {measured})", estimate)
        return Answer(estimate, "interpolated", f"{self.source}, utilization of {best}")

    def _nearest(self, m: int, shape: Shape) -> Shape:
        """Nearest shape, first among those measured at as many rows an expert."""

        def rank(other: Shape) -> tuple[bool, float, Shape]:
            distance = _distance(shape, other)
            covered = self.curves[other].covers(m * other.experts / shape.experts)
            return (not (covered and distance <= _FAR), distance, other)

        return min(self.curves, key=rank)


def _distance(a: Shape, b: Shape) -> float:
    """Doublings between two shapes; what is not the multiply's size matters less."""
    weights = (1.0, 1.0, 0.25, 0.25, 0.25)
    return sum(w * abs(math.log2(x / y)) for w, x, y in zip(weights, a, b, strict=True))
