"""`codesign fit`: kernel tables -> sensitivity model, with diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign.cli._common import (
    FRAMEWORKS,
    InputPath,
    Progress,
    check_overwrite,
    force_option,
    quiet_option,
    warn,
    wrote,
)

if TYPE_CHECKING:
    from codesign.sensitivity.modelfile import ModelFile
    from codesign.sensitivity.training import TrainingSource


@click.command("fit")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True,
              help="Model file (JSON) to write.")  # fmt: skip
@click.option("--exclude", multiple=True, metavar="GPU",
              help="Leave a GPU out of the training data; may be repeated.")  # fmt: skip
@click.option("--gpus", multiple=True, metavar="GPU",
              help="Train on this GPU; may be repeated. Default: all with tables.")  # fmt: skip
@click.option("--framework", default="trtllm", show_default=True,
              type=click.Choice(FRAMEWORKS),
              help="Whose kernels to learn from.")  # fmt: skip
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of the model's draws.",
)
@click.option("--diagnostics", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write a page (.html) or its content (.json): parameters with errors, "
                   "residuals, leverage, bounds, which levers the data tell apart.")  # fmt: skip
@click.option("--database", "databases", multiple=True, type=InputPath(), metavar="FILE",
              help="Calibration of your own GPU (characterize --calibrate) to train on, too; "
                   "may be repeated.")  # fmt: skip
@quiet_option
@force_option
def command(
    output: Path,
    exclude: tuple[str, ...],
    gpus: tuple[str, ...],
    framework: str,
    seed: int,
    diagnostics: Path | None,
    databases: tuple[Path, ...],
    quiet: bool,
    force: bool,
) -> None:
    """Fit the sensitivity model to measured kernels, and show how well it fits.

    Takes one to three minutes on one core.

    \b
    Example, holding the H200 back so that projections onto it can be scored:
      codesign fit -o model.json --exclude h200-sxm
      codesign fit -o model.json --diagnostics fit.html
    """
    check_overwrite([output], force, suffix=".json")
    if diagnostics is not None:
        _check_diagnostics(diagnostics, output, force)
    from codesign.sensitivity import fit
    from codesign.sources.perfdb import PerfDB

    db: TrainingSource = PerfDB()
    calibrated: list[str] = []
    if databases:
        from codesign.sources.calibration import CalibrationDB, JoinedDB

        own = CalibrationDB(databases)
        db, calibrated = JoinedDB([db, own]), own.gpus()
    with Progress("reading kernel tables and fitting", quiet) as progress:
        progress.stage("reading kernel tables and fitting, one to three minutes")
        model = fit(db, exclude=exclude, seed=seed, gpus=gpus or None, framework=framework)
        model.save(output)
    wanted = [g for g in calibrated if g not in exclude and (not gpus or g in gpus)]
    _say_left_out(wanted, model.trained_on)
    if not quiet:
        for line in _table(model.content):
            click.echo(line)
    wrote(output, quiet)
    if diagnostics is not None:
        from codesign.report.diagnostics import render_diagnostics
        from codesign.sensitivity.diagnostics import diagnose

        with Progress("diagnostics", quiet) as progress:
            progress.stage("diagnostics, about a minute")
            render_diagnostics(diagnose(model, db), diagnostics)
        wrote(diagnostics, quiet)


def _say_left_out(calibrated: Sequence[str], trained_on: Sequence[str]) -> None:
    """A calibration stands in place of the tables of its GPU: too small, it leaves none."""
    for gpu in calibrated:
        if gpu not in trained_on:
            warn(f"{gpu} took no part: its --database, which is used in place of the public "
                 "tables, has too few rows; calibrate with --preset standard")  # fmt: skip


def _check_diagnostics(path: Path, output: Path, force: bool) -> None:
    """Refuse, before any work is done, what cannot be written."""
    from codesign.report.diagnostics import check_suffix

    check_suffix(path)
    check_overwrite([output, path], force)


def _table(content: ModelFile) -> list[str]:
    from codesign.cli._model_tables import SCORE_COLUMNS, score_rows

    rows = [SCORE_COLUMNS, *score_rows(content)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(SCORE_COLUMNS))]
    lines = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.append(f"trained on {', '.join(content.trained_on)} ({content.framework})")
    if content.excluded:
        lines.append(f"excluded {', '.join(content.excluded)}")
    return lines
