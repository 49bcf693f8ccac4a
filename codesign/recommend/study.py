"""Candidates of a portfolio, projected: every workload, on the same joint draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign._common.scores import Interval
from codesign.projection import Projection, interval, portfolio_gain
from codesign.projection.batch import Batch
from codesign.projection.shares import share_systems, slopes

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.portfolio import Portfolio
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_TRUST_DRAWS = 100


@dataclass(frozen=True)
class Evaluation:
    """Projections of every workload onto the same systems."""

    systems: tuple[System, ...]
    weights: dict[str, float]
    projections: dict[str, Projection]

    @cached_property
    def gain_draws(self) -> Array:
        """(draws + 1, systems) gain of the portfolio; row 0 is the point estimate."""
        return portfolio_gain(
            list(self.weights.values()), [self.projections[w].gain_draws for w in self.weights]
        )

    def gain(self, index: int) -> Interval:
        """Portfolio gain on one system."""
        return interval(self.gain_draws[:, index])

    def by_workload(self, index: int) -> dict[str, Interval]:
        """Gain of each workload on one system."""
        return {name: interval(p.gain_draws[:, index]) for name, p in self.projections.items()}

    def point_gains(self, index: int) -> dict[str, float]:
        """Point estimate of each workload's gain on one system."""
        return {name: float(p.gain_draws[0, index]) for name, p in self.projections.items()}


@dataclass(frozen=True)
class Study:
    """What candidates are judged by: the portfolio, its workloads, the model, the draws."""

    portfolio: Portfolio
    base: System
    chars: Mapping[str, Characterization]
    model: Any
    joint: Any
    """Draws of ``model.draws``, shared by all workloads and systems."""

    @property
    def weights(self) -> dict[str, float]:
        """Share of GPU-hours by workload."""
        return {entry.name: entry.weight for entry in self.portfolio.workloads}

    @cached_property
    def batch(self) -> Batch:
        """The workloads, made ready to be projected."""
        return Batch({name: self.chars[name] for name in self.weights}, self.model, self.base)

    @cached_property
    def base_shares(self) -> dict[str, dict[str, float]]:
        """Share of each workload's step on the baseline by what it waits for, at the margin."""
        on = self.batch.project(share_systems([self.base]))
        return {name: slopes(on[name])[0] for name in self.weights}

    @cached_property
    def base_times(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The model's seconds per step of every op on the baseline, by workload: (ops,), drawn.

        Trust needs no fine quantiles; a hundred draws tell, at a fraction of the time.
        """
        few = self.model.draws(min(_TRUST_DRAWS, self.portfolio.draws), self.portfolio.seed)
        return self.batch.base_times(), self.batch.base_times(few)

    @cached_property
    def base_binding(self) -> dict[str, float]:
        """Share of portfolio time by binding resource on the baseline."""
        return self.binding_shares(self.evaluate([]), None)

    def evaluate(self, systems: Sequence[System]) -> Evaluation:
        """Every workload on every one of ``systems``."""
        projections = self.batch.project(systems, self.joint)
        return Evaluation(tuple(systems), self.weights, projections)

    def under(self, portfolio: Portfolio) -> Study:
        """The same workloads, made ready already, under other weights or settings.

        ``portfolio`` has workloads of the same names, draws and seed.
        """
        other = replace(self, portfolio=portfolio)
        # What `cached_property` keeps: nothing of it depends on weights.
        other.__dict__["batch"] = self.batch
        return other

    def reweighted(self, evaluation: Evaluation) -> Evaluation:
        """Projections made under other weights, under those of this study."""
        return replace(evaluation, weights=self.weights)

    def binding_shares(self, evaluation: Evaluation, index: int | None) -> dict[str, float]:
        """Share of portfolio time by what it waits for, at the margin, on one system.

        ``index`` None is the baseline.

        A workload counts with the GPU-hours that its work takes there.
        """
        total: dict[str, float] = {}
        system = self.base if index is None else evaluation.systems[index]
        on = self.batch.project(share_systems([system]))
        for name, weight in self.weights.items():
            projection = evaluation.projections[name]
            shares = slopes(on[name])[0]
            hours = weight if index is None else weight / float(projection.gain_draws[0, index])
            for resource, share in shares.items():
                total[resource] = total.get(resource, 0.0) + hours * share
        whole = sum(total.values())
        ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
        return {resource: value / whole for resource, value in ordered}
