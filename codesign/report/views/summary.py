"""One page for whoever decides: what to do, gain and cost, how sure, what speaks against it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codesign.recommend.schema import Cost, Recommendation, Recommendations, SoftwareResult
from codesign.recommend.wording import package_label
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import ellipsis, join_words, remark, sentence
from codesign.report.views import odds, ranking, verdicts
from codesign.report.views.terms import STATUS_WORDS, VERDICT_WORDS

HARDWARE, SOFTWARE, DOUBTS = 3, 2, 4
"""Lines of each kind that one page has room for."""
_FIRST_SENTENCE = re.compile(r"(?<=[a-z0-9)%])[.] (?=[A-Z0-9])")
_ROOM = 200


@dataclass(frozen=True)
class SummaryView:
    """The first page, below its headline."""

    actions: Table | None
    doubts: tuple[str, ...]
    """The heads of the warnings that weigh most; all of them stand with the ranked list."""
    doubts_left: str
    not_worth: str
    no_verdict: str
    refuted_by: str


def summary_view(recs: Recommendations, hrefs: dict[str, str]) -> SummaryView:
    """The page of a recommendations file."""
    first = ranking.head(recs)
    heads = [_head(line) for line in _by_weight(recs, first)]
    left = len(heads) - DOUBTS
    return SummaryView(
        _actions(recs, hrefs), tuple(heads[:DOUBTS]),
        f"{left} more, and all of them whole, with the ranked list." if left > 0
        else "All of them whole stand with the ranked list." if heads else "",
        _listed([(x.title, verdicts.against(x)) for x in recs.levers]),
        _listed([(x.title, verdicts.undecided(x)) for x in recs.levers]),
        "" if first is None else sentence(_units(first.refuted_by)),
    )  # fmt: skip


def _by_weight(recs: Recommendations, first: Recommendation | None) -> list[str]:
    """The warnings, those that name the first recommendation before the others."""
    name = "" if first is None else first.headline.lower()
    return sorted(recs.warnings, key=lambda line: not (name and name in line.lower()))


def _head(warning: str) -> str:
    """Its first sentence, cut where it is long."""
    text = ellipsis(_FIRST_SENTENCE.split(_units(warning))[0], _ROOM)
    return text if text.endswith("…") else remark(text)


def _units(text: str) -> str:
    return text.replace("mm2", "mm²")


def _listed(found: list[tuple[str, str]]) -> str:
    """``FP4 throughput (no effect); L2 capacity (too small to matter).``"""
    words = [f"{title} ({why[0].lower()}{why[1:]})" for title, why in found if why]
    return f"{'; '.join(words)}." if words else ""


def _actions(recs: Recommendations, hrefs: dict[str, str]) -> Table | None:
    rows = [
        _hardware(recs, r, hrefs) for r in recs.recommendations
        if r.kind == "hardware" and ranking.worth_it(r)
    ][:HARDWARE]  # fmt: skip
    rows += _package(recs)
    rows += [_software(s) for s in recs.software[:SOFTWARE] if ranking.gains_enough(s.gain)]
    if not rows:
        return None
    columns = (
        Column("What"), Column("Kind", narrow=True),
        Column("Portfolio gain", True, "speedup with its 90 % interval"),
        Column("Cost per GPU", wide=True), Column("How sure", wide=True),
    )  # fmt: skip
    return make_table("actions-table", "What to do", columns, rows)


def _hardware(recs: Recommendations, rec: Recommendation, hrefs: dict[str, str]) -> list[Cell]:
    sure = [STATUS_WORDS[rec.status].label.lower()]
    if rec.verdict:
        sure.insert(0, f"rank {rec.rank}, {VERDICT_WORDS[rec.verdict].lower()}")
    if rec.p_best is not None:
        sure.append(odds.in_draws(recs, rec))
    return [
        Cell(rec.headline, rec.headline.lower(), href=hrefs.get(rec.lever, ""), sub=rec.label),
        Cell("hardware"), Cell(fmt.gain(rec.gain), rec.gain.value, tag="strong"),
        Cell(_cost(rec.cost)), Cell("; ".join(sure)),
    ]  # fmt: skip


def _package(recs: Recommendations) -> list[list[Cell]]:
    study = recs.packages[0] if recs.packages else None
    if study is None or study.balanced is None or not study.front[study.balanced].steps:
        return []
    chosen = study.front[study.balanced]
    sure = ""
    if chosen.p_best is not None:
        # No package holds a lever that is not identified.
        among = f"the {fmt.count(len(study.front))} packages of identified levers"
        sure = f"best of {among} in {fmt.share(chosen.p_best)} of draws"
    if chosen.fleet_gain is not None:
        sure += f"{'; ' if sure else ''}{fmt.gain(chosen.fleet_gain)} at equal {study.kind}"
    return [[
        Cell("The balanced set", href="#packages", sub=package_label(chosen.steps)),
        Cell("hardware"), Cell(fmt.gain(chosen.gain), chosen.gain.value, tag="strong"),
        Cell(_cost(chosen.cost)), Cell(sure or fmt.DASH),
    ]]  # fmt: skip


def _software(result: SoftwareResult) -> list[Cell]:
    return [
        Cell(result.title, result.title.lower(), href="#software"), Cell("software"),
        Cell(fmt.gain(result.gain), result.gain.value, tag="strong"),
        Cell(f"no silicon; {result.effort} effort"), Cell(f"{result.confidence} confidence"),
    ]  # fmt: skip


def _cost(cost: Cost | None) -> str:
    """Every known kind of cost on one line, bounds marked."""
    items = [] if cost is None else [cost.area, cost.power, cost.money]
    known = [fmt.cost_item(i) for i in items if i.value is not None]
    if not known:
        return "no source gives it"
    missing = [kind for kind, i in zip(("area", "power", "money"), items, strict=True)
               if i.value is None]  # fmt: skip
    text = ", ".join(known)
    text += f" (no source for {join_words(missing)})" if missing else ""
    return text + ("; needs another die" if cost is not None and cost.note else "")
