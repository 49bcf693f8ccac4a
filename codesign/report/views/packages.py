"""Levers together: the best packages by each cost, the balanced set, what each lever adds last."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.recommend.schema import MarginalGain, Package, PackageStudy, Recommendations
from codesign.recommend.wording import package_label
from codesign.report import formatting as fmt
from codesign.report.charts.curves import CurveChart
from codesign.report.charts.front import FrontPoint, front_chart
from codesign.report.table import Cell, Column, Footnotes, Table, make_table
from codesign.report.text import join_words, sentence
from codesign.report.views import costs
from codesign.report.views.terms import STATUS_WORDS

NOTHING_PAYS = "the baseline as it is"


@dataclass(frozen=True)
class PackageStudyView:
    """The packages by one kind of cost."""

    anchor: str
    heading: str
    notes: tuple[str, ...]
    chart: CurveChart | None
    front: Table
    marginal: Table | None


@dataclass(frozen=True)
class PackagesView:
    """The section."""

    summary: str
    studies: tuple[PackageStudyView, ...]


def packages_view(recs: Recommendations, hrefs: dict[str, str]) -> PackagesView | None:
    """The section, or None of a file in which no packages were studied."""
    if not recs.packages:
        return None
    return PackagesView(
        summary(recs.packages[0]),
        tuple(_study(recs, study, hrefs) for study in recs.packages),
    )


def summary(study: PackageStudy) -> str:
    """What to build together, in one or two sentences."""
    unit = _unit(study)
    parts = []
    if study.balanced is not None:
        chosen = study.front[study.balanced]
        if not chosen.steps:
            parts.append(
                f"No package returns more than the same {study.kind} spent on more GPUs as they "
                "are."
            )
        else:
            parts.append(
                f"The balanced set is {package_label(chosen.steps)}: {fmt.gain(chosen.gain)} for "
                f"{_cost(study, chosen)} per GPU, and {_fleet(chosen)} at the {study.kind} of "
                f"today's fleet; beyond it, further {study.kind} is better spent on more GPUs "
                "as they are."
            )
        parts += _rival(study, chosen)
    best = study.front[study.best]
    if study.budget is not None:
        parts.append(
            f"Within the budget of {fmt.significant(study.budget)} {unit} the largest gain is that "
            f"of {package_label(best.steps)}: {fmt.gain(best.gain)}."
        )
    return " ".join(parts)


def _rival(study: PackageStudy, chosen: Package) -> list[str]:
    """Another package that the draws prefer to the one that the costs as printed choose."""
    rival = max(study.front, key=lambda p: p.p_best or 0.0)
    if chosen.p_best is None or rival.p_best is None or rival.p_best <= chosen.p_best:
        return []
    return [
        f"Over what model and cost values leave open another one returns most more often, in "
        f"{fmt.share(rival.p_best)} of the draws against {fmt.share(chosen.p_best)}: "
        f"{package_label(rival.steps)}, {fmt.gain(rival.gain)}."
    ]


def _unit(study: PackageStudy) -> str:
    return fmt.cost_unit(study.ranking_cost).replace("mm2", "mm²")


def _cost(study: PackageStudy, package: Package) -> str:
    item = None if package.cost is None else getattr(package.cost, study.kind)
    text = fmt.cost_item(item).removeprefix("+")
    return text.replace("≤", "at most").replace("≥", "at least")


def _fleet(package: Package) -> str:
    return fmt.DASH if package.fleet_gain is None else fmt.gain(package.fleet_gain)


def _study(recs: Recommendations, study: PackageStudy, hrefs: dict[str, str]) -> PackageStudyView:
    anchor = f"packages-{study.kind}"
    first = study is recs.packages[0]
    return PackageStudyView(
        anchor, f"By {study.kind}, in {_unit(study)} per GPU", _notes(study),
        _chart(study, anchor) if first else None, _front(recs, study, anchor),
        _marginal(study, anchor, hrefs) if study.marginal else None,
    )  # fmt: skip


def _notes(study: PackageStudy) -> tuple[str, ...]:
    unit = _unit(study)
    tried = f"{fmt.count(study.tried)} packages were tried"
    found = [
        f"All {tried.replace(' were tried', '')} that the cost allows were tried"
        if study.exhaustive
        else f"{tried}, from every step and pair of steps outwards along the front"
    ]
    if study.budget is not None:
        found[0] += f", within the budget of {fmt.significant(study.budget)} {unit}"
    elif study.baseline_cost is not None:
        found[0] += ", none that costs more than the GPU itself"
    if study.baseline_cost is not None:
        now = f"{fmt.significant(study.baseline_cost)} {unit}"
        found.append(
            f"Gain of the fleet holds the cost of all GPUs together at what it is: gain x {now} / "
            f"({now} + cost), where {now} is the {study.baseline_source}. Above x1 a package is "
            "better than more GPUs of today"
        )
    else:
        found.append(
            f"No gain of the fleet at equal {study.kind}: {study.baseline_source}"
        )  # fmt: skip
    if study.left_out:
        by_reason: dict[str, list[str]] = {}
        # The reason of the most levers first; a saved file has its keys in alphabetical order.
        for title, why in sorted(study.left_out.items()):
            by_reason.setdefault(why, []).append(title)
        said = "; ".join(
            f"{join_words(titles)} ({why})" for why, titles in _largest_first(by_reason)
        )
        found.append(f"In no package: {said}")
    return tuple(sentence(text) for text in found)


def _largest_first(groups: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def _chart(study: PackageStudy, anchor: str) -> CurveChart:
    points = [
        FrontPoint(
            0.0 if p.cost is None else getattr(p.cost, study.kind).value or 0.0, p.gain,
            f"{package_label(p.steps)}: {fmt.gain(p.gain)}, {_cost(study, p)}",
        )
        for p in study.front
    ]  # fmt: skip
    return front_chart(
        f"{anchor}-chart", f"Best gain at each {study.kind}",
        "Portfolio gain of the best packages over their cost, with the 90 % interval. The dashed "
        "vertical line is the balanced set.",
        axis_label=f"{study.kind} per GPU, {_unit(study)}", points=points, marked=study.balanced,
        mark="balanced set",
    )  # fmt: skip


def _front(recs: Recommendations, study: PackageStudy, anchor: str) -> Table:
    notes = Footnotes()
    columns = [
        Column("Package", wide=True), Column("Note", narrow=True),
        Column("Gain", True, "portfolio gain with its 90 % interval"),
        *costs.columns(study.ranking_cost),
        Column("Gain of the fleet", True, f"at equal {study.kind} of all GPUs, 90 % interval"),
        Column("P(best)", True, "share of the joint draws in which its gain of the fleet is best"),
    ]  # fmt: skip
    rows = [
        [
            Cell(package_label(p.steps)), Cell(_note(study, i)),
            Cell(fmt.gain(p.gain), p.gain.value, tag="strong"),
            *(costs.cells(p.cost, p.gain_per_cost, study.ranking_cost, notes, brief=True)
              if p.steps else [Cell(fmt.DASH)] * 4),
            Cell(_fleet(p), None if p.fleet_gain is None else p.fleet_gain.value),
            Cell(fmt.optional_share(p.p_best), p.p_best),
        ]
        for i, p in enumerate(study.front)
    ]  # fmt: skip
    caption = f"The best packages by {study.kind} against {recs.baseline_title or recs.baseline}"
    return make_table(f"{anchor}-table", caption, columns, rows, notes)


def _note(study: PackageStudy, index: int) -> str:
    words = [
        word for at, word in (
            (study.balanced, "balanced"),
            (study.best, "largest gain" if study.budget is None else "best within the budget"),
        ) if at == index
    ]  # fmt: skip
    return sentence(", ".join(words)).rstrip(".") if words else fmt.DASH


def _marginal(study: PackageStudy, anchor: str, hrefs: dict[str, str]) -> Table:
    unit = _unit(study)
    columns = (
        Column("Lever"), Column("In the set", narrow=True),
        Column("Gain alone", True, "by itself on the baseline"),
        Column("Gain after the others", True, "with it / without it, all others of the set there"),
        Column(f"Adds, {unit}", True), Column(f"Gain, % per {unit}", True, "after the others"),
        Column("Status", narrow=True),
    )  # fmt: skip
    rows = [_marginal_row(m, hrefs) for m in study.marginal]
    label = package_label(study.front[study.marginal_to].steps)
    return make_table(f"{anchor}-marginal", f"What each lever adds last, to {label}", columns, rows)


def _marginal_row(m: MarginalGain, hrefs: dict[str, str]) -> list[Cell]:
    status = STATUS_WORDS[m.status]
    return [
        Cell(m.title, m.title.lower(), href=hrefs.get(m.lever, ""), sub=m.label),
        Cell("yes" if m.inside else "no"), Cell(fmt.gain(m.alone), m.alone.value),
        Cell(fmt.gain(m.last), m.last.value, tag="strong"),
        Cell(fmt.cost_item(m.cost), None if m.cost is None else m.cost.value),
        costs.per_cost(m.cost, m.gain_per_cost),
        Cell(status.label, tag=f"status-{status.tag}"),
    ]  # fmt: skip
