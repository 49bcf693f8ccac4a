"""Dot-and-whisker rows on one axis: gains, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.report.charts.scales import Linear, nice_domain
from codesign.report.text import ellipsis

_WIDTH = 720.0
_ROW = 34.0
_GROUP = 30.0
_TOP = 8.0
_AXIS = 40.0
_LEFT = 12.0
_RIGHT = 24.0


@dataclass(frozen=True)
class DotInput:
    """A value with its interval, and further marks on the same row (baselines)."""

    label: str
    value: float
    lo: float
    hi: float
    hover: str
    reading: str
    """The value as printed beside the label."""
    group: str = ""
    tag: str = ""
    """``hollow`` where the value is assumed or missed its target."""
    others: tuple[tuple[str, float, str], ...] = ()
    """(marker, value, hover) of comparison marks."""


@dataclass(frozen=True)
class Mark:
    """A comparison mark."""

    shape: str
    x: float
    title: str


@dataclass(frozen=True)
class DotRow:
    """A row in pixels."""

    y: float
    label: str
    reading: str
    x: float
    x_lo: float
    x_hi: float
    title: str
    tag: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class DotChart:
    """Rows in groups over one axis."""

    id: str
    title: str
    description: str
    width: float
    height: float
    plot_bottom: float
    rows: tuple[DotRow, ...]
    groups: tuple[tuple[float, str], ...]
    ticks: tuple[tuple[float, str], ...]
    reference_x: float
    axis_label: str


def dot_chart(
    id: str, title: str, description: str, *, axis_label: str, inputs: Sequence[DotInput],
    reference: float, tick_format: str,
) -> DotChart:  # fmt: skip
    """Rows in the given order; a heading wherever the group changes.

    ``reference`` is the value of no effect, always on the axis and drawn as a rule.
    """
    values = [v for d in inputs for v in (d.value, d.lo, d.hi, *(o[1] for o in d.others))]
    lo, hi = nice_domain(values, reference)
    scale = Linear(lo, hi, _LEFT, _WIDTH - _RIGHT)
    rows, groups = [], []
    y, group = _TOP, ""
    for item in inputs:
        if item.group != group:
            group = item.group
            groups.append((y + 18, group))
            y += _GROUP
        marks = tuple(Mark(shape, scale(v), hover) for shape, v, hover in item.others)
        rows.append(DotRow(
            y + 23, ellipsis(item.label, 72), item.reading, scale(item.value), scale(item.lo),
            scale(item.hi), item.hover, item.tag, marks,
        ))  # fmt: skip
        y += _ROW
    ticks = tuple((scale(t), tick_format.format(t)) for t in scale.ticks())
    return DotChart(id, title, description, _WIDTH, y + _AXIS, y + 4, tuple(rows), tuple(groups),
                    ticks, scale(reference), axis_label)  # fmt: skip
