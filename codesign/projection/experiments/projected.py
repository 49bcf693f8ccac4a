"""What the model says of an experiment: the same ratio, with a 90 % interval.

Where one GPU followed another under the same ops, the ops' times before are carried over
(transfer). Where the ops themselves differ (a precision, SMs given to communication, ranks),
both sides are the model's own times (spec-only), so that nothing measured enters.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError
from codesign._common.scores import Interval
from codesign.hardware import load_system
from codesign.projection.experiments.records import Experiment, Kernels, recipe_of
from codesign.projection.experiments.rows import Pairs, ratio_of
from codesign.projection.portfolio import interval
from codesign.projection.projector import project
from codesign.projection.step import scale_step, step_of
from codesign.projection.transfer import transfer_ratio
from codesign.sensitivity.blind import unmeasured
from codesign.sensitivity.op_model import numbers, strings

if TYPE_CHECKING:
    import pandas as pd

    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

MOST_ROWS = 400
"""Ops behind a projected ratio: medians of more are no different."""
COUNTS = 0.1
"""Share of a step from which an op class decides its ratio."""


@dataclass(frozen=True)
class _Ops:
    """The part of a characterization that a transfer looks at."""

    ops: pd.DataFrame


def kernel_ratio(e: Experiment, kernels: Kernels, pairs: Pairs, model: Any, joint: Any) -> Interval:
    """Projected ratio of single ops. Raises InsufficientDataError if the model lacks them."""
    pairs = pairs.some(MOST_ROWS)
    known = model.covered(pairs.before) & model.covered(pairs.after)
    if not known.any():
        raise InsufficientDataError("no fitted op model covers these ops")
    pairs = pairs.rows(known)
    before, after = _systems(e, model)
    if e.where:
        faster = _structural(pairs.before, before, model, joint, "before") / _structural(
            pairs.after, after, model, joint, "after"
        )
    else:
        char = cast("Characterization", _Ops(pairs.before.reset_index(drop=True)))
        point = transfer_ratio(model, char, before, after, None, scoring=True)
        drawn = transfer_ratio(model, char, before, after, joint, scoring=True)
        faster = 1.0 / np.vstack([point[None, :], drawn])
    return interval(np.array([ratio_of(row, kernels.statistic) for row in faster]))


def workload_ratio(e: Experiment, db: Any, model: Any, joint: Any) -> Interval:
    """Projected gain of a whole workload a GPU: tokens a second after / before.

    Both recipes are composed on the system before; the second is projected onto the system
    after. On one and the same system both are the model's own times, so that none was measured.
    """
    before, after = _systems(e, model)
    chars = [composed(side, db, before.name) for side in (e.before, e.after)]
    if before.gpu.name == after.gpu.name:
        first, second = (_modelled_steps(c, before, model, joint) for c in chars)
    else:
        if recipe_of(e.before) != recipe_of(e.after):
            _refuse_other_tables(*chars)
        base = load_system(e.before.system)
        projected = project(chars[1], model, [after], joint, base=base, scoring=True)
        second = projected.step_time_s[:, 0]
        first = np.full_like(second, step_of(chars[0]).step_time_s)
    return interval(first / second * work_of(chars[1]) / work_of(chars[0]))


def composed(side: Any, db: Any, system: str) -> Characterization:
    """The recipe of a side composed on ``system``, whatever the side's own is."""
    from codesign.sources.compose import compose

    return compose(recipe_of(side), db, load_system(system))


def work_of(char: Characterization) -> float:
    """Tokens a step and GPU."""
    return float(char.header.tokens_per_step or 1.0) / char.header.gpus


def _systems(e: Experiment, model: Any) -> tuple[System, System]:
    """Both systems as their data sheets describe them."""
    before = load_system(e.before.system)
    after = unmeasured(load_system(e.after.system), model.trained_on, before)
    if before.gpu.name == after.gpu.name:
        before = after = unmeasured(before, model.trained_on)
    return before, after


def _refuse_other_tables(first: Characterization, second: Characterization) -> None:
    """Raise where two recipes' op times rest on different tables: their kernels differ, which
    does not cancel between recipes as it does within one.
    """
    tables = [_tables(c) for c in (first, second)]
    shares = [_shares(c) for c in (first, second)]
    for op_class in sorted(shares[0]):
        share = max(s.get(op_class, 0.0) for s in shares)
        before, after = (t.get(op_class, "") for t in tables)
        if share > COUNTS and before != after:
            raise InsufficientDataError(
                f"{op_class} ({share:.0%} of the step) is timed by {before or 'a formula'} before "
                f"and {after or 'a formula'} after: other kernels"
            )


def _tables(char: Characterization) -> dict[str, str]:
    """Kernel tables behind each op class, joined."""
    stems = char.ops["source"].str.extract(r"(\w+_perf)", expand=False).fillna("")
    grouped = stems.groupby(char.ops["op_class"]).unique()
    return {str(k): " and ".join(sorted(s for s in v if s)) for k, v in grouped.items()}


def _shares(char: Characterization) -> dict[str, float]:
    busy = char.ops.groupby("op_class")["exposed_s"].sum().astype(float)
    return {str(k): float(v) for k, v in (busy / busy.sum()).items()}


def _structural(ops: pd.DataFrame, system: System, model: Any, joint: Any, side: str) -> Array:
    """(draws + 1, ops) the model's own seconds; row 0 is the point estimate.

    What neighbouring shapes share is common to ops of a class, precision and ``side``: kernels
    are chosen by regions of shapes.
    """
    point = model.times(ops, [system])
    drawn = model.times(ops, [system], draws=joint)[:, 0, :]
    region = model.predict(ops, system, in_sample=True)["region_sd"].to_numpy(dtype=np.float64)
    kind = np.char.add(np.char.add(strings(ops, "op_class"), "/"), strings(ops, "precision"))
    for name in np.unique(kind):
        rows = kind == name
        key = zlib.crc32(f"experiment/{system.gpu.name}/{name}/{side}".encode())
        normal = np.random.default_rng([joint.seed, key]).standard_normal(joint.n)
        drawn[:, rows] *= np.exp(normal[:, None] * region[rows])
    return np.concatenate([point, drawn], axis=0)


def _modelled_steps(char: Characterization, system: System, model: Any, joint: Any) -> Array:
    """(draws + 1,) step times with every op's time replaced by the model's."""
    measured = numbers(char.ops, "time_s")
    known = model.covered(char.ops) & (measured > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _structural(char.ops, system, model, joint, "") / measured
    return scale_step(step_of(char), np.where(known & np.isfinite(ratio), ratio, 1.0)).step_time_s
