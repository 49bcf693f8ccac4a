"""Gain over step size: small multiples on one common scale of gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.recommend.schema import Interval
from codesign.report import formatting as fmt
from codesign.report.charts import paths
from codesign.report.charts.scales import Linear, Log, nice_domain

_WIDTH = 300.0
_HEIGHT = 200.0
_LEFT = 38.0
_RIGHT = 12.0
_TOP = 12.0
_BOTTOM = 40.0


@dataclass(frozen=True)
class CurvePoint:
    """A step that was computed."""

    x: float
    y: float
    y_lo: float
    y_hi: float
    title: str


@dataclass(frozen=True)
class CurveChart:
    """One lever's gain curve with its 90 % band."""

    id: str
    title: str
    description: str
    width: float
    height: float
    plot: tuple[float, float, float, float]
    """Left, top, right, bottom of the plotting area."""
    line: str
    band: str
    points: tuple[CurvePoint, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    baseline_y: float
    knee_x: float | None
    knee_text: str
    axis_label: str


def common_domain(curves: Sequence[Sequence[Interval]]) -> tuple[float, float]:
    """One domain of gain for all curves, so that their heights compare."""
    return nice_domain([v for c in curves for i in c for v in (i.lo, i.value, i.hi)], 1.0, 4)


def gain_curve(
    id: str, title: str, axis_label: str, *, steps: Sequence[tuple[float, Interval]],
    domain: tuple[float, float], knee: float | None,
) -> CurveChart:  # fmt: skip
    """A curve from no change (factor 1, gain 1) through ``steps`` of (factor, gain).

    Factors below 1 are improvements (of a latency): their axis runs the other way,
    so that more change is always to the right.
    """
    start = (1.0, Interval(1.0, 1.0, 1.0))
    falling = sum(f < 1 for f, _ in steps) > len(steps) / 2
    known = [s for s in steps if s[0] > 0 and s[0] != 1.0]
    ordered = sorted([start, *known], key=lambda s: s[0], reverse=falling)
    factors = [f for f, _ in ordered]
    last = factors[-1] if len(ordered) > 1 else (0.5 if falling else 2.0)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x = Log(factors[0], last, _LEFT, right)
    y = Linear(*domain, bottom, _TOP)
    points = tuple(
        CurvePoint(x(f), y(g.value), y(g.lo), y(g.hi), f"{fmt.factor(f)} of today: {fmt.gain(g)}")
        for f, g in ordered
    )
    line = paths.line([(p.x, p.y) for p in points])
    band = paths.band([(p.x, p.y_hi) for p in points], [(p.x, p.y_lo) for p in points])
    knee_on_axis = knee is not None and min(factors[0], last) <= knee <= max(factors[0], last)
    last_gain = ordered[-1][1]
    return CurveChart(
        id, title, f"Gain rises from 1 to {fmt.gain(last_gain)} at {fmt.factor(last)}.",
        _WIDTH, _HEIGHT, (_LEFT, _TOP, right, bottom), line, band, points,
        _x_ticks(x, factors), tuple((y(t), f"{t:g}") for t in y.ticks(4)), y(1.0),
        x(knee) if knee is not None and knee_on_axis else None,
        _knee_text(knee), axis_label,
    )  # fmt: skip


def _knee_text(knee: float | None) -> str:
    if knee is None:
        return ""
    return "saturated from the start" if knee == 1.0 else f"saturates at {fmt.factor(knee)}"


def _x_ticks(x: Log, factors: Sequence[float], room: float = 30.0) -> tuple[tuple[float, str], ...]:
    """Ticks at the steps themselves, the last and the first always, none too close."""
    kept: list[tuple[float, str]] = []
    ends = (factors[0], factors[-1])
    for f in sorted(set(factors), key=lambda f: (f not in ends, f)):
        at = x(f)
        if all(abs(at - other) >= room for other, _ in kept):
            kept.append((at, f"{f:g}" if f == round(f, 2) else fmt.significant(f, 2)))
    return tuple(sorted(kept))
