"""A workload of a portfolio over many GPUs: its best plan, scaling, levers and domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign._common.scores import Interval
from codesign.cluster.candidates import DEFAULT_LIMITS, Limits, why_not
from codesign.cluster.efficiency import DEFAULT, Efficiency
from codesign.cluster.grid import OpTimes, time_kinds, without_power
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.levers import domain_study, study
from codesign.cluster.ops import step_kinds
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.records import (
    AtScale,
    ClusterProjection,
    DomainAtScale,
    LeverAtScale,
    Placed,
)
from codesign.cluster.search import evaluate
from codesign.cluster.step import compose, total_s
from codesign.cluster.summary import neighbours, placed, scaling_curve

if TYPE_CHECKING:
    from codesign.cluster.levers import Study
    from codesign.hardware.model import System

Array = NDArray[np.float64]

DOMAINS = (8, 36, 72, 144, 576)
"""NVLink domains compared: HGX, NVL36, NVL72, and the two sizes announced after them."""
CONTROL_MODEL = "llama-3-8b"


@dataclass(frozen=True)
class LeverStep:
    """A candidate as the portfolio's study names it."""

    lever: str
    title: str
    label: str
    factor: float
    system: System


def at_scale(
    job: Job, plan: Plan | None, model: OpTimes, base: System, steps: Sequence[LeverStep],
    draws: Any = None, efficiency: Efficiency = DEFAULT, *, limits: Limits = DEFAULT_LIMITS,
    domains: Sequence[int] = DOMAINS,
) -> AtScale:  # fmt: skip
    """``job`` on ``base`` and on every step; ``plan`` is the one in use, if it divides the job.

    ``draws``: joint draws of the op model for intervals of gains; without, they are points.
    Raises UsageError if no plan fits the base.
    """
    used = plan if plan is not None and why_not(job, plan) is None else None
    candidates = [s.system for s in steps]
    found = study(job, model, base, candidates, efficiency, limits=limits)
    gains = _intervals(job, found, model, base, draws, efficiency)
    curve = scaling_curve(job, model, base, efficiency, _around(job.gpus), limits)
    control = _domains(control_job(job, base), model, base, domains, efficiency, limits)
    # An empty column says why it is empty.
    unfit = " (no plan of it fits)" if domains and not control else ""
    return AtScale(
        workload=job.name, gpus=job.gpus, global_batch=job.global_batch,
        sequence_length=job.sequence_length, precision=job.precision,
        plan_in_use=_in_use(job, used, model, base, efficiency), best=placed(job, found.base),
        neighbours=neighbours(job, found.base, model, efficiency, limits), scaling=curve,
        levers=tuple(
            LeverAtScale(s.lever, s.title, s.label, s.factor, fixed, own, str(g.candidate.plan),
                         g.fits)
            for s, g, (fixed, own) in zip(steps, found.gains, gains, strict=True)
        ),
        domains=_domains(job, model, base, domains, efficiency, limits),
        control=control, control_job=f"{CONTROL_MODEL} on {_inside(base)} GPUs{unfit}",
        tried=found.tried,
    )  # fmt: skip


def control_job(job: Job, base: System) -> Job:
    """A job inside one domain, run as ``job`` is: no larger domain can help it."""
    gpus = _inside(base)
    return msgspec.structs.replace(
        job, model=load_model_config(CONTROL_MODEL), gpus=gpus, global_batch=8 * gpus,
        sequence_length=min(job.sequence_length, 8192), name=CONTROL_MODEL, mtp=False,
    )  # fmt: skip


def domain_control(job: Job, model: OpTimes, base: System, domain: int) -> float:
    """Gain of the control job from an NVLink domain of ``domain`` GPUs, all else of ``base``
    kept. Raises UsageError if no plan of it fits.
    """
    return domain_study(control_job(job, base), model, base, [domain]).gains[0].replanned


def with_controls(
    found: ClusterProjection, job: Job, model: OpTimes, systems: Sequence[System]
) -> ClusterProjection:
    """``found`` with the control beside each larger NVLink domain: what the domain does for a
    job that the smaller one holds.

    ``systems`` are those of ``found``, in their order; domains are compared with the first one's.
    Where no control can be made, a warning names the system and says why.
    """
    base, rows, warnings = systems[0], list(found.systems), list(found.warnings)
    for i, system in enumerate(systems):
        # Levers alone: of another part, the domain is not the only thing that moved.
        if not any(name == "nvlink_domain" for name, _ in system.levers) or (
            system.nvlink_domain <= base.nvlink_domain
        ):
            continue
        try:
            gain = domain_control(job, model, base, system.nvlink_domain)
        except UsageError as error:
            warnings.append(f"{system.name}: its domain has no control: {error}")
        else:
            rows[i] = msgspec.structs.replace(rows[i], control=gain)
    return msgspec.structs.replace(found, systems=tuple(rows), warnings=tuple(warnings))


def _inside(base: System) -> int:
    return min(base.nvlink_domain, *DOMAINS)


def _around(gpus: int) -> list[int]:
    return sorted({max(gpus // 4, 1), max(gpus // 2, 1), 2 * gpus, 4 * gpus} - {gpus})


def _in_use(
    job: Job, plan: Plan | None, model: OpTimes, base: System, efficiency: Efficiency
) -> Placed | None:
    if plan is None:
        return None
    return placed(job, evaluate(job, plan, model, [base], efficiency)[0])


def _domains(
    job: Job, model: OpTimes, base: System, sizes: Sequence[int], efficiency: Efficiency,
    limits: Limits,
) -> tuple[DomainAtScale, ...]:  # fmt: skip
    # A domain smaller than the job's control is another question: how much of it is needed.
    wanted = [size for size in sizes if size >= _inside(base)]
    try:
        found = domain_study(job, model, base, wanted, efficiency, limits=limits)
    except UsageError:
        return ()
    return tuple(
        DomainAtScale(g.system.nvlink_domain, g.fixed, g.replanned, str(g.candidate.plan))
        for g in found.gains
    )


def _intervals(
    job: Job, found: Study, model: OpTimes, base: System, draws: Any, efficiency: Efficiency
) -> list[tuple[Interval, Interval]]:
    """90 % intervals of both gains of every candidate, by joint draws of the op model."""
    points = [(g.fixed, g.replanned) for g in found.gains]
    if draws is None or not points:
        return [(Interval(a, a, a), Interval(b, b, b)) for a, b in points]
    import pandas as pd

    systems = [base, *(g.system for g in found.gains)]
    plans = Plans.of([found.base.plan, *(g.candidate.plan for g in found.gains)])
    shares, kinds = step_kinds(job, plans)
    timed = time_kinds(kinds, model, systems)
    drawn = model.times(pd.DataFrame(timed.rows), [without_power(s) for s in systems], draws)
    pairs = []
    for unit in drawn:
        again = replace(timed, seconds=[unit[:, place] for place in timed.places])
        step = total_s(compose(job, shares, again, systems, efficiency))
        index = np.arange(1, len(systems))
        pairs.append((step[0, 0] / step[index, 0], step[0, 0] / step[index, index]))
    spread = np.quantile(np.array(pairs), [0.05, 0.95], axis=0)
    return [
        (_around_point(a, spread[:, 0, i]), _around_point(b, spread[:, 1, i]))
        for i, (a, b) in enumerate(points)
    ]


def _around_point(value: float, ends: Array) -> Interval:
    lo, hi = float(ends[0]), float(ends[1])
    return Interval(value, min(lo, value), max(hi, value))
