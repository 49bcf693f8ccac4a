"""The best plan of a job on each of many systems, and what its neighbours lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.cluster.candidates import DEFAULT_LIMITS, Limits, enumerate_plans, why_not
from codesign.cluster.efficiency import DEFAULT, Efficiency
from codesign.cluster.grid import OpTimes, TimeCache
from codesign.cluster.job import Job
from codesign.cluster.memory import SPEC_TO_DEVICE, memory_of
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.shares import Shares
from codesign.cluster.step import StepTimes, step_times

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

CHUNK = 1500
"""Plans timed at once: bounds memory."""
_NEIGHBOUR_FIELDS = ("tp", "cp", "pp", "vpp", "ep", "zero", "micro_batch", "recompute", "schedule")


@dataclass(frozen=True)
class Found:
    """The best plan on one system."""

    system: System
    plan: Plan
    step_s: float
    parts: dict[str, float]
    """Exposed seconds by what they go to; they add up to ``step_s``."""
    memory: dict[str, float]
    """Bytes on the fullest GPU by what holds them."""
    needed_bytes: float
    tokens_per_s_gpu: float


@dataclass(frozen=True)
class Search:
    """The outcome of a search: the best of ``tried`` plans on every system."""

    job: Job
    found: tuple[Found | None, ...]
    """None where no plan fits the system's memory."""
    tried: int
    """Plans whose step was timed."""
    listed: int
    """Plans that the shapes allow, those included that fit nowhere."""


def search(
    job: Job, model: OpTimes, systems: Sequence[System], efficiency: Efficiency = DEFAULT, *,
    limits: Limits = DEFAULT_LIMITS, include: Sequence[Plan] = (), cache: TimeCache | None = None,
) -> Search:  # fmt: skip
    """The fastest plan that fits, on each system. Deterministic: equal times go to the first.

    ``include`` adds plans to those enumerated, such as the one in use; a re-optimised system
    is then never slower than with it. ``cache`` (of the same systems) carries op times over
    from another search. Raises UsageError if the job's shapes allow no plan.
    """
    for plan in include:
        _check(job, plan)
    listed = enumerate_plans(job, limits)
    plans = _candidates(job, listed, systems, include)
    cache = cache or TimeCache(model, tuple(systems))
    best = np.full(len(systems), np.inf)
    found: list[Found | None] = [None] * len(systems)
    for start in range(0, len(plans), CHUNK):
        part = plans.take(np.arange(start, min(start + CHUNK, len(plans))))
        times = step_times(job, part, model, systems, efficiency, cache)
        allowed = np.where(times.fits, times.step_s, np.inf)
        winner = allowed.argmin(axis=1)
        for i, system in enumerate(systems):
            if allowed[i, winner[i]] < best[i]:
                best[i] = allowed[i, winner[i]]
                found[i] = _found(times, i, int(winner[i]), system)
    return Search(job, tuple(found), len(plans), len(listed))


def best_plan(
    job: Job, model: OpTimes, system: System, efficiency: Efficiency = DEFAULT,
    limits: Limits = DEFAULT_LIMITS,
) -> Found:  # fmt: skip
    """The best plan on one system. Raises UsageError if none fits its memory."""
    found = search(job, model, [system], efficiency, limits=limits).found[0]
    if found is None:
        raise UsageError(no_fit(job, system, limits))
    return found


def no_fit(job: Job, system: System, limits: Limits = DEFAULT_LIMITS) -> str:
    """By how much the plan that takes least memory misses a system that none fits."""
    listed = enumerate_plans(job, limits)
    needed = memory_of(Shares.of(job, listed)).needed_bytes
    least = int(needed.argmin())
    room = SPEC_TO_DEVICE * system.gpu.hbm_capacity_bytes
    return (f"{job.name}: no plan over {job.gpus} GPUs fits {system.name}: the smallest "
            f"({listed.plan(least)}) needs {needed[least] / 1e9:.0f} GB a GPU of "
            f"{room / 1e9:.0f}")  # fmt: skip


