"""The ranked levers of a study: every step evaluated, judged, and put in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.recommend.carriers import saved_shares
from codesign.recommend.contradiction import judged
from codesign.recommend.levers import LeverPlan, Pricer, lever_result, plan_levers
from codesign.recommend.rank import Pick, ordered, pick

if TYPE_CHECKING:
    from codesign.recommend.schema import Backtest, LeverResult
    from codesign.recommend.study import Evaluation, Study


@dataclass(frozen=True)
class Ranked:
    """A study with its levers in order."""

    study: Study
    plans: tuple[LeverPlan, ...]
    firsts: tuple[int, ...]
    """Index of each plan's first system in ``evaluation``."""
    evaluation: Evaluation
    results: tuple[LeverResult, ...]
    """As the plans."""
    picks: tuple[Pick, ...]
    """In order of rank."""


def ranked(
    study: Study, price: Pricer, backtest: Backtest | None, known: Ranked | None = None
) -> Ranked:
    """The levers of ``study`` in order.

    ``known``: a ranking of the same workloads by the same model and draws; its projections are
    used again where the steps are the same, so that other weights or costs are arithmetic.
    """
    plans = tuple(plan_levers(study.portfolio, study.base))
    wanted = tuple(system for plan in plans for system in plan.wanted)
    evaluation = (
        study.reweighted(known.evaluation)
        if known is not None and known.evaluation.systems == wanted
        else study.evaluate(wanted)
    )
    firsts, at = [], 0
    for plan in plans:
        firsts.append(at)
        at += len(plan.wanted)
    results = tuple(
        judged(
            lever_result(study, plan, evaluation, first, price), backtest,
            _carriers(study, evaluation, plan, first),
        )
        for plan, first in zip(plans, firsts, strict=True)
    )  # fmt: skip
    picks = ordered([pick(study.portfolio, r, f) for r, f in zip(results, firsts, strict=True)])
    return Ranked(study, plans, tuple(firsts), evaluation, results, tuple(picks))


def _carriers(
    study: Study, evaluation: Evaluation, plan: LeverPlan, first: int
) -> dict[str, float]:
    """Workload -> share of the time that the lever saves at its largest step."""
    if not plan.systems:
        return {}
    shares = saved_shares(study, evaluation, first + len(plan.systems) - 1)
    return {name: float(values.sum()) for name, values in shares.items()}
