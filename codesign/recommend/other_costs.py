"""Which lever would be first if another kind of cost ranked the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import msgspec

from codesign.recommend.levers import gain_per_cost
from codesign.recommend.portfolio import COST_UNITS, CostKind, Portfolio
from codesign.recommend.rank import BY_COST, Pick, headline_of, ordered, pick
from codesign.recommend.schema import FirstByCost, Interval, LeverResult


def first_by(
    portfolio: Portfolio, results: Sequence[LeverResult], starts: Sequence[int]
) -> tuple[FirstByCost, ...]:
    """One entry for each kind of cost that does not rank ``portfolio``.

    The same rule chooses each lever's step anew, so that it may be another than in the
    list. Levers count that measurements identify, that gain enough and whose cost is known.
    """
    found = []
    for kind in get_args(CostKind):
        unit = COST_UNITS[kind]
        if kind == portfolio.ranking:
            continue
        other = msgspec.structs.replace(portfolio, ranking=kind)
        picks = ordered([
            pick(other, _priced(result, kind), start)
            for result, start in zip(results, starts, strict=True)
        ])  # fmt: skip
        first = next((p for p in picks if p.group == BY_COST and not p.small), None)
        found.append(_entry(unit, first))
    return tuple(found)


def _priced(result: LeverResult, kind: str) -> LeverResult:
    points = tuple(
        msgspec.structs.replace(p, gain_per_cost=gain_per_cost(p.gain.value, p.cost, kind))
        for p in result.points
    )
    return msgspec.structs.replace(result, points=points)


def _entry(unit: str, first: Pick | None) -> FirstByCost:
    if first is None or first.point is None:
        return FirstByCost(unit, "", "", 1.0, "", Interval(1.0, 1.0, 1.0), None)
    point = first.point
    return FirstByCost(
        unit, first.result.lever, headline_of(first.result), point.factor, point.label, point.gain,
        point.gain_per_cost,
    )  # fmt: skip
