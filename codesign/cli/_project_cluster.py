"""`codesign project --gpus N`: a training job over many GPUs, its plan kept and re-optimized."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.errors import UsageError
from codesign._common.text import printable
from codesign.cli._common import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codesign.cluster.job import Job
    from codesign.cluster.plan import Plan
    from codesign.cluster.records import ClusterProjection, Placed, SystemProjection
    from codesign.hardware.model import System

_SHOWN_PARTS = 4


def run(
    subject: str, model_path: Path, systems: Sequence[str], *, changes: Sequence[str],
    base: str | None, gpus: int, batch: int | None, precision: str | None, reoptimize: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Project ``subject`` (a recipe, a model's name or config.json, or a characterization)."""
    from codesign._api import candidate_system
    from codesign.cluster.at_scale import with_controls
    from codesign.cluster.summary import project_job
    from codesign.hardware import load_system
    from codesign.sensitivity import load_model

    if _is_characterization(subject) and not reoptimize:
        _replace(subject, model_path, systems, base, gpus, as_json)
        return
    job, plan = _job(subject, gpus, batch, precision)
    places: list[System] = [load_system(name) for name in systems]
    if changes:
        start = load_system(base) if base else places[0] if places else None
        if start is None:
            raise UsageError("--set with --gpus needs the system that it changes: --base NAME")
        # What a change gains is told against the system without it.
        if start.name not in [p.name for p in places]:
            places.insert(0, start)
        places += [candidate_system(text, start) for text in changes]
    if not places:
        raise UsageError("--gpus needs a system to place the job on: --system NAME")
    model = load_model(model_path)
    curve = sorted({max(gpus // 4, 1), max(gpus // 2, 1), 2 * gpus} - {gpus})
    found = project_job(job, model, places, plan=plan, reoptimize=reoptimize or plan is None,
                        scaling=curve)  # fmt: skip
    found = with_controls(found, job, model, places)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        _print(found)
    for text in found.warnings:
        warn(text)


def _is_characterization(subject: str) -> bool:
    return Path(subject).suffix.lower() in (".parquet", ".gz", ".zip") and Path(subject).exists()


def _job(
    subject: str, gpus: int, batch: int | None, precision: str | None
) -> tuple[Job, Plan | None]:
    """The job that the subject names, and its plan if it has one."""
    from codesign.cluster.from_recipe import (
        LARGE_SCALE,
        job_of,
        model_of_header,
        plan_of,
        precision_of,
    )
    from codesign.cluster.job import Job, list_models, load_model_config
    from codesign.workload.recipe import list_recipes, load_recipe

    if subject in list_recipes() or (subject.endswith((".yaml", ".yml")) and _has_phase(subject)):
        recipe = load_recipe(subject)
        return job_of(recipe, gpus, batch), plan_of(recipe, gpus)
    if _is_characterization(subject):
        from codesign.sources import read

        header = read(Path(subject)).header
        model, name = model_of_header(header.model, subject), header.workload
    else:
        if subject not in list_models() and not subject.endswith((".yaml", ".yml", ".json")):
            raise UsageError(
                f"{subject!r}: with --gpus expected a recipe ({', '.join(list_recipes())}), a "
                f"model ({', '.join(list_models())}), a config.json, or a characterization"
            )
        # A shipped name may hold a dot: llama-3.1-405b.
        name = subject if subject in list_models() else Path(subject).stem
        model = load_model_config(subject)
    job = Job(
        model=model, gpus=gpus, global_batch=batch or max(gpus, 512), sequence_length=8192,
        name=name, precision=precision_of(precision or "bf16"), gradient_bytes=2.0,
        framework=LARGE_SCALE,
    )  # fmt: skip
    return job, None


def _has_phase(path: str) -> bool:
    from codesign._common.yamlfiles import load_yaml

    content = load_yaml(Path(path))
    return isinstance(content, dict) and "phase" in content


def _replace(
    subject: str, model_path: Path, systems: Sequence[str], base: str | None, gpus: int,
    as_json: bool,
) -> None:  # fmt: skip
    """A measured rank over more replicas: its compute kept, its collectives placed anew."""
    from codesign._common.units import format_si
    from codesign.cluster.measured import replace_collectives
    from codesign.hardware import load_system
    from codesign.sensitivity import load_model
    from codesign.sources import read

    char = read(Path(subject))
    name = base or char.header.system
    if name is None:
        raise UsageError(f"{subject}: does not name its system; say which with --base")
    start = load_system(name)
    places = [load_system(s) for s in systems] or [start]
    replicas = gpus / max(char.header.gpus, 1)
    found = replace_collectives(char, load_model(model_path), start, places, replicas=replicas)
    if as_json:
        import json

        rows = [{"system": p.name, "step_time_s": float(t)}
                for p, t in zip(places, found.step_s, strict=True)]  # fmt: skip
        content = {"workload": char.header.workload, "gpus": gpus, "base": start.name,
                   "measured_step_time_s": char.header.step_time_s,
                   "kept_s": found.compute_s, "systems": rows}  # fmt: skip
        click.echo(json.dumps(content, indent=2))
        return
    click.echo(printable(f"{char.header.workload}: {char.header.gpus} -> {gpus} GPUs"))
    click.echo(f"measured on {start.name}: step {format_si(char.header.step_time_s or 0.0, 's')}")
    for place, step in zip(places, found.step_s.tolist(), strict=True):
        click.echo(printable(f"  {place.name}: step {format_si(step, 's')}"))


def _print(found: ClusterProjection) -> None:
    click.echo(printable(
        f"{found.job}: {found.gpus} GPUs, {found.global_batch} sequences of "
        f"{found.sequence_length} tokens a step, {found.precision}; {found.tried} plans timed"
    ))  # fmt: skip
    first = found.systems[0]
    for row in found.systems:
        click.echo(f"\n{printable(row.system)}")
        if row is not first:
            _print_gains(row, first)
        for title, one in (("plan in use", row.fixed), ("best plan", row.best)):
            if one is not None:
                _print_placed(title, one, found.precision)
        for n in row.neighbours:
            loss = "" if n.loss is None else f"{100 * n.loss:+.1f} % of step time, "
            click.echo(printable(f"    not {n.plan}: {loss}{n.reason}"))
        if row.scaling and row.best is not None:
            points = [*row.scaling, row.best]
            text = ", ".join(f"{p.gpus}: {p.tokens_per_s_gpu:,.0f}"
                             for p in sorted(points, key=lambda p: p.gpus))  # fmt: skip
            click.echo(f"  tokens/s/GPU by GPUs, batch in proportion: {text}")


def _print_gains(row: SystemProjection, first: SystemProjection) -> None:
    pairs = (("at the plan in use", first.fixed, row.fixed), ("re-planned", first.best, row.best))
    gains = [f"x{a.step_s.value / b.step_s.value:.3f} {what}"
             for what, a, b in pairs if a is not None and b is not None]  # fmt: skip
    if gains:
        click.echo(printable(f"  gain over {first.system}: {', '.join(gains)}"))
    if row.control is not None:
        click.echo(
            f"  control, a job inside the smaller domain: x{row.control:.3f} from the domain"
        )


def _print_placed(title: str, one: Placed, precision: str) -> None:
    from codesign._common.units import format_share, format_si

    step = one.step_s
    click.echo(printable(f"  {title}: {one.plan}"))
    click.echo(
        f"    step {format_si(step.value, 's')} [{format_si(step.lo, 's')}, "
        f"{format_si(step.hi, 's')}], {one.tokens_per_s_gpu:,.0f} tokens/s/GPU"
        + (f", MFU {format_share(one.mfu)}, HFU {format_share(one.hfu)} of dense {precision}"
           if one.mfu and one.hfu else "")
    )  # fmt: skip
    largest = sorted(one.breakdown.items(), key=lambda p: -p[1])[:_SHOWN_PARTS]
    parts = ", ".join(f"{name} {format_share(v / step.value)}" for name, v in largest if v > 0)
    fits = "" if one.fits else " - DOES NOT FIT"
    click.echo(f"    {parts}; {one.needed_bytes / 1e9:.0f} GB a GPU{fits}")
