"""From a front of packages to what the file says: which is balanced, what each lever adds last.

The balanced package is the one that a fleet of fixed cost gains most by: past it, a further
watt (or mm2, or USD) is better spent on more GPUs as they are. Without a budget nothing is
searched that costs more than the GPU itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.baseline_cost import BaselineCost, baseline_cost
from codesign.hardware.cost_ranges import draw_inputs
from codesign.hardware.costs import cost_draws
from codesign.projection import interval
from codesign.recommend.levers import Pricer, gain_per_cost
from codesign.recommend.packages.marginal import marginal_gains, variants
from codesign.recommend.packages.search import Front, Package, hull, pareto
from codesign.recommend.packages.space import ELIGIBLE, KINDS, Space
from codesign.recommend.portfolio import COST_UNITS, CostKind
from codesign.recommend.schema import Interval, PackageStep, PackageStudy
from codesign.recommend.schema import Package as PackageRecord

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.hardware.model import System
    from codesign.recommend.rank import Pick
    from codesign.recommend.study import Evaluation, Study

Array = NDArray[np.float64]

SHOWN, SHOWN_OTHER = 9, 6
"""Packages that are kept of the front of the ranking cost, and of each other cost: every one is
projected in every draw."""


@dataclass(frozen=True)
class _Plan:
    """One kind of cost, searched."""

    kind: CostKind
    baseline: BaselineCost
    front: Front
    shown: list[int]
    """Indices into the front of what is kept."""
    balanced: int | None
    best: int
    reference: int
    left_out: dict[str, str]

    @property
    def packages(self) -> list[Package]:
        return [self.front.packages[i] for i in self.shown]


@dataclass(frozen=True)
class Planned:
    """Packages that are worth every draw, found by point estimates alone."""

    space: Space
    plans: tuple[_Plan, ...]
    systems: dict[Package, System]

    def studies(
        self, evaluation: Evaluation, first: int, price: Pricer
    ) -> tuple[PackageStudy, ...]:
        """What the file says; ``systems`` stand in ``evaluation`` from index ``first``."""
        index = {package: first + i for i, package in enumerate(self.systems)}
        return tuple(_study(self.space, plan, evaluation, index, price) for plan in self.plans)


def plan_packages(study: Study, picks: Sequence[Pick], prices: Costs) -> Planned:
    """The best combinations by each kind of cost, the portfolio's ranking cost first.

    Only of that one are the marginal gains of all levers worked out. A kind by which no
    lever has a cost is left out.
    """
    space = Space(study, {p.result.lever: p for p in picks}, prices)
    kinds = sorted(KINDS, key=lambda kind: kind != study.portfolio.ranking)
    plans = tuple(plan for kind in kinds if (plan := _plan(space, kind)) is not None)
    wanted: dict[Package, None] = {}
    for plan in plans:
        wanted.update(dict.fromkeys(plan.packages))
        if plan.kind == study.portfolio.ranking:
            reference = plan.front.packages[plan.reference]
            wanted.update(dict.fromkeys(variants(space, reference)))
            wanted.update(dict.fromkeys(_alone(space, plan.kind).values()))
    systems = {p: system for p in wanted if (system := space.system(p)) is not None}
    return Planned(space, plans, systems)


def _plan(space: Space, kind: CostKind) -> _Plan | None:
    options = space.options(kind)
    if not options:
        return None
    base = baseline_cost(space.study.base, space.prices, kind)
    most = space.study.portfolio.budgets.get(kind, base.value)

    def cost(package: Package) -> float:
        value = space.cost(package, kind)
        return value if most is None or value <= most * (1 + 1e-9) else float("inf")

    front = pareto(options, space.gains, cost)
    balanced = None
    if base.value is not None:
        balanced = int((front.gains * base.value / (base.value + front.costs)).argmax())
    best = len(front.packages) - 1
    kept = SHOWN if kind == space.study.portfolio.ranking else SHOWN_OTHER
    shown = _shown(front, kept, [0, best, *([] if balanced is None else [balanced])])
    reference = balanced or best
    return _Plan(
        kind, base, front, shown, balanced, best, reference, _left_out(space, kind, options)
    )


def _left_out(space: Space, kind: CostKind, options: Iterable[str]) -> dict[str, str]:
    found = {}
    for lever, pick in space.picks.items():
        if lever in options or not space.steps(lever):
            continue
        status = pick.result.status
        found[pick.result.title] = (
            f"no source gives its {kind}" if status in ELIGIBLE
            else {"not_studied": "not studied", "no_effect": "no effect",
                  "assumed": "no measurement tested its effect",
                  "not_identifiable": "the data cannot identify it",
                  "contradicted": "a measurement contradicts it"}.get(status, status)
        )  # fmt: skip
    return found


def _shown(front: Front, most: int, wanted: Sequence[int]) -> list[int]:
    """``wanted``, then corners of the hull, then the others evenly, ``most`` in all."""
    corners = hull(front.costs, front.gains)
    evenly = np.linspace(0, len(front.packages) - 1, most).round().astype(int).tolist()
    even_corners = [corners[i] for i in np.linspace(0, len(corners) - 1, most - 2).round()
                    .astype(int).tolist()]  # fmt: skip
    chosen = list(dict.fromkeys([*wanted, *even_corners, *evenly]))[:most]
    return sorted(chosen)


def _study(
    space: Space, plan: _Plan, evaluation: Evaluation, index: dict[Package, int], price: Pricer
) -> PackageStudy:
    study, shown = space.study, plan.packages
    fleet = _fleet_gains(space, plan, evaluation, index)
    wins = None if fleet is None or len(fleet) < 2 else _share_of_wins(fleet[1:])
    records = tuple(
        _record(space, plan, package, evaluation, index[package], price,
                None if fleet is None else fleet[:, i], None if wins is None else float(wins[i]))
        for i, package in enumerate(shown)
    )  # fmt: skip
    ranking = plan.kind == study.portfolio.ranking
    reference = plan.front.packages[plan.reference]
    return PackageStudy(
        kind=plan.kind, ranking_cost=COST_UNITS[plan.kind], baseline_cost=plan.baseline.value,
        baseline_source=plan.baseline.source, budget=study.portfolio.budgets.get(plan.kind),
        front=records,
        balanced=None if plan.balanced is None else plan.shown.index(plan.balanced),
        best=plan.shown.index(plan.best), marginal_to=plan.shown.index(plan.reference),
        marginal=marginal_gains(space, reference, plan.kind, evaluation, index)
        if ranking else (),
        alone=_fleet_gains_alone(space, plan, evaluation, index) if ranking else {},
        tried=plan.front.tried, exhaustive=plan.front.exhaustive, left_out=plan.left_out,
    )  # fmt: skip


def _alone(space: Space, kind: CostKind) -> dict[str, Package]:
    """Each lever whose recommended step has a cost of that kind, as a package of its own."""
    return {
        lever: ((lever, pick.point.factor),) for lever, pick in space.picks.items()
        if pick.point is not None and space.known(lever, pick.point.factor, kind)
    }  # fmt: skip


def _fleet_gains_alone(
    space: Space, plan: _Plan, evaluation: Evaluation, index: dict[Package, int]
) -> dict[str, Interval]:
    if plan.baseline.value is None:
        return {}
    found = {
        lever: (index[package], space.cost_of(package, plan.kind))
        for lever, package in _alone(space, plan.kind).items() if package in index
    }  # fmt: skip
    return {
        lever: interval(_fleet_gain(space, plan, evaluation, *at)) for lever, at in found.items()
    }


def _fleet_gains(
    space: Space, plan: _Plan, evaluation: Evaluation, index: dict[Package, int]
) -> Array | None:
    """(draws + 1, packages) gain at the fleet's cost of today, cost values drawn too."""
    if plan.baseline.value is None:
        return None
    columns = [
        _fleet_gain(space, plan, evaluation, index[package], float(plan.front.costs[place]))
        for place, package in zip(plan.shown, plan.packages, strict=True)
    ]
    return np.stack(columns, axis=1)


