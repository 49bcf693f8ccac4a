"""A step of wall time from its ops: scaling, exposure, idle time, pipeline bubble.

Everything is written as a change against the measured step, so that hardware which
changes nothing leaves every number exactly as it was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]
Index = NDArray[np.intp]

HIDEABLE_CLASSES = ("collective", "copy")
"""Classes that run beside compute; all others are compute that can hide them."""


NOTHING = 1e-12
"""Part of a step that is no time at all: what grows from it has no rate."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Step:
    """One measured step as arrays over its ops, seconds per step."""

    time_s: Array
    exposed_s: Array
    bubble_s: float
    fixed_idle_s: float
    """Idle time that no lever changes: idle less bubble."""
    phases: tuple[Index, ...]
    """Compute rows of each phase that has any."""
    windowed: Index
    """Rows that hide behind a known window of compute."""
    window_s: Array
    """Of the windowed rows."""
    partial: Index
    """Hideable rows that are partly hidden, by a window that nobody recorded."""
    hidden_by_s: Array
    """(windowed, then partial rows; ``phases``): seconds of that compute that hide the row, none
    of them twice."""

    @property
    def busy_s(self) -> float:
        """Wall time that belongs to some op."""
        return float(self.exposed_s.sum())

    @property
    def step_time_s(self) -> float:
        """Busy time, bubble and the rest of the idle time."""
        return self.busy_s + self.bubble_s + self.fixed_idle_s


@dataclass(frozen=True)
class ScaledStep:
    """A step on other hardware. Leading axes are those of the ratios, such as (draws, systems)."""

    exposed_s: Array
    """(..., ops)"""
    window_s: Array
    """(..., windowed rows): the compute that each can hide behind."""
    bubble_s: Array
    """(...)"""
    step_time_s: Array
    """(...): sum of ``exposed_s``, ``bubble_s`` and the fixed idle time."""


def step_of(char: Characterization) -> Step:
    """The step of a characterization.

    A row without ``exposed_s`` counts with its whole time: nothing is known to hide it.
    """
    ops, header = char.ops, char.header
    time = _floats(ops, "time_s", 0.0)
    exposed = np.where(np.isnan(e := _floats(ops, "exposed_s")), time, e)
    window = _floats(ops, "overlap_window_s")
    hideable = ops["op_class"].isin(HIDEABLE_CLASSES).to_numpy(dtype=bool)
    phase = ops["phase"].fillna("").to_numpy(dtype=object)
    names = sorted(set(phase[~hideable]))
    phases = [np.flatnonzero(~hideable & (phase == name)) for name in names]
    phases = [rows for rows in phases if exposed[rows].sum() > 0]
    names = [str(phase[rows[0]]) for rows in phases]
    windowed = np.flatnonzero(hideable & ~np.isnan(window))
    partial = np.flatnonzero(hideable & np.isnan(window) & (exposed < time))
    hidden = np.concatenate([windowed, partial])
    # Hidden by a phase without compute of its own (an optimizer's last reduction): by all.
    own = np.array([names.index(p) if p in names else -1 for p in phase[hidden]], int)
    size = np.concatenate([window[windowed], (time - exposed)[partial]])
    used = np.minimum(size, time[hidden])
    by = _hidden_by(size, used, own, np.array([exposed[rows].sum() for rows in phases]))
    return Step(
        time_s=time, exposed_s=exposed,
        bubble_s=header.bubble_s, fixed_idle_s=max(header.idle_s - header.bubble_s, 0.0),
        phases=tuple(phases), windowed=windowed, partial=partial, hidden_by_s=by,
        # What a window holds beyond the row's time is there only as far as nothing else uses it.
        window_s=np.where(
            used < size, np.minimum(np.maximum(by.sum(axis=-1), used), size), size
        )[: windowed.size],
    )  # fmt: skip


def _floats(ops: pd.DataFrame, column: str, default: float = float("nan")) -> Array:
    return np.asarray(ops[column].to_numpy(dtype=np.float64, na_value=default))


