"""`codesign characterize`: compose a recipe from measured kernels, or read traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.text import printable
from codesign.cli._common import (
    InputPath,
    Progress,
    check_overwrite,
    force_option,
    quiet_option,
    warn,
    wrote,
)

if TYPE_CHECKING:
    from codesign.workload.characterization import Characterization


@click.command("characterize")
@click.option("--recipe", metavar="NAME|FILE", help="Workload recipe to compose; see --list.")
@click.option("--from", "traces", multiple=True, metavar="FILE...", type=InputPath(),
              help="Traces, one a rank; or one Nsight, XPlane or nccl-tests file.")  # fmt: skip
@click.option(
    "--execution-trace",
    "executions",
    multiple=True,
    metavar="FILE",
    type=InputPath(),
    help="PyTorch or Chakra execution trace of the same run: adds shapes to its trace.",
)
@click.option(
    "--ncu",
    "counters",
    multiple=True,
    metavar="FILE",
    type=InputPath(),
    help="Nsight Compute page of the same kernels: adds DRAM bytes, SM and DRAM %.",
)
@click.option("--system", metavar="NAME|FILE", help="System measured on, or to compose for.")
@click.option("--workload", metavar="NAME", help="Name of the workload of a trace.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N",
              help="Rank whose ops are kept; by default the lowest.")  # fmt: skip
@click.option("--allow-extrapolation", is_flag=True,
              help="Estimate shapes outside the measured ones, labelled so.")  # fmt: skip
@click.option("--allow-truncated", is_flag=True, help="Read a trace that was cut short.")
@click.option("--repair", is_flag=True, help="Drop or mend malformed events, and count them.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.parquet",
              help="Characterization to write.")  # fmt: skip
@click.option("--list", "list_recipes", is_flag=True, help="List the shipped recipes.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=InputPath())
@quiet_option
@force_option
def command(
    recipe: str | None,
    traces: tuple[Path, ...],
    executions: tuple[Path, ...],
    counters: tuple[Path, ...],
    system: str | None,
    workload: str | None,
    rank: int | None,
    allow_extrapolation: bool,
    allow_truncated: bool,
    repair: bool,
    output: Path | None,
    list_recipes: bool,
    files: tuple[Path, ...],
    quiet: bool,
    force: bool,
) -> None:
    """Compose a workload from measured kernels, or read the traces of a run.

    \b
    Examples:
      codesign characterize --list
      codesign characterize --recipe llama-3.1-8b-sft --system hgx-h100 -o sft.parquet
      codesign characterize --from rank0.json.gz rank1.json.gz -o run.parquet
      codesign characterize --from run.json.gz --execution-trace et.json -o run.parquet
      codesign characterize --from run.sqlite --ncu kernels.csv -o run.parquet
    """
    if list_recipes:
        _print_recipes()
        return
    if (recipe is None) == (not traces):
        raise click.UsageError("give one of --recipe and --from (or --list)")
    if files and not traces:
        raise click.UsageError(f"unexpected argument {str(files[0])!r}; traces follow --from")
    _check_flags(recipe is not None, allow_extrapolation, {
        "--workload": workload is not None, "--rank": rank is not None,
        "--allow-truncated": allow_truncated, "--repair": repair,
        "--execution-trace": bool(executions), "--ncu": bool(counters),
    })  # fmt: skip
    if output is None:
        raise click.UsageError("give the file to write with -o FILE.parquet")
    check_overwrite(
        [output],
        force,
        inputs=_inputs(recipe, [*traces, *files, *executions, *counters]),
        suffix=".parquet",
    )
    text = f"composing {recipe} from measured kernels" if recipe else "reading"
    with Progress(text, quiet) as progress:
        if recipe is not None:
            result = _compose(recipe, system, allow_extrapolation)
        else:
            from codesign.sources import read

            result = read([*traces, *files], system=system, workload=workload,
                          allow_truncated=allow_truncated, repair=repair, rank=rank,
                          execution_trace=executions, ncu=counters,
                          progress=progress.files)  # fmt: skip
        result.save(output)
    if not quiet:
        _print_summary(result)
    for warning in result.header.quality.warnings:
        warn(warning)
    wrote(output, quiet)


def _check_flags(composing: bool, extrapolate: bool, reading: dict[str, bool]) -> None:
    """Refuse an option that would have no effect: its user expects one."""
    idle = reading if composing else {"--allow-extrapolation": extrapolate}
    for option, given in idle.items():
        if given:
            other = "--from" if composing else "--recipe"
            raise click.UsageError(f"{option} goes with {other}")


def _inputs(recipe: str | None, traces: list[Path]) -> list[Path]:
    return [*traces, Path(recipe)] if recipe is not None else traces


def _compose(recipe: str, system: str | None, allow_extrapolation: bool) -> Characterization:
    from codesign.sources.compose import compose
    from codesign.sources.perfdb import PerfDB
    from codesign.workload.recipe import load_recipe

    return compose(load_recipe(recipe), PerfDB(), system, allow_extrapolation)


def _print_recipes() -> None:
    from codesign.workload.recipe import list_recipes, load_recipe

    for name in list_recipes():
        click.echo(f"{name:<36} {load_recipe(name).title}")


def _print_summary(result: Characterization) -> None:
    from codesign._common.units import format_si

    header = result.header
    step = format_si(header.step_time_s, "s") if header.step_time_s is not None else "unknown"
    click.echo(
        printable(f"{header.workload} on {header.system or 'an unknown system'}: step {step}")
    )
    # A summary by kernel knows no step, so nothing of it is exposed: its op time is what there is.
    column = "exposed_s" if float(result.ops["exposed_s"].sum()) > 0 else "time_s"
    parts = result.ops.groupby("evidence")[column].sum().sort_values(ascending=False)
    total_s = float(parts.sum()) or 1.0
    shares = ", ".join(f"{float(value) / total_s:.1%} {kind}" for kind, value in parts.items())
    click.echo(f"{'busy' if column == 'exposed_s' else 'op'} time by evidence: {shares}")
