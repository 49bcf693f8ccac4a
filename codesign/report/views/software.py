"""Software beside hardware: one table by gain, then each change of software by itself."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.recommend.schema import Recommendation, Recommendations, SoftwareResult
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Footnotes, Table, make_table
from codesign.report.text import join_words, remark, sentence, slug
from codesign.report.views import costs
from codesign.report.views.levers import carried_table
from codesign.report.views.ranking import NO_GAIN, carriers
from codesign.report.views.terms import STATUS_WORDS

NO_SILICON = "No silicon: what it costs is the effort of engineers."
CONFIDENCE_OF_STATUS = {
    "identified": "Identified by measurements", "assumed": "Assumed",
    "not_identifiable": "Not identifiable", "no_effect": "No effect",
}  # fmt: skip


@dataclass(frozen=True)
class FindingView:
    """What a rule found in one workload."""

    anchor: str
    workload: str
    gain: str
    evidence: str
    bound: str
    caveat: str
    ops: Table | None


@dataclass(frozen=True)
class ChangeView:
    """One change of software."""

    anchor: str
    title: str
    gain: str
    action: str
    facts: tuple[tuple[str, str], ...]
    findings: tuple[FindingView, ...]


@dataclass(frozen=True)
class SoftwareView:
    """The section."""

    intro: str
    together: Table | None
    changes: tuple[ChangeView, ...]
    silent: Table | None


def software_view(recs: Recommendations, lever_hrefs: dict[str, str]) -> SoftwareView:
    """The section of a recommendations file; a file without software says so in ``intro``."""
    anchors = {s.rule: f"software-{slug(s.rule, i)}" for i, s in enumerate(recs.software, 1)}
    titles = {w.name: w.title or w.name for w in recs.workloads}
    return SoftwareView(
        _intro(recs), together(recs, lever_hrefs, anchors),
        tuple(_change(recs, s, anchors[s.rule], titles) for s in recs.software),
        silent_table(recs, titles),
    )  # fmt: skip


def _intro(recs: Recommendations) -> str:
    if not recs.software and not recs.software_silent:
        return "No rule for software found anything in these workloads."
    text = (
        "Gains are of the portfolio, on the scale of the levers: 1 / sum(weight / gain). A rule "
        "needs evidence in the characterization and an attainable bound; it is silent where the "
        "capture cannot carry it. The range of a change of software is what closing less or more "
        "of the gap to the bound would leave, an assumption that stands beside it; it is not drawn "
        "as that of a lever is. Gains of two lines do not multiply where both save the same time."
    )
    if not recs.software:
        return "No rule for software found anything that it could show. " + text
    best = recs.software[0]
    return f"Largest: {best.title}, {fmt.gain(best.gain)}, with {best.effort} effort. {text}"


def together(
    recs: Recommendations, lever_hrefs: dict[str, str], anchors: dict[str, str]
) -> Table | None:
    """Software and hardware in one table, the largest portfolio gain first."""
    if not recs.software:
        return None
    notes = Footnotes()
    columns = [
        Column("Kind", narrow=True), Column("Recommendation"),
        Column("Portfolio gain", True, "speedup; hardware: 90 % interval, software: its reach"),
        Column("Effort", hint="of engineers, for software", narrow=True),
        Column("Confidence", narrow=True),
        *costs.columns(recs.ranking_cost)[:3], Column("Rests on", wide=True),
    ]  # fmt: skip
    rows = [(s.gain.value, 0, s.title, _software_row(s, anchors, notes)) for s in recs.software]
    rows += [
        (r.gain.value, 1, r.headline, _hardware_row(r, lever_hrefs, recs.ranking_cost, notes))
        for r in recs.recommendations
        if r.status not in NO_GAIN
    ]
    rows.sort(key=lambda row: (-row[0], row[1], row[2]))
    caption = "Software and hardware together, by gain"
    cells = [row for *_, row in rows]
    return make_table("together-table", caption, columns, cells, notes, row_header=1)


def _software_row(s: SoftwareResult, anchors: dict[str, str], notes: Footnotes) -> list[Cell]:
    dash = Cell(fmt.DASH, None, (notes.mark(NO_SILICON),))
    rivals: tuple[str, ...] = ()
    if s.rivals:
        rivals = (notes.mark("Saves the same time as another line: their gains do not multiply."),)
    return [
        Cell("Software"),
        Cell(s.title, s.title.lower(), rivals, href=f"#{anchors[s.rule]}"),
        Cell(fmt.gain(s.gain), s.gain.value, tag="strong"),
        Cell(s.effort.capitalize()), Cell(s.confidence.capitalize()), dash, dash, dash,
        Cell(carriers(tuple(o for f in s.findings for o in f.ops)) or "idle time"),
    ]  # fmt: skip


def _hardware_row(
    r: Recommendation, hrefs: dict[str, str], ranking_cost: str, notes: Footnotes
) -> list[Cell]:
    status = CONFIDENCE_OF_STATUS.get(r.status, STATUS_WORDS[r.status].label)
    return [
        Cell("Hardware"),
        Cell(r.headline, r.headline.lower(), href=hrefs.get(r.lever, ""), sub=r.label),
        Cell(fmt.gain(r.gain), r.gain.value, tag="strong"),
        Cell(fmt.DASH), Cell(status),
        *costs.cells(r.cost, r.gain_per_cost, ranking_cost, notes, brief=True)[:3],
        Cell(carriers(r.carried_by) or fmt.DASH),
    ]  # fmt: skip


def _change(
    recs: Recommendations, s: SoftwareResult, anchor: str, titles: dict[str, str]
) -> ChangeView:
    names = {x.rule: x.title for x in recs.software}
    facts = [
        ("Effort", f"{s.effort.capitalize()}: {s.effort_why}"),
        ("Confidence", f"{s.confidence.capitalize()}: {s.confidence_why}"),
        ("Reach", _reach(s)),
        ("What would confirm it", s.confirm),
    ]
    if s.rivals:
        others = join_words([names.get(r, r) for r in s.rivals])
        facts.append(("Saves the same time as", others))
    return ChangeView(
        anchor, s.title, fmt.gain(s.gain), s.action, tuple(facts),
        tuple(
            FindingView(
                f"{anchor}-{i}", titles.get(f.workload, f.workload), fmt.gain(f.gain),
                sentence(f.evidence), _bound(f.at_stake_s, f.bound_s, f.bound), remark(f.caveat),
                carried_table(f"{anchor}-{i}-ops", f.ops, titles, "Ops that the finding names"),
            )
            for i, f in enumerate(s.findings, 1)
        ),
    )  # fmt: skip


def _reach(s: SoftwareResult) -> str:
    lo, value, hi = (fmt.share(r) for r in s.reach)
    return (
        f"{value} of the gap to the bound is taken to close, {lo} to {hi} for the range "
        f"(assumed): {s.reach_why}"
    )


def _bound(at_stake_s: float, bound_s: float, how: str) -> str:
    return sentence(
        f"{fmt.seconds(at_stake_s)} of the step are at stake; at the bound {fmt.seconds(bound_s)} "
        f"of them are left: {how}"
    )


def silent_table(recs: Recommendations, titles: dict[str, str]) -> Table | None:
    """Rules that could not be judged, and why."""
    if not recs.software_silent:
        return None
    by_reason: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for s in recs.software_silent:
        by_reason.setdefault((s.reason, s.workloads), []).append(s.title)
    columns = (Column("What is not said", wide=True), Column("Workloads"),
               Column("Why", wide=True))  # fmt: skip
    rows = [
        [Cell("; ".join(rules)), Cell("; ".join(titles.get(n, n) for n in names)),
         Cell(remark(reason))]
        for (reason, names), rules in by_reason.items()
    ]  # fmt: skip
    return make_table("silent-table", "Rules that could not be judged", columns, rows)
