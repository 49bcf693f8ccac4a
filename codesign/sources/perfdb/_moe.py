"""Time of a fused MoE layer from the measured ones around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sources.perfdb._curve import Answer, Curve, OutOfRangeError, span
from codesign.workload.accounting import expected_experts, grouped_gemm_flops, moe_bytes

MATRICES = {"moe_gated": 3.0, "moe_ungated": 2.0}
_FAR = 3.0
"""Largest distance, in doublings summed over the dims, of a stand-in shape."""


@dataclass(frozen=True)
class MoeTable:
    """Measured MoE layers of one precision, form and distribution."""

    curves: dict[tuple[int, int, int, int], Curve]
    """(n, k, experts, topk) -> time over token-expert rows."""
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
        for key, part in rows.groupby(["n", "k", "experts", "topk"], sort=True):
            x, t = (part[c].to_numpy(dtype=float) for c in ("m", "time_s"))
            n, k, experts, topk = (int(str(value)) for value in key)
            curves[n, k, experts, topk] = Curve.of(x, t)
        table = cls(
            curves, MATRICES[fused], BYTES_PER_ELEMENT[precision], distribution == "balanced",
            float(rows["time_s"].min()), 1.0, 1.0, source,
        )  # fmt: skip
        flops_rate, byte_rate = 1.0, 1.0
        for (n, k, experts, _), curve in curves.items():
            for i in {0, len(curve.x) // 2, len(curve.x) - 1}:
                flops, size = table.work(float(curve.x[i]), n, k, experts)
                flops_rate = max(flops_rate, flops / curve.time_s[i])
                byte_rate = max(byte_rate, size / curve.time_s[i])
        return cls(curves, table.matrices, table.width, table.balanced, table.floor_s,
                   flops_rate, byte_rate, source)  # fmt: skip

    def work(self, m: float, n: int, k: int, experts: int) -> tuple[float, float]:
        """FLOPs and bytes of a call."""
        count = float(experts)
        hit = min(m, count) if self.balanced else expected_experts(m, count)
        size = moe_bytes(m, float(n), float(k), experts_hit=hit, matrices=self.matrices,
                         weight_bytes=self.width, io_bytes=2.0)  # fmt: skip
        return grouped_gemm_flops(m, float(n), float(k), self.matrices), size

    def speed_of_light_s(self, m: float, n: int, k: int, experts: int) -> float:
        """Time at the best rates reached in the table."""
        flops, size = self.work(m, n, k, experts)
        return self.floor_s + max(flops / self.flops_per_s, size / self.bytes_per_s)

    def holds(self, m: int, n: int, k: int, experts: int, topk: int) -> bool:
        """Whether this very shape was measured at these rows or around them."""
        curve = self.curves.get((n, k, experts, topk))
        return curve is not None and curve.covers(m)

    def time(self, m: int, n: int, k: int, experts: int, topk: int) -> Answer:
        """Time of ``m`` token-expert rows over ``experts`` experts on this GPU.

        Interpolated over the rows of the very shape; else by the utilization of the
        nearest shape at as many rows an expert. Raises OutOfRangeError beyond the
        measured rows or where no shape is near.
        """
        curve = self.curves.get((n, k, experts, topk))
        if curve is not None and curve.covers(m):
            evidence = "measured" if curve.exact(m) else "interpolated"
            return Answer(curve.at(m), evidence, self.source)
        ideal = self.speed_of_light_s(m, n, k, experts)
        best = self._nearest(m, n, k, experts, topk)
        near_m = m * best[2] / experts
        near = self.curves[best]
        inside = min(max(near_m, near.x[0]), near.x[-1])
        utilization = self.speed_of_light_s(inside, best[0], best[1], best[2]) / near.at(inside)
        estimate = ideal / utilization
        distance = _distance((n, k, experts, topk), best)
        shape = f"n={best[0]} k={best[1]} experts={best[2]} topk={best[3]}"
        if inside != near_m or distance > _FAR:
            measured = span(curve.x) if curve is not None else f"{span(near.x)} at {shape}"
            raise OutOfRangeError(f"m = {m} rows (measured {measured})", estimate)
        return Answer(estimate, "interpolated", f"{self.source}, utilization of {shape}")

    def _nearest(
        self, m: int, n: int, k: int, experts: int, topk: int
    ) -> tuple[int, int, int, int]:
        """Nearest shape, first among those measured at as many rows an expert."""
        shape = (n, k, experts, topk)

        def rank(other: tuple[int, int, int, int]) -> tuple[bool, float, tuple[int, ...]]:
            distance = _distance(shape, other)
            covered = self.curves[other].covers(m * other[2] / experts)
            return (not (covered and distance <= _FAR), distance, other)

        return min(self.curves, key=rank)


def _distance(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> float:
    """Doublings between two shapes; experts and topk matter less at equal rows an expert."""
    weights = (1.0, 1.0, 0.25, 0.25)
    return sum(w * abs(math.log2(x / y)) for w, x, y in zip(weights, a, b, strict=True))
