"""A waterfall from an ideal to a measured time: what each part adds, bar by bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.report import formatting as fmt
from codesign.report.charts.palette import Style, style_of
from codesign.report.charts.scales import Linear, nice_domain
from codesign.report.text import ellipsis

_WIDTH = 720.0
_ROW = 22.0
_BAR = 14.0
_LEFT, _RIGHT, _TOP = 232.0, 84.0, 6.0
_BOTTOM = 34.0


@dataclass(frozen=True)
class WaterfallInput:
    """One bar: what is added, or a total so far where ``added_s`` is None."""

    label: str
    key: str
    """Of the palette."""
    added_s: float | None


@dataclass(frozen=True)
class WaterfallBar:
    """A bar as drawn; ``x`` and ``width`` in pixels."""

    y: float
    x: float
    width: float
    x_end: float
    """Where the next bar starts."""
    label: str
    reading: str
    title: str
    style: Style
    total: bool


@dataclass(frozen=True)
class Waterfall:
    """The chart. Every bar that adds starts where the one above it ends."""

    id: str
    title: str
    description: str
    width: float
    height: float
    plot: tuple[float, float, float, float]
    bar_height: float
    bars: tuple[WaterfallBar, ...]
    ticks: tuple[tuple[float, str], ...]
    zero_x: float


def waterfall(
    id: str, title: str, description: str, inputs: Sequence[WaterfallInput]
) -> Waterfall | None:
    """The chart of ``inputs`` from the top down; None where all are zero."""
    reached = [0.0]
    for item in inputs:
        reached.append(reached[-1] + (item.added_s or 0.0))
    if not any(reached):
        return None
    height = _TOP + len(inputs) * _ROW
    scale = Linear(*nice_domain(reached, 0.0), _LEFT, _WIDTH - _RIGHT)
    bars = tuple(
        _bar(item, index, reached[index], reached[index + 1], scale)
        for index, item in enumerate(inputs)
    )
    ticks = tuple((scale(t), fmt.seconds(t) if t else "0") for t in scale.ticks(5))
    return Waterfall(
        id, title, description, _WIDTH, height + _BOTTOM, (_LEFT, _TOP, _WIDTH - _RIGHT, height),
        _BAR, bars, ticks, scale(0.0),
    )  # fmt: skip


def _bar(
    item: WaterfallInput, index: int, before_s: float, after_s: float, scale: Linear
) -> WaterfallBar:
    total = item.added_s is None
    start, end = scale(0.0 if total else before_s), scale(after_s)
    reading = fmt.seconds(after_s) if item.added_s is None else fmt.signed_seconds(item.added_s)
    # What is next to nothing is still to be seen.
    width = max(round(abs(end - start), 1), 0.8)
    return WaterfallBar(
        _TOP + index * _ROW + (_ROW - _BAR) / 2, min(start, end), width, end,
        ellipsis(item.label, 36), reading, f"{item.label}: {reading}", style_of(item.key), total,
    )  # fmt: skip
