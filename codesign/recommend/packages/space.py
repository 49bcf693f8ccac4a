"""Which steps packages are made of, what they gain and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.hardware.costs import cost_of
from codesign.hardware.levers import apply_levers
from codesign.projection import portfolio_gain
from codesign.recommend.levers import improves
from codesign.recommend.packages.search import Package
from codesign.recommend.portfolio import CostKind
from codesign.recommend.rank import Pick

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.hardware.model import System
    from codesign.recommend.study import Study

Array = NDArray[np.float64]

ELIGIBLE = ("identified",)
"""Statuses of levers that a package may hold: what no measurement tested is in none."""
KINDS: tuple[CostKind, ...] = get_args(CostKind)


@dataclass
class Space:
    """Steps of all levers by kind of cost, and gains of packages, each computed once."""

    study: Study
    picks: Mapping[str, Pick]
    """By lever, in the order of the ranked list."""
    prices: Costs

    def __post_init__(self) -> None:
        self._gains: dict[Package, float] = {}
        self._costs = {
            (lever, f): self._single(((lever, f),)) for lever in self.picks
            for f in self.steps(lever)
        }  # fmt: skip

    def steps(self, lever: str) -> list[float]:
        """Improving steps of a lever, from the smallest."""
        points = self.picks[lever].result.points
        return [p.factor for p in points if improves(lever, p.factor)]

    def options(self, kind: CostKind) -> dict[str, list[float]]:
        """Lever -> steps that a package may take: gain known, cost of that kind known."""
        return {
            lever: steps for lever, pick in self.picks.items()
            if pick.result.status in ELIGIBLE
            and (steps := [f for f in self.steps(lever) if self.known(lever, f, kind)])
        }  # fmt: skip

    def cost(self, package: Package, kind: CostKind) -> float:
        """Cost of a package, infinite beyond a budget. Costs of single steps add up.

        What a budget of another kind says of a step without a known cost of that kind is
        nothing, as in the ranked list.
        """
        for other, budget in self.study.portfolio.budgets.items():
            known = [self._costs[step][other] for step in package]
            if sum(value for value in known if value is not None) > budget * (1 + 1e-9):
                return float("inf")
        return self.cost_of(package, kind)

    def cost_of(self, package: Package, kind: CostKind) -> float:
        """Cost of a package, whatever the budgets are."""
        return float(sum(self._costs[step][kind] or 0.0 for step in package))

    def gains(self, packages: Sequence[Package]) -> Array:
        """(packages,) point gain over the portfolio; 0 of one that cannot be made."""
        fresh = [p for p in dict.fromkeys(packages) if p not in self._gains]
        made = {p: system for p in fresh if (system := self.system(p)) is not None}
        times = self.study.batch.step_times(list(made.values()))
        base = self.study.batch.project([])
        gains = portfolio_gain(
            list(self.study.weights.values()),
            [base[name].base_step_time_s / times[name] for name in self.study.weights],
        )
        self._gains.update(dict.fromkeys(fresh, 0.0))
        self._gains.update(zip(made, gains.tolist(), strict=True))
        return np.array([self._gains[p] for p in packages])

    def system(self, package: Package) -> System | None:
        """The hardware of a package; None where the part cannot be."""
        try:
            return apply_levers(self.study.base, dict(package))
        except UsageError:
            return None

    def _single(self, package: Package) -> dict[CostKind, float | None]:
        system = self.system(package)
        if system is None:
            return dict.fromkeys(KINDS)
        cost = cost_of(self.study.base, system, self.prices)
        return {kind: getattr(cost, kind).value for kind in KINDS}

    def known(self, lever: str, factor: float, kind: CostKind) -> bool:
        """Whether a step has a cost of that kind."""
        value = self._costs.get((lever, factor), dict.fromkeys(KINDS))[kind]
        return value is not None and value >= 0
