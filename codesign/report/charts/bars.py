"""Stacked bars of shares: breakdowns, evidence, binding before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codesign.recommend.wording import name_of
from codesign.report import formatting as fmt
from codesign.report.charts.palette import Style, style_of
from codesign.report.charts.scales import Linear
from codesign.report.text import ellipsis

_WIDTH = 720.0
_ROW = 46.0
_BAR = 20.0
_MARGIN = 2.0
_CHARACTER = 6.6


@dataclass(frozen=True)
class Segment:
    """One slice of a bar, with what hovering shows and a label where it fits."""

    x: float
    width: float
    style: Style
    title: str
    label: str


@dataclass(frozen=True)
class Bar:
    """One stacked bar under its own label."""

    y: float
    label: str
    full_label: str
    note: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class BarChart:
    """Bars on one scale from 0 to 100 %, and the legend of their keys."""

    id: str
    title: str
    description: str
    width: float
    height: float
    bar_height: float
    bars: tuple[Bar, ...]
    legends: tuple[tuple[str, tuple[tuple[str, Style], ...]], ...]
    """(heading, entries); one without a heading where all bars share their keys."""


@dataclass(frozen=True)
class BarInput:
    """What one bar shows: (key, share, hover text) from left to right."""

    label: str
    note: str
    parts: tuple[tuple[str, float, str], ...]


def stacked(
    id: str, title: str, description: str, inputs: Sequence[BarInput],
    separate: bool = False,
) -> BarChart:  # fmt: skip
    """Bars of shares that add up to 1, one below the other.

    ``separate`` bars have keys of their own kind, so each gets its own legend.
    """
    bars = []
    keys: dict[str, Style] = {}
    legends = []
    for index, item in enumerate(inputs):
        if separate:
            keys = {}
        segments = _segments(item, keys)
        if separate:
            shares = {key: value for key, value, _ in item.parts}
            entries = tuple((f"{name_of(k)} {fmt.share(shares[k])}", s) for k, s in keys.items())
            legends.append((item.label, entries))
        y = index * _ROW + 18
        bars.append(Bar(y, ellipsis(item.label, 70), item.label, item.note, segments))
    height = max(1, len(inputs)) * _ROW
    if not separate:
        legends = [("", tuple((name_of(k), s) for k, s in keys.items()))]
    return BarChart(id, title, description, _WIDTH, height, _BAR, tuple(bars), tuple(legends))


def _segments(item: BarInput, keys: dict[str, Style]) -> tuple[Segment, ...]:
    scale = Linear(0.0, 1.0, _MARGIN, _WIDTH - _MARGIN)
    segments = []
    at = 0.0
    for key, value, hover in item.parts:
        if value <= 0:
            continue
        style = keys.setdefault(key, style_of(key))
        x, end = scale(at), scale(min(1.0, at + value))
        text = f"{name_of(key)} {fmt.share(value)}"
        label = text if len(text) * _CHARACTER + 8 < end - x else ""
        segments.append(Segment(x, round(end - x, 1), style, hover or text, label))
        at += value
    return tuple(segments)


def parts_of(
    shares: Mapping[str, float], order: tuple[str, ...] = ()
) -> tuple[tuple[str, float, str], ...]:
    """The parts of a mapping of shares, largest first unless ``order`` says otherwise."""
    return tuple(
        (k, v, f"{name_of(k)}: {fmt.share(v)}") for k, v in fmt.ordered_parts(shares, order)
    )