def evaluate(
    job: Job, plan: Plan, model: OpTimes, systems: Sequence[System],
    efficiency: Efficiency = DEFAULT, cache: TimeCache | None = None,
) -> list[Found]:  # fmt: skip
    """One plan on every system, whether it fits or not.

    Raises UsageError if the plan does not divide the job.
    """
    plans = Plans.of([plan])
    _check(job, plan)
    times = step_times(job, plans, model, systems, efficiency, cache)
    return [_found(times, i, 0, system) for i, system in enumerate(systems)]


def _check(job: Job, plan: Plan) -> None:
    reason = why_not(job, plan)
    if reason is not None:
        raise UsageError(f"{job.name}: plan {plan} cannot run: {reason}")


def _found(times: StepTimes, i: int, j: int, system: System) -> Found:
    return Found(
        system=system, plan=times.plans.plan(j), step_s=float(times.step_s[i, j]),
        parts={k: float(v[i, j]) for k, v in times.parts.items()},
        memory=times.memory.parts(j), needed_bytes=float(times.memory.needed_bytes[j]),
        tokens_per_s_gpu=float(times.tokens_per_s_gpu[i, j]),
    )  # fmt: skip


def _candidates(
    job: Job, listed: Plans, systems: Sequence[System], include: Sequence[Plan]
) -> Plans:
    """Plans that fit some system; recomputation only where less does not fit them all."""
    memory = memory_of(Shares.of(job, listed))
    capacity = SPEC_TO_DEVICE * np.array([s.gpu.hbm_capacity_bytes for s in systems])
    fits = memory.needed_bytes <= capacity.max()
    everywhere = memory.needed_bytes <= capacity.min()
    rows = listed.rows()
    # The same plan with less recomputation is faster: more is of use only where that is too big.
    shape = np.delete(rows, 8, axis=1)
    _, group = np.unique(shape, axis=0, return_inverse=True)
    group = group.ravel()
    least = np.full(group.max() + 1, 99, dtype=np.int64)
    np.minimum.at(least, group[everywhere], listed.recompute[everywhere])
    keep = fits & (listed.recompute <= least[group])
    kept = [rows[keep]]
    if include:
        kept.append(Plans.of(include).rows())
    joined = np.unique(np.concatenate(kept), axis=0)
    return Plans.from_rows(joined)


@dataclass(frozen=True)
class Neighbour:
    """A plan that differs from the best in one choice, and what it loses."""

    changed: str
    plan: Plan
    loss: float | None
    """Step time / the best's - 1; None where the plan does not fit."""
    reason: str


def explain(
    job: Job, best: Found, model: OpTimes, efficiency: Efficiency = DEFAULT,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Neighbour]:  # fmt: skip
    """What each neighbour of the best plan loses, and to what; dp makes up for the change."""
    listed = enumerate_plans(job, limits)
    rows, mine = listed.rows(), Plans.of([best.plan]).rows()[0]
    names = [f for f in Plans.__dataclass_fields__ if f != "dp"]
    differs = np.stack([rows[:, i] != mine[i] for i, f in enumerate(Plans.__dataclass_fields__)
                        if f != "dp"], axis=1)  # fmt: skip
    near = np.flatnonzero(differs.sum(axis=1) == 1)
    if not near.size:
        return []
    plans = listed.take(near)
    times = step_times(job, plans, model, [best.system], efficiency)
    found = []
    for j in range(len(plans)):
        name = names[int(differs[near[j]].argmax())]
        if name not in _NEIGHBOUR_FIELDS:
            continue
        here = _found(times, 0, j, best.system)
        if not times.fits[0, j]:
            room = SPEC_TO_DEVICE * best.system.gpu.hbm_capacity_bytes
            over = f"needs {here.needed_bytes / 1e9:.0f} GB of {room / 1e9:.0f}"
            found.append(Neighbour(name, here.plan, None, f"does not fit: {over}"))
            continue
        growth = {k: here.parts[k] - best.parts[k] for k in here.parts}
        worst = max(growth, key=lambda k: (growth[k], k))
        share = growth[worst] / best.step_s
        reason = f"{worst} {share:+.1%} of the step"
        found.append(Neighbour(name, here.plan, here.step_s / best.step_s - 1.0, reason))
    return sorted(found, key=lambda n: (n.changed, n.loss is None, n.loss or 0.0, str(n.plan)))
