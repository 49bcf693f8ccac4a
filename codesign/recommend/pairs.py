"""The best levers two at a time: whether they help each other or compete."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from codesign._common.errors import UsageError
from codesign.hardware.levers import apply_lever
from codesign.projection import interval
from codesign.recommend.levers import Pricer, gain_per_cost
from codesign.recommend.rank import ASSUMED, BY_COST, BY_GAIN, UNSURE, Pick
from codesign.recommend.schema import PairResult

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.study import Evaluation, Study

_TOP = 5
"""Levers that are paired with each other."""


def pair_systems(study: Study, picks: Sequence[Pick]) -> list[tuple[Pick, Pick, System]]:
    """The candidates: pairs of the first levers of the ranked list, each at its step.

    None where the portfolio asks for no pairs.
    """
    if not study.portfolio.pairs:
        return []
    top = [p for p in picks if p.group in (BY_COST, BY_GAIN, ASSUMED, UNSURE)][:_TOP]
    found = []
    for first, second in combinations(top, 2):
        assert first.point is not None
        assert second.point is not None
        try:
            system = apply_lever(study.base, first.result.lever, first.point.factor)
            system = apply_lever(system, second.result.lever, second.point.factor)
        except UsageError:
            continue
        found.append((first, second, system))
    return found


def pair_results(
    study: Study, singles: Evaluation, candidates: Sequence[tuple[Pick, Pick, System]],
    price: Pricer, both: Evaluation,
) -> tuple[PairResult, ...]:  # fmt: skip
    """The pairs, best first by gain per cost where it is known, then by gain.

    ``both`` holds the systems of ``candidates``, before any others.
    """
    found = []
    for index, (first, second, system) in enumerate(candidates):
        assert first.point is not None
        assert second.point is not None
        alone = singles.gain_draws[:, first.index] * singles.gain_draws[:, second.index]
        gain = both.gain(index)
        cost = price(system)
        found.append(PairResult(
            levers=(first.result.lever, second.result.lever),
            factors=(first.point.factor, second.point.factor),
            label=f"{first.result.title} {first.point.label}; "
                  f"{second.result.title} {second.point.label}",
            gain=gain, product_of_singles=float(alone[0]),
            interaction=interval(both.gain_draws[:, index] / alone),
            cost=cost, gain_per_cost=gain_per_cost(gain.value, cost, study.portfolio.ranking),
        ))  # fmt: skip
    found.sort(key=lambda p: (p.gain_per_cost is None, -(p.gain_per_cost or 0.0),
                              -p.gain.value, p.levers))  # fmt: skip
    return tuple(found[: study.portfolio.pairs])
