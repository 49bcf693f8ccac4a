"""Whole workloads projected from one GPU to another, against the other's own measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import DataError
from codesign._common.scores import WorkloadBacktestRow
from codesign.hardware import load_system
from codesign.projection.projector import project
from codesign.projection.step import step_of
from codesign.sensitivity.blind import unmeasured
from codesign.sources.perfdb import of_the_host
from codesign.workload.characterization import Characterization

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.sources.perfdb import PerfDB
    from codesign.workload.recipe import Recipe

DEFAULT_PAIRS = (
    ("hgx-a100", "hgx-h100"),
    ("hgx-h100", "hgx-h200"),
    ("hgx-h100", "hgx-b200"),
    ("hgx-h100", "gb200-nvl72"),
    ("hgx-b200", "hgx-b300"),
    ("hgx-b200", "gb200-nvl72"),
)
"""(source, target) systems."""
DECIDES = ("measured", "interpolated")
"""Evidence that a row needs on both sides to decide; extrapolation is the composer's guess."""
MIN_SHARE = 0.2
"""Workloads of whose step less than this was measured on both sides are not scored."""
PROTOCOL = (
    "Each recipe is composed on source and target from each one's own measured kernels. Only ops "
    "measured, or interpolated between measured shapes, on both sides decide; modelled, assumed "
    "and extrapolated ones, and times of the host, are left out of both. The source's step is "
    "projected onto the target by a model that never saw the target, the same draws and overlap "
    "as in the study. Launch latency, the one specification that is read off a part's own "
    "kernels, is that of its family where that is known, else what is expected of a new one."
)


def workload_backtest(
    db: PerfDB,
    model: Any,
    pairs: Sequence[tuple[str, str]] = DEFAULT_PAIRS,
    recipes: Sequence[str] | None = None,
    *,
    draws: int = 200,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
    framework: str = "trtllm",
) -> tuple[WorkloadBacktestRow, ...]:
    """Projected against measured gain of every recipe over every pair of systems.

    ``model`` was fitted without the targets: pairs whose target it has seen are left
    out, so pass each fit of a protocol in turn. ``recipes`` default to those shipped;
    ``framework``, whose kernels compose them, is that of the fit.
    A recipe that cannot be composed on both sides, or of which too little is
    measured, is left out; ``note`` is told why.
    """
    from codesign.workload.recipe import list_recipes, load_recipe

    known = db.gpus()
    wanted = [(load_system(s), load_system(t)) for s, t in pairs]
    usable = [
        (s, t) for s, t in wanted
        if {s.gpu.name, t.gpu.name} <= set(known) and t.gpu.name not in model.trained_on
    ]  # fmt: skip
    joint = model.draws(draws, seed)
    found = []
    for name in list_recipes() if recipes is None else recipes:
        recipe = load_recipe(name)
        composed: dict[str, Characterization | None] = {}
        for source, target in usable:
            for system in (source, target):
                if system.name not in composed:
                    composed[system.name] = _compose(recipe, db, system, framework, note)
            here, there = composed[source.name], composed[target.name]
            if here is None or there is None:
                continue
            row = score(here, there, model, joint, source, target, framework)
            if row is None:
                note(f"{recipe.name}: {source.name} -> {target.name}: too little measured on both")
            else:
                found.append(row)
    return tuple(found)


def _compose(
    recipe: Recipe, db: PerfDB, system: System, framework: str, note: Callable[[str], None]
) -> Characterization | None:
    from codesign.sources.compose import compose

    try:
        return compose(recipe, db, system, framework=framework)
    except DataError as error:
        note(f"{recipe.name}: not composed on {system.name}: {error}")
        return None


def score(
    here: Characterization, there: Characterization, model: Any, joint: Any,
    source: System, target: System, framework: str = "trtllm",
) -> WorkloadBacktestRow | None:  # fmt: skip
    """One workload, source to target; None if too little was measured on both sides."""
    decides = shared_rows(here, there, framework)
    whole = step_of(here)
    share = float(whole.exposed_s[decides].sum()) / whole.step_time_s
    if share < MIN_SHARE:
        return None
    before, after = restricted(here, decides), restricted(there, decides)
    measured = step_of(before).step_time_s / step_of(after).step_time_s
    blind = unmeasured(target, model.trained_on, source)
    gain = project(before, model, [blind], joint, base=source, scoring=True).gain[0]
    return WorkloadBacktestRow(
        workload=here.header.workload, source=source.name, target=target.name,
        measured_gain=measured, projected_gain=gain, error=gain.value / measured - 1,
        covered=gain.lo <= measured <= gain.hi, trained_on=tuple(model.trained_on),
        scored_share=share, note=_left_out(here, there, decides), framework=framework,
    )  # fmt: skip


def shared_rows(
    here: Characterization, there: Characterization, framework: str = "trtllm"
) -> NDArray[np.bool_]:
    """(ops,) rows whose times were measured on both sides, and are the GPU's, not the host's.

    Raises DataError if the two are not the same ops in the same order.
    """
    keys = ["op_class", "name", "phase", "m", "n", "k", "message_bytes", "count"]
    if not here.ops[keys].astype("string").equals(there.ops[keys].astype("string")):
        raise DataError(
            f"{here.header.workload}: composed into different ops on {here.header.system} and "
            f"{there.header.system}; a backtest compares the same ops"
        )
    sides = [c.ops["evidence"].isin(DECIDES).to_numpy(dtype=bool) for c in (here, there)]
    return np.asarray(sides[0] & sides[1] & ~of_the_host(here.ops, framework))


def restricted(char: Characterization, rows: NDArray[np.bool_]) -> Characterization:
    """``char`` with ``rows`` only; its bubble keeps its ratio to the busy time."""
    ops = char.ops[rows].reset_index(drop=True)
    busy, kept = float(char.ops["exposed_s"].sum()), float(ops["exposed_s"].sum())
    bubble = char.header.bubble_s * kept / busy
    header = msgspec.structs.replace(
        char.header, bubble_s=bubble, idle_s=bubble, step_time_s=kept + bubble
    )
    return Characterization(header, ops)


def _left_out(here: Characterization, there: Characterization, rows: NDArray[np.bool_]) -> str:
    """What does not decide, by class, with the evidence that it has in place of a measurement."""
    step_s = step_of(here).step_time_s
    missing: dict[str, float] = {}
    for keep, op_class, mine, theirs, exposed in zip(
        rows, here.ops["op_class"], here.ops["evidence"], there.ops["evidence"],
        here.ops["exposed_s"].to_numpy(dtype=float), strict=True,
    ):  # fmt: skip
        if not keep:
            why = next((e for e in (mine, theirs) if e not in DECIDES), "of the host")
            missing[f"{op_class} ({why})"] = missing.get(f"{op_class} ({why})", 0.0) + exposed
    parts = sorted(
        ((v / step_s, k) for k, v in missing.items() if v >= 5e-4 * step_s), reverse=True
    )
    if not parts:
        return "every op that takes time was measured on both sides"
    return "left out: " + ", ".join(f"{k} {v * 100:.1f} %" for v, k in parts)
