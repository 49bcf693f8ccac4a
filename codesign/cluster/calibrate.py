"""The efficiency parameters from some published steps, and how well they predict others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError
from codesign.cluster.efficiency import PRIOR_SD, UNCALIBRATED, Efficiency
from codesign.cluster.grid import OpTimes, TimeCache, Timed, time_kinds
from codesign.cluster.ops import step_kinds
from codesign.cluster.plan import Plans
from codesign.cluster.shares import Shares
from codesign.cluster.step import compose, total_s

if TYPE_CHECKING:
    from codesign.cluster.published import Run
    from codesign.hardware.model import System

Array = NDArray[np.float64]

NOISE_SD = 0.05
"""Typical log error of one published step under a good model; weighs data against priors."""


@dataclass(frozen=True)
class Prepared:
    """Runs with the times of their ops, so that only the composition is evaluated again."""

    run: Run
    shares: Shares
    timed: Timed
    system: System


def prepare(runs: Sequence[Run], model: OpTimes) -> list[Prepared]:
    """The ops of all runs timed, system by system."""
    from codesign.hardware import load_system
    from codesign.hardware.levers import apply_lever

    by_system: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        by_system[run.system, run.levers].append(run)
    done: dict[int, Prepared] = {}
    for group in by_system.values():
        system = load_system(group[0].system)
        for lever, factor in group[0].levers:
            system = apply_lever(system, lever, factor)
        cache = TimeCache(model, (system,))
        for run in group:
            shares, kinds = step_kinds(run.job, Plans.of([run.plan]))
            timed = time_kinds(kinds, model, (system,), cache)
            done[id(run)] = Prepared(run, shares, timed, system)
    return [done[id(run)] for run in runs]


def predict(prepared: Sequence[Prepared], efficiency: Efficiency) -> Array:
    """(runs,) predicted seconds of a step."""
    return np.array([
        float(total_s(compose(p.run.job, p.shares, p.timed, (p.system,), efficiency))[0, 0])
        for p in prepared
    ])  # fmt: skip


def calibrate(
    prepared: Sequence[Prepared], start: Efficiency = UNCALIBRATED,
    names: Sequence[str] | None = None, prior_sd: Mapping[str, float] = PRIOR_SD,
) -> Efficiency:  # fmt: skip
    """Parameters that fit the runs, by robust least squares on log step time.

    Each parameter is held to its start by a log-normal prior of ``prior_sd``. Robust losses have
    several minima: the search sets out from the prior's middle and from one standard deviation
    above it, and the lower one counts. Releases of one configuration share the weight of one
    run. Raises InsufficientDataError without runs.
    """
    from scipy.optimize import least_squares

    if not prepared:
        raise InsufficientDataError("no published run to calibrate the step model with")
    names = list(prior_sd) if names is None else list(names)
    prepared, measured = _merged(prepared)
    initial = np.array([np.log(getattr(start, n)) for n in names])
    prior = np.array([prior_sd[n] for n in names])

    def residuals(z: Array) -> Array:
        efficiency = _with(start, names, z)
        data = np.log(predict(prepared, efficiency) / measured) / NOISE_SD
        # Robust for data alone (Cauchy): a run four times off says little about the others.
        data = np.sign(data) * 2 * np.sqrt(np.log1p(data**2 / 4))
        return np.concatenate([data, (z - initial) / prior])

    found = [
        least_squares(residuals, origin, max_nfev=40, diff_step=np.full(len(names), 1e-3))
        for origin in (initial, initial + prior)
    ]
    return _with(start, names, min(found, key=lambda one: float(one.cost)).x)


def _merged(prepared: Sequence[Prepared]) -> tuple[list[Prepared], Array]:
    """One of the runs that share configuration and framework, with their mean log step time."""
    groups: dict[object, list[Prepared]] = defaultdict(list)
    for p in prepared:
        groups[p.run.key, p.run.job.framework].append(p)
    first = [group[0] for group in groups.values()]
    mean = [np.exp(np.mean([np.log(p.run.step_s) for p in g])) for g in groups.values()]
    return first, np.array(mean)


def _with(start: Efficiency, names: Sequence[str], z: Array) -> Efficiency:
    return msgspec.structs.replace(
        start, **{n: float(np.exp(v)) for n, v in zip(names, z, strict=True)}
    )


@dataclass(frozen=True)
class Scores:
    """How predictions stand to what was measured; errors are shares of the measured rate."""

    runs: int
    median: float
    p90: float
    mean: float
    bias: float
    """Median of the log ratio, predicted / measured step time."""
    rank: float
    """Spearman's correlation of throughput."""


def score(prepared: Sequence[Prepared], predicted_s: Array) -> Scores:
    """Errors of throughput over runs."""
    from scipy.stats import spearmanr

    measured = np.array([p.run.step_s for p in prepared])
    error = np.abs(measured / predicted_s - 1.0)
    rank = spearmanr(1.0 / measured, 1.0 / predicted_s).statistic if len(measured) > 2 else 1.0
    return Scores(
        len(measured), float(np.median(error)), float(np.quantile(error, 0.9)),
        float(error.mean()), float(np.median(np.log(predicted_s / measured))), float(rank),
    )  # fmt: skip


def system_ratios(prepared: Sequence[Prepared], predicted_s: Array) -> Array:
    """(pairs,) error of the ratio of rates between two systems that ran one model.

    Pairs are of one model, release and precision; each system's rate is the median of its
    runs there.
    """
    groups: dict[tuple[str, str, str, int], dict[str, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for i, p in enumerate(prepared):
        job = p.run.job
        key = (job.name, p.run.release, job.precision, job.sequence_length)
        groups[key][p.run.system].append(i)
    errors = []
    for systems in groups.values():
        names = sorted(systems)
        for a, first in enumerate(names):
            for second in names[a + 1 :]:
                ratio = [
                    _rate(prepared, systems[s], times)
                    for times in (predicted_s, None) for s in (first, second)
                ]  # fmt: skip
                errors.append(abs((ratio[0] / ratio[1]) / (ratio[2] / ratio[3]) - 1.0))
    return np.array(errors)


def _rate(prepared: Sequence[Prepared], rows: list[int], predicted_s: Array | None) -> float:
    values = []
    for i in rows:
        run = prepared[i].run
        step = run.step_s if predicted_s is None else float(predicted_s[i])
        values.append(run.job.tokens / step / run.job.gpus)
    return float(np.median(values))
