"""The ranking under each scenario of a portfolio: other weights, all else the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codesign.recommend.change_records import Scenario, ScenarioRank
from codesign.recommend.portfolio import in_scenario
from codesign.recommend.rank import headline_of
from codesign.recommend.ranked import Ranked, ranked
from codesign.recommend.schema import Interval
from codesign.recommend.worth import worth

if TYPE_CHECKING:
    from codesign.recommend.levers import Pricer
    from codesign.recommend.schema import Backtest

AS_WEIGHTED = "as weighted"
"""Name of the ranking by the portfolio's own weights."""


def scenarios(known: Ranked, price: Pricer, backtest: Backtest | None) -> tuple[Scenario, ...]:
    """The list as weighted, then under each scenario; empty for a portfolio without any.

    The projections are those of ``known``: a scenario changes only what workloads weigh.
    """
    portfolio = known.study.portfolio
    if not portfolio.scenarios:
        return ()
    found = [_scenario(AS_WEIGHTED, known)]
    for name in portfolio.scenarios:
        study = known.study.under(in_scenario(portfolio, name))
        found.append(_scenario(name, ranked(study, price, backtest, known)))
    return tuple(found)


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
