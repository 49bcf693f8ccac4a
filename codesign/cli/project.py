"""`codesign project`: a characterization on other hardware, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codesign._common.errors import UsageError

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.projection import Projection
    from codesign.sensitivity import SensitivityModel
    from codesign.workload.characterization import Characterization


@click.command("project")
@click.argument("characterization", type=click.Path(path_type=Path))
@click.option("--model", "model_path", type=click.Path(path_type=Path), required=True,
              help="Model file that `codesign fit` wrote.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="LEVER=CHANGE",
              help="A candidate made by levers: hbm_bandwidth=+50%, sm_count=x2, "
              "nvlink_domain=72; commas join several. May be repeated.")  # fmt: skip
@click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="NAME",
    help="A candidate of the hardware library, or a YAML file; may be repeated.",
)
@click.option("--base", metavar="NAME",
              help="System of the measurements, where the file does not name it.")  # fmt: skip
@click.option("--draws", default=200, show_default=True, type=click.IntRange(10, 100_000),
              help="Joint draws behind the intervals.")  # fmt: skip
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the draws."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    characterization: Path, model_path: Path, changes: tuple[str, ...], systems: tuple[str, ...],
    base: str | None, draws: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Project a workload onto changed hardware or other systems.

    Each candidate gets its gain (time here / time there) with a 90 % interval, and
    what its time is bound by. Another GPU than the measured one is reached by the
    transfer tier, whose intervals are wider.

    \b
    Example:
      codesign project sft.parquet --model model.json --set hbm_bandwidth=+50% --system gb200-nvl72
    """
    if not changes and not systems:
        raise UsageError("nothing to project onto: pass --set LEVER=CHANGE or --system NAME")
    from codesign._api import candidate_system
    from codesign.hardware import load_system
    from codesign.projection import project
    from codesign.projection.projector import base_system
    from codesign.sensitivity import load_model
    from codesign.sources import read

    char = read(characterization)
    start = base_system(char, load_system(base) if base else None)
    model = load_model(model_path)
    candidates = [(text, candidate_system(text, start)) for text in changes]
    candidates += [(name, load_system(name)) for name in systems]
    proj = project(char, model, [s for _, s in candidates], draws, seed=seed, base=start)
    rows = _rows(char, model, proj, [text for text, _ in candidates])
    if as_json:
        _print_json(char, proj, rows, seed)
    else:
        _print_table(char, proj, rows)


def _rows(
    char: Characterization, model: SensitivityModel, proj: Projection, names: list[str]
) -> list[dict[str, Any]]:
    rows = []
    for index, (name, system, gain) in enumerate(zip(names, proj.systems, proj.gain, strict=True)):
        rows.append({
            "candidate": name, "system": system.name, "tier": _tier(proj.base, system),
            "seen_in_training": system.gpu.name in model.trained_on,
            "step_time_s": float(proj.step_time_s[0, index]),
            "gain": gain.value, "gain_lo": gain.lo, "gain_hi": gain.hi,
            "binding": proj.binding_shares(model.binding(char.ops, system), index),
        })  # fmt: skip
    before = proj.binding_shares(model.binding(char.ops, proj.base))
    base = {"candidate": "(baseline)", "system": proj.base.name, "tier": "measured",
            "seen_in_training": proj.base.gpu.name in model.trained_on,
            "step_time_s": proj.base_step_time_s, "gain": 1.0, "gain_lo": 1.0, "gain_hi": 1.0,
            "binding": before}  # fmt: skip
    return [base, *rows]


def _tier(base: System, system: System) -> str:
    if base.gpu.name != system.gpu.name:
        return "transfer"
    return "lever" if system.levers else "same GPU"


def _print_json(
    char: Characterization, proj: Projection, rows: list[dict[str, Any]], seed: int
) -> None:
    import json

    content = {
        "workload": char.header.workload, "base": proj.base.name, "interval": 0.9,
        "draws": proj.step_time_s.shape[0] - 1, "seed": seed, "candidates": rows,
    }  # fmt: skip
    click.echo(json.dumps(content, indent=2))


def _print_table(char: Characterization, proj: Projection, rows: list[dict[str, Any]]) -> None:
    from codesign._common.units import format_si
    from codesign.recommend.wording import listing, percent

    click.echo(f"{char.header.title or char.header.workload} on {proj.base.name}")
    table = [("candidate", "tier", "step", "gain", "90 % interval", "bound by")]
    table += [
        (
            row["candidate"], row["tier"], format_si(row["step_time_s"], "s"),
            f"x{row['gain']:.3f}", f"[{row['gain_lo']:.3f}, {row['gain_hi']:.3f}]",
            listing(row["binding"]),
        )
        for row in rows
    ]  # fmt: skip
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    held = float(proj.base_exposed_s[proj.held].sum()) / proj.base_step_time_s
    if held > 0:
        click.echo(
            f"ops that the model does not cover keep their time: {percent(held)} of the step"
        )
    seen = [r["candidate"] for r in rows[1:] if r["tier"] == "transfer" and r["seen_in_training"]]
    if seen:
        click.echo(
            f"the model was fitted on the GPU of {', '.join(seen)}: no test of it; "
            "for one, fit with --exclude"
        )
