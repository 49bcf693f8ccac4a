"""Natural experiments: a lever moved, someone measured it, and the model said what of it."""

from __future__ import annotations

from codesign.recommend.contradiction import moved_beside
from codesign.recommend.schema import Backtest
from codesign.recommend.wording import readable
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import join_words


def experiment_table(backtest: Backtest) -> Table | None:
    """Every experiment with what was measured and what was projected, controls too."""
    if not backtest.experiments:
        return None
    columns = (
        Column("Experiment", wide=True), Column("Lever"), Column("Role", narrow=True),
        Column("From"), Column("To"), Column("Measured gain", True, "time before / time after"),
        Column("Range", True), Column("n", True), Column("Measured by"),
        Column("Projected gain", True, "with its 90 % interval"), Column("Inside 90 %?"),
        Column("What else moved, or why nothing was projected", wide=True),
    )  # fmt: skip
    rows = [
        [Cell(e.title or e.name), Cell(readable(e.lever)), Cell(e.role), Cell(e.before),
         Cell(e.after), Cell(fmt.speedup(e.measured), e.measured),
         Cell(fmt.DASH) if e.measured_lo is None or e.measured_hi is None
         else Cell(f"{fmt.speedup(e.measured_lo)} to {fmt.speedup(e.measured_hi)}", e.measured_lo),
         Cell(fmt.DASH if e.n is None else fmt.count(e.n), e.n), Cell(e.measured_by),
         Cell(fmt.DASH) if e.projected is None
         else Cell(fmt.gain(e.projected), e.projected.value),
         Cell(fmt.DASH) if e.inside is None
         else Cell("yes") if e.inside else Cell("no: missed", tag="miss"),
         Cell(readable("; ".join(part for part in (e.why_not, *moved_beside(e), *e.confounders)
                                 if part)) or fmt.DASH)]
        for e in backtest.experiments
    ]  # fmt: skip
    return make_table("backtest-experiments", "Natural experiments: projected against measured",
                      columns, rows)  # fmt: skip


def order_table(backtest: Backtest) -> Table | None:
    """Whether the levers of a workload stand in the order that shipped parts show."""
    if not backtest.lever_order:
        return None
    columns = (
        Column("Workload"), Column("System"),
        Column("Levers, largest measured effect first", wide=True), Column("Pairs decided", True),
        Column("In the measured order?", wide=True),
    )  # fmt: skip
    rows = [
        [Cell(r.workload), Cell(r.system),
         Cell("; ".join(f"{readable(e.lever)} {fmt.significant(e.measured)} measured, "
                        f"{fmt.significant(e.projected)} projected" for e in r.levers)),
         Cell(fmt.count(r.decided), r.decided), _order(r.agrees, r.reversed, r.note)]
        for r in backtest.lever_order
    ]  # fmt: skip
    return make_table("backtest-lever-order", "Order of levers: projected against shipped parts",
                      columns, rows)  # fmt: skip


def _order(agrees: bool | None, wrong: tuple[tuple[str, str], ...], note: str) -> Cell:
    if agrees is None:
        return Cell(f"cannot tell{': ' if note else ''}{note}")
    if agrees:
        return Cell("yes")
    pairs = [f"{readable(small)} before {readable(large)}" for large, small in wrong]
    return Cell(f"no: projected {join_words(pairs)}", tag="miss")


def summary(backtest: Backtest) -> tuple[str, ...]:
    """Sentences on both, misses counted in the open."""
    lines = []
    tried = [e for e in backtest.experiments if e.inside is not None]
    if tried:
        hits = sum(bool(e.inside) for e in tried)
        left = len(backtest.experiments) - len(tried)
        rest = f"; {left} more could not be projected" if left else ""
        lines.append(
            f"Natural experiments, each with what else moved in it: {hits} of {len(tried)} "
            f"measured ratios lie inside the projected 90 % interval{rest}."
        )
    decided = [r for r in backtest.lever_order if r.agrees is not None]
    if decided:
        good = sum(bool(r.agrees) for r in decided)
        lines.append(
            f"Order of levers: {good} of {len(decided)} workloads have their levers in the order "
            "that shipped parts show."
        )
    return tuple(lines)
