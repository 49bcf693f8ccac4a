"""Many workloads on many systems at once: all ops are timed together, a span of draws at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.projection.projector import Projection, check_covered, project, ratios_of
from codesign.projection.step import Step, scale_step, step_of
from codesign.projection.transfer import is_same_silicon

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_ELEMENTS = 4_000_000
"""Draws x systems x ops that a worker holds at a time."""
_WORKERS = 2
"""Threads: numpy works outside the interpreter's lock. The result does not depend on them."""


@dataclass(frozen=True)
class Batch:
    """Workloads measured on one system, made ready to be projected again and again."""

    chars: Mapping[str, Characterization]
    model: Any
    base: System

    def project(self, systems: Sequence[System], draws: Any = None) -> dict[str, Projection]:
        """As `projection.project` for each workload, by name: the same numbers, sooner.

        ``draws`` are those of ``model.draws``; None for point estimates alone.
        """
        alike = all(is_same_silicon(self.base, system) for system in systems)
        if self._times is None or not alike:
            return {
                name: project(char, self.model, systems, draws, base=self.base)
                for name, char in self.chars.items()
            }
        point = self._ratios(systems, None, slice(None))
        drawn = self._drawn_steps(systems, draws) if draws is not None and systems else {}
        return {
            name: self._projection(name, systems, point[:, rows], drawn.get(name))
            for name, rows in self._rows.items()
        }

    def step_times(self, systems: Sequence[System]) -> dict[str, Array]:
        """(systems,) point estimate of the step time by workload, a bounded number at a time."""
        chunk = max(1, _ELEMENTS // max(self._size, 1))
        parts = [
            self.project(systems[first : first + chunk])
            for first in range(0, len(systems), chunk)
        ]  # fmt: skip
        return {
            name: np.concatenate([p[name].step_time_s[0] for p in parts] or [np.empty(0)])
            for name in self.chars
        }

    def base_times(self, draws: Any = None) -> dict[str, Array]:
        """(ops,) or (draws, ops) seconds per step of the model on the base, by workload."""
        if self._times is None:
            return {
                name: np.asarray(self.model.times(char.ops, [self.base], draws=draws)[..., 0, :])
                for name, char in self.chars.items()
            }
        times = self._times.times([self.base], draws)[..., 0, :]
        return {name: times[..., rows] for name, rows in self._rows.items()}

    @cached_property
    def _rows(self) -> dict[str, slice]:
        rows, first = {}, 0
        for name, char in self.chars.items():
            rows[name] = slice(first, first + len(char.ops))
            first += len(char.ops)
        return rows

    @cached_property
    def _size(self) -> int:
        return sum(len(char.ops) for char in self.chars.values())

    @cached_property
    def _steps(self) -> dict[str, Step]:
        return {name: step_of(char) for name, char in self.chars.items()}

    @cached_property
    def _times(self) -> Any:
        """The ops of all workloads, prepared; None of a model that cannot prepare."""
        prepare = getattr(self.model, "prepare", None)
        if prepare is None:
            return None
        return prepare(pd.concat([char.ops for char in self.chars.values()], ignore_index=True))

    @cached_property
    def _held(self) -> NDArray[np.bool_]:
        before = self._times.times([self.base])[0]
        return np.asarray(~np.isfinite(before) | (before <= 0) | ~self._times.covered)

    def _ratios(self, systems: Sequence[System], draws: Any, span: slice) -> Array:
        """(..., systems, ops) of all workloads."""
        if not systems:
            return np.empty((0, self._size))
        return ratios_of(self._times.times([self.base, *systems], draws, span))

    def _drawn_steps(self, systems: Sequence[System], draws: Any) -> dict[str, Array]:
        """(draws, systems) step times by workload."""
        size = max(1, _ELEMENTS // max(self._size * (len(systems) + 1), 1))
        spans = [slice(i, min(i + size, draws.n)) for i in range(0, draws.n, size)]

        def steps(span: slice) -> dict[str, Array]:
            ratio = self._ratios(systems, draws, span)
            return {
                name: scale_step(self._steps[name], ratio[..., rows]).step_time_s
                for name, rows in self._rows.items()
            }

        with ThreadPoolExecutor(_WORKERS) as pool:
            parts = list(pool.map(steps, spans))
        return {name: np.concatenate([part[name] for part in parts]) for name in self.chars}

    def _projection(
        self, name: str, systems: Sequence[System], ratio: Array, drawn: Array | None
    ) -> Projection:
        step, held = self._steps[name], self._held[self._rows[name]]
        check_covered(self.chars[name], step, held)
        scaled = scale_step(step, ratio)
        rows = [scaled.step_time_s[None, :]] + ([] if drawn is None else [drawn])
        return Projection(
            workload=self.chars[name].header.workload, base=self.base, systems=tuple(systems),
            base_step_time_s=step.step_time_s, step_time_s=np.concatenate(rows),
            base_exposed_s=step.exposed_s, base_bubble_s=step.bubble_s,
            fixed_idle_s=step.fixed_idle_s, exposed_s=scaled.exposed_s, bubble_s=scaled.bubble_s,
            held=held,
        )  # fmt: skip
