"""What a rule finds in one workload, and what the step becomes if it is acted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign.projection.step import Step, scale_step

if TYPE_CHECKING:
    from codesign.recommend.schema import Level
    from codesign.recommend.software.look import Look

Array = NDArray[np.float64]


class Reach(NamedTuple):
    """Share of the gap between now and the bound that is taken to close: an assumption."""

    lo: float
    value: float
    hi: float
    why: str


@dataclass(frozen=True)
class Effect:
    """What changes in the step if the bound is reached in full."""

    time_ratio: Array
    """(ops,) time at the bound / time now; 1 where nothing changes."""
    hidden_s: Array
    """(ops,) exposed time that comes to lie behind compute."""
    idle_saved_s: float = 0.0

    @staticmethod
    def none(ops: int) -> Effect:
        """No change of ``ops`` ops."""
        return Effect(np.ones(ops), np.zeros(ops))


@dataclass(frozen=True)
class Draft:
    """A finding before it is priced."""

    effect: Effect
    rows: NDArray[np.intp]
    """Ops that it names."""
    evidence: str
    """What the characterization says, with numbers."""
    at_stake_s: float
    """Time of the step that the finding is about."""
    bound_s: float
    """Least that this time can become."""
    bound: str
    """How the bound was derived."""
    reach: Reach | None = None
    """In place of the rule's."""
    confidence: Level | None = None
    """In place of the rule's, with the reason in ``evidence`` or ``bound``."""
    action: str = ""
    """In place of the rule's, where the ops say more."""


@dataclass(frozen=True)
class Rule:
    """One rule as data: what it advises, what it needs to know, how far it is believed."""

    key: str
    title: str
    action: str
    look: Callable[[Look], Draft | str | None]
    """The finding; the reason why it cannot be judged; or None: nothing found."""
    confirm: str
    """The measurement that would confirm the gain."""
    reach: Reach
    effort: Level
    effort_why: str
    confidence: Level
    confidence_why: str
    needs: tuple[str, ...] = ()
    """Quantities of the quality block; ``steps`` and ``step_time`` always."""
    captured: bool = False
    """Whether it needs a captured step: its gaps, overlap, order or ranks."""
    kernel_side: bool = True
    """Whether it makes GPU work shorter, which a step that waits for launches does not feel."""
    rivals: tuple[str, ...] = ()
    """Rules that save the same time in another way; their gains do not multiply."""


def step_after(step: Step, effect: Effect, reach: float) -> float:
    """Seconds of the step once ``reach`` (0 to 1) of the gap to the bound is closed.

    Ops shrink as in a projection, collectives come to light as their compute does. Time
    that comes to be hidden leaves the step with its part of the pipeline bubble.
    """
    scaled = scale_step(step, 1.0 - reach * (1.0 - effect.time_ratio))
    hidden = float(np.minimum(reach * effect.hidden_s, scaled.exposed_s).sum())
    busy = float(scaled.exposed_s.sum())
    bubble = float(scaled.bubble_s) * (hidden / busy if busy > 0 else 0.0)
    idle = min(reach * effect.idle_saved_s, step.fixed_idle_s)
    return float(scaled.step_time_s) - hidden - bubble - idle


def shrunk(look: Look, rows: NDArray[np.bool_] | NDArray[np.intp], ratio: Array) -> Effect:
    """The effect of ``rows`` taking ``ratio`` (rows,) of their time."""
    times = np.ones(len(look.ops))
    times[rows] = ratio
    return Effect(times, np.zeros(len(look.ops)))
