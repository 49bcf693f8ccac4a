"""What not to invest in, and of what nothing can be said: two things, kept apart."""

from __future__ import annotations

from codesign.recommend.schema import LeverResult, Recommendation, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.views import costs
from codesign.report.views.ranking import NEGLIGIBLE_GAIN, head
from codesign.report.views.terms import VERDICT_WORDS

_AGAINST = {"no_effect": "No effect", "refused": "Refused: impossible here"}
_OPEN = {"not_studied": "Not studied", "not_identifiable": "Cannot say: not identifiable"}
_STEP = (
    Column("Largest step studied"),
    Column("Portfolio gain there", True, "speedup with its 90 % interval"),
)


def best_point_gain_hi(lever: LeverResult) -> float | None:
    """The most optimistic gain over all steps, or None without steps."""
    return max((p.gain.hi for p in lever.points), default=None)


def against(lever: LeverResult) -> str:
    """Why not to invest in a lever, in a few words; empty where nothing speaks against it."""
    if lever.status in _AGAINST:
        return _AGAINST[lever.status]
    best = best_point_gain_hi(lever)
    too_small = best is not None and best < NEGLIGIBLE_GAIN and lever.status not in _OPEN
    return "Too small to matter" if too_small else ""


def undecided(lever: LeverResult) -> str:
    """Why nothing can be said for or against a lever; empty where something can."""
    if against(lever):
        return ""
    if lever.status in _OPEN:
        return _OPEN[lever.status]
    if not lever.points:
        return "Not studied"
    if all(p.gain.lo <= 1.0 for p in lever.points):
        return "Gain not certain: interval reaches x1"
    return ""


def advice(recs: Recommendations, rec: Recommendation | None, lever: LeverResult) -> str:
    """The verdict on a lever for the head of its section."""
    words = against(lever) or undecided(lever)
    if words or rec is None or rec.verdict is None:
        return words
    label = VERDICT_WORDS[rec.verdict]
    if lever.contradicted_by:
        return f"Contradicted by {lever.contradicted_by}"
    first = head(recs) or rec
    if rec.verdict in ("strong", "costly") and rec.gain_per_cost and first.gain_per_cost:
        part = fmt.share(rec.gain_per_cost / first.gain_per_cost)
        unit = fmt.cost_unit(recs.ranking_cost)
        text = f"{label}: {part} of the gain per {unit} of the first, {first.headline}"
        bounds = {costs.ranking_item(r.cost, recs.ranking_cost).bound
                  for r in (rec, first) if r.cost is not None}  # fmt: skip
        return text + (", by costs that are bounds" if bounds != {"central"} else "")
    return label


def do_not_invest(recs: Recommendations, hrefs: dict[str, str]) -> Table | None:
    """The table of levers with a verdict against them, or None."""
    columns = (Column("Lever"), Column("Verdict"), *_STEP, Column("Reason", wide=True),
               Column("Measurement that would refute it", wide=True))  # fmt: skip
    rows = [
        [*_head(lever, against(lever), hrefs), *_reason(lever)]
        for lever in recs.levers if against(lever)
    ]  # fmt: skip
    if not rows:
        return None
    return make_table("not-worth-table", "Levers not to invest in, and why", columns, rows)


def no_verdict(recs: Recommendations, hrefs: dict[str, str]) -> Table | None:
    """The table of levers of which nothing can be said, or None."""
    columns = (Column("Lever"), Column("Why"), *_STEP, Column("Reason", wide=True),
               Column("What would tell", wide=True))  # fmt: skip
    rows = [
        [*_head(lever, undecided(lever), hrefs), *_reason(lever)]
        for lever in recs.levers if undecided(lever)
    ]  # fmt: skip
    if not rows:
        return None
    return make_table("no-verdict-table", "Levers without a verdict, and why", columns, rows)


def _head(lever: LeverResult, words: str, hrefs: dict[str, str]) -> list[Cell]:
    last = lever.points[-1] if lever.points and lever.status != "not_studied" else None
    return [
        Cell(lever.title, href=hrefs.get(lever.lever, "")),
        Cell(words, tag="strong"),
        Cell(last.label if last else fmt.DASH),
        Cell(fmt.gain(last.gain), last.gain.value) if last else Cell(fmt.DASH),
    ]


def _reason(lever: LeverResult) -> list[Cell]:
    reason = lever.reason or lever.saturation_note or fmt.DASH
    return [Cell(reason), Cell(lever.refuted_by or fmt.DASH)]
