"""The front of packages: gain over cost, with the balanced set marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.recommend.schema import Interval
from codesign.report import formatting as fmt
from codesign.report.charts import paths
from codesign.report.charts.curves import CurveChart, CurvePoint
from codesign.report.charts.scales import Linear, nice_domain

_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 16.0, 16.0, 44.0


@dataclass(frozen=True)
class FrontPoint:
    """One package."""

    cost: float
    gain: Interval
    title: str


def front_chart(
    id: str, title: str, description: str, *, axis_label: str, points: Sequence[FrontPoint],
    marked: int | None, mark: str,
) -> CurveChart:  # fmt: skip
    """The packages from the cheapest up; ``marked`` is the one to which ``mark`` is written."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x = Linear(*nice_domain([p.cost for p in points], 0.0), _LEFT, right)
    y = Linear(*nice_domain([v for p in points for v in (p.gain.lo, p.gain.hi)], 1.0),
               bottom, _TOP)  # fmt: skip
    drawn = tuple(
        CurvePoint(x(p.cost), y(p.gain.value), y(p.gain.lo), y(p.gain.hi), p.title) for p in points
    )
    return CurveChart(
        id, title, description, _WIDTH, _HEIGHT, (_LEFT, _TOP, right, bottom),
        paths.line([(p.x, p.y) for p in drawn]),
        paths.band([(p.x, p.y_hi) for p in drawn], [(p.x, p.y_lo) for p in drawn]), drawn,
        tuple((x(t), fmt.count(t) if t >= 10 else f"{t:g}") for t in x.ticks(6)),
        tuple((y(t), f"x{t:g}") for t in y.ticks(5)), y(1.0),
        None if marked is None else x(points[marked].cost), mark, axis_label,
    )  # fmt: skip
