"""From what levers show to a ranked list: one step each, ordered by gain per cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.recommend.carriers import saved_shares, share_by, top_carriers
from codesign.recommend.levers import improves
from codesign.recommend.portfolio import COST_UNITS, Portfolio
from codesign.recommend.schema import Cost, LeverPoint, LeverResult, Recommendation, Verdict
from codesign.recommend.wording import inside, joined, listing, percent

if TYPE_CHECKING:
    from codesign.recommend.study import Evaluation, Study

Array = NDArray[np.float64]

BY_COST, BY_GAIN, ASSUMED, CONTRADICTED, UNSURE, UNSUPPORTED, NOTHING = range(7)
"""Groups of the ranked list, in order. See `ranking_rule`."""


@dataclass(frozen=True)
class Pick:
    """The step that a lever is recommended at."""

    result: LeverResult
    point: LeverPoint | None
    """None for a lever that was refused."""
    index: int
    """Of the step's system in the evaluation; -1 if there is none."""
    group: int
    note: str
    """How the step was chosen, or why it stands where it does."""
    small: bool = False
    """It gains less than the portfolio's ``min_gain``, so it stands behind all that gain more."""
    fits: bool = True
    """Whether the budgets allow the step. What they do not allow stands behind what they do."""

    @property
    def tier(self) -> int:
        """First of all orders: what gains enough within the budgets, what does not, what gains
        nothing.
        """
        return 2 if self.group == NOTHING else int(self.small or not self.fits)

    @property
    def criterion(self) -> float:
        """What orders the list inside a group: gain per cost, or gain in per cent."""
        if self.point is None:
            return -1.0  # What is not possible stands behind what gains nothing.
        if self.group == BY_COST and self.point.gain_per_cost is not None:
            return self.point.gain_per_cost
        return (self.point.gain.value - 1) * 100

    def cost_value(self, portfolio: Portfolio) -> float | None:
        """Cost by which the list is ranked, if it is known and above 0."""
        if self.point is None or self.point.gain_per_cost is None or self.point.cost is None:
            return None
        value = getattr(self.point.cost, portfolio.ranking).value
        return None if value is None else float(value)


def ranking_rule(portfolio: Portfolio) -> str:
    """The rule in words, with the numbers of the portfolio."""
    unit = COST_UNITS[portfolio.ranking]
    return (
        "Each lever is recommended at the step with the highest gain per cost among those whose "
        "interval lies above 1, that fit the budgets and that gain at least "
        f"{percent(portfolio.min_gain)}; if none gains that much, among those above 1. A lever "
        "whose cost no source gives is recommended at its largest step before saturation. "
        f"Order: a lever that gains under {percent(portfolio.min_gain)} at that step, or that the "
        "budgets exclude, stands behind all others, however little it costs. Among either: first "
        f"levers with a cost, by gain per {unit}; then those without, by gain; then "
        "those whose effect is an assumption that no measurement tested, by gain; then those "
        "whose effect a measurement contradicts, by gain; then those whose "
        "interval reaches down to 1; then those that the data cannot identify or the budgets "
        "exclude. Last of all those without effect, not studied or impossible. "
        f"{_unknown_costs(portfolio)}P(best) is the "
        f"share of joint draws in which a lever gains at least {percent(portfolio.min_gain)} and "
        "is first by its criterion among those that do and that measurements "
        "identify: gain per cost among levers with a cost, gain among all; a draw in which none "
        "gains that much has no winner. The list is ordered by "
        "costs as printed; the draws take each cost value from the range that its sources leave "
        "open, evenly in proportion, or from an assumed range where none gives one (see "
        "Assumptions)."
    )


def _unknown_costs(portfolio: Portfolio) -> str:
    if not portfolio.budgets:
        return ""
    return "A cost that no source gives is held against no budget. "


