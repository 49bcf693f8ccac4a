"""`codesign backtest`: scores on GPUs that the model has not seen, and a check on them."""

from __future__ import annotations

import operator
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from codesign._common.errors import CheckFailedError, UsageError
from codesign._common.text import counted, printable
from codesign.cli._common import (
    FRAMEWORKS,
    Progress,
    check_overwrite,
    force_option,
    quiet_option,
    wrote,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codesign._common.scores import Backtest, BacktestRow, WorkloadBacktestRow

PROTOCOLS = ("time-ordered", "leave-one-gpu-out", "quick")
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CONDITION = re.compile(r"\s*([a-z_0-9]+)\s*(>=|<=|>|<)\s*([0-9.]+)\s*(?:@\s*(.+?)\s*)?")
EXPERIMENT_METRICS = ("missed", "reversed")
"""Experiments outside their interval; workloads whose levers are in another order."""
_METRICS = ("median_ape", "mape", "p90_ape", "bias", "coverage_90")


@click.command("backtest")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Path(path_type=Path),
              help="Scores (JSON) to write; may be left out with --experiments.")  # fmt: skip
@click.option("--protocol", type=click.Choice(PROTOCOLS), default="time-ordered",
              show_default=True, help="Which GPUs train and which are scored.")  # fmt: skip
@click.option("--quick", is_flag=True,
              help="One fit, two targets, 400 rows a group: one to two minutes.")  # fmt: skip
@click.option("--framework", default="trtllm", show_default=True,
              type=click.Choice(FRAMEWORKS),
              help="Whose kernels.")  # fmt: skip
@click.option("--rows", type=click.IntRange(min=1),
              help="Rows scored of a group and target; default 4000, quick 400.")  # fmt: skip
@click.option("--all-rows", is_flag=True, help="Score whole tables.")
@click.option("--experiments", is_flag=True,
              help="Instead: natural experiments, all or by NAME, beside what a model that has "
                   "not seen them projects; and the order of levers (lever-order). Two fits: "
                   "five to ten minutes, half without them (--models).")  # fmt: skip
@click.option("--models", type=click.Path(path_type=Path), metavar="DIR",
              help="Keep fitted models in this folder: another run reads them again, unless code, "
                   "tables or specifications behind them have changed.")  # fmt: skip
@click.option("--ops-only", is_flag=True, help="Leave the workload-level backtest out.")
@click.option("--fail-on", multiple=True, metavar="CONDITION",
              help="Exit 5 if a score meets it, such as 'mape>0.2' or "
                   "'median_ape>0.05@gemm bf16'; of experiments 'missed>0@hbm_bandwidth' or "
                   "'reversed>0'. May be repeated.")  # fmt: skip
@quiet_option
@force_option
def command(
    names: tuple[str, ...],
    output: Path | None,
    experiments: bool,
    models: Path | None,
    protocol: str,
    quick: bool,
    framework: str,
    rows: int | None,
    all_rows: bool,
    ops_only: bool,
    fail_on: tuple[str, ...],
    quiet: bool,
    force: bool,
) -> None:
    """Fit without some GPUs, and score the projections on what those GPUs measured.

    Each fit takes about a minute and is announced: one for --quick, three for time-ordered,
    nine for leave-one-gpu-out, two for --experiments. --models DIR keeps them. Natural
    experiments that the fits have not seen are scored, too.

    \b
    Example, every protocol's rule being that a target is never trained on:
      codesign backtest -o backtest.json --protocol time-ordered
      codesign backtest -o backtest.json --quick --fail-on 'mape>0.5@gemm'
      codesign backtest --experiments h200-stream-triad lever-order
    """
    known = EXPERIMENT_METRICS if experiments else _METRICS
    conditions = [_condition(text, known) for text in fail_on]
    if experiments:
        _refuse_unused()
        _experiments(names, output, conditions, force, quiet, models)
        return
    if names:
        raise UsageError(f"{names[0]}: only --experiments takes names; add it, or drop the name")
    if output is None:
        raise UsageError("-o is missing; expected the name of a file, such as backtest.json")
    if all_rows and rows is not None:
        raise UsageError("--all-rows and --rows exclude each other; give one of them")
    check_overwrite([output], force, suffix=".json")
    name = "quick" if quick else protocol
    result = _scored(name, framework, None if all_rows else rows or _rows_of(name), models,
                     ops_only, quiet)  # fmt: skip
    from codesign._common.files import write_text

    write_text(output, _json(result))
    if not quiet:
        from codesign.cli import _experiments as asked

        for line in [result.protocol, *op_lines(result.ops), *workload_lines(result.workloads),
                     *asked.summary(result)]:  # fmt: skip
            click.echo(line)
    wrote(output, quiet)
    failed = [f for c in conditions for f in c.failures(result.ops)]
    if failed:
        raise CheckFailedError(
            f"{counted(len(failed), 'score')} failed a check; first: {failed[0]}"
        )


def _rows_of(protocol: str) -> int:
    from codesign.sensitivity import backtest as scoring

    return scoring.QUICK_ROWS if protocol == "quick" else scoring.FULL_ROWS


