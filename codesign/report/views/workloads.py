"""One section for each workload: its step, what it rests on, how far from the ideal."""

from __future__ import annotations

from dataclasses import dataclass

from codesign._common.units import format_si
from codesign.recommend.schema import Recommendations, WorkloadResult
from codesign.recommend.wording import name_of
from codesign.report import formatting as fmt
from codesign.report.charts.bars import BarChart, BarInput, parts_of, stacked
from codesign.report.charts.roofline import Roofline, drawable, roofline
from codesign.report.table import Cell, Column, Footnotes, Table, make_table
from codesign.report.text import printable, sentence
from codesign.report.views.gap import GapView, gap_view

_AGAIN = (
    "Capture it again with shapes (record_shapes=True, without CUDA graphs) or describe it "
    "by a recipe."
)
NO_ROOFLINE = (
    f"No roofline: no op of this workload has known FLOPs, bytes and a dense peak. {_AGAIN}"
)
LEAST_MISSING = 0.1
"""Share of a step from which it is told that the roofline lacks it."""


@dataclass(frozen=True)
class WorkloadView:
    """Everything that the section of a workload prints."""

    anchor: str
    title: str
    name: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    bars: BarChart
    breakdown: Table
    gap: Table
    way: GapView | None
    """From the ideal to the step; None of a file without the split."""
    roofline: Roofline | None
    roofline_missing: str
    roofline_table: Table | None
    top_ops: Table | None
    assumptions: Table | None
    recipe: Table | None


def overview(recs: Recommendations, hrefs: dict[str, str]) -> Table:
    """All workloads in one table."""
    columns = (
        Column("Workload"), Column("Weight", True, "share of fleet GPU-hours"), Column("System"),
        Column("GPUs", True), Column("Step time", True),
        Column("Step as modelled", True, "the fitted model on the same step, 90 % interval"),
        Column("Speed of light", True), Column("Gap", True, "step time / speed of light"),
        Column("Above attainable", True, "step time / attainable bound"),
        Column("Tokens/s per GPU", True), Column("MFU of dense peak", True), Column("Evidence"),
    )  # fmt: skip
    notes = Footnotes()
    rows = [
        [Cell(w.title or w.name, href=hrefs.get(w.name, "")), Cell(fmt.share(w.weight), w.weight),
         Cell(w.system), Cell(fmt.count(w.gpus), w.gpus),
         Cell(fmt.seconds(w.step_time_s), w.step_time_s),
         Cell(fmt.seconds_interval(w.step_time_modelled), w.step_time_modelled.value),
         Cell(fmt.seconds(w.speed_of_light_s), w.speed_of_light_s),
         Cell(*_gap(w)), Cell(*_above(w)), Cell(*_optional_count(w.tokens_per_s_per_gpu)),
         _mfu_cell(w, notes),
         Cell(fmt.shares(w.evidence), bar=tuple(fmt.ordered_parts(w.evidence)))]
        for w in recs.workloads
    ]  # fmt: skip
    return make_table("workloads-table", "The portfolio on the baseline", columns, rows, notes)


def overview_chart(recs: Recommendations) -> BarChart:
    """Breakdown of every workload's step, one bar each."""
    inputs = [
        BarInput(w.title or w.name, f"{fmt.seconds(w.step_time_s)} a step", _class_parts(w))
        for w in recs.workloads
    ]
    return stacked("breakdown-overview", "Where each step goes",
                   "Share of step time by op class; idle is time in which the GPU runs nothing.",
                   inputs)  # fmt: skip


def workload_views(recs: Recommendations, anchors: dict[str, str]) -> tuple[WorkloadView, ...]:
    """The workloads in the order of the file."""
    return tuple(_view(w, anchors[w.name]) for w in recs.workloads)


