"""`codesign project`: a characterization on other hardware, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codesign._common.errors import DataError, UsageError, did_you_mean
from codesign._common.text import printable
from codesign.cli._common import InputPath, key_value, warn
from codesign.cli._kinds import expect

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.projection import Projection
    from codesign.sensitivity import SensitivityModel
    from codesign.workload.characterization import Characterization

_EXPECTED = (
    "LEVER=CHANGE, such as hbm_bandwidth=+50%, sm_count=x2, nvlink_domain=72 or "
    "'hbm_bandwidth=5 TB/s'"
)
_INTERACTION = 0.02
"""Part by which a combined gain leaves the product of the single ones before it is said."""
_MOST_HELD = 0.5
"""Movable share of a step under which its gains say little about the workload."""


@click.command("project")
@click.argument("characterization", type=InputPath())
@click.option("--model", "model_path", type=InputPath(), required=True,
              help="Model file that `codesign fit` wrote.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="LEVER=CHANGE",
              help="A candidate made by levers: hbm_bandwidth=+50%, sm_count=x2, "
              "nvlink_domain=72; commas join several. May be repeated.")  # fmt: skip
@click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="NAME|FILE",
    help="A candidate of the hardware library, or a YAML file; may be repeated.",
)
@click.option("--base", metavar="NAME|FILE",
              help="System of the measurements, where the file does not name it or the "
              "library does not have it.")  # fmt: skip
@click.option("--gpus", type=click.IntRange(1, 10**6),
              help="Place a training job over so many GPUs: CHARACTERIZATION is then a recipe, "
              "a model (a name or config.json), or a measured rank to scale out.")  # fmt: skip
@click.option("--reoptimize", is_flag=True,
              help="With --gpus: find the best parallelism on every system, and say what its "
              "neighbours lose.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1, 10**8),
              help="With --gpus: sequences a step; by default the recipe's, in proportion.",
              )  # fmt: skip
@click.option("--precision", type=click.Choice(["bf16", "fp8", "fp8_block", "mxfp8", "nvfp4"]),
              help="With --gpus and a model: of its linear layers; bf16 by default.")  # fmt: skip
@click.option("--draws", default=200, show_default=True, type=click.IntRange(10, 100_000),
              help="Joint draws behind the intervals.")  # fmt: skip
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the draws."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a row for each candidate.")
def command(
    characterization: Path, model_path: Path, changes: tuple[str, ...], systems: tuple[str, ...],
    base: str | None, gpus: int | None, reoptimize: bool, batch: int | None,
    precision: str | None, draws: int, seed: int, as_json: bool, as_csv: bool,
) -> None:  # fmt: skip
    """Project a workload onto changed hardware or other systems.

    Each candidate gets its gain (time here / time there) with a 90 % interval, and what
    its time is bound by at the margin: HBM 20 % means that 1 % more HBM bandwidth would
    shorten it by 0.2 %. A warning says where levers set together gain more or less than
    the product of their single gains. Another GPU than the measured one is reached by the
    transfer tier, whose intervals are wider. Ops that the model does not cover and idle
    time stay as they are; where nothing else is left, the exit code is 4.

    \b
    Example:
      codesign project sft.parquet --model model.json --set hbm_bandwidth=+50% --system gb200-nvl72
      codesign project sft.parquet --model model.json --set sm_count=x2 --csv > gains.csv
      codesign project llama-3-70b --model model.json --gpus 4096 --system gb200-nvl72 --reoptimize
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other; give one of them")
    workload = ("characterization", "measurement")
    kinds = workload if gpus is None else ("recipe", *workload)
    expect("CHARACTERIZATION", characterization, kinds, [model_path])
    expect("--model", model_path, ["model"], [characterization])
    if gpus is not None:
        from codesign.cli._project_cluster import run

        run(str(characterization), model_path, systems, changes=changes, base=base, gpus=gpus,
            batch=batch, precision=precision, reoptimize=reoptimize, as_json=as_json)  # fmt: skip
        return
    if reoptimize or batch or precision:
        raise UsageError("--reoptimize, --batch and --precision need --gpus N")
    if not changes and not systems:
        raise UsageError("nothing to project onto: pass --set LEVER=CHANGE or --system NAME")
    for text in changes:
        for part in text.split(","):
            key_value("--set", part, _EXPECTED)
    for name in systems:
        if "=" in name:
            raise UsageError(f"--system {name!r}: expected a system; for levers write --set {name}")
        expect("--system", name, ["hardware"])
    from codesign.hardware import load_system
    from codesign.projection import project
    from codesign.sensitivity import load_model
    from codesign.sources import read

    _check_there(characterization)
    char = read(characterization)
    start = _base(char, characterization, base)
    candidates = [(text, _candidate(text, start)) for text in changes]
    candidates += [(name, load_system(name)) for name in systems]
    model = load_model(model_path)
    proj = project(char, model, [s for _, s in candidates], draws, seed=seed, base=start)
    rows = _rows(char, model, proj, [text for text, _ in candidates])
    warnings = _warnings(char, model, proj) + _interactions(char, model, proj, changes)
    if as_json:
        _print_json(char, proj, rows, seed, warnings)
    elif as_csv:
        _print_csv(char, rows)
    else:
        _print_table(char, proj, rows)
    for warning in warnings:
        warn(warning)


