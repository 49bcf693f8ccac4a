"""What not to invest in: as valuable as what to invest in."""

from __future__ import annotations

from codesign.recommend.schema import LeverResult, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.views.ranking import NEGLIGIBLE_GAIN

_VERDICTS = {
    "no_effect": "No effect",
    "not_identifiable": "Cannot say: not identifiable",
    "refused": "Refused: impossible here",
}
_COLUMNS = (
    Column("Lever"),
    Column("Verdict"),
    Column("Largest step studied"),
    Column("Portfolio gain there", True, "speedup with its 90 % interval"),
    Column("Reason", wide=True),
    Column("Measurement that would refute it", wide=True),
)


def best_point_gain_hi(lever: LeverResult) -> float | None:
    """The most optimistic gain over all steps, or None without steps."""
    return max((p.gain.hi for p in lever.points), default=None)


def verdict(lever: LeverResult) -> str | None:
    """Why not to invest in a lever, in a few words; None where it is worth looking at."""
    if lever.status in _VERDICTS:
        return _VERDICTS[lever.status]
    best = best_point_gain_hi(lever)
    if best is None:
        return "Not studied"
    if best < NEGLIGIBLE_GAIN:
        return "Too small to matter"
    if all(p.gain.lo <= 1.0 for p in lever.points):
        return "Gain not certain: interval reaches x1.00"
    return None


def do_not_invest(recs: Recommendations, hrefs: dict[str, str]) -> Table | None:
    """The table of levers with a verdict against them, or None."""
    rows = []
    for lever in recs.levers:
        words = verdict(lever)
        if words is None:
            continue
        last = lever.points[-1] if lever.points else None
        rows.append(
            [
                Cell(lever.title, href=hrefs.get(lever.lever, "")),
                Cell(words, tag="strong"),
                Cell(last.label if last else fmt.DASH),
                Cell(fmt.gain(last.gain), last.gain.value) if last else Cell(fmt.DASH),
                Cell(lever.reason or lever.saturation_note or fmt.DASH),
                Cell(lever.refuted_by or fmt.DASH),
            ]
        )
    if not rows:
        return None
    return make_table("not-worth-table", "Levers not to invest in, and why", _COLUMNS, rows)