def pick(portfolio: Portfolio, result: LeverResult, first: int) -> Pick:
    """The step at which a lever is recommended; its systems begin at index ``first``."""
    steps = [i for i, p in enumerate(result.points) if improves(result.lever, p.factor)]
    if result.status in ("no_effect", "not_studied", "refused") or not steps:
        if not result.points:
            return Pick(result, None, -1, NOTHING, result.reason)
        return Pick(result, result.points[0], first, NOTHING, "no step gains anything")
    sure = [i for i in steps if result.points[i].gain.lo > 1]
    chosen, note = _choose(portfolio, result, sure or steps)
    fits = _fits(portfolio, result.points[chosen].cost)
    group = (
        UNSUPPORTED if result.status == "not_identifiable" or not fits
        else UNSURE if not sure
        else ASSUMED if result.status == "assumed"
        else CONTRADICTED if result.status == "contradicted"
        else BY_GAIN if result.points[chosen].gain_per_cost is None
        else BY_COST
    )  # fmt: skip
    point = result.points[chosen]
    unknown = _unknown_to_budgets(portfolio, point.cost)
    if not fits:
        note = "no step that gains fits the budgets; " + note
    elif unknown:
        note += f"; whether it fits the budget of {joined(unknown)} is not known"
    small = point.gain.value - 1 < portfolio.min_gain
    return Pick(result, point, first + chosen, group, note, small, fits)


def _choose(portfolio: Portfolio, result: LeverResult, steps: list[int]) -> tuple[int, str]:
    points = result.points
    affordable = [i for i in steps if _fits(portfolio, points[i].cost)]
    if not affordable:
        cheapest = min(steps, key=lambda i: _cost_or_inf(portfolio, points[i]))
        return cheapest, "the cheapest step is shown"
    priced = [i for i in affordable if points[i].gain_per_cost is not None]
    if priced:
        large = [i for i in priced if points[i].gain.value - 1 >= portfolio.min_gain]
        best = max(large or priced, key=lambda i: points[i].gain_per_cost or 0.0)
        small = "" if large else f", though none gains {percent(portfolio.min_gain)}"
        return best, f"the step with the highest gain per cost{small}"
    knee = result.saturates_at
    before = [
        i for i in affordable
        if knee is None or not _beyond(points[i].factor, knee)
    ]  # fmt: skip
    if not before:
        return affordable[0], "the smallest step: it is saturated from there"
    return before[-1], "the largest step studied before saturation"


def _beyond(factor: float, knee: float) -> bool:
    return bool(abs(np.log(factor)) > abs(np.log(knee)) + 1e-9)


def _cost_or_inf(portfolio: Portfolio, point: LeverPoint) -> float:
    value = None if point.cost is None else getattr(point.cost, portfolio.ranking).value
    return float("inf") if value is None else float(value)


def _fits(portfolio: Portfolio, cost: Cost | None) -> bool:
    if cost is None:
        return True
    for kind, budget in portfolio.budgets.items():
        value = getattr(cost, kind).value
        if value is not None and float(value) > budget:
            return False
    return True


def _unknown_to_budgets(portfolio: Portfolio, cost: Cost | None) -> list[str]:
    """Kinds of cost that have a budget and of which no source says what the step costs."""
    return [kind for kind in portfolio.budgets
            if cost is None or getattr(cost, kind).value is None]  # fmt: skip


def ordered(picks: Sequence[Pick]) -> list[Pick]:
    """The ranked list; equal criteria stand in alphabetical order."""
    return sorted(picks, key=lambda p: (p.tier, p.group, -p.criterion, p.result.lever))


def p_best(
    study: Study, evaluation: Evaluation, picks: Sequence[Pick],
    cost_draws: Mapping[str, Array] | None = None,
) -> dict[str, float]:  # fmt: skip
    """Share of joint draws in which each lever is the best by its criterion.

    ``cost_draws``: lever -> (draws,) ranking cost of its step; a lever that is not in it
    has its cost as it stands.

    Levers with a cost compete among themselves by gain per cost; those without
    compete with all by gain. Draws in which nothing gains have no winner. Levers that
    the data do not identify take no part: the draws hold no doubt about an assumption.
    """
    rivals = [
        p for p in picks
        if p.group in (BY_COST, BY_GAIN, UNSURE) and p.result.status == "identified"
    ]  # fmt: skip
    if not rivals or evaluation.gain_draws.shape[0] < 2:
        return {}
    gains = evaluation.gain_draws[1:][:, [p.index for p in rivals]] - 1
    drawn = cost_draws or {}
    point = [p.cost_value(study.portfolio) or np.nan for p in rivals]
    costs = np.stack([
        np.broadcast_to(drawn.get(p.result.lever, cost), gains.shape[:1])
        for p, cost in zip(rivals, point, strict=True)
    ], axis=1)  # fmt: skip
    priced = ~np.isnan(point)
    result: dict[str, float] = {}
    enough = worth_it(gains, study.portfolio.min_gain)
    by_gain = _wins(np.where(enough, gains, -np.inf))
    per_cost = gains / np.where(priced, costs, 1.0)
    by_cost = _wins(np.where(priced & enough, per_cost, -np.inf))
    for index, rival in enumerate(rivals):
        result[rival.result.lever] = float((by_cost if priced[index] else by_gain)[index])
    return result


