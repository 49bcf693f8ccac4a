"""Experiments, measured and projected: one fit for every set of GPUs held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign._common.scores import ExperimentRow, Interval
from codesign.hardware import load_system
from codesign.projection.experiments.projected import (
    composed,
    kernel_ratio,
    work_of,
    workload_ratio,
)
from codesign.projection.experiments.records import Experiment
from codesign.projection.experiments.rows import Pairs, Ratio, measured_ratio, pairs_of
from codesign.projection.step import step_of
from codesign.sensitivity.backtest_rows import RowCache
from codesign.sensitivity.errors import LeakageError

DRAWS = 200
SEED = 0
_ABSTAINS = (DataError, InsufficientDataError, UsageError)

Fitter = Callable[[Any, tuple[str, ...]], Any]
"""(database, GPUs to train on) -> a model that has seen no other."""


class CachedTables:
    """A kernel database that keeps its last tables: experiments read the same ones again."""

    def __init__(self, db: Any) -> None:
        self._db, self._rows = db, RowCache(db)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows if name == "training_ops" else self._db, name)


def fit_on(db: Any, gpus: tuple[str, ...]) -> Any:
    """The sensitivity model of the package, fitted to ``gpus`` alone."""
    from codesign.sensitivity import fit

    return fit(db, gpus=gpus)


def training_gpus(db: Any, hold_out: Sequence[str]) -> tuple[str, ...]:
    """What is left to fit on."""
    return tuple(g for g in db.gpus() if g not in set(hold_out))


def training_sets(db: Any, experiments: Sequence[Experiment]) -> tuple[tuple[str, ...], ...]:
    """GPUs of every fit that ``experiment_rows`` asks for, in its order."""
    sets = (training_gpus(db, e.hold_out) for e in experiments if _projectable(e))
    return tuple(dict.fromkeys(sets))


def experiment_rows(
    db: Any,
    experiments: Sequence[Experiment],
    *,
    fitter: Fitter = fit_on,
    draws: int = DRAWS,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[ExperimentRow, ...]:
    """Every experiment, in order: the measured ratio, computed anew where the tables have it,
    beside the ratio that a model projects which has not seen the GPUs held out.
    """
    found: dict[str, ExperimentRow] = {}
    by_training: dict[tuple[str, ...], list[Experiment]] = {}
    for experiment in experiments:
        if not _projectable(experiment):
            found[experiment.name] = experiment_row(experiment, db, None, None)
            continue
        training = training_gpus(db, experiment.hold_out)
        by_training.setdefault(training, []).append(experiment)
    for training, some in by_training.items():
        note(f"fit on {', '.join(training)}")
        model = fitter(db, training)
        joint = model.draws(draws, SEED)
        for experiment in some:
            note(experiment.name)
            found[experiment.name] = experiment_row(experiment, db, model, joint)
    return tuple(found[e.name] for e in experiments)


def experiment_row(e: Experiment, db: Any, model: Any, joint: Any) -> ExperimentRow:
    """One experiment against a model that has not seen what is held out, or against none.

    Raises LeakageError if it has.
    """
    seen = sorted(set(e.hold_out) & set(model.trained_on)) if model is not None else []
    if seen:
        raise LeakageError(f"{e.name}: the model was fitted on {', '.join(seen)}")
    pairs, today, why = _today(e, db)
    projected: Interval | None = None
    if not why:
        try:
            projected = _projected(e, pairs, db, model, joint)
        except _ABSTAINS as error:
            why = str(error)
    measured = today.value if today else e.measured.ratio
    agrees = None
    if today is not None:
        agrees = abs(today.value / e.measured.ratio - 1.0) <= e.measured.tolerance
    return ExperimentRow(
        name=e.name, title=e.title, lever=e.lever, role=e.role, before=_label(e, before=True),
        after=_label(e, before=False), moved=dict(e.moved), measured=measured,
        measured_lo=_end(e, today, 0), measured_hi=_end(e, today, 1),
        n=today.n if today and today.n else e.measured.n, measured_by=e.measured.by,
        stated=e.measured.ratio, agrees=agrees, projected=projected,
        inside=None if projected is None else projected.lo <= measured <= projected.hi,
        why_not=why, trained_on=() if model is None else tuple(model.trained_on),
        confounders=e.confounders,
        source=e.source,
    )  # fmt: skip


def check_experiment(e: Experiment, db: Any) -> str:
    """What is wrong with the stated ratio by the tables of today; empty if nothing is.

    Needs no model. Published ratios, and ratios whose tables are absent, pass.
    """
    _, today, _ = _today(e, db)
    if today is None or abs(today.value / e.measured.ratio - 1.0) <= e.measured.tolerance:
        return ""
    return (
        f"{e.name}: states x{e.measured.ratio:g}, the kernel tables give x{today.value:.3f} "
        f"(tolerance {e.measured.tolerance:.0%}); correct measured.ratio"
    )


def _projectable(e: Experiment) -> bool:
    return e.kernels is not None or e.before.recipe is not None


def _projected(e: Experiment, pairs: Pairs | None, db: Any, model: Any, joint: Any) -> Interval:
    if e.kernels is not None and pairs is not None:
        return kernel_ratio(e, e.kernels, pairs, model, joint)
    if not _projectable(e):
        raise InsufficientDataError(
            "a published ratio, with neither kernels nor a recipe to project it by"
        )
    return workload_ratio(e, db, model, joint)


def _today(e: Experiment, db: Any) -> tuple[Pairs | None, Ratio | None, str]:
    """Rows, the ratio that the tables give, and why there is none."""
    try:
        if e.kernels is not None:
            pairs = pairs_of(e, e.kernels, db)
            return pairs, measured_ratio(pairs, e.kernels.statistic), ""
        if e.measured.by == "composed":
            return None, _composed_ratio(e, db), ""
    except _ABSTAINS as error:
        return None, None, str(error)
    return None, None, ""


def _composed_ratio(e: Experiment, db: Any) -> Ratio:
    before, after = (composed(side, db, side.system) for side in (e.before, e.after))
    ratio = step_of(before).step_time_s / step_of(after).step_time_s
    value = ratio * work_of(after) / work_of(before)
    return Ratio(value, value, value, 0)


def _end(e: Experiment, today: Ratio | None, index: int) -> float | None:
    if today is not None and today.n:
        return (today.lo, today.hi)[index]
    return None if e.measured.spread is None else e.measured.spread[index]


def _label(e: Experiment, before: bool) -> str:
    """System, and what of the work is this side's own."""
    side = e.before if before else e.after
    words = [load_system(side.system).name]
    words += [f"{key}={value}" for key, value in side.where.items() if key != "kernel"]
    words += [f"{side.recipe}" if side.recipe and (e.before.recipe != e.after.recipe) else ""]
    words += [f"{key}={value}" for key, value in side.set.items() if e.before.set != e.after.set]
    return " ".join(w for w in words if w)
