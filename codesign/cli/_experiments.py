"""`codesign backtest --experiments`: what is printed, and what fails a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codesign._common.errors import CheckFailedError
from codesign._common.text import counted
from codesign.cli._common import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from codesign._common.scores import Backtest, ExperimentRow, LeverOrderRow
    from codesign.cli.backtest import Condition

LEVER_ORDER = "lever-order"
"""Name that asks for the order of levers, beside those of experiments."""
FRAMEWORK = "trtllm"
"""Whose kernels the experiments are made of."""


def run(names: tuple[str, ...], quiet: bool, models: Path | None = None) -> Backtest:
    """Every experiment, or ``names`` of them; raises UsageError for an unknown one.

    ``models`` is the folder where fitted models are kept.
    """
    from codesign._common.scores import Backtest
    from codesign.projection.experiments import experiment_rows, load_experiments
    from codesign.projection.experiments.order import HOLD_OUT, lever_orders
    from codesign.projection.experiments.run import (
        CachedTables,
        fit_on,
        training_gpus,
        training_sets,
    )
    from codesign.projection.held_out import HeldOut
    from codesign.sources.perfdb import PerfDB

    wanted = tuple(n for n in names if n != LEVER_ORDER)
    ordering = not names or LEVER_ORDER in names
    experiments = load_experiments(wanted) if wanted or not names else ()
    db = CachedTables(PerfDB())
    order_gpus = training_gpus(db, HOLD_OUT)
    needed = {*training_sets(db, experiments), *([order_gpus] if ordering else [])}
    with Progress("experiments", quiet) as progress:
        held_out = HeldOut(db, models, stage=progress.stage, fitter=fit_on)
        held_out.total = len(needed)

        def fitter(_: Any, gpus: tuple[str, ...]) -> Any:
            return held_out.model(gpus)

        rows = experiment_rows(db, experiments, fitter=fitter, note=progress.say)
        orders: tuple[LeverOrderRow, ...] = ()
        if ordering:
            orders = lever_orders(db, held_out.model(order_gpus), note=progress.say)
    text = "natural experiments, each projected by a model fitted without the GPUs held out"
    return Backtest(experiments=rows, lever_order=orders, protocol=text)


def unseen(
    db: Any, held_out: Any, fitted: Sequence[tuple[str, ...]], note: Callable[[str], None]
) -> Backtest:
    """Experiments, and the order of levers, for which a model fitted on one of the sets of GPUs
    ``fitted`` is the one to ask. Published ratios, which need no model, are among them.
    """
    from codesign._common.scores import Backtest
    from codesign.projection.experiments import experiment_rows, load_experiments
    from codesign.projection.experiments.order import HOLD_OUT, lever_orders
    from codesign.projection.experiments.run import CachedTables, training_gpus, training_sets

    tables = CachedTables(db)
    some = [e for e in load_experiments() if set(training_sets(db, [e])) <= set(fitted)]
    rows = experiment_rows(tables, some, fitter=lambda _, gpus: held_out.model(gpus), note=note)
    orders: tuple[LeverOrderRow, ...] = ()
    if training_gpus(db, HOLD_OUT) in fitted:
        orders = lever_orders(tables, held_out.model(training_gpus(db, HOLD_OUT)), note=note)
    return Backtest(experiments=rows, lever_order=orders)


def lines(result: Backtest) -> list[str]:
    """The table of experiments, its confounders, and the order of levers."""
    found: list[str] = []
    if result.experiments:
        found += [*_table([HEADS, *(cells(r) for r in result.experiments)]), ""]
    found += map(order_line, result.lever_order)
    return [*found, *summary(result)]


def summary(result: Backtest) -> list[str]:
    """How many experiments and orders came out as measured."""
    found: list[str] = []
    if result.experiments:
        found += [_summary(result.experiments)]
    if result.lever_order:
        decided = [r for r in result.lever_order if r.agrees is not None]
        good = sum(bool(r.agrees) for r in decided)
        found.append(
            f"order of levers: {good} of {len(decided)} workloads as shipped parts show it; "
            f"{len(result.lever_order) - len(decided)} without a pair that the parts decide"
        )
    return found


HEADS = ("experiment", "lever", "n", "measured", "projected", "90 % interval", "inside?",
          "confounders")  # fmt: skip


def cells(row: ExperimentRow) -> tuple[str, ...]:
    """A row of the table of experiments, under `HEADS`."""
    p = row.projected
    verdict = "-" if row.inside is None else "yes" if row.inside else "NO"
    notes = [*row.confounders, *([f"not projected: {row.why_not}"] if row.why_not else [])]
    if row.agrees is False:
        notes.insert(0, f"the record states x{row.stated:g}")
    return (
        row.name, row.lever + (" (control)" if row.role == "control" else ""),
        "-" if row.n is None else str(row.n), _times(row.measured), "-" if p is None else
        _times(p.value), "-" if p is None else f"{_times(p.lo)} to {_times(p.hi)}", verdict,
        "; ".join(notes) or "-",
    )  # fmt: skip


def _times(value: float) -> str:
    # Three decimals, as in the report: with two, a ratio just outside its interval reads as inside.
    return f"x{value:.3g}" if value >= 10 else f"x{value:.3f}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if 2 <= i <= 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _summary(rows: Sequence[ExperimentRow]) -> str:
    scored = [r for r in rows if r.inside is not None]
    inside = sum(bool(r.inside) for r in scored)
    checked = [r for r in rows if r.agrees is not None]
    said = []
    if scored:
        said.append(f"{inside} of {counted(len(scored), 'projected ratio')} with the measured one "
                    "inside the 90 % interval")  # fmt: skip
    if len(rows) > len(scored):
        said.append(f"{len(rows) - len(scored)} not projected")
    if checked:
        said.append(f"{sum(map(_agrees, checked))} of {counted(len(checked), 'stated ratio')} as "
                    "the kernel tables give it")  # fmt: skip
    return "; ".join(said)


def _agrees(row: ExperimentRow) -> bool:
    return row.agrees is True


def order_line(row: LeverOrderRow) -> str:
    """A workload's levers by what was measured, and whether the projection has them so."""
    from codesign._common.scores import Z_90
    from codesign.projection.experiments.order import told_apart

    text = ""
    for i, e in enumerate(row.levers):
        # Neighbours that the parts do not tell apart may come in either order in a projection.
        text += "" if i == 0 else " > " if told_apart(row.levers[i - 1], e) else " ~ "
        text += f"{e.lever} {e.measured:+.2f} ± {Z_90 * e.measured_sd:.2f}"
        text += f" (projected {e.projected:+.2f})"
    words = {True: "as measured where told apart", False: "REVERSED", None: "undecided"}
    wrong = "".join(f"; {a} before {b}" for a, b in row.reversed)
    return f"{row.workload}: {text}: {words[row.agrees]}{wrong} ({row.note})"


def check(result: Backtest, conditions: Sequence[Condition] = ()) -> None:
    """Raise CheckFailedError (exit code 5) where a record states another ratio than the tables
    give, or a condition holds: ``missed`` and ``reversed`` count rows that have all its words.
    """
    wrong = [r for r in result.experiments if r.agrees is False]
    if wrong:
        r = wrong[0]
        raise CheckFailedError(
            f"{counted(len(wrong), 'record')} with a ratio that the kernel tables do not give; "
            f"first: "
            f"{r.name}: states x{r.stated:g}, tables give x{r.measured:.3f}; correct its "
            "measured.ratio"
        )
    for condition in conditions:
        found = _failing(result, condition.metric, set(condition.words))
        if condition.holds(len(found)):
            first = f"; first: {found[0]}" if found else ""
            raise CheckFailedError(
                f"{condition.metric} = {len(found)} {condition.sign} {condition.limit:g}{first}"
            )


def _failing(result: Backtest, metric: str, words: set[str]) -> list[str]:
    if metric == "reversed":
        return [r.workload for r in result.lever_order if r.reversed and words <= {r.workload}]
    return [
        r.name
        for r in result.experiments
        if r.inside is False and words <= {r.name, r.lever, r.role, r.measured_by}
    ]