def _check_there(path: Path) -> None:
    """Refuse a file that is not there, with the recipes that its name comes near."""
    if not path.exists():
        from codesign.workload.recipe import list_recipes

        hint = did_you_mean(path, list_recipes())
        raise DataError(f"CHARACTERIZATION {path}: no such file{hint}")


def _base(char: Characterization, path: Path, name: str | None) -> System:
    """The system that was measured. Raises DataError if the library does not have it."""
    from codesign.hardware import load_system
    from codesign.projection.projector import base_system

    if name is None and char.header.system is None:
        what = ("was captured on a CPU, whose times are no GPU's; for a trial"
                if _of_a_cpu(char) else "does not say what it was measured on;")  # fmt: skip
        raise UsageError(f"{path}: {what} name a system with --base (see `codesign hw list`)")
    try:
        return base_system(char, load_system(name) if name else None)
    except UsageError as error:
        if name is not None:
            raise
        raise DataError(
            f"{path}: was measured on {char.header.system}, which the hardware library does not "
            "have; give its YAML file with --base FILE"
        ) from error


def _of_a_cpu(char: Characterization) -> bool:
    return (char.header.capture_method or "").endswith("on the CPU")


def _candidate(text: str, base: System) -> System:
    from codesign._api import candidate_system

    try:
        return candidate_system(text, base)
    except UsageError as error:
        raise UsageError(f"--set {text}: {error}") from error


def _warnings(char: Characterization, model: SensitivityModel, proj: Projection) -> list[str]:
    """What keeps the gains from being those of the workload."""
    from codesign.projection.kernels import other_kernels
    from codesign.projection.rates import borrowed_rates
    from codesign.recommend.wording import percent

    found = list(other_kernels(char.header, model))
    if _of_a_cpu(char):
        found.append(
            f"captured on a CPU: its times are not those of {proj.base.name}, and neither are "
            "these gains"
        )
    if proj.movable_share < _MOST_HELD:
        share = percent(proj.movable_share)
        found.append(
            f"{share if share.startswith('under') else f'only {share}'} of the step can move: ops "
            "that the model does "
            f"not cover take {percent(proj.held_share)}, idle time {percent(proj.idle_share)}; "
            "a gain near x1 says nothing about the hardware"
        )
    for system in {s.gpu.name: s for s in (proj.base, *proj.systems)}.values():
        found += borrowed_rates(char, proj.base_exposed_s / proj.base_step_time_s, system)
    quality = char.header.quality
    # Of a composed step these are assumptions, the same for all: its file and report say them.
    captured = char.header.capture_method != "composed"
    doubts: dict[str, list[str]] = {}
    for quantity, entry in sorted(quality.reliability.items() if captured else ()):
        if not entry.reliable and quantity in ("idle", "exposed", "steps", "step_time"):
            doubts.setdefault("; ".join(entry.reasons) or "not reliable", []).append(quantity)
    found += [f"{', '.join(names)} of the characterization: {why}" for why, names in doubts.items()]
    if not quality.complete:
        found.append("the characterization's input was cut short; it is incomplete")
    return found