def _scored(
    name: str, framework: str, most: int | None, models: Path | None, ops_only: bool, quiet: bool
) -> Backtest:
    """All scores of a protocol: ops, workloads, and the experiments that its fits have not seen."""
    import msgspec

    from codesign._common.scores import Backtest
    from codesign.cli import _experiments as asked
    from codesign.projection.held_out import HeldOut
    from codesign.sensitivity import backtest as scoring
    from codesign.sensitivity.backtest_rows import RowCache
    from codesign.sources.perfdb import PerfDB

    db = PerfDB()
    cached = RowCache(db)
    protocol = scoring.protocols(db.gpus())[name]
    ops: list[BacktestRow] = []
    workloads: list[WorkloadBacktestRow] = []
    tested = Backtest()
    with Progress(f"backtest {name}", quiet) as progress:
        held_out = HeldOut(cached, models, tables=db, stage=progress.stage)
        held_out.total = len(protocol.splits)
        for split in protocol.splits:
            model = held_out.model(split.train, framework)
            ops += scoring.score_split(cached, model, split, framework, most, note=progress.say)
            if not ops_only:
                workloads += _workloads(db, model, split.targets, framework, progress.say)
        if not ops_only and framework == asked.FRAMEWORK:
            tested = asked.unseen(db, held_out, [s.train for s in protocol.splits], progress.say)
    amount = "whole tables" if most is None else f"at most {most} rows a group"
    return msgspec.structs.replace(
        tested, ops=tuple(ops), workloads=tuple(workloads),
        protocol=f"{name}: {protocol.text}; {framework}, {amount}",
    )  # fmt: skip


def _refuse_unused() -> None:
    """Options that choose op scores say nothing of experiments."""
    context = click.get_current_context()
    for name in ("protocol", "quick", "framework", "rows", "all_rows", "ops_only"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} has no effect with --experiments; drop one of them")


def _experiments(
    names: tuple[str, ...], output: Path | None, conditions: Sequence[Condition], force: bool,
    quiet: bool, models: Path | None,
) -> None:  # fmt: skip
    """Print the table (asked for, so ``quiet`` keeps it where no file is written) and check it."""
    from codesign._common.files import write_text
    from codesign.cli import _experiments as asked

    if output is not None:
        check_overwrite([output], force, suffix=".json")
    result = asked.run(names, quiet, models)
    if output is not None:
        write_text(output, _json(result))
    if output is None or not quiet:
        for line in asked.lines(result):
            click.echo(printable(line))
    if output is not None:
        wrote(output, quiet)
    asked.check(result, conditions)


class Condition:
    """``METRIC OP NUMBER [@ WORDS]``: met by rows that hold every one of the words."""

    def __init__(self, metric: str, sign: str, limit: float, words: tuple[str, ...]) -> None:
        self.metric, self.sign, self.limit, self.words = metric, sign, limit, words

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets it."""
        return bool(_COMPARE[self.sign](value, self.limit))

    def failures(self, rows: Sequence[BacktestRow]) -> list[str]:
        """One line for every row that meets the condition; ``bias`` counts without sign."""
        found = []
        for row in rows:
            label = _label(row)
            value = float(getattr(row, self.metric))
            value = abs(value) if self.metric == "bias" else value
            if set(self.words) <= set(label.split()) and self.holds(value):
                found.append(f"{label}: {self.metric} = {value:.3g} {self.sign} {self.limit:g}")
        return found


def _condition(text: str, metrics: tuple[str, ...] = _METRICS) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None or match[1] not in metrics:
        raise UsageError(
            f"--fail-on {text!r}: expected METRIC>NUMBER or METRIC<NUMBER, then @WORDS to choose "
            f"rows; metrics: {', '.join(metrics)}"
        )
    try:
        limit = float(match[3])
    except ValueError as error:
        raise UsageError(f"--fail-on {text!r}: {match[3]} is not a number") from error
    return Condition(match[1], match[2], limit, tuple((match[4] or "").split()))


def _workloads(
    db: Any, model: Any, targets: tuple[str, ...], framework: str, note: Callable[[str], None]
) -> list[WorkloadBacktestRow]:
    """Whole workloads projected onto ``targets`` by a model that has not seen them."""
    from codesign.hardware import load_system
    from codesign.projection.backtest import DEFAULT_PAIRS, workload_backtest

    pairs = [p for p in DEFAULT_PAIRS if load_system(p[1]).gpu.name in targets]
    note("score whole workloads")
    if not pairs:
        return []
    return list(workload_backtest(db, model, pairs, note=note, framework=framework))


def _json(result: Backtest) -> str:
    import msgspec

    encoded = msgspec.json.format(msgspec.json.encode(result), indent=1)
    return encoded.decode("utf-8") + "\n"


def _label(row: BacktestRow) -> str:
    source = f"from {row.source}" if row.source else ""
    return " ".join(f"{row.op_class} {row.precision} {row.target} {row.tier} {source}".split())


def op_lines(rows: Sequence[BacktestRow]) -> list[str]:
    """A table of the op scores, in per cent, the baselines beside them."""
    heads = ("op class", "precision", "target", "tier", "from", "n", "med", "mape", "p90", "bias",
             "cover", "roofline", "4-param", "ratio")  # fmt: skip
    table = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(width) if i < 5 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]


def _cells(row: BacktestRow) -> tuple[str, ...]:
    def percent(value: float | None, sign: str = "") -> str:
        return "-" if value is None else f"{100 * value:{sign}.1f}"

    return (
        row.op_class, row.precision or "-", row.target, row.tier, row.source or "-", str(row.n),
        percent(row.median_ape), percent(row.mape), percent(row.p90_ape), percent(row.bias, "+"),
        f"{100 * row.coverage_90:.0f}", percent(row.roofline_median_ape),
        percent(row.fitted_roofline_median_ape), percent(row.ratio_median_ape),
    )  # fmt: skip


def workload_lines(rows: Sequence[WorkloadBacktestRow]) -> list[str]:
    """One line a workload: measured and projected gain, error."""
    return [
        f"{r.workload}: {r.source} -> {r.target}: measured x{r.measured_gain:.2f}, projected "
        f"x{r.projected_gain.value:.2f} [{r.projected_gain.lo:.2f}, {r.projected_gain.hi:.2f}], "
        f"error {100 * r.error:+.1f} %"
        for r in rows
    ]