def _view(w: WorkloadResult, anchor: str) -> WorkloadView:
    bars = stacked(
        f"{anchor}-bars", f"Step of {w.title or w.name}",
        "Share of step time by op class, by evidence, and by binding resource.",
        [
            BarInput("By op class", fmt.seconds(w.step_time_s), _class_parts(w)),
            BarInput("By evidence", "where the times come from",
                     parts_of(w.evidence, fmt.EVIDENCE_ORDER)),
            BarInput("By binding resource", "what the time waits for", parts_of(w.binding)),
        ],
        separate=True,
    )  # fmt: skip
    chart = roofline(f"{anchor}-roofline", f"Roofline of {w.title or w.name}", w.roofline,
                     w.peak_flops_per_s, w.hbm_bandwidth_bytes_per_s)  # fmt: skip
    return WorkloadView(
        anchor, w.title or w.name, w.name, _facts(w), w.quality_warnings, bars,
        _breakdown(w, anchor), _gap_table(w, anchor),
        None if w.gap is None else gap_view(w.gap, anchor, w.title or w.name), chart,
        _missing(w) if chart else NO_ROOFLINE,
        _roofline_table(w, anchor) if chart else None, _top_ops(w, anchor),
        _pairs_table(f"{anchor}-assumptions", "Assumptions of this workload",
                     ("Assumption", "Value"), w.assumptions),
        _pairs_table(f"{anchor}-recipe", "What was run", ("Setting", "Value"), w.recipe),
    )  # fmt: skip


def _missing(w: WorkloadResult) -> str:
    """What a roofline that is drawn lacks; empty where that is little."""
    unknown = 0.0 if w.gap is None else w.gap.unknown_share
    if unknown < LEAST_MISSING:
        return ""
    return (
        f"Ops that take {fmt.share(unknown)} of the step are not on the roofline, since their "
        f"FLOPs or bytes are unknown. {_AGAIN}"
    )


def _class_parts(w: WorkloadResult) -> tuple[tuple[str, float, str], ...]:
    totals: dict[str, float] = {}
    for row in w.breakdown:
        totals[row.op_class] = totals.get(row.op_class, 0.0) + row.share
    idle = totals.pop("idle", 0.0)
    parts = parts_of(totals)
    return parts + (parts_of({"idle": idle}) if idle else ())


def _facts(w: WorkloadResult) -> tuple[tuple[str, str], ...]:
    facts = [
        ("Weight in the portfolio", f"{fmt.share(w.weight)} of fleet GPU-hours"),
        ("System", f"{w.system}, {fmt.count(w.gpus)} GPU{'s' if w.gpus != 1 else ''}"),
        ("Phase", w.phase or "whole step"),
        ("Step time", fmt.seconds(w.step_time_s)),
        ("Throughput", "not known" if w.tokens_per_s_per_gpu is None
         else f"{fmt.significant(w.tokens_per_s_per_gpu)} tokens/s per GPU"),
        ("MFU", "not known" if w.mfu is None else f"{fmt.share(w.mfu)} {mfu_of(w)}".strip()),
        ("Evidence", fmt.shares(w.evidence)),
        ("Bound by", fmt.shares(w.binding, ())),
    ]  # fmt: skip
    return tuple(facts)


def _mfu_cell(w: WorkloadResult, notes: Footnotes) -> Cell:
    """Without its peaks a utilization says nothing: each has them in a footnote."""
    if w.mfu is None:
        return Cell(fmt.DASH)
    said = mfu_of(w)
    return Cell(fmt.share(w.mfu), w.mfu, (notes.mark(sentence(said)),) if said else ())


def mfu_of(w: WorkloadResult) -> str:
    """``of the dense bf16 peak, 989 TFLOP/s``; empty of a file that does not hold the peaks."""
    peaks = [(name, format_si(value, "FLOP/s")) for name, value in sorted(w.mfu_peaks.items())]
    if not peaks:
        return ""
    if len(peaks) == 1:
        return f"of the dense {peaks[0][0]} peak, {peaks[0][1]}"
    said = ", ".join(f"{name} {value}" for name, value in peaks)
    return f"of dense peaks, each op against that of its precision: {said}"


def _breakdown(w: WorkloadResult, anchor: str) -> Table:
    columns = (Column("Part of the step"), Column("Op class"), Column("Time", True),
               Column("Share of the step", True))  # fmt: skip
    rows = [
        [Cell(r.label), Cell(name_of(r.op_class)), Cell(fmt.seconds(r.time_s), r.time_s),
         Cell(fmt.share(r.share), r.share)]
        for r in w.breakdown
    ]  # fmt: skip
    return make_table(f"{anchor}-breakdown", "Breakdown of the step", columns, rows)