def _fleet_gain(
    space: Space, plan: _Plan, evaluation: Evaluation, index: int, cost: float
) -> Array:
    """(draws + 1,) of the system at ``index``, which costs ``cost`` more than the baseline."""
    assert plan.baseline.value is not None
    study = space.study
    gains = evaluation.gain_draws[:, index]
    costs = np.full(len(gains), cost)
    inputs = draw_inputs(space.prices.values, study.portfolio.draws, study.portfolio.seed)
    drawn = cost_draws(study.base, evaluation.systems[index], plan.kind, inputs)
    if drawn is not None and len(gains) == len(drawn) + 1:
        costs[1:] = drawn
    return np.asarray(gains * plan.baseline.value / (plan.baseline.value + costs))


def _share_of_wins(scores: Array) -> Array:
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1]) / len(scores)


def _record(
    space: Space, plan: _Plan, package: Package, evaluation: Evaluation, index: int,
    price: Pricer, fleet: Array | None, wins: float | None,
) -> PackageRecord:  # fmt: skip
    gain = evaluation.gain(index)
    cost = price(evaluation.systems[index]) if package else None
    return PackageRecord(
        steps=tuple(step_record(space, step) for step in package), gain=gain, cost=cost,
        gain_per_cost=gain_per_cost(gain.value, cost, plan.kind),
        fleet_gain=None if fleet is None else interval(fleet), p_best=wins,
    )  # fmt: skip


def step_record(space: Space, step: tuple[str, float]) -> PackageStep:
    """A step as the file holds it."""
    result = space.picks[step[0]].result
    label = next(p.label for p in result.points if p.factor == step[1])
    return PackageStep(result.lever, result.title, step[1], label, result.status)
