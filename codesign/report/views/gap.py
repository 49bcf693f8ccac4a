"""How far a step is from the ideal: the waterfall, and its numbers by op class and resource."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codesign.recommend.schema import Gap, GapRow
from codesign.recommend.wording import name_of
from codesign.report import formatting as fmt
from codesign.report.charts.waterfall import Waterfall, WaterfallInput, waterfall
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import sentence

SMALL = 0.005
"""Share of the step under which a bar joins the others."""
WORTH_SAYING = 0.0005
"""Share of the step under which a note would print as nothing."""


@dataclass(frozen=True)
class GapView:
    """From the datasheet bound over the attainable one to the step."""

    summary: str
    chart: Waterfall | None
    by_class: Table
    by_resource: Table
    notes: tuple[str, ...]


def gap_view(gap: Gap, anchor: str, title: str) -> GapView:
    """The view of one workload; ``title`` is its name."""
    chart = waterfall(
        f"{anchor}-waterfall", f"From the ideal to the step: {title}",
        "Wall time from the datasheet bound, split by the resource that binds, over the attainable "
        "bound to the step. A bar that runs to the left is time below zero: communication that "
        "faster compute no longer hides.",
        _bars(gap),
    )  # fmt: skip
    return GapView(
        _summary(gap), chart,
        _table(gap, gap.by_class, f"{anchor}-gap-class", "Op class",
               "From the ideal to the step, by op class"),
        _table(gap, gap.by_resource, f"{anchor}-gap-resource", "Bound at the datasheet by",
               "From the ideal to the step, by what binds at the datasheet's peaks"),
        _notes(gap),
    )  # fmt: skip


def _summary(gap: Gap) -> str:
    lost = gap.attainable_s - gap.bound_s
    past = sum(r.time_s - r.attainable_s for r in gap.by_class)
    idle = gap.bubble_s + gap.idle_s
    parts = [
        f"Of the step's {fmt.seconds(gap.step_time_s)}, {_part(gap, gap.bound_s)} is the datasheet "
        f"bound; {_part(gap, lost)} is lost because kernels of these kinds stay below the peaks",
        f"{_part(gap, past)} because these take longer than the fitted model says is attainable",
    ]
    if idle > 0:
        parts.append(f"{_part(gap, idle)} in bubble and idle time")
    return sentence("; ".join(parts))


def _part(gap: Gap, value_s: float) -> str:
    text = fmt.share(abs(value_s) / gap.step_time_s)
    return f"minus {text}" if value_s < 0 and not text.startswith(("0", "<")) else text


def _bars(gap: Gap) -> list[WaterfallInput]:
    least = SMALL * gap.step_time_s
    ideal = sorted(((r.key, r.bound_s) for r in gap.by_resource), key=lambda kv: -kv[1])
    bars = _named(ideal, least, "bound by {}", "others at their bounds")
    bars.append(WaterfallInput("Datasheet bound", "total", None))
    bars += _named(((r.key, r.attainable_s - r.bound_s) for r in gap.by_class), least,
                   "{}: below peak", "others: below peak")  # fmt: skip
    bars.append(WaterfallInput("Attainable bound", "total", None))
    bars += _named(((r.key, r.time_s - r.attainable_s) for r in gap.by_class), least,
                   "{}: above attainable", "others: above attainable")  # fmt: skip
    bars += [
        WaterfallInput(name, name, value)
        for name, value in (("pipeline bubble", gap.bubble_s), ("idle", gap.idle_s)) if value > 0
    ]  # fmt: skip
    return [*bars, WaterfallInput("The step", "total", None)]


def _named(
    parts: Iterable[tuple[str, float]], least_s: float, label: str, rest_label: str
) -> list[WaterfallInput]:
    """A bar for each part of ``least_s`` or more, the largest first, and one for the others."""
    found = list(parts)
    large = sorted((p for p in found if abs(p[1]) >= least_s), key=lambda p: -p[1])
    rest = sum(value for _, value in found if abs(value) < least_s)
    bars = [WaterfallInput(label.format(name_of(key)), key, value) for key, value in large]
    return bars + ([WaterfallInput(rest_label, "others", rest)] if rest else [])


def _table(gap: Gap, rows: Sequence[GapRow], id: str, first: str, caption: str) -> Table:
    columns = (
        Column(first),
        Column("Datasheet bound", True, "at the dense peak, HBM or link bandwidth that binds"),
        Column("Below peak", True, "attainable less datasheet bound"),
        Column("Attainable bound", True, "by the fitted model, or the op's own time if shorter"),
        Column("Above attainable", True, "in the step less attainable bound"),
        Column("In the step", True, "exposed time"), Column("Share", True, "of the step"),
        Column("Step / datasheet", True), Column("Step / attainable", True),
    )  # fmt: skip
    cells = [
        [Cell(name_of(r.key)), *_stages(gap, r.bound_s, r.attainable_s, r.time_s)] for r in rows
    ]
    cells += [
        [Cell(name), *[Cell(fmt.DASH)] * 4, Cell(fmt.seconds(value), value),
         Cell(fmt.share(value / gap.step_time_s), value / gap.step_time_s),
         Cell(fmt.DASH), Cell(fmt.DASH)]
        for name, value in (("pipeline bubble", gap.bubble_s), ("idle", gap.idle_s)) if value > 0
    ]  # fmt: skip
    cells.append([
        Cell("The step", tag="strong"),
        *_stages(gap, gap.bound_s, gap.attainable_s, gap.step_time_s, gap.bubble_s + gap.idle_s),
    ])  # fmt: skip
    return make_table(id, caption, columns, cells)


def _stages(
    gap: Gap, bound_s: float, attainable_s: float, time_s: float, apart_s: float = 0.0
) -> list[Cell]:
    """Cells of a row; ``apart_s`` of its time has rows of its own."""
    below, above = attainable_s - bound_s, time_s - apart_s - attainable_s
    share = time_s / gap.step_time_s
    return [
        Cell(fmt.seconds(bound_s), bound_s), Cell(fmt.signed_seconds(below), below),
        Cell(fmt.seconds(attainable_s), attainable_s), Cell(fmt.signed_seconds(above), above),
        Cell(fmt.seconds(time_s), time_s, tag="strong"), Cell(fmt.share(share), share),
        _ratio(time_s, bound_s), _ratio(time_s, attainable_s),
    ]  # fmt: skip


def _ratio(time_s: float, bound_s: float) -> Cell:
    if bound_s <= 0:
        return Cell(fmt.DASH)
    return Cell(fmt.factor(time_s / bound_s), time_s / bound_s)


def _notes(gap: Gap) -> tuple[str, ...]:
    said = (
        (gap.unknown_share, "are ops of unknown work: they stand with their own time at every "
                            "bound, and no gap is claimed for them"),
        (gap.unmodelled_share, "are ops that the model does not cover: their own time counts as "
                               "attainable"),
        (gap.beats_bound_share, "are ops faster than their datasheet bound, mostly because data "
                                "stay in L2 and HBM is not asked for them"),
    )  # fmt: skip
    return tuple(
        sentence(f"{fmt.share(share)} of the step {what}")
        for share, what in said if share >= WORTH_SAYING
    )  # fmt: skip
