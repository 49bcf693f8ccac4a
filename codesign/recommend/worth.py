"""Whether a lever is worth its place: one word for each line of the ranked list, by rule."""

from __future__ import annotations

from collections.abc import Sequence

from codesign.recommend.portfolio import COST_UNITS, Portfolio
from codesign.recommend.rank import (
    ASSUMED,
    BY_COST,
    BY_GAIN,
    CONTRADICTED,
    NOTHING,
    UNSUPPORTED,
    UNSURE,
    Pick,
)
from codesign.recommend.schema import Verdict
from codesign.recommend.wording import percent

STRONG = 1 / 3
"""Part of the first lever's gain per cost from which another is still strong."""


def verdict_rule(portfolio: Portfolio) -> str:
    """The verdicts in words, with the numbers of the portfolio."""
    unit, least = (
        COST_UNITS[portfolio.ranking].removesuffix(" per GPU"),
        percent(portfolio.min_gain),
    )
    return (
        f"First: the head of the list, if it gains {least} and measurements identify it. "
        f"Strong: at least a third of its gain per {unit}. Costly: "
        f"less than that. Unpriced: no source gives its cost in {unit}. Untested: its "
        f"effect is an assumption. Marginal: it gains under {least}. Uncertain: its interval "
        "reaches down to 1. Contradicted: a natural experiment of the backtest shows less than "
        "is projected. Over budget: no step fits. Open: the study cannot say. None: no effect."
    )


def worth(portfolio: Portfolio, picks: Sequence[Pick], place: int) -> Verdict:
    """The verdict on the pick at ``place`` of the ranked list."""
    chosen = picks[place]
    if chosen.point is None:
        return "none"
    status = chosen.result.status
    by_group: dict[int, Verdict] = {
        NOTHING: "open" if status == "not_studied" else "none",
        UNSUPPORTED: "open" if status == "not_identifiable" else "over_budget",
        UNSURE: "uncertain",
        CONTRADICTED: "contradicted",
    }
    if chosen.group in by_group:
        return by_group[chosen.group]
    if chosen.point.gain.value - 1 < portfolio.min_gain:
        return "marginal"
    if chosen.group == ASSUMED:
        return "untested"
    return _of_measured(picks, place)


def _of_measured(picks: Sequence[Pick], place: int) -> Verdict:
    chosen, first = picks[place], picks[0]
    if place == 0:
        return "first"
    if chosen.group == BY_GAIN:
        return "unpriced"
    strong = first.group == BY_COST and chosen.criterion >= STRONG * first.criterion
    return "strong" if strong else "costly"
