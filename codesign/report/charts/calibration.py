"""Projected against measured gain: a perfect model puts every point on the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.recommend.schema import WorkloadBacktestRow
from codesign.report import formatting as fmt
from codesign.report.charts import paths
from codesign.report.charts.scales import Linear, nice_domain

_SIDE = 420.0
_LEFT = 52.0
_RIGHT = 14.0
_TOP = 14.0
_BOTTOM = 46.0


@dataclass(frozen=True)
class CalibrationPoint:
    """A workload projection; a miss is a hollow diamond, a hit a full circle."""

    x: float
    y: float
    y_lo: float
    y_hi: float
    path: str
    number: str
    covered: bool
    title: str


@dataclass(frozen=True)
class Calibration:
    """The chart in pixels; x is measured, y projected, on one and the same scale."""

    id: str
    title: str
    description: str
    width: float
    height: float
    plot: tuple[float, float, float, float]
    diagonal: str
    points: tuple[CalibrationPoint, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def calibration(id: str, title: str, rows: Sequence[WorkloadBacktestRow]) -> Calibration | None:
    """The chart, or None without rows."""
    if not rows:
        return None
    values = [v for r in rows for v in (r.measured_gain, *_ends(r))]
    lo, hi = nice_domain(values, 1.0)
    right, bottom = _SIDE - _RIGHT, _SIDE - _BOTTOM
    x, y = Linear(lo, hi, _LEFT, right), Linear(lo, hi, bottom, _TOP)
    points = tuple(_point(r, i, x, y) for i, r in enumerate(rows))
    hits = sum(r.covered for r in rows)
    ticks = [(x(t), y(t), f"{t:g}") for t in x.ticks()]
    return Calibration(
        id, title, f"{hits} of {len(rows)} measured gains lie inside the projected 90 % interval.",
        _SIDE, _SIDE, (_LEFT, _TOP, right, bottom),
        paths.line([(x(lo), y(lo)), (x(hi), y(hi))]), points,
        tuple((at, text) for at, _, text in ticks), tuple((at, text) for _, at, text in ticks),
    )  # fmt: skip


def _ends(row: WorkloadBacktestRow) -> tuple[float, float, float]:
    gain = row.projected_gain
    return gain.value, gain.lo, gain.hi


def _point(row: WorkloadBacktestRow, index: int, x: Linear, y: Linear) -> CalibrationPoint:
    at_x, at_y = x(row.measured_gain), y(row.projected_gain.value)
    shape = "circle" if row.covered else "diamond"
    verdict = "inside its interval" if row.covered else "MISSED: outside its interval"
    title = (
        f"{index + 1}. {row.workload}, {row.source} to {row.target}: measured "
        f"{fmt.speedup(row.measured_gain)}, projected {fmt.gain(row.projected_gain)}; {verdict}"
    )
    return CalibrationPoint(
        at_x, at_y, y(row.projected_gain.lo), y(row.projected_gain.hi),
        paths.marker(shape, at_x, at_y, 5.5), str(index + 1), row.covered, title,
    )  # fmt: skip
