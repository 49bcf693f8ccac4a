"""Errors of a fit over the size of the op: a sound one scatters around zero at every size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign._common.units import format_si
from codesign.report.charts import paths
from codesign.report.charts.palette import Style
from codesign.report.charts.scales import Linear, Log, log_domain

_WIDTH, _HEIGHT = 420.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 26.0, 10.0, 42.0
LIMIT = 0.6
"""Errors beyond are drawn at the edge, so that the others can be told apart."""
_MARKERS = ("circle", "square", "diamond", "triangle")
_COLOURS = ("c1", "c3", "c4", "c2", "c5", "c6", "c7", "c8")


@dataclass(frozen=True)
class Cloud:
    """The points of one GPU as a single path."""

    gpu: str
    style: Style
    path: str


@dataclass(frozen=True)
class Residuals:
    """The chart in pixels."""

    id: str
    title: str
    description: str
    width: float
    height: float
    plot: tuple[float, float, float, float]
    zero: float
    clouds: tuple[Cloud, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def styles(gpus: Sequence[str]) -> dict[str, Style]:
    """Colour and marker of each GPU; no two share both."""
    return {
        gpu: Style(_COLOURS[i % 8], "", _MARKERS[(i + i // 8) % 4]) for i, gpu in enumerate(gpus)
    }


def residuals(
    id: str, title: str, points: Sequence[tuple[str, float, float]], of: dict[str, Style]
) -> Residuals:
    """``points`` are (GPU, measured seconds, modelled / measured - 1)."""
    lo, hi = log_domain([time_s for _, time_s, _ in points])
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x, y = Log(lo, hi, _LEFT, right), Linear(-LIMIT, LIMIT, bottom, _TOP)
    drawn: dict[str, list[str]] = {}
    for gpu, time_s, error in points:
        at = y(min(max(error, -LIMIT), LIMIT))
        drawn.setdefault(gpu, []).append(paths.marker(of[gpu].marker, x(time_s), at, 2.2))
    beyond = sum(abs(error) > LIMIT for _, _, error in points)
    edge = f"; {beyond} beyond ±{LIMIT:.0%} stand at the edge" if beyond else ""
    return Residuals(
        id, title, f"{len(points)} training rows, evenly drawn{edge}.", _WIDTH, _HEIGHT,
        (_LEFT, _TOP, right, bottom), y(0.0),
        tuple(Cloud(gpu, of[gpu], "".join(drawn[gpu])) for gpu in of if gpu in drawn),
        tuple((x(t), format_si(t, "s")) for t in x.ticks()),
        tuple((y(t), f"{100 * t:+.0f} %" if t else "0") for t in y.ticks()),
    )  # fmt: skip