def _hidden_by(window_s: Array, used_s: Array, own: Index, compute_s: Array) -> Array:
    """(rows, phases) seconds of each phase's compute that hide a row or could.

    A second of compute hides one row, so it can bring one second to light and faster compute
    never makes the step slower. What rows use (``used_s``) comes first, then what their windows
    hold beyond it: a window that its row does not fill takes nothing from one that is full. A
    phase that cannot hold what its rows use (or has no compute: ``own`` -1) has them take what
    the others leave free, in proportion; where all is used they share it.
    """
    granted = np.zeros((len(window_s), len(compute_s)))
    free = compute_s.astype(np.float64)
    reaches = own < 0
    for index, compute in enumerate(compute_s):
        mine = own == index
        reaches |= mine & (used_s[mine].sum() > compute * (1 + _ROUNDING))
    for wanted in (used_s, window_s - used_s):
        for index in range(len(compute_s)):
            mine = np.flatnonzero((own == index) & ~reaches)
            given = wanted[mine] * _part(free[index], wanted[mine].sum())
            granted[mine, index] += given
            free[index] = max(free[index] - given.sum(), 0.0)
        left, far = free.sum(), np.flatnonzero(reaches)
        if left > 0:
            given = np.outer(wanted[far] * _part(left, wanted[far].sum()), free / left)
            granted[far] += given
            free = np.maximum(free - given.sum(axis=0), 0.0)
    return granted


def _part(free_s: float, wanted_s: float) -> float:
    """Part of what is wanted that there is."""
    return 1.0 if wanted_s <= free_s * (1 + _ROUNDING) else free_s / wanted_s


def scale_step(step: Step, ratio: Array) -> ScaledStep:
    """The step when the time of each op is multiplied by ``ratio`` (..., ops).

    - Compute that others cover keeps its exposed share.
    - A row with a window: exposed = max(0, time - window); the seconds of compute that it
      stands for shorten with the exposed compute of their phase.
    - A partly hidden row without a window: the worse of two readings, the exposed share
      staying and the hidden seconds staying; what of it can hide further is not known.
    - The bubble scales with the busy time, other idle time stays.
    """
    exposed: Array = step.exposed_s * ratio
    window = np.broadcast_to(step.window_s, (*ratio.shape[:-1], step.windowed.size))
    hidden = np.concatenate([step.windowed, step.partial])
    if hidden.size:
        shift = np.zeros((*ratio.shape[:-1], hidden.size))
        for rows, seconds in zip(step.phases, step.hidden_by_s.T, strict=True):
            shift = shift + _compute_change(step, ratio, rows)[..., None] * seconds
        split = step.windowed.size
        window = np.maximum(step.window_s + shift[..., :split], 0.0)
        exposed[..., step.windowed] = _windowed(step, ratio, window)
        exposed[..., step.partial] = _partial(step, ratio, shift[..., split:])
    gained = (exposed - step.exposed_s).sum(axis=-1)
    bubble = step.bubble_s * (1.0 + _relative(gained, step.busy_s, step))
    total = step.step_time_s + gained + (bubble - step.bubble_s)
    return ScaledStep(exposed, window, bubble, total)


def _compute_change(step: Step, ratio: Array, rows: Index) -> Array:
    """(...): relative change of the exposed compute of ``rows``; 0 where there is none."""
    before = float(step.exposed_s[rows].sum())
    gained = (step.exposed_s[rows] * (np.take(ratio, rows, axis=-1) - 1.0)).sum(axis=-1)
    return _relative(gained, before, step)


def _relative(gained: Array, before: float, step: Step) -> Array:
    """(...): gained / before; 0 where ``before`` is nothing, or as good as nothing of the step."""
    return np.asarray(gained / before if before > NOTHING * step.step_time_s else 0.0 * gained)


def _windowed(step: Step, ratio: Array, window_s: Array) -> Array:
    time, exposed = step.time_s[step.windowed], step.exposed_s[step.windowed]
    own = np.take(ratio, step.windowed, axis=-1)
    scaled = time * own
    moved = np.maximum(scaled - window_s, 0.0) - np.maximum(time - step.window_s, 0.0)
    return np.asarray(np.clip(exposed + moved, 0.0, np.maximum(scaled, exposed * own)))


def _partial(step: Step, ratio: Array, shift: Array) -> Array:
    time, exposed = step.time_s[step.partial], step.exposed_s[step.partial]
    own = np.take(ratio, step.partial, axis=-1)
    seconds_stay = exposed + time * (own - 1.0) - shift
    return np.asarray(np.maximum(exposed * own, seconds_stay))
