"""Time of a dense GEMM from the measured ones around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sources.perfdb._curve import (
    Answer,
    Curve,
    Floats,
    OutOfRangeError,
    bracket,
    log_mix,
    span,
)

MAX_SLICES = 8
"""A GEMM larger than the table is the sum of at most this many measured slices."""
_OUTPUT_BYTES = 2.0
_BEYOND_L2_BYTES = 64e6


@dataclass(frozen=True)
class GemmTable:
    """Measured GEMMs of one precision: a curve over ``m`` for each weight shape (n, k)."""

    curves: dict[tuple[int, int], Curve]
    n_values: Floats
    k_values: Floats
    m_values: Floats
    element_bytes: float
    flops_per_s: float
    """Best rate reached in the table."""
    bytes_per_s: float
    """Best rate at m = 1 on weights that no L2 holds."""
    floor_s: float
    """Smallest measured time."""
    source: str

    @classmethod
    def of(cls, rows: pd.DataFrame, precision: str, source: str) -> GemmTable | None:
        """Index of the rows of one precision; None if there are none."""
        rows = rows[rows["precision"] == precision].sort_values(["n", "k", "m"])
        if rows.empty:
            return None
        m, n, k = (rows[c].to_numpy(dtype=float) for c in "mnk")
        time_s = rows["time_s"].to_numpy(dtype=float)
        width = BYTES_PER_ELEMENT[precision]
        size = width * (m * k + n * k) + _OUTPUT_BYTES * m * n
        streams = (m == 1) & (width * n * k >= _BEYOND_L2_BYTES)
        cuts = np.flatnonzero((np.diff(n) != 0) | (np.diff(k) != 0)) + 1
        curves = {
            (int(ns[0]), int(ks[0])): Curve.of(ms, ts)
            for ns, ks, ms, ts in zip(*(np.split(v, cuts) for v in (n, k, m, time_s)), strict=True)
        }
        return cls(
            curves, np.unique(n), np.unique(k), np.unique(m), width,
            flops_per_s=float((2 * m * n * k / time_s).max()),
            bytes_per_s=float((size / time_s)[streams if streams.any() else slice(None)].max()),
            floor_s=float(time_s.min()), source=source,
        )  # fmt: skip

    def speed_of_light_s(self, m: float, n: float, k: float) -> float:
        """Time at the best rates reached in the table: smooth where measured times are not."""
        flops = 2 * m * n * k
        size = self.element_bytes * (m * k + n * k) + _OUTPUT_BYTES * m * n
        return self.floor_s + max(flops / self.flops_per_s, size / self.bytes_per_s)

    def time(self, m: int, n: int, k: int) -> Answer:
        """Time of one (m, k) x (k, n).

        A measured shape is ``measured``. A measured weight shape is interpolated over
        ``m``; any other one over (n, k) by utilization (speed of light / time). A GEMM
        larger than the table is the sum of equal slices of ``m`` or ``n``: ``modelled``.
        Raises OutOfRangeError for anything else.
        """
        slices = math.ceil(m / self.m_values[-1]) * math.ceil(n / self.n_values[-1])
        if 1 < slices <= MAX_SLICES:
            return self._sliced(m, n, k, slices)
        estimate = self._estimate(m, n, k)
        outside = [
            f"{axis} = {value} (measured {span(values)})"
            for axis, value, values in (("m", m, self.m_values), ("n", n, self.n_values),
                                        ("k", k, self.k_values))
            if not values[0] <= value <= values[-1]
        ]  # fmt: skip
        if outside:
            raise OutOfRangeError(", ".join(outside), estimate)
        curve = self.curves.get((n, k))
        if curve is not None and curve.exact(m):
            return Answer(estimate, "measured", self.source)
        return Answer(estimate, "interpolated", self.source)

    def _sliced(self, m: int, n: int, k: int, slices: int) -> Answer:
        rows = math.ceil(m / math.ceil(m / self.m_values[-1]))
        columns = math.ceil(n / math.ceil(n / self.n_values[-1]))
        part = self.time(rows, columns, k)
        source = f"{slices} x GEMM of {rows} x {columns} x {k}: {self.source}"
        return Answer(slices * part.time_s, "modelled", source)

    def _estimate(self, m: int, n: int, k: int) -> float:
        curve = self.curves.get((n, k))
        if curve is not None and curve.covers(m):
            return curve.at(m)
        utilizations = []
        for near_n, weight_n in bracket(self.n_values, n):
            for near_k, weight_k in bracket(self.k_values, k):
                near = self.curves.get((int(near_n), int(near_k)))
                # The one corner that memory could not hold is left out of the mean.
                if near is not None and weight_n * weight_k > 0:
                    near_m = min(max(m, near.x[0]), near.x[-1])
                    ideal = self.speed_of_light_s(near_m, near_n, near_k)
                    utilizations.append((ideal / near.at(near_m), weight_n * weight_k))
        if not utilizations:
            nearest = min(
                self.curves, key=lambda c: abs(math.log(c[0] / n)) + abs(math.log(c[1] / k))
            )
            end = float(self.curves[nearest].x[-1])
            ideal = self.speed_of_light_s(end, *nearest)
            utilizations = [(ideal / self.curves[nearest].at(end), 1.0)]
        return self.speed_of_light_s(m, n, k) / log_mix(utilizations)
