"""Each lever by itself: which systems it asks for, and what they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from codesign._common.errors import UsageError
from codesign.hardware.levers import LEVERS, apply_lever, format_value, lever_value, parse_lever
from codesign.hardware.levers import step_label as label_of
from codesign.projection import interval
from codesign.recommend.carriers import heaviest, saved_shares, share_by, top_carriers
from codesign.recommend.refute import refuted_by
from codesign.recommend.schema import Cost, Interval, LeverPoint, LeverResult
from codesign.recommend.status import NOT_STUDIED, NOTHING_GAINED, Judgement, judgement, no_effect
from codesign.recommend.wording import percent, readable

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.portfolio import Portfolio
    from codesign.recommend.study import Evaluation, Study

Pricer = Callable[["System"], "Cost | None"]
SMALL_STEP = 0.02
"""Relative step at which the elasticity of a continuous lever is taken."""


@dataclass(frozen=True)
class LeverPlan:
    """Systems that one lever asks for."""

    lever: str
    systems: tuple[System, ...]
    """At each step, from the worst to the best: the largest improvement stands last."""
    small: System | None
    """The small step of the elasticity; None where a whole quantity cannot make one."""
    refused: str = ""

    @property
    def factors(self) -> tuple[float, ...]:
        """Factors that the steps really make, after rounding."""
        return tuple(system.levers[-1][1] for system in self.systems)

    @property
    def wanted(self) -> tuple[System, ...]:
        """All systems to evaluate: the steps, then the small one."""
        return self.systems if self.small is None else (*self.systems, self.small)


def plan_levers(portfolio: Portfolio, base: System) -> list[LeverPlan]:
    """Steps of every lever of the portfolio, or of all levers at their default steps.

    A lever that the part cannot take (FP4 on Hopper) keeps the reason. Raises
    UsageError for a lever that does not exist or a step that cannot be read.
    """
    asked = portfolio.levers or {name: lever.steps for name, lever in LEVERS.items()}
    return [plan_lever(name, steps or LEVERS[name].steps, base) if name in LEVERS
            else _unknown(name, portfolio) for name, steps in asked.items()]  # fmt: skip


def plan_lever(lever: str, steps: Sequence[float | str], base: System) -> LeverPlan:
    """Systems for one lever's steps; steps that rounding makes equal are one."""
    try:
        factors = [s if isinstance(s, float | int) else parse_lever(f"{lever}={s}", base)[1]
                   for s in steps]  # fmt: skip
        made = [apply_lever(base, lever, factor) for factor in factors]
    except UsageError as error:
        return LeverPlan(lever, (), None, str(error))
    by_factor = {system.levers[-1][1]: system for system in made}
    by_factor.pop(1.0, None)
    ordered = sorted(by_factor, reverse=LEVERS[lever].better != "up")
    return LeverPlan(lever, tuple(by_factor[f] for f in ordered), _small(lever, base))


def _unknown(name: str, portfolio: Portfolio) -> LeverPlan:
    from codesign._common.errors import one_of

    where = f"{portfolio.path}: levers: " if portfolio.path else ""
    raise UsageError(where + one_of("lever", name, list(LEVERS)))


def _small(lever: str, base: System) -> System | None:
    if LEVERS[lever].counts:
        return None
    return apply_lever(base, lever, 1 + SMALL_STEP * (1 if LEVERS[lever].better == "up" else -1))


def improves(lever: str, factor: float) -> bool:
    """Whether a factor is on the improving side of a lever."""
    return factor > 1 if LEVERS[lever].better == "up" else factor < 1


def lever_result(
    study: Study, plan: LeverPlan, evaluation: Evaluation, first: int, price: Pricer
) -> LeverResult:
    """What a lever does; its systems stand in ``evaluation`` from index ``first``.

    Shares of the time saved and the binding resources after it are those of the
    largest step.
    """
    lever, base = plan.lever, study.base
    if not plan.systems:
        # Its section need not name the lever once more.
        refused = readable(plan.refused.removeprefix(f"{lever}: "))
        reason = refused or "no step is left after rounding to whole units"
        return _empty(study, lever, reason)
    points = with_returns(
        lever,
        [_point(study, evaluation, first + i, lever, price) for i in range(len(plan.systems))],
    )
    largest = first + len(plan.systems) - 1
    shares = saved_shares(study, evaluation, largest)
    before = study.base_binding
    saturates_at, note = saturation(points, study.portfolio.saturation_threshold)
    if lever in NOT_STUDIED:
        return _not_studied(study, lever, points)
    return LeverResult(
        lever=lever, title=LEVERS[lever].title,
        baseline=format_value(LEVERS[lever], lever_value(base, lever)),
        **_judge(study, lever, points, share_by(study, shares, "op_class"), before)._asdict(),
        points=points,
        elasticity=_elasticity(plan, evaluation, first),
        saturates_at=saturates_at, saturation_note=note,
        binding_before=before, binding_after=study.binding_shares(evaluation, largest),
        carried_by=top_carriers(study, evaluation, shares),
        refuted_by=refuted_by(study, lever, heaviest(shares)),
    )  # fmt: skip


