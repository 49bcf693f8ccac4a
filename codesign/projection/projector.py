"""A characterization on other hardware: step time and gain, with joint draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError, UsageError
from codesign._common.scores import Interval
from codesign.projection.portfolio import interval
from codesign.projection.step import Step, scale_step, step_of
from codesign.projection.transfer import is_same_silicon, transfer_ratio

if TYPE_CHECKING:
    import pandas as pd

    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

DEFAULT_DRAWS = 400
_REPR_SYSTEMS = 4
_CHUNK_ELEMENTS = 2_000_000
"""Draws x systems x ops held at a time: bounds memory to some hundred megabytes."""


class OpTimes(Protocol):
    """What a projection needs of a model; `sensitivity.SensitivityModel` has it."""

    @property
    def trained_on(self) -> Sequence[str]:
        """Names of the GPUs that the model was fitted to."""

    def times(self, ops: pd.DataFrame, systems: Sequence[System], draws: Any = None) -> Array:
        """(systems, ops) or (draws, systems, ops) structural seconds per step."""

    def draws(self, n: int, seed: int) -> Any:
        """Joint parameter draws, with their number ``n`` and ``seed``."""

    def predict(
        self, ops: pd.DataFrame, system: System, source: System | None = None,
        in_sample: bool = False,
    ) -> pd.DataFrame:  # fmt: skip
        """A prediction by op with its interval; asked for on another GPU only."""

    def binding(self, ops: pd.DataFrame, system: System) -> NDArray[Any]:
        """(ops,) name of the resource that binds each op."""

    def covered(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """(ops,) whether the model has a time for the row; the others are held constant."""


@dataclass(frozen=True)
class Projection:
    """One workload on several systems. Row 0 of every draws axis is the point estimate."""

    workload: str
    base: System
    systems: tuple[System, ...]
    base_step_time_s: float
    step_time_s: Array
    """(draws + 1, systems)"""
    base_exposed_s: Array
    """(ops,)"""
    base_bubble_s: float
    fixed_idle_s: float
    exposed_s: Array
    """(systems, ops), point estimate."""
    bubble_s: Array
    """(systems,), point estimate."""
    held: NDArray[np.bool_]
    """(ops,) True where the model has no say, so that the measured time was kept."""

    def __repr__(self) -> str:
        gains = [
            f"{system.name} x{gain.value:.3f} [{gain.lo:.3f}, {gain.hi:.3f}]"
            for system, gain in zip(self.systems[:_REPR_SYSTEMS], self.gain, strict=False)
        ]
        more = len(self.systems) - len(gains)
        gains += [f"{more} more"] * (more > 0)
        return (
            f"<Projection of {self.workload} from {self.base.name} "
            f"({self.base_step_time_s:.4g} s): {'; '.join(gains) or 'no systems'}>"
        )

    @property
    def held_share(self) -> float:
        """Share of the base's step taken by ops that the model cannot move."""
        return float(self.base_exposed_s[self.held].sum()) / self.base_step_time_s

    @property
    def idle_share(self) -> float:
        """Share of the base's step that is idle whatever the hardware; the bubble is apart."""
        return self.fixed_idle_s / self.base_step_time_s

    @property
    def movable_share(self) -> float:
        """Share of the base's step that can change: covered ops and their part of the bubble."""
        busy = float(self.base_exposed_s.sum())
        moves = float(self.base_exposed_s[~self.held].sum())
        return moves * (1.0 + self.base_bubble_s / busy) / self.base_step_time_s

    @property
    def gain_draws(self) -> Array:
        """(draws + 1, systems) time on the base / time on the system."""
        return np.asarray(self.base_step_time_s / self.step_time_s)

    @property
    def gain(self) -> tuple[Interval, ...]:
        """(systems,) gain with its 90 % interval."""
        draws = self.gain_draws
        return tuple(interval(draws[:, index]) for index in range(draws.shape[1]))

    @property
    def saved_s(self) -> Array:
        """(systems, ops) wall time that each op saves; negative where it costs more."""
        return np.asarray(self.base_exposed_s - self.exposed_s)


def base_system(char: Characterization, base: System | None = None) -> System:
    """The system that ``char`` was measured on; ``base`` states it where the file does not.

    Raises UsageError if neither does.
    """
    if base is not None:
        return base
    if char.header.system is None:
        raise UsageError(
            f"{char.header.workload}: the characterization does not name its system; "
            "say which with base=... or --base"
        )
    from codesign.hardware import load_system

    return load_system(char.header.system)


