"""What a step waits for at the margin: how much a little more of each capability would save."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codesign.projection.projector import OpTimes, Projection, base_system, project
from codesign.sensitivity.shares import CAPABILITIES, STEP, moved

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

FIXED, HELD, IDLE = "fixed", "held", "idle"
_NEGLIGIBLE = 1e-4
"""Share under which a resource is left out: it prints as nothing."""


def step_shares(
    char: Characterization, model: OpTimes, systems: Sequence[System], base: System | None = None
) -> list[dict[str, float]]:
    """For each system d ln(step time) / d ln(capability), the largest first; sums to 1.

    By a small step of one capability, all others held. Communication counts where it
    is exposed: compute that hides it saves nothing. A pipeline bubble shrinks with the ops
    and goes with them. Further keys: ``held``, ops that the model does not cover;
    ``idle``; ``fixed``, what is left (latency of networks and
    hosts, and overlap where no single one shortens the step). Where the
    capabilities leave less than nothing they are taken in proportion.
    """
    start = base_system(char, base)
    return slopes(project(char, model, share_systems(systems), None, base=start))


def share_systems(systems: Sequence[System]) -> list[System]:
    """Systems to project for the shares of ``systems``: each, then with each capability moved."""
    return [s for system in systems for s in (system, *moved(system))]


def slopes(projection: Projection) -> list[dict[str, float]]:
    """The shares of `step_shares` from a projection onto `share_systems`."""
    found = []
    for first in range(0, len(projection.systems), 1 + len(CAPABILITIES)):
        times = projection.step_time_s[0, first : first + 1 + len(CAPABILITIES)]
        saved = np.maximum(-np.log(times[1:] / times[0]) / np.log1p(STEP), 0.0)
        held = float(projection.exposed_s[first][projection.held].sum() / times[0])
        idle = projection.fixed_idle_s / float(times[0])
        room = max(1.0 - held - idle, 0.0)
        if saved.sum() > room:
            saved = saved * room / saved.sum()
        shares = dict(zip(CAPABILITIES, saved.tolist(), strict=True))
        shares |= {HELD: held, IDLE: idle, FIXED: room - float(saved.sum())}
        found.append(_ordered(shares))
    return found


def _ordered(shares: dict[str, float]) -> dict[str, float]:
    kept = {name: value for name, value in shares.items() if value > _NEGLIGIBLE}
    whole = sum(kept.values())
    return {k: v / whole for k, v in sorted(kept.items(), key=lambda item: (-item[1], item[0]))}