def _judge(
    study: Study, lever: str, points: Sequence[LeverPoint], by_class: dict[str, float],
    binding: dict[str, float],
) -> Judgement:  # fmt: skip
    if all(abs(p.gain.value - 1) <= NOTHING_GAINED and p.gain.hi <= 1 + NOTHING_GAINED
           for p in points):  # fmt: skip
        return no_effect(lever, binding)
    return judgement(lever, by_class, study.model.identifiability())


def _point(
    study: Study, evaluation: Evaluation, index: int, lever: str, price: Pricer
) -> LeverPoint:
    system = evaluation.systems[index]
    factor = system.levers[-1][1]
    cost = price(system)
    gain = evaluation.gain(index)
    return LeverPoint(
        factor=factor, label=label_of(study.base, lever, factor), gain=gain,
        by_workload=evaluation.by_workload(index), cost=cost,
        gain_per_cost=gain_per_cost(gain.value, cost, study.portfolio.ranking),
    )  # fmt: skip


def gain_per_cost(gain: float, cost: Cost | None, kind: str) -> float | None:
    """Gain in per cent per unit of cost; None without a cost above 0."""
    value = None if cost is None else getattr(cost, kind).value
    return None if value is None or value <= 0 else (gain - 1) * 100 / value


def _elasticity(plan: LeverPlan, evaluation: Evaluation, first: int) -> Interval:
    """d ln(time) / d ln(lever), from the small step or the first whole one."""
    index = first + len(plan.systems) if plan.small is not None else first
    factor = evaluation.systems[index].levers[-1][1]
    # Adding 0 turns the -0.0 of no effect into 0.
    return interval(-np.log(evaluation.gain_draws[:, index]) / math.log(factor) + 0.0)


def with_returns(lever: str, points: Sequence[LeverPoint]) -> tuple[LeverPoint, ...]:
    """The improving steps, from the smallest, with what 10 % more returned since the one before.

    Between two steps that is (g2 / g1)^(ln 1.1 / |ln(f2 / f1)|) - 1. Other steps stay as they are.
    """
    at, gain = 1.0, 1.0
    found = []
    for point in points:
        if improves(lever, point.factor):
            power = math.log(1.1) / abs(math.log(point.factor / at))
            returned = (point.gain.value / gain) ** power - 1
            found.append(msgspec.structs.replace(point, next_ten=returned))
            at, gain = point.factor, point.gain.value
        else:
            found.append(point)
    return tuple(found)


def saturation(points: Sequence[LeverPoint], threshold: float) -> tuple[float | None, str]:
    """Factor past which another 10 % of the lever gains less than ``threshold``, and a note.

    ``points`` are those of `with_returns`.
    """
    at, per_ten = 1.0, 0.0
    for point in points:
        if point.next_ten is None:
            continue
        per_ten = point.next_ten
        if per_ten < threshold:
            where = "already the first step gains" if at == 1.0 else f"past x{at:.3g} it gains"
            return at, f"{where} only {percent(max(per_ten, 0.0))} per 10 %"
        at = point.factor
    if at == 1.0:
        return None, "no improving step was studied"
    return None, f"still gains {percent(per_ten)} per 10 % at x{at:.3g}, the largest step studied"


def _not_studied(study: Study, lever: str, points: tuple[LeverPoint, ...]) -> LeverResult:
    """Steps with their costs, and not a word on what they gain."""
    return LeverResult(
        lever=lever, title=LEVERS[lever].title,
        baseline=format_value(LEVERS[lever], lever_value(study.base, lever)),
        status="not_studied", reason=NOT_STUDIED[lever],
        points=tuple(
            msgspec.structs.replace(p, by_workload={}, gain_per_cost=None, next_ten=None)
            for p in points
        ),
        elasticity=None, saturates_at=None, saturation_note="", binding_before={},
        binding_after={}, carried_by=(), refuted_by=refuted_by(study, lever, None),
    )  # fmt: skip


def _empty(study: Study, lever: str, reason: str) -> LeverResult:
    try:
        baseline = format_value(LEVERS[lever], lever_value(study.base, lever))
    except UsageError:
        baseline = "none"
    return LeverResult(
        lever=lever, title=LEVERS[lever].title, baseline=baseline, status="refused",
        reason=reason, points=(), elasticity=None, saturates_at=None, saturation_note="",
        binding_before={}, binding_after={}, carried_by=(), refuted_by="",
    )  # fmt: skip