def project(
    char: Characterization,
    model: OpTimes,
    systems: Sequence[System],
    draws: int | Any = DEFAULT_DRAWS,
    *,
    seed: int = 0,
    base: System | None = None,
    scoring: bool = False,
) -> Projection:
    """Project ``char`` onto ``systems``: measured time x model ratio, op by op, draw by draw.

    ``draws`` is a number, or draws of ``model.draws``: pass the same ones to compare
    workloads jointly. On systems that levers made of the base every row scales by the
    model's ratio alone; on another GPU what the model does not explain carries over as
    far as the training data say (`projection.transfer`). With ``scoring`` a target GPU
    that the model has seen is refused (LeakageError).
    Raises UsageError if the base system is unknown, InsufficientDataError if no op has a
    time or none that has one is an op that the model covers.
    """
    start = base_system(char, base)
    step = step_of(char)
    joint = model.draws(draws, seed) if isinstance(draws, int) and draws > 0 else draws
    held = held_rows(model, char, start)
    check_covered(char, step, held)
    point = _ratios(model, char, start, systems, None, scoring)
    scaled = scale_step(step, point)
    rows = [scaled.step_time_s[None, :]]
    if joint is not None and not isinstance(joint, int) and len(systems):
        rows.append(_drawn_steps(model, char, start, systems, joint=joint, scoring=scoring))
    return Projection(
        workload=char.header.workload, base=start, systems=tuple(systems),
        base_step_time_s=step.step_time_s,
        step_time_s=np.concatenate(rows, axis=0) if len(systems) else np.empty((1, 0)),
        base_exposed_s=step.exposed_s, base_bubble_s=step.bubble_s,
        fixed_idle_s=step.fixed_idle_s, exposed_s=scaled.exposed_s, bubble_s=scaled.bubble_s,
        held=held,
    )  # fmt: skip


def held_rows(model: OpTimes, char: Characterization, base: System) -> NDArray[np.bool_]:
    """(ops,) True where the model has no say, so that the measured time is kept."""
    return _unknown(model.times(char.ops, [base])[0]) | ~model.covered(char.ops)


def check_covered(char: Characterization, step: Step, held: NDArray[np.bool_]) -> None:
    """Raise InsufficientDataError where no op has a time, or the model ``held`` all that have."""
    if step.busy_s <= 0:
        raise InsufficientDataError(
            f"{char.header.workload}: no op has a known time, so there is nothing to project"
        )
    if not float(step.exposed_s[~held].sum()) > 0:
        raise InsufficientDataError(_nothing_to_move(char, step.exposed_s))


def _nothing_to_move(char: Characterization, exposed_s: Array) -> str:
    ops = char.ops.assign(exposed_s=exposed_s)
    classes = ops.groupby("op_class")["exposed_s"].sum().sort_values(ascending=False)
    listed = ", ".join(f"{name} {value:.3g} s" for name, value in classes.head(4).items())
    return (
        f"{char.header.workload}: the model covers none of the ops that take time ({listed}), so "
        "nothing can be projected; capture with shapes (record_shapes=True), or fit the model on "
        "more op classes"
    )


def _drawn_steps(
    model: OpTimes, char: Characterization, base: System, systems: Sequence[System], *,
    joint: Any, scoring: bool,
) -> Array:  # fmt: skip
    """(draws, systems) step times, a bounded number of systems at a time."""
    step = step_of(char)
    chunk = max(1, int(_CHUNK_ELEMENTS / max(joint.n * len(char.ops), 1)))
    parts = []
    for first in range(0, len(systems), chunk):
        ratio = _ratios(model, char, base, systems[first : first + chunk], joint, scoring)
        parts.append(scale_step(step, ratio).step_time_s)
    return np.concatenate(parts, axis=1)


def _unknown(base_time_s: Array) -> NDArray[np.bool_]:
    return np.asarray(~np.isfinite(base_time_s) | (base_time_s <= 0))


def ratios_of(times: Array) -> Array:
    """(..., systems - 1, ops) times over those of the first system; 1 where either is unknown."""
    before = times[..., :1, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(_unknown(before), 1.0, times[..., 1:, :] / before)
    return np.where(np.isfinite(ratio), ratio, 1.0)


def _ratios(
    model: OpTimes, char: Characterization, base: System, systems: Sequence[System], joint: Any,
    scoring: bool,
) -> Array:  # fmt: skip
    """(..., systems, ops) time on each system / time on the base; 1 where unknown."""
    if not systems:
        return np.empty((0, len(char.ops)))
    own = [s for s in systems if is_same_silicon(base, s)]
    ratio = ratios_of(model.times(char.ops, [base, *own], draws=joint))
    if len(own) == len(systems):
        return ratio
    columns = iter(np.moveaxis(ratio, -2, 0))
    return np.stack([
        next(columns) if is_same_silicon(base, s)
        else transfer_ratio(model, char, base, s, joint, scoring)
        for s in systems
    ], axis=-2)  # fmt: skip
