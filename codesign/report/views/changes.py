"""What changed against an older file: causes, ranks stage by stage, and gains."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codesign.recommend.change_records import Changes, LeverChange
from codesign.recommend.schema import Interval, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import remark, sentence


@dataclass(frozen=True)
class ChangesView:
    """The section."""

    summary: str
    intro: str
    causes: Table | None
    ranks: Table
    gains: Table | None
    notes: tuple[str, ...]


def changes_view(recs: Recommendations, hrefs: dict[str, str]) -> ChangesView | None:
    """The section, or None of a file that was compared with none."""
    found = recs.changes
    if found is None:
        return None
    against = found.old or "an older file"
    stages = (
        f" Between them the changes go in one after another: {', '.join(found.stages)}."
        if len(found.stages) > 1 else ""
    )  # fmt: skip
    intro = (
        f"Against {against}, made {found.old_made}"
        f"{f' (sha256 {found.old_sha256[:12]})' if found.old_sha256 else ''}.{stages} A rank after "
        "a stage is that of the list made with its changes in and those of later stages still out."
    )
    return ChangesView(
        found.summary.replace("mm2", "mm²"), intro, _causes(found), _ranks(found, hrefs),
        _gains(found, hrefs), tuple(remark(n) for n in found.notes),
    )  # fmt: skip


def _causes(found: Changes) -> Table | None:
    if not found.causes:
        return None
    columns = (Column("Changed"), Column("What differs", wide=True),
               Column("How its effect was told", wide=True))  # fmt: skip
    rows = [[Cell(c.name), Cell("; ".join(c.what).replace("mm2", "mm²")), Cell(sentence(c.how))]
            for c in found.causes]  # fmt: skip
    return make_table("changes-causes", "What went in and has changed", columns, rows)


def _ranks(found: Changes, hrefs: dict[str, str]) -> Table:
    # After the last stage stands the list of now.
    stages = found.stages[:-1]
    columns = [
        Column("Lever"), Column("Rank before", True),
        *(Column(f"After {stage}", True) for stage in stages), Column("Rank now", True),
        Column("Step before"), Column("Step now"), Column("Gain before", True),
        Column("Gain now", True),
    ]  # fmt: skip
    rows = [
        [
            Cell(x.title, x.title.lower(), href=hrefs.get(x.lever, "")), _rank(x.rank_before),
            *(_rank(x.ranks.get(stage)) for stage in stages),
            _rank(x.rank_after, "strong" if x.rank_after != x.rank_before else ""),
            Cell(x.label_before or fmt.DASH), Cell(x.label_after or fmt.DASH),
            _gain(x.gain_before), _gain(x.gain_after),
        ]
        for x in found.levers
    ]  # fmt: skip
    return make_table("changes-ranks", "Ranks, then and now", columns, rows)


def _gains(found: Changes, hrefs: dict[str, str]) -> Table | None:
    shown = [x for x in found.levers if x.factor is not None and x.gains]
    if not shown:
        return None
    columns = [
        Column("Lever"), Column("At the step", True),
        *(Column(f"By {stage}", True, "its gain is multiplied by this") for stage in found.stages),
        Column("In all", True, "gain now / gain before"),
    ]  # fmt: skip
    rows = [_gain_row(x, found.stages, hrefs) for x in shown]
    caption = "What each stage multiplies the gain at one step by"
    return make_table("changes-gains", caption, columns, rows)


def _gain_row(x: LeverChange, stages: tuple[str, ...], hrefs: dict[str, str]) -> list[Cell]:
    whole = math.prod(x.gains.values())
    return [
        Cell(x.title, x.title.lower(), href=hrefs.get(x.lever, "")),
        Cell(fmt.DASH if x.factor is None else fmt.factor(x.factor), x.factor),
        *(Cell(fmt.speedup(x.gains[s]), x.gains[s]) for s in stages),
        Cell(fmt.speedup(whole), whole, tag="strong"),
    ]


def _rank(rank: int | None, tag: str = "") -> Cell:
    return Cell(fmt.DASH if rank is None else str(rank), rank, tag=tag)


def _gain(gain: Interval | None) -> Cell:
    return Cell(fmt.DASH) if gain is None else Cell(fmt.gain(gain), gain.value)