def _interactions(
    char: Characterization, model: SensitivityModel, proj: Projection, changes: tuple[str, ...]
) -> list[str]:
    """Candidates of several levers whose gain is not the product of the single gains."""
    import math

    from codesign.projection import project
    from codesign.recommend.wording import percent

    found = []
    for index, text in enumerate(changes):
        parts = text.split(",")
        if len(parts) < 2:
            continue
        alone = project(char, model, [_candidate(p, proj.base) for p in parts], 0, base=proj.base)
        gains = [float(g) for g in alone.gain_draws[0]]
        product, both = math.prod(gains), float(proj.gain_draws[0, index])
        if abs(both / product - 1) <= _INTERACTION:
            continue
        more = both > product
        how = "help each other" if more else "compete for the same time"
        found.append(
            f"{text}: together x{both:.3f}, {percent(abs(both / product - 1))} "
            f"{'more' if more else 'less'} than the product of the single gains "
            f"({' x '.join(f'{g:.3f}' for g in gains)} = {product:.3f}): the levers {how}"
        )
    return found


def _rows(
    char: Characterization, model: SensitivityModel, proj: Projection, names: list[str]
) -> list[dict[str, Any]]:
    from codesign.projection.shares import step_shares

    shares = step_shares(char, model, [proj.base, *proj.systems], proj.base)
    rows = []
    for index, (name, system, gain) in enumerate(zip(names, proj.systems, proj.gain, strict=True)):
        rows.append({
            "candidate": name, "system": system.name, "tier": _tier(proj.base, system),
            "seen_in_training": system.gpu.name in model.trained_on,
            "step_time_s": float(proj.step_time_s[0, index]),
            "gain": gain.value, "gain_lo": gain.lo, "gain_hi": gain.hi,
            "binding": shares[index + 1],
        })  # fmt: skip
    base = {"candidate": "(baseline)", "system": proj.base.name, "tier": "measured",
            "seen_in_training": proj.base.gpu.name in model.trained_on,
            "step_time_s": proj.base_step_time_s, "gain": 1.0, "gain_lo": 1.0, "gain_hi": 1.0,
            "binding": shares[0]}  # fmt: skip
    return [base, *rows]


def _tier(base: System, system: System) -> str:
    if base.gpu.name != system.gpu.name:
        return "transfer"
    return "lever" if system.levers else "same GPU"


def _print_json(
    char: Characterization, proj: Projection, rows: list[dict[str, Any]], seed: int,
    warnings: list[str],
) -> None:  # fmt: skip
    import json

    content = {
        "workload": char.header.workload, "base": proj.base.name, "interval": 0.9,
        "draws": proj.step_time_s.shape[0] - 1, "seed": seed,
        "movable_share": proj.movable_share, "held_share": proj.held_share,
        "idle_share": proj.idle_share, "warnings": warnings, "candidates": rows,
    }  # fmt: skip
    click.echo(json.dumps(content, indent=2))


def _print_csv(char: Characterization, rows: list[dict[str, Any]]) -> None:
    """A row for the baseline and each candidate; the resources that bind are joined."""
    import csv
    import io

    text = io.StringIO()
    table = csv.DictWriter(text, ["workload", *rows[0]], lineterminator="\n")
    table.writeheader()
    for row in rows:
        bound = "; ".join(f"{name}={share:.4f}" for name, share in row["binding"].items())
        table.writerow({"workload": char.header.workload, **row, "binding": bound})
    click.echo(text.getvalue(), nl=False)


def _print_table(char: Characterization, proj: Projection, rows: list[dict[str, Any]]) -> None:
    from codesign._common.units import format_si
    from codesign.recommend.wording import listing, percent

    click.echo(printable(f"{char.header.title or char.header.workload} on {proj.base.name}"))
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
        click.echo(printable("  ".join(cells).rstrip()))
    if proj.held_share > 0:
        click.echo(
            f"ops that the model does not cover keep their time: {percent(proj.held_share)} of "
            "the step"
        )
    seen = [r["candidate"] for r in rows[1:] if r["tier"] == "transfer" and r["seen_in_training"]]
    if seen:
        click.echo(
            f"the model was fitted on the GPU of {', '.join(seen)}: no test of it; "
            "for one, fit with --exclude"
        )
