"""`codesign characterize`: run a workload here, read traces, or compose measured kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.text import printable
from codesign.cli._common import (
    FRAMEWORKS,
    InputPath,
    Progress,
    check_overwrite,
    evidence_shares,
    force_option,
    quiet_option,
    warn,
    wrote,
)
from codesign.cli._kinds import expect
from codesign.cli._live import (
    LiveOptions,
    check_live,
    check_traces,
    end,
    goes_on,
    live_options,
    print_workloads,
    run_live,
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
@click.option("--workload", metavar="NAME",
              help="Built-in workload to run; or name of the workload of a trace.")  # fmt: skip
@click.option("--rank", type=click.IntRange(min=0), metavar="N",
              help="Rank whose ops are kept; by default the lowest.")  # fmt: skip
@click.option("--allow-extrapolation", is_flag=True,
              help="Estimate shapes outside the measured ones, labelled so.")  # fmt: skip
@click.option("--framework", type=click.Choice(FRAMEWORKS),
              help="Whose measured kernels compose a recipe; by default trtllm.")  # fmt: skip
@click.option("--allow-truncated", is_flag=True, help="Read a trace that was cut short.")
@click.option("--repair", is_flag=True, help="Drop or mend malformed events, and count them.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.parquet",
              help="Characterization to write.")  # fmt: skip
@click.option("--list", "list_recipes", is_flag=True, help="List the shipped recipes.")
@click.option("--list-workloads", is_flag=True, help="List the built-in workloads.")
@live_options
@click.argument("files", nargs=-1, metavar="[FILE]... | [-- COMMAND]...")
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
    framework: str | None,
    allow_truncated: bool,
    repair: bool,
    output: Path | None,
    list_recipes: bool,
    list_workloads: bool,
    files: tuple[str, ...],
    quiet: bool,
    force: bool,
    live: LiveOptions,
) -> None:
    """Run a training script under capture, read traces, or compose measured kernels.

    \b
    Examples:
      codesign characterize -o run.parquet -- python train.py --lr 1e-4
      codesign characterize -o run.parquet -- torchrun --nproc-per-node 8 train.py
      codesign characterize -o train.parquet --workload llama-train --preset tiny
      codesign characterize --list; codesign characterize --list-workloads
      codesign characterize --recipe llama-3.1-8b-sft --system hgx-h100 -o sft.parquet
      codesign characterize --from rank0.json.gz rank1.json.gz -o run.parquet
      codesign characterize --from run.json.gz --execution-trace et.json -o run.parquet
      codesign characterize --from run.sqlite --ncu kernels.csv -o run.parquet
    """
    if list_recipes:
        _print_recipes()
        return
    if list_workloads:
        print_workloads()
        return
    running = recipe is None and not traces and bool(files or workload or live.calibrate)
    if not running and (recipe is None) == (not traces):
        raise click.UsageError(
            "give one of --recipe, --from, --workload and -- COMMAND (or --list)"
        )
    if files and recipe is not None:
        raise click.UsageError(f"unexpected argument {files[0]!r}; traces follow --from")
    _check_flags("-- COMMAND" if running else "--recipe" if recipe is not None else "--from", {
        "--from": {
            "--rank": rank is not None, "--allow-truncated": allow_truncated, "--repair": repair,
            "--execution-trace": bool(executions), "--ncu": bool(counters),
        },
        "--recipe": {
            "--allow-extrapolation": allow_extrapolation, "--framework": framework is not None,
        },
        "-- COMMAND": dict.fromkeys(live.given(), True),
        "--from or -- COMMAND": {"--workload": workload is not None},
    })  # fmt: skip
    check_live(live, files, workload)
    _check_kinds(recipe, traces, system)
    if output is None:
        raise click.UsageError("give the file to write with -o FILE.parquet")
    check_overwrite(
        [output],
        force or goes_on(live, output),
        inputs=_inputs(recipe, [*traces, *executions, *counters, *map(Path, files)]),
        suffix=".parquet",
    )
    if running:
        check_traces(live, output, force)
        outcome = run_live(live, files, workload, output=output, system=system, quiet=quiet)
        if outcome.characterization is not None:
            _finish(outcome.characterization, output, quiet, said_later="incomplete")
        end(outcome, output)
        return
    text = f"composing {recipe} from measured kernels" if recipe else "reading"
    with Progress(text, quiet) as progress:
        if recipe is not None:
            result = _compose(recipe, system, allow_extrapolation, framework or "trtllm")
        else:
            from codesign.sources import read

            more = [InputPath().convert(f, None, None) for f in files]
            result = read([*traces, *more], system=system, workload=workload,
                          allow_truncated=allow_truncated, repair=repair, rank=rank,
                          execution_trace=executions, ncu=counters,
                          progress=progress.files)  # fmt: skip
    _finish(result, output, quiet)


def _finish(
    result: Characterization, output: Path, quiet: bool, said_later: str | None = None
) -> None:
    """Save and say so; warnings that open with ``said_later`` are left to an error."""
    result.save(output)
    if not quiet:
        _print_summary(result)
    for warning in result.header.quality.warnings:
        if said_later is None or not warning.startswith(said_later):
            warn(warning)
    wrote(output, quiet)


def _check_flags(mode: str, options: dict[str, dict[str, bool]]) -> None:
    """Refuse an option that would have no effect: its user expects one."""
    for home, group in options.items():
        for option, given in group.items():
            if given and mode not in home.split(" or "):
                raise click.UsageError(f"{option} goes with {home}")


def _check_kinds(recipe: str | None, traces: tuple[Path, ...], system: str | None) -> None:
    """Refuse what is another kind of codesign's files than its option expects."""
    if recipe is not None:
        expect("--recipe", recipe, ["recipe"])
    for trace in traces:
        expect("--from", trace, ["measurement", "characterization"])
    if system is not None:
        expect("--system", system, ["hardware"])


def _inputs(recipe: str | None, traces: list[Path]) -> list[Path]:
    return [*traces, Path(recipe)] if recipe is not None else traces


def _compose(
    recipe: str, system: str | None, allow_extrapolation: bool, framework: str
) -> Characterization:
    from codesign.sources.compose import compose
    from codesign.sources.perfdb import PerfDB
    from codesign.workload.recipe import load_recipe

    return compose(load_recipe(recipe), PerfDB(), system, allow_extrapolation, framework)


def _print_recipes() -> None:
    from codesign.workload.recipe import list_recipes, load_recipe

    for name in list_recipes():
        click.echo(f"{name:<36} {load_recipe(name).title}")


def _print_summary(result: Characterization) -> None:
    from codesign._common.units import format_share, format_si

    header = result.header
    step = format_si(header.step_time_s, "s") if header.step_time_s is not None else "unknown"
    click.echo(
        printable(f"{header.workload} on {header.system or 'an unknown system'}: step {step}")
    )
    if not float(result.ops["time_s"].fillna(0.0).sum()):
        click.echo(f"{len(result.ops)} ops without times; --system gives the speed of light")
        return
    base, shares = evidence_shares(result.ops)
    text = ", ".join(f"{format_share(share)} {kind}" for kind, share in shares.items())
    click.echo(f"{base} by evidence: {text}")
