"""Hardware levers on whole jobs: at the plan in use, and with both sides re-planned.

A larger NVLink domain (or more HBM) changes what a plan costs and which plan is best. Both
gains are reported: ``fixed`` keeps the base's plan, ``replanned`` gives base and candidate
their own best. The second divided by the first is what the new plan adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign._common.scores import Interval
from codesign.cluster.candidates import DEFAULT_LIMITS, Limits
from codesign.cluster.efficiency import DEFAULT, Efficiency
from codesign.cluster.grid import OpTimes, TimeCache, time_kinds, without_power
from codesign.cluster.job import Job
from codesign.cluster.memory import SPEC_TO_DEVICE
from codesign.cluster.ops import step_kinds
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.search import Found, evaluate, no_fit, search
from codesign.cluster.step import compose, total_s
from codesign.hardware.power import watts_needed

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeverGain:
    """One candidate against the base: step time of the base / of the candidate."""

    system: System
    fixed: float
    """Both at the base's best plan."""
    replanned: float
    """Each at its own best plan."""
    base: Found
    candidate: Found
    fits: bool
    """Whether the base's plan fits the candidate's memory."""

    @property
    def by_plan(self) -> float:
        """What the change of plan adds to the gain of the plan in use."""
        return self.replanned / self.fixed


@dataclass(frozen=True)
class Study:
    """A job on a base and its candidates."""

    job: Job
    base: Found
    gains: tuple[LeverGain, ...]
    tried: int = 0
    """Plans timed on every system."""


def study(
    job: Job, model: OpTimes, base: System, candidates: Sequence[System],
    efficiency: Efficiency = DEFAULT, *, limits: Limits = DEFAULT_LIMITS,
    plan: Plan | None = None,
) -> Study:  # fmt: skip
    """Gains of ``candidates`` over ``base``, at the base's plan and re-planned.

    ``plan`` is the one in use on the base; by default its best. It is among the plans that
    every system may choose. Raises UsageError if no plan fits the base.
    """
    systems = [base, *candidates]
    cache = TimeCache(model, tuple(systems))
    include = [plan] if plan is not None else []
    result = search(job, model, systems, efficiency, limits=limits, include=include, cache=cache)
    best = result.found[0]
    if best is None:
        raise UsageError(no_fit(job, base, limits))
    used = evaluate(job, plan or best.plan, model, systems, efficiency, cache)
    gains = []
    for system, found, same in zip(candidates, result.found[1:], used[1:], strict=True):
        own = found or same
        fits = same.needed_bytes <= SPEC_TO_DEVICE * system.gpu.hbm_capacity_bytes
        gains.append(LeverGain(
            system=system, fixed=used[0].step_s / same.step_s,
            replanned=best.step_s / own.step_s, base=best, candidate=own, fits=fits,
        ))  # fmt: skip
    return Study(job, best, tuple(gains), result.tried)


def domain_study(
    job: Job, model: OpTimes, base: System, domains: Sequence[int],
    efficiency: Efficiency = DEFAULT, *, limits: Limits = DEFAULT_LIMITS,
) -> Study:  # fmt: skip
    """Gains of NVLink domains of other sizes, everything else of ``base`` kept.

    A job inside the smallest domain compared gains exactly nothing from a larger one.
    """
    from codesign.hardware.levers import apply_lever

    systems = [apply_lever(base, "nvlink_domain", d / base.nvlink_domain) for d in domains]
    return study(job, model, base, systems, efficiency, limits=limits)


@dataclass(frozen=True)
class Split:
    """A change of parts split into steps, each a gain; their product is the whole."""

    steps: tuple[tuple[str, float], ...]
    total: float
    base: Found
    candidate: Found


def capacity_split(
    job: Job, model: OpTimes, base: System, candidate: System,
    efficiency: Efficiency = DEFAULT, *, limits: Limits = DEFAULT_LIMITS,
) -> Split:  # fmt: skip
    """The gain of another part, split into rates, power and capacity.

    - ``rates``: clocks, peaks, bandwidths and links of the candidate at the base's power
      and capacity, each side at the best plan that fits the base's capacity;
    - ``power``: the candidate's power on top;
    - ``capacity``: its HBM on top, which lets other plans in (less recomputation, less tp).
    """
    old = base.gpu
    rates = replace(
        candidate, name=f"{candidate.name} at {base.name}'s power and capacity",
        gpu=replace(candidate.gpu, hbm_capacity_bytes=old.hbm_capacity_bytes,
                    power_w=old.power_w * watts_needed(candidate) / watts_needed(base)),
    )  # fmt: skip
    power = replace(
        candidate,
        name=f"{candidate.name} at {base.name}'s capacity",
        gpu=replace(candidate.gpu, hbm_capacity_bytes=old.hbm_capacity_bytes),
    )
    systems = [base, rates, power, candidate]
    found = search(job, model, systems, efficiency, limits=limits).found
    known = [f for f in found if f is not None]
    if len(known) < len(systems):
        raise UsageError(f"{job.name}: no plan over {job.gpus} GPUs fits {base.name}")
    times = [f.step_s for f in known]
    names = ("rates", "power", "capacity")
    steps = tuple((n, a / b) for n, a, b in zip(names, times[:-1], times[1:], strict=True))
    return Split(steps, times[0] / times[-1], known[0], known[-1])


def gain_interval(
    job: Job, plan: Plan, model: OpTimes, base: System, candidate: System, draws: Any,
    efficiency: Efficiency = DEFAULT,
) -> Interval:  # fmt: skip
    """Gain at one plan with its 90 % interval, by joint draws of the op models.

    ``draws``: those of the sensitivity model. The efficiency parameters are common to both
    sides and are not drawn.
    """
    import pandas as pd

    systems = [base, candidate]
    shares, kinds = step_kinds(job, Plans.of([plan]))
    timed = time_kinds(kinds, model, systems)
    point = total_s(compose(job, shares, timed, systems, efficiency))[:, 0]
    drawn = model.times(pd.DataFrame(timed.rows), [without_power(s) for s in systems], draws)
    gains = []
    for unit in drawn:
        again = replace(timed, seconds=[unit[:, place] for place in timed.places])
        step = total_s(compose(job, shares, again, systems, efficiency))[:, 0]
        gains.append(step[0] / step[1])
    lo, hi = np.quantile(gains, [0.05, 0.95])
    value = float(point[0] / point[1])
    return Interval(value, float(min(lo, value)), float(max(hi, value)))
