"""`codesign show`: what a file of codesign's holds, as readable tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign.cli._common import InputPath, Progress
from codesign.cli._kinds import HEAD_BYTES, TRACE_MARKS, expect

if TYPE_CHECKING:
    from codesign.cli._show_views import View
    from codesign.workload.characterization import Characterization
    from codesign.workload.compare import Comparison


@click.command("show")
@click.argument("files", nargs=-1, required=True, type=InputPath(), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--top", default=15, show_default=True, type=click.IntRange(1, 1000),
              help="Ops to list, by time or by change.")  # fmt: skip
@click.option("--diff", is_flag=True,
              help="Compare two: what is slower or faster in the second.")  # fmt: skip
@click.option("--fail-above", metavar="PERCENT", type=click.FloatRange(min=0),
              help="With --diff: exit with 5 if the second's step is slower by more than that, and "
                   "not by chance where steps repeat.")  # fmt: skip
def command(
    files: tuple[Path, ...], as_json: bool, top: int, diff: bool, fail_above: float | None
) -> None:
    """Show what a characterization, model, recommendations or backtest file holds.

    FILE may also be a workload recipe, by its name or its .yaml file, or the output of a
    profiler that `codesign characterize` reads; of several ranks of a job all their traces.
    With --diff it is two characterizations or profiler outputs, before and after.

    \b
    Examples:
      codesign show run.parquet
      codesign show build/report/recommendations.json
      codesign show llama-3.1-8b-sft
      codesign show rank-*.json.gz
      codesign show --diff before.parquet after.parquet
      codesign show --diff main.json.gz branch.json.gz --fail-above 2
    """
    from codesign.cli._show_views import print_view

    if fail_above is not None and not diff:
        raise click.UsageError("--fail-above goes with --diff")
    if diff and len(files) != 2:
        raise click.UsageError(f"expected two files, before and after, got {len(files)}")
    verdict = None
    if diff:
        from codesign.cli._show_diff import diff_view

        for file in files:
            expect("--diff", file, ["characterization", "measurement"])
        view, verdict = diff_view((files[0], files[1]), (_read(files[0]), _read(files[1])), top)
    elif len(files) > 1:
        view = _job_view(files, top)
    else:
        view = _view(files[0], top)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(view.data), indent=2).decode())
    else:
        print_view(view)
    if verdict is not None and fail_above is not None:
        _check(verdict, fail_above)


def _view(file: Path, top: int) -> View:
    from codesign.cli._show_views import characterization_view, json_view, recipe_view

    if file.suffix in (".yaml", ".yml") or (not file.exists() and _is_recipe(str(file))):
        return recipe_view(str(file), top)
    return json_view(file) if _kind(file) == "json" else characterization_view(_read(file), top)


def _job_view(files: tuple[Path, ...], top: int) -> View:
    """Several ranks of one job. Raises UsageError if the files are something else."""
    from codesign.cli._show_views import characterization_view
    from codesign.sources import read

    for file in files:
        expect("FILE, one of several", file, ["measurement"])
    with Progress("reading") as progress:
        return characterization_view(read(list(files), progress=progress.files), top)


def _read(file: Path) -> Characterization:
    """A characterization, or what a profiler wrote as one."""
    from codesign.sources import read

    with Progress(f"reading {file.name}"):
        return read(file)


def _check(verdict: Comparison, limit_percent: float) -> None:
    """Raise CheckFailedError if the step became slower by more than ``limit_percent``."""
    from codesign._common.errors import CheckFailedError, InsufficientDataError

    step = next((p for p in verdict.parts if p.what == "step"), None)
    if step is None or step.ratio is None or math.isnan(step.ratio):
        raise InsufficientDataError("--fail-above: the step time is not known on both sides")
    slower_percent = (step.ratio - 1) * 100
    if slower_percent > limit_percent and step.significant is not False:
        raise CheckFailedError(
            f"the step is {slower_percent:.1f} % slower, more than {limit_percent:g} %"
        )


def _is_recipe(name: str) -> bool:
    from codesign.workload.recipe import list_recipes

    return name in list_recipes()


def _kind(path: Path) -> str:
    """``json`` for codesign's own JSON, else ``measured``. Raises DataError if unreadable."""
    from codesign._common.errors import DataError
    from codesign._common.files import require_ordinary
    from codesign.workload.recipe import list_recipes

    try:
        require_ordinary(path)
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except FileNotFoundError as error:
        expect("FILE", path, ["recipe"])
        recipes = ", ".join(list_recipes())
        raise DataError(
            f"{path}: cannot read: no such file, nor a recipe; recipes: {recipes}"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    ours = text[:1] == b"{" and not any(mark in head for mark in TRACE_MARKS)
    return "json" if ours else "measured"
