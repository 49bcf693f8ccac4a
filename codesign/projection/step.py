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


@dataclass(frozen=True)
class Step:
    """One measured step as arrays over its ops, seconds per step."""

    time_s: Array
    exposed_s: Array
    bubble_s: float
    fixed_idle_s: float
    """Idle time that no lever changes: idle less bubble."""
    phases: tuple[Index, ...]
    """Compute rows of each phase, and last of all those of the whole step."""
    windowed: Index
    """Rows that hide behind a known window of compute."""
    window_s: Array
    """Of the windowed rows."""
    partial: Index
    """Hideable rows that are partly hidden, by a window that nobody recorded."""
    behind: Index
    """Windowed, then partial rows: index into ``phases`` of the compute that hides them."""
    relief: Array
    """Windowed, then partial rows: share of a change of that compute that reaches the row."""

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
    phases.append(np.flatnonzero(~hideable))
    windowed = np.flatnonzero(hideable & ~np.isnan(window))
    partial = np.flatnonzero(hideable & np.isnan(window) & (exposed < time))
    hidden = np.concatenate([windowed, partial])
    # Hidden by a phase without compute of its own (an optimizer's last reduction): by all.
    behind = np.array([names.index(p) if p in names else len(names) for p in phase[hidden]], int)
    size = np.concatenate([window[windowed], (time - exposed)[partial]])
    behind = _room(size, behind, [float(exposed[r].sum()) for r in phases])
    return Step(
        time_s=time, exposed_s=exposed,
        bubble_s=header.bubble_s, fixed_idle_s=max(header.idle_s - header.bubble_s, 0.0),
        phases=tuple(phases), windowed=windowed, window_s=window[windowed], partial=partial,
        behind=behind, relief=_relief(size, behind, [float(exposed[r].sum()) for r in phases]),
    )  # fmt: skip


def _floats(ops: pd.DataFrame, column: str, default: float = float("nan")) -> Array:
    return np.asarray(ops[column].to_numpy(dtype=np.float64, na_value=default))


def _room(window_s: Array, behind: Index, compute_s: list[float]) -> Index:
    """``behind``, with the whole step for rows whose phase cannot hold its windows.

    Windows that add up to more than the compute of their phase reach into that of others:
    their rows do not shrink with their own phase alone.
    """
    whole = len(compute_s) - 1
    placed = behind.copy()
    for index, compute in enumerate(compute_s[:-1]):
        mine = behind == index
        if float(window_s[mine].sum()) > compute * (1 + 1e-9):
            placed[mine] = whole
    return placed


def _relief(window_s: Array, behind: Index, compute_s: list[float]) -> Array:
    """Share of a change of compute that a row's window takes part in.

    Windows over one phase may add up to more than its compute. Each second of compute
    can hide, and so on leaving expose, one second only; otherwise faster compute
    would make the step slower.
    """
    own, whole = compute_s[:-1], compute_s[-1]
    if whole <= 0:
        return np.zeros_like(window_s)
    unplaced = float(window_s[behind == len(own)].sum())
    relief = []
    for index, compute in enumerate(own):
        load = float(window_s[behind == index].sum()) + unplaced * compute / whole
        relief.append(min(1.0, compute / load) if load > 0 else 1.0)
    relief.append(min(relief, default=1.0))
    return np.array([relief[index] for index in behind], dtype=np.float64)


def scale_step(step: Step, ratio: Array) -> ScaledStep:
    """The step when the time of each op is multiplied by ``ratio`` (..., ops).

    - Compute that others cover keeps its exposed share.
    - A row with a window: exposed = max(0, time - window), the window scaling with the
      exposed compute of its phase.
    - A partly hidden row without a window: the worse of two readings, the exposed share
      staying and the hidden seconds staying; what of it can hide further is not known.
    - The bubble scales with the busy time, other idle time stays.
    """
    exposed: Array = step.exposed_s * ratio
    window = np.broadcast_to(step.window_s, (*ratio.shape[:-1], step.windowed.size))
    hidden = np.concatenate([step.windowed, step.partial])
    if hidden.size:
        change = np.stack([_compute_change(step, ratio, rows) for rows in step.phases], axis=-1)
        shift = np.take(change, step.behind, axis=-1) * step.relief
        split = step.windowed.size
        window = step.window_s * (1.0 + shift[..., :split])
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
    seconds_stay = exposed + time * (own - 1.0) - (time - exposed) * shift
    return np.asarray(np.maximum(exposed * own, seconds_stay))