def worth_it(gain: Array, least: float) -> NDArray[np.bool_]:
    """Whether gains, less 1, reach the least that is worth a lever's place."""
    return np.asarray(gain >= least - 1e-12)


def _wins(score: Array) -> Array:
    """(rivals,) share of rows in which each column is the largest and above 0."""
    best = score.argmax(axis=1)
    won = score[np.arange(len(score)), best] > 0
    return np.bincount(best[won], minlength=score.shape[1]) / len(score)


def recommendation(
    study: Study, evaluation: Evaluation, chosen: Pick, *, rank: int, p: float | None,
    would_change: tuple[str, ...], verdict: Verdict, caveats: tuple[str, ...] = (),
) -> Recommendation:  # fmt: skip
    """One line of the ranked list."""
    result, point, portfolio = chosen.result, chosen.point, study.portfolio
    if point is None:
        return _refused(result, rank)
    shares = saved_shares(study, evaluation, chosen.index)
    return Recommendation(
        rank=rank, kind="hardware", lever=result.lever, headline=headline_of(result),
        factor=point.factor, label=point.label, gain=point.gain, status=result.status,
        cost=point.cost, gain_per_cost=point.gain_per_cost,
        ranked_by=_ranked_by(portfolio, chosen), p_best=p,
        reason=_reason(chosen), by_workload=point.by_workload,
        carried_by=top_carriers(study, evaluation, shares),
        evidence=share_by(study, shares, "evidence"),
        would_change=would_change, refuted_by=result.refuted_by, verdict=verdict, caveats=caveats,
    )  # fmt: skip


def headline_of(result: LeverResult) -> str:
    """The lever's title as a piece of advice."""
    if result.lever == "launch_latency":
        return f"Lower {inside(result.title)}"
    return result.title


def _ranked_by(portfolio: Portfolio, chosen: Pick) -> str:
    unit = COST_UNITS[portfolio.ranking].removesuffix(" per GPU")
    point = chosen.point
    if chosen.group == ASSUMED:
        return "gain (its effect is an assumption that no measurement tested)"
    if chosen.group == CONTRADICTED:
        return "gain (a measurement contradicts its effect)"
    if chosen.group == BY_COST or point is None or point.gain_per_cost is not None:
        return f"gain per {unit}"
    if point.cost is None:
        return "gain (no cost is known)"
    item = getattr(point.cost, portfolio.ranking)
    why = item.source or f"no source gives its {portfolio.ranking}"
    return f"gain ({why if item.value is None else f'its cost in {unit} is not above 0'})"


def _reason(chosen: Pick) -> str:
    result = chosen.result
    if chosen.group == NOTHING:
        return result.reason
    binding = f"time on the baseline is bound by {listing(result.binding_before)}"
    saturation = f"it {result.saturation_note}" if result.saturates_at is None else (
        f"it saturates: {result.saturation_note}")  # fmt: skip
    return "; ".join(p for p in (result.reason, binding, saturation, f"shown: {chosen.note}") if p)


def _refused(result: LeverResult, rank: int) -> Recommendation:
    from codesign.recommend.schema import Interval

    return Recommendation(
        rank=rank, kind="hardware", lever=result.lever, headline=headline_of(result), factor=1.0,
        label="not possible", gain=Interval(1.0, 1.0, 1.0), status="refused", cost=None,
        gain_per_cost=None, ranked_by="gain (refused)", p_best=None, reason=result.reason,
        by_workload={}, carried_by=(), evidence={}, would_change=(), refuted_by="", verdict="none",
    )  # fmt: skip
