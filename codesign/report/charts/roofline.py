"""The roofline of a GPU with the ops of a workload on it: log-log, dense peaks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codesign._common.units import format_si
from codesign.recommend.schema import RooflinePoint
from codesign.report import formatting as fmt
from codesign.report.charts import paths
from codesign.report.charts.palette import Style, style_of
from codesign.report.charts.scales import Log, pixel

_WIDTH = 720.0
_HEIGHT = 400.0
_LEFT = 84.0
_RIGHT = 14.0
_TOP = 16.0
_BOTTOM = 46.0
MAX_POINTS = 60
_NUMBERED = 10


@dataclass(frozen=True)
class Ceiling:
    """A dense peak: its horizontal line from the slope to the right edge."""

    x: float
    y: float
    label: str
    label_y: float


@dataclass(frozen=True)
class Dot:
    """An op."""

    path: str
    x: float
    y: float
    number: str
    number_x: float
    number_y: float
    style: Style
    title: str


@dataclass(frozen=True)
class Roofline:
    """The whole chart in pixels."""

    id: str
    title: str
    description: str
    width: float
    height: float
    plot: tuple[float, float, float, float]
    slope: str
    slope_label: str
    slope_label_at: tuple[float, float, float]
    """x, y and angle in degrees."""
    ceilings: tuple[Ceiling, ...]
    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, Style], ...]


def drawable(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """Points with positive finite coordinates, by falling share of time."""
    kept = [
        p for p in points
        if p.flop_per_byte > 0 and p.flops_per_s > 0
        and math.isfinite(p.flop_per_byte) and math.isfinite(p.flops_per_s)
    ]  # fmt: skip
    return sorted(kept, key=lambda p: (-p.time_share, p.label))[:MAX_POINTS]


def used_peaks(
    points: Sequence[RooflinePoint], peaks: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Peaks that rate an op shown, joined where two precisions share one, rising."""
    by_rate: dict[float, list[str]] = {}
    wanted = {p.precision for p in points}
    chosen = {k: v for k, v in peaks.items() if k in wanted and v > 0} or {
        k: v for k, v in peaks.items() if v > 0
    }
    for name, rate in sorted(chosen.items()):
        by_rate.setdefault(rate, []).append(name)
    return [(", ".join(names), rate) for rate, names in sorted(by_rate.items())]


def roofline(
    id: str, title: str, points: Sequence[RooflinePoint], peaks: Mapping[str, float],
    hbm_bandwidth_bytes_per_s: float,
) -> Roofline | None:  # fmt: skip
    """The chart, or None where no op has known FLOPs and bytes or no peak is known."""
    shown = drawable(points)
    rates = used_peaks(shown, peaks)
    if not shown or not rates or hbm_bandwidth_bytes_per_s <= 0:
        return None
    ridge = rates[-1][1] / hbm_bandwidth_bytes_per_s
    xs = [*(p.flop_per_byte for p in shown), ridge, ridge * 4]
    x = Log(min(xs) / 2, max(xs) * 2, _LEFT, _WIDTH - _RIGHT)
    ys = [*(p.flops_per_s for p in shown), rates[-1][1] * 1.5, x.lo * hbm_bandwidth_bytes_per_s]
    y = Log(min(ys) / 1.5, max(ys), _HEIGHT - _BOTTOM, _TOP)
    dots = tuple(
        _dot(p, i, x, y) for i, p in enumerate(shown)
    )  # fmt: skip
    (x0, y0), (x1, y1) = [
        (x(f), y(f * hbm_bandwidth_bytes_per_s)) for f in (x.lo, ridge)
    ]  # fmt: skip
    classes = dict.fromkeys(p.op_class for p in shown)
    bandwidth = format_si(hbm_bandwidth_bytes_per_s, "B/s")
    return Roofline(
        id, title,
        f"{len(shown)} ops against HBM at {bandwidth} and dense peaks "
        + ", ".join(f"{n} {format_si(r, 'FLOP/s')}" for n, r in rates),
        _WIDTH, _HEIGHT, (_LEFT, _TOP, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM),
        paths.line([(x0, y0), (x1, y1)]), f"HBM {bandwidth}",
        _slope_label_at(x0, y0, x1, y1), _ceilings(rates, hbm_bandwidth_bytes_per_s, x, y), dots,
        tuple((x(t), fmt.significant(t, 1)) for t in x.ticks()),
        tuple((y(t), format_si(t, "FLOP/s", 1)) for t in y.ticks()),
        tuple((c, style_of(c)) for c in classes),
    )  # fmt: skip


def _slope_label_at(x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float]:
    angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
    return (round((x0 + x1) / 2 - 4, 1), round((y0 + y1) / 2 - 8, 1), round(angle, 1))


def _ceilings(
    rates: Sequence[tuple[str, float]], bandwidth: float, x: Log, y: Log
) -> tuple[Ceiling, ...]:
    """Ceilings from the lowest; a label that would cover the one below moves up."""
    result: list[Ceiling] = []
    for name, rate in rates:
        at = y(rate)
        label_y = at - 5
        if result and result[-1].label_y - label_y < 13:
            label_y = result[-1].label_y - 13
        text = f"{name}: {format_si(rate, 'FLOP/s')} dense"
        result.append(Ceiling(x(rate / bandwidth), at, text, round(label_y, 1)))
    return tuple(result)


def _dot(point: RooflinePoint, index: int, x: Log, y: Log) -> Dot:
    style = style_of(point.op_class)
    radius = 3.0 + 14.0 * math.sqrt(max(0.0, min(1.0, point.time_share)))
    at_x, at_y = x(point.flop_per_byte), y(point.flops_per_s)
    title = (
        f"{point.label} ({point.op_class}, {point.precision}): "
        f"{fmt.significant(point.flop_per_byte)} FLOP/B, {format_si(point.flops_per_s, 'FLOP/s')}, "
        f"{fmt.share(point.time_share)} of the step"
    )
    number = str(index + 1) if index < _NUMBERED else ""
    path = paths.marker(style.marker, at_x, at_y, radius)
    beside = 0.8 * radius + 5
    return Dot(path, at_x, at_y, number, pixel(at_x + beside), pixel(at_y - 0.8 * radius), style,
               title)  # fmt: skip