def _gap(w: WorkloadResult) -> tuple[str, float | None]:
    if w.speed_of_light_s <= 0:
        return fmt.DASH, None
    value = w.step_time_s / w.speed_of_light_s
    return fmt.factor(value), value


def _above(w: WorkloadResult) -> tuple[str, float | None]:
    if w.gap is None or w.gap.attainable_s <= 0:
        return fmt.DASH, None
    value = w.step_time_s / w.gap.attainable_s
    return fmt.factor(value), value


def _optional_count(value: float | None) -> tuple[str, float | None]:
    return (fmt.DASH if value is None else fmt.significant(value)), value


def _gap_table(w: WorkloadResult, anchor: str) -> Table:
    """Speed of light against the fitted model against the step itself."""
    columns = (Column("Bound"), Column("Step time", True), Column("Step / bound", True),
               Column("What it means", wide=True))  # fmt: skip
    modelled = w.step_time_modelled
    ratio = w.step_time_s / modelled.value if modelled.value > 0 else None
    rows = [
        [Cell("Speed of light"), Cell(fmt.seconds(w.speed_of_light_s), w.speed_of_light_s),
         Cell(*_gap(w)), Cell("every op at the datasheet peak of its binding resource")],
        *([] if w.gap is None else [[
            Cell("Attainable"), Cell(fmt.seconds(w.gap.attainable_s), w.gap.attainable_s),
            Cell(*_above(w)),
            Cell("every op as the fitted model has its kind, or as fast as it is, if faster"),
        ]]),
        [Cell("Fitted model"), Cell(fmt.seconds_interval(modelled), modelled.value),
         Cell(fmt.DASH if ratio is None else fmt.factor(ratio), ratio),
         Cell("the same step by the model that projects the changed hardware")],
        [Cell("This step"), Cell(fmt.seconds(w.step_time_s), w.step_time_s), Cell("x1.00", 1.0),
         Cell(f"kernel times {fmt.shares(w.evidence)}")],
    ]  # fmt: skip
    return make_table(f"{anchor}-gap", "How far from the ideal", columns, rows)


def _roofline_table(w: WorkloadResult, anchor: str) -> Table:
    columns = (Column("No.", True), Column("Op"), Column("Class"), Column("Precision"),
               Column("Intensity", True, "FLOP per byte of HBM traffic"), Column("Rate", True),
               Column("Share of the step", True))  # fmt: skip
    rows = [
        [Cell(str(i), i), Cell(p.label), Cell(name_of(p.op_class)), Cell(p.precision),
         Cell(f"{fmt.significant(p.flop_per_byte)} FLOP/B", p.flop_per_byte),
         Cell(format_si(p.flops_per_s, "FLOP/s"), p.flops_per_s),
         Cell(fmt.share(p.time_share), p.time_share)]
        for i, p in enumerate(drawable(w.roofline)[:10], start=1)
    ]  # fmt: skip
    caption = "The ops of the roofline that take most time, by number"
    return make_table(f"{anchor}-roofline-table", caption, columns, rows, row_header=1)


def _top_ops(w: WorkloadResult, anchor: str) -> Table | None:
    if not w.top_ops:
        return None
    columns = (Column("Op"), Column("Class"), Column("Shape"), Column("Precision"),
               Column("Share of the step", True), Column("Evidence"))  # fmt: skip
    rows = [
        [Cell(o.name), Cell(name_of(o.op_class)), Cell(o.shape), Cell(o.precision or fmt.DASH),
         Cell(fmt.share(o.time_share), o.time_share), Cell(o.evidence)]
        for o in w.top_ops
    ]  # fmt: skip
    return make_table(f"{anchor}-ops", "Ops that take most of the step", columns, rows)


def _pairs_table(
    id: str, caption: str, titles: tuple[str, str], pairs: dict[str, object] | dict[str, str]
) -> Table | None:
    if not pairs:
        return None
    # Sorted, as a saved file has them.
    rows = [[Cell(key), Cell(_value_text(value))] for key, value in sorted(pairs.items())]
    columns = (Column(titles[0]), Column(titles[1], wide=True))
    return make_table(id, caption, columns, rows)


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_value_text(v)}" for k, v in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(_value_text(v) for v in value)
    return printable("" if value is None else str(value))
