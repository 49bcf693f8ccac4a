"""How firm the ranking is: ranks under other weights, costs, models, and what moves the first."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.recommend.schema import RankSpread, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table

_SAME = "No single change that was tried, of {n}, moves the first place."


@dataclass(frozen=True)
class SensitivityView:
    """The section."""

    intro: str
    ranks: Table
    moved_intro: str
    moved: Table | None


def sensitivity_view(recs: Recommendations, hrefs: dict[str, str]) -> SensitivityView | None:
    """The section, or None where fewer than two levers compete."""
    if not recs.rank_sensitivity:
        return None
    draws = fmt.count(recs.provenance.draws)
    intro = (
        f"Ranks in nine of ten of {draws} draws, and how often a lever is first: of the weights, "
        "each from a half to twice itself; of the cost values, each over the range that its "
        "sources leave open; of the model; and of all three together. Steps and groups stay as "
        "chosen. P(best) of the ranked list draws model and costs together, at the weights as they "
        "are, and counts only levers that measurements identify."
    )
    tried = fmt.count(recs.first_changes_tried)
    said = (
        f"Of {tried} single changes (each weight gone, doubled, or the whole; each cost value at "
        "either end of its range) these put another lever first."
    )
    return SensitivityView(
        intro, _ranks(recs, hrefs),
        said if recs.first_moved else _SAME.format(n=tried), _moved(recs, hrefs),
    )  # fmt: skip


def _ranks(recs: Recommendations, hrefs: dict[str, str]) -> Table:
    titles = {lever.lever: lever.title for lever in recs.levers}
    columns = (
        Column("Rank", True), Column("Lever"), Column("Other weights"), Column("Other costs"),
        Column("Model", hint="over what the fitted model leaves open"), Column("Together"),
    )  # fmt: skip
    rows = [
        [
            Cell(str(s.rank), s.rank),
            Cell(titles.get(s.lever, s.lever), href=hrefs.get(s.lever, "")),
            *(_spread(x) for x in (s.weights, s.costs, s.model, s.together)),
        ]
        for s in recs.rank_sensitivity
    ]  # fmt: skip
    return make_table(
        "sensitivity-table", "Ranks when what went in varies", columns, rows, row_header=1
    )


def _spread(spread: RankSpread) -> Cell:
    ranks = str(spread.lo) if spread.lo == spread.hi else f"{spread.lo} to {spread.hi}"
    first = f", first in {fmt.share(spread.first)}" if spread.first else ""
    return Cell(f"{ranks}{first}", float(spread.lo + spread.hi))


def _moved(recs: Recommendations, hrefs: dict[str, str]) -> Table | None:
    if not recs.first_moved:
        return None
    columns = (Column("Change", wide=True), Column("Of", narrow=True), Column("First is then"))
    rows = [
        [Cell(m.change), Cell(m.kind), Cell(m.title, href=hrefs.get(m.lever, ""))]
        for m in recs.first_moved
    ]
    return make_table("first-moved-table", "What moves the first place", columns, rows)
