"""The ranking under each scenario of a portfolio: other weights, all else the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codesign.recommend.change_records import Scenario, ScenarioRank
from codesign.recommend.portfolio import in_scenario
from codesign.recommend.rank import headline_of
from codesign.recommend.ranked import Ranked, ranked
from codesign.recommend.schema import Interval
from codesign.recommend.worth import worth

if TYPE_CHECKING:
    from codesign.recommend.levers import Pricer
    from codesign.recommend.portfolio import Portfolio
    from codesign.recommend.schema import Backtest

AS_WEIGHTED = "as weighted"
"""Name of the ranking by the portfolio's own weights, where no scenario has the same."""


def scenarios(known: Ranked, price: Pricer, backtest: Backtest | None) -> tuple[Scenario, ...]:
    """The list as weighted, then under each scenario; empty for a portfolio without any.

    A scenario of the same weights lends the first its name. The projections are those of
    ``known``: a scenario changes only what workloads weigh.
    """
    portfolio = known.study.portfolio
    if not portfolio.scenarios:
        return ()
    others = {name: in_scenario(portfolio, name) for name in portfolio.scenarios}
    same = next((n for n, other in others.items() if _alike(other, portfolio)), AS_WEIGHTED)
    others.pop(same, None)
    return (
        _scenario(same, known),
        *(_scenario(name, ranked(known.study.under(other), price, backtest, known))
          for name, other in others.items()),
    )  # fmt: skip


def _alike(one: Portfolio, other: Portfolio) -> bool:
    return all(
        math.isclose(a.weight, b.weight, abs_tol=1e-9)
        for a, b in zip(one.workloads, other.workloads, strict=True)
    )


def _scenario(name: str, found: Ranked) -> Scenario:
    nothing = Interval(1.0, 1.0, 1.0)
    ranks = tuple(
        ScenarioRank(
            lever=p.result.lever, title=headline_of(p.result), rank=place + 1,
            factor=1.0 if p.point is None else p.point.factor,
            label="not possible" if p.point is None else p.point.label,
            gain=nothing if p.point is None else p.point.gain,
            verdict=worth(found.study.portfolio, found.picks, place),
        )
        for place, p in enumerate(found.picks)
    )  # fmt: skip
    return Scenario(name, found.study.weights, ranks)
