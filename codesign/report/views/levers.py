"""One section for each lever: its curve, its limits, who carries it, what refutes it."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.recommend.schema import Interval, LeverPoint, LeverResult, OpShare, Recommendations
from codesign.recommend.wording import name_of, package_label
from codesign.report import formatting as fmt
from codesign.report.charts.bars import BarChart, BarInput, parts_of, stacked
from codesign.report.charts.curves import CurveChart, common_domain, gain_curve
from codesign.report.table import Cell, Column, Footnotes, Table, make_table
from codesign.report.text import join_words, remark, sentence
from codesign.report.views import costs
from codesign.report.views.appendix import reading
from codesign.report.views.ranking import ASSUMED_INTERVAL
from codesign.report.views.terms import STATUS_WORDS
from codesign.report.views.verdicts import advice, undecided


@dataclass(frozen=True)
class LeverView:
    """Everything that the section of a lever prints."""

    anchor: str
    title: str
    baseline: str
    status: str
    status_tag: str
    verdict: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    curve: CurveChart | None
    steps: Table | None
    by_workload: Table | None
    binding_chart: BarChart | None
    binding: Table | None
    carried: Table | None
    would_change: tuple[str, ...]
    caveats: tuple[str, ...]
    refute_heading: str
    refuted_by: str


def lever_views(recs: Recommendations, anchors: dict[str, str]) -> tuple[LeverView, ...]:
    """The levers in the order of the file, their curves on one common scale."""
    domain = common_domain([[p.gain for p in lever.points] for lever in recs.levers])
    return tuple(_view(recs, lever, anchors[lever.lever], domain) for lever in recs.levers)


def _view(
    recs: Recommendations, lever: LeverResult, anchor: str, domain: tuple[float, float]
) -> LeverView:
    status = STATUS_WORDS[lever.status]
    rec = next((r for r in recs.recommendations if r.lever == lever.lever), None)
    titles = {w.name: w.title or w.name for w in recs.workloads}
    return LeverView(
        anchor, lever.title, lever.baseline, status.label, status.tag,
        sentence(advice(recs, rec, lever)), sentence(lever.reason),
        (*_facts(lever), *company(recs, lever)),
        _curve(lever, anchor, domain), _steps(recs, lever, anchor),
        _by_workload(lever, anchor, titles), _binding_chart(lever, anchor),
        _binding(lever, anchor), carried_table(f"{anchor}-ops", lever.carried_by, titles),
        tuple(line.replace("mm2", "mm²") for line in rec.would_change) if rec else (),
        tuple(remark(c) for c in rec.caveats) if rec else (),
        "What would tell, possible today" if undecided(lever)
        else "Measurement that would refute it, possible today", sentence(lever.refuted_by),
    )  # fmt: skip


def _facts(lever: LeverResult) -> tuple[tuple[str, str], ...]:
    facts = [("On the baseline", lever.baseline)]
    if lever.status == "not_studied":
        return tuple(facts)
    if lever.points:
        last = lever.points[-1]
        facts.append(
            (
                "Largest step studied",
                f"{last.label}: {fmt.gain(last.gain)}"
                + (
                    " (assumed: the interval covers only what is modelled)"
                    if lever.status == "assumed"
                    else ""
                ),
            )
        )
    facts.append(("Elasticity", elasticity_words(lever.elasticity)))
    if lever.saturates_at == 1.0:
        facts.append(("Saturates", sentence(lever.saturation_note) or "From the start."))
    elif lever.saturates_at is not None:
        note = f". {sentence(lever.saturation_note)}" if lever.saturation_note else ""
        facts.append(("Saturates at", f"{fmt.factor(lever.saturates_at)} of today{note}"))
    else:
        facts.append(("Saturates at", sentence(lever.saturation_note)
                      or "Not within the steps studied."))  # fmt: skip
    return tuple(facts)


def company(recs: Recommendations, lever: LeverResult) -> tuple[tuple[str, str], ...]:
    """What the lever is worth beside others: after those of the set, and in pairs."""
    facts = []
    study = recs.packages[0] if recs.packages else None
    added = next((m for m in study.marginal if m.lever == lever.lever), None) if study else None
    alone = study is not None and len(study.front[study.marginal_to].steps) < 2
    if study is not None and added is not None and not (alone and added.inside):
        whole = package_label(study.front[study.marginal_to].steps)
        others = "the others of" if added.inside else "all of"
        facts.append((
            "After the others",
            f"{added.label.partition(':')[0]} adds {fmt.gain(added.last)} to {others} {whole}; by "
            f"itself it is {fmt.gain(added.alone)}",
        ))  # fmt: skip
    titles = {x.lever: x.title for x in recs.levers}
    words: dict[str, list[str]] = {}
    for pair in recs.pairs:
        if lever.lever in pair.levers:
            other = next((name for name in pair.levers if name != lever.lever), lever.lever)
            said = f"{titles.get(other, other)} ({fmt.bracketed(pair.interaction, digits=4)})"
            words.setdefault(reading(pair.interaction), []).append(said)
    if words:
        text = "; ".join(f"{PAIR_WORDS[how]} {join_words(found)}" for how, found in words.items())
        facts.append(("In pairs", text))
    return tuple(facts)


PAIR_WORDS = {"help each other": "helps", "compete": "competes with",
              "nearly independent": "nearly independent of"}  # fmt: skip


def elasticity_words(value: Interval | None) -> str:
    """The elasticity and what it means."""
    if value is None:
        return "not known"
    change = fmt.significant(abs(value.value))
    verb = "shortens" if value.value < 0 else "lengthens"
    if value.value == 0:
        return f"{fmt.bracketed(value)}: the time does not depend on it"
    return f"{fmt.bracketed(value)}: 1 % more {verb} the portfolio's time by {change} %"


def _curve(lever: LeverResult, anchor: str, domain: tuple[float, float]) -> CurveChart | None:
    if not lever.points or lever.status == "not_studied":
        return None
    steps = [(p.factor, p.gain) for p in lever.points]
    axis = f"{lever.title}, times {lever.baseline}" if lever.baseline else lever.title
    return gain_curve(f"{anchor}-curve", lever.title, axis, steps=steps, domain=domain,
                      knee=lever.saturates_at)  # fmt: skip


def _steps(recs: Recommendations, lever: LeverResult, anchor: str) -> Table | None:
    if not lever.points:
        return None
    if lever.status == "not_studied":
        return _costs_only(recs, lever, anchor)
    notes = Footnotes()
    columns = [Column("Step"), Column("Factor", True), Column("Portfolio gain", True),
               Column("Per 10 % more", True, "what 10 % more of the lever returned since the step "
                      "before; the knee is where that falls under the threshold"),
               *costs.columns(recs.ranking_cost)]  # fmt: skip
    rows = [
        [Cell(p.label, p.factor), Cell(fmt.factor(p.factor), p.factor),
         Cell(fmt.gain(p.gain), p.gain.value, _assumed(lever, notes), tag="strong"),
         Cell(*_returned(p)),
         *costs.cells(p.cost, p.gain_per_cost, recs.ranking_cost, notes)]
        for p in lever.points
    ]  # fmt: skip
    caption = f"{lever.title}: gain and cost at each step"
    return make_table(f"{anchor}-steps", caption, columns, rows, notes)


def _returned(point: LeverPoint) -> tuple[str, float | None]:
    value = point.next_ten
    return (fmt.DASH if value is None else fmt.signed_share(value)), value


def _assumed(lever: LeverResult, notes: Footnotes) -> tuple[str, ...]:
    return (notes.mark(f"{ASSUMED_INTERVAL}."),) if lever.status == "assumed" else ()


def _costs_only(recs: Recommendations, lever: LeverResult, anchor: str) -> Table:
    """Steps with their costs, of a lever of whose gain nothing is said."""
    notes = Footnotes()
    columns = [Column("Step"), Column("Factor", True), *costs.columns(recs.ranking_cost)[:-1]]
    rows = [
        [Cell(p.label, p.factor), Cell(fmt.factor(p.factor), p.factor),
         *costs.cells(p.cost, None, recs.ranking_cost, notes)[:-1]]
        for p in lever.points
    ]  # fmt: skip
    caption = f"{lever.title}: cost of each step; what it gains was not studied"
    return make_table(f"{anchor}-steps", caption, columns, rows, notes)


def _by_workload(lever: LeverResult, anchor: str, titles: dict[str, str]) -> Table | None:
    # The order of the portfolio, whatever order a file was saved in.
    found = {name for p in lever.points for name in p.by_workload}
    names = [name for name in titles if name in found] + sorted(found - set(titles))
    if not names:
        return None
    columns = [Column("Workload"), *(Column(fmt.factor(p.factor), True) for p in lever.points)]
    rows = []
    for name in names:
        row = [Cell(titles.get(name, name))]
        for point in lever.points:
            value = point.by_workload.get(name)
            row.append(Cell(fmt.DASH) if value is None else Cell(fmt.gain(value), value.value))
        rows.append(row)
    caption = f"{lever.title}: gain of each workload at each step"
    return make_table(f"{anchor}-workloads", caption, columns, rows)


def _binding_chart(lever: LeverResult, anchor: str) -> BarChart | None:
    if not lever.binding_before or not lever.binding_after:
        return None
    order = tuple(k for k, _ in fmt.ordered_parts(lever.binding_before, ()))
    label = lever.points[-1].label if lever.points else "largest step"
    inputs = [
        BarInput("Baseline", lever.baseline, parts_of(lever.binding_before, order)),
        BarInput("After the largest step", label, parts_of(lever.binding_after, order)),
    ]
    title = f"What binds before and after: {lever.title}"
    return stacked(f"{anchor}-binding", title,
                   "Share of portfolio time by what 1 % more of it would save.",
                   inputs)  # fmt: skip


def _binding(lever: LeverResult, anchor: str) -> Table | None:
    if not lever.binding_before or not lever.binding_after:
        return None
    keys = [k for k, _ in fmt.ordered_parts(lever.binding_before, ())]
    keys += [k for k, _ in fmt.ordered_parts(lever.binding_after, ()) if k not in keys]
    columns = (Column("Binding resource"), Column("Baseline", True),
               Column("After the largest step", True))  # fmt: skip
    rows = [
        [Cell(name_of(k)), *(Cell(fmt.share(side.get(k, 0.0)), side.get(k, 0.0))
                    for side in (lever.binding_before, lever.binding_after))]
        for k in keys
    ]  # fmt: skip
    caption = f"{lever.title}: share of portfolio time by binding resource"
    return make_table(f"{anchor}-binding-table", caption, columns, rows)


def carried_table(
    id: str, ops: tuple[OpShare, ...], titles: dict[str, str],
    caption: str = "Ops that carry the gain at the largest step studied",
) -> Table | None:  # fmt: skip
    """Ops that carry a gain, with the shape and where their time comes from."""
    if not ops:
        return None
    columns = (Column("Op"), Column("Workload"), Column("Class"), Column("Shape"),
               Column("Precision"), Column("Share of its step", True),
               Column("Share of the time saved", True), Column("Evidence"))  # fmt: skip
    rows = [
        [Cell(o.name), Cell(titles.get(o.workload, o.workload)), Cell(name_of(o.op_class)),
         Cell(o.shape), Cell(o.precision or fmt.DASH),
         Cell(fmt.share(o.time_share), o.time_share),
         Cell(fmt.share(o.saved_share), o.saved_share), Cell(o.evidence)]
        for o in sorted(ops, key=lambda o: -o.saved_share)
    ]  # fmt: skip
    return make_table(id, caption, columns, rows)
