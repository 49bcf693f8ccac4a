"""Ranks under the weights of each scenario of the portfolio."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.recommend.change_records import Scenario, ScenarioRank
from codesign.recommend.schema import Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import join_words
from codesign.report.views.terms import VERDICT_WORDS

_SILENT = ("open", "none")
"""Verdicts on levers of whose gain nothing is said."""


@dataclass(frozen=True)
class ScenariosView:
    """The section."""

    summary: str
    ranks: Table
    weights: Table


def scenarios_view(recs: Recommendations, hrefs: dict[str, str]) -> ScenariosView | None:
    """The section, or None of a portfolio without scenarios."""
    if not recs.scenarios or not recs.scenarios[0].ranks:
        return None
    return ScenariosView(
        _summary(recs.scenarios), _ranks(recs.scenarios, hrefs), _weights(recs)
    )  # fmt: skip


def _summary(found: tuple[Scenario, ...]) -> str:
    firsts: dict[str, list[str]] = {}
    for s in found:
        firsts.setdefault(s.ranks[0].title, []).append(s.name)
    if len(firsts) == 1:
        return f"{next(iter(firsts))} is first under all {len(found)} sets of weights."
    said = "; ".join(f"{title} under {join_words(names)}" for title, names in firsts.items())
    return f"First is {said}."


def _ranks(found: tuple[Scenario, ...], hrefs: dict[str, str]) -> Table:
    columns = [Column("Lever")]
    for s in found:
        columns += [Column(f"Rank: {s.name}", True), Column(f"Gain: {s.name}", True),
                    Column(f"Verdict: {s.name}", narrow=True)]  # fmt: skip
    by_lever = [{r.lever: r for r in s.ranks} for s in found]
    rows = []
    for first in found[0].ranks:
        row = [Cell(first.title, first.title.lower(), href=hrefs.get(first.lever, ""))]
        for ranks in by_lever:
            row += _cells(ranks[first.lever])
        rows.append(row)
    return make_table("scenarios-ranks", "Rank and gain by scenario", columns, rows)


def _cells(rank: ScenarioRank) -> list[Cell]:
    silent = rank.verdict in _SILENT and rank.gain.lo == rank.gain.hi == 1.0
    step = rank.label.partition(":")[0]
    return [
        Cell(str(rank.rank), rank.rank),
        Cell(fmt.DASH) if silent else Cell(fmt.gain(rank.gain), rank.gain.value),
        Cell(f"{VERDICT_WORDS.get(rank.verdict, rank.verdict)}, {step}"),
    ]


def _weights(recs: Recommendations) -> Table:
    # In the order of the portfolio: in a file that was saved, keys stand in alphabetical order.
    titles = {w.name: w.title or w.name for w in recs.workloads}
    known = recs.scenarios[0].weights
    names = [*(name for name in titles if name in known), *sorted(known.keys() - titles.keys())]
    columns = [Column("Workload"), *(Column(s.name, True) for s in recs.scenarios)]
    rows = [
        [Cell(titles.get(name, name)),
         *(Cell(fmt.share(s.weights[name]), s.weights[name]) for s in recs.scenarios)]
        for name in names
    ]  # fmt: skip
    caption = "Shares of GPU-hours by scenario"
    return make_table("scenarios-weights", caption, columns, rows)
