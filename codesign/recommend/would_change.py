"""What would change a lever's place in the ranking, from numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.recommend.carriers import saved_shares, share_by
from codesign.recommend.levers import gain_per_cost
from codesign.recommend.portfolio import COST_UNITS
from codesign.recommend.rank import BY_COST, BY_GAIN, Pick, worth_it
from codesign.recommend.wording import amount, inside, percent

if TYPE_CHECKING:
    from codesign.recommend.schema import CostItem
    from codesign.recommend.study import Evaluation, Study

Array = NDArray[np.float64]

MEASURED = ("measured", "interpolated")
_GRID = 2001
_BEHIND = 1e12
"""More than any gain per cost."""


def sentences(
    study: Study, evaluation: Evaluation, picks: Sequence[Pick], place: int,
    cost_draws: Mapping[str, Array] | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """What would move the pick at ``place`` of the ranked list, or what it leans on.

    ``cost_draws``: lever -> (draws,) ranking cost of its step.
    """
    chosen = picks[place]
    if chosen.point is None or chosen.group not in (BY_COST, BY_GAIN):
        return ()
    like = [
        p for p in picks[place + 1 :] if (p.tier, p.group) == (chosen.tier, chosen.group)
    ]  # fmt: skip
    below = like[0] if like else None
    found: list[str] = []
    if below is not None and below.point is not None:
        found.append(_overlap(study, evaluation, chosen, below, cost_draws or {}))
        found.append(_cost(study, chosen, below))
        found += _bounds(study, chosen, like)
        found.append(_weight(study, evaluation, chosen, below))
    found.append(_evidence(study, evaluation, chosen))
    found.append(_common_step(picks, place, study.portfolio.min_gain))
    found.append(_other_costs(study, picks, place))
    return tuple(sentence for sentence in found if sentence)


def _overlap(
    study: Study, evaluation: Evaluation, chosen: Pick, below: Pick, costs: Mapping[str, Array]
) -> str:
    draws = evaluation.gain_draws[1:]
    if not len(draws):
        return ""
    least = study.portfolio.min_gain
    mine, other = (
        _score(
            draws[:, p.index] - 1, least,
            costs.get(p.result.lever, _divisor(study, p)) if p.group == BY_COST else 1.0,
        )
        for p in (chosen, below)
    )  # fmt: skip
    behind = float((other > mine).mean())
    name = below.result.title
    if behind == 0:
        return f"It stays ahead of {name}, the next, in all of {len(draws)} joint draws."
    return f"{name}, the next, is ahead of it in {percent(behind)} of the joint draws."


def _score(gain: Array, least: float, cost: Array | float) -> Array:
    """What orders options: gain per cost, all that gain too little behind all that gain more."""
    return np.asarray(gain / cost - np.where(worth_it(gain, least), 0.0, _BEHIND))


def _divisor(study: Study, chosen: Pick) -> float:
    cost = chosen.cost_value(study.portfolio)
    return cost if chosen.group == BY_COST and cost is not None else 1.0


def _cost(study: Study, chosen: Pick, below: Pick) -> str:
    mine = chosen.cost_value(study.portfolio)
    if chosen.group != BY_COST or mine is None or chosen.point is None:
        return ""
    other = below.criterion
    if other <= 0:
        return ""
    limit = (chosen.point.gain.value - 1) * 100 / other
    unit = COST_UNITS[study.portfolio.ranking]
    return (
        f"It falls behind {below.result.title} if it costs more than {amount(limit)} {unit} "
        f"(now {amount(mine)})."
    )


def _bounds(study: Study, chosen: Pick, lower: Sequence[Pick]) -> list[str]:
    """Levers below that may be ahead since a cost is a bound on the side that does not show it."""
    kind, unit = study.portfolio.ranking, COST_UNITS[study.portfolio.ranking]
    if chosen.group != BY_COST or chosen.point is None or chosen.point.cost is None:
        return []
    mine: CostItem = getattr(chosen.point.cost, kind)
    found = []
    for rival in lower:
        assert rival.point is not None
        if rival.point.cost is None:
            continue
        other: CostItem = getattr(rival.point.cost, kind)
        if mine.value is None or other.value is None or other.lo is None or mine.hi is None:
            continue
        # What the rival may cost at most to be ahead, and the chosen at least.
        limit = other.value * rival.criterion / chosen.criterion
        least = mine.value * chosen.criterion / rival.criterion if rival.criterion > 0 else np.inf
        if other.bound == "upper" and limit >= other.lo:
            found.append(
                f"The {kind} of {inside(rival.result.title)} is an upper bound, "
                f"{amount(other.value)} {unit}: it is ahead of it below {amount(limit)}, and may "
                f"be as low as {amount(other.lo)}."
            )
        elif mine.bound == "lower" and least <= mine.hi:
            found.append(
                f"Its {kind} is a lower bound, {amount(mine.value)} {unit}: "
                f"{inside(rival.result.title)} is ahead of it above {amount(least)}, and it may be "
                f"as high as {amount(mine.hi)}."
            )
    return found


def _weight(study: Study, evaluation: Evaluation, chosen: Pick, below: Pick) -> str:
    """The smallest change of one workload's weight that swaps the two."""
    gains = [evaluation.point_gains(p.index) for p in (chosen, below)]
    costs = [_divisor(study, p) for p in (chosen, below)]
    nearest: tuple[float, str, float] | None = None
    for name, weight in study.weights.items():
        if weight >= 1:
            continue
        at = swap_weight(study.weights, name, gains, costs, study.portfolio.min_gain)
        if at is not None and (nearest is None or abs(at - weight) < nearest[0]):
            nearest = (abs(at - weight), name, at)
    if nearest is None:
        return f"No change of a single workload's weight puts {below.result.title} ahead of it."
    _, name, at = nearest
    side = "under" if at < study.weights[name] else "over"
    return (
        f"{below.result.title} is ahead of it if {name} holds {side} {percent(at)} of GPU-hours "
        f"(now {percent(study.weights[name])})."
    )


def swap_weight(
    weights: dict[str, float], name: str, gains: Sequence[dict[str, float]],
    costs: Sequence[float], least: float = 0.0,
) -> float | None:  # fmt: skip
    """Weight of ``name`` nearest to its own at which the second option overtakes the first.

    The other weights keep their proportions. ``gains`` hold each option's gain by
    workload; an option scores (portfolio gain - 1) / cost, behind every other if it gains
    under ``least``. None if no weight does it.
    """
    rest = 1 - weights[name]
    grid = np.linspace(0.0, 1.0, _GRID)
    score = []
    for by_workload, cost in zip(gains, costs, strict=True):
        others = sum(w / by_workload[k] for k, w in weights.items() if k != name) / rest
        gain = 1 / (grid / by_workload[name] + (1 - grid) * others) - 1
        score.append(_score(gain, least, cost))
    lead: Array = score[0] - score[1]
    behind = np.flatnonzero(lead < 0)
    if not behind.size:
        return None
    nearest = behind[np.abs(grid[behind] - weights[name]).argmin()]
    step = 1 if grid[nearest] < weights[name] else -1
    neighbour = nearest + step
    if not 0 <= neighbour < _GRID or lead[neighbour] < 0:
        return float(grid[nearest])
    part = lead[nearest] / (lead[nearest] - lead[neighbour])
    return float(grid[nearest] + part * (grid[neighbour] - grid[nearest]))


def _evidence(study: Study, evaluation: Evaluation, chosen: Pick) -> str:
    """What is left of the gain if the time saved on unmeasured ops is not there."""
    shares = share_by(study, saved_shares(study, evaluation, chosen.index), "evidence")
    sure = sum(shares.get(kind, 0.0) for kind in MEASURED)
    if not shares or sure >= 0.995 or chosen.point is None:
        return ""
    kinds = " or ".join(kind for kind in shares if kind not in MEASURED)
    left = 1 / (1 - (1 - 1 / chosen.point.gain.value) * sure)
    return (
        f"{percent(1 - sure)} of the time it saves rests on {kinds} op times; "
        f"without it the gain is x{left:.3f}."
    )


def _common_step(picks: Sequence[Pick], place: int, least: float) -> str:
    """Its place if all levers that can take the same step do so, by the same criterion.

    Levers that gain under ``least`` there count only beside one that does so itself.
    """
    chosen = picks[place]
    assert chosen.point is not None
    factor = chosen.point.factor
    if chosen.small:
        least = 0.0
    scores: dict[str, float] = {}
    for rival in picks:
        point = next((p for p in rival.result.points if abs(p.factor - factor) < 0.02), None)
        if rival.group != chosen.group or point is None:
            continue
        if not worth_it(np.array(point.gain.value - 1), least):
            continue
        value = point.gain_per_cost if chosen.group == BY_COST else point.gain.value
        if value is not None:
            scores[rival.result.title] = value
    if len(scores) < 2:
        return ""
    position = sorted(scores, key=lambda t: (-scores[t], t)).index(chosen.result.title) + 1
    change = f"{(factor - 1) * 100:+.0f} %"
    return (
        f"At a common step of {change} it is number {position} of the {len(scores)} levers that "
        f"can take it{'' if least == 0 else f' and gain {percent(least)} by it'}."
    )


def _other_costs(study: Study, picks: Sequence[Pick], place: int) -> str:
    """Its place if the same steps were ranked by another kind of cost."""
    parts = []
    for kind, unit in COST_UNITS.items():
        if kind == study.portfolio.ranking:
            continue
        scores = {
            p.result.lever: _per(p, kind) for p in picks
            if p.group in (BY_COST, BY_GAIN) and p.small <= picks[place].small
        }  # fmt: skip
        known = {lever: score for lever, score in scores.items() if score is not None}
        lever = picks[place].result.lever
        if lever in known and len(known) > 1:
            position = sorted(known, key=lambda name: (-known[name], name)).index(lever) + 1
            parts.append(
                f"number {position} of {len(known)} by gain per {unit.removesuffix(' per GPU')}"
            )
    return f"These steps ranked otherwise: {' and '.join(parts)}." if parts else ""


def _per(chosen: Pick, kind: str) -> float | None:
    return None if chosen.point is None else gain_per_cost(
        chosen.point.gain.value, chosen.point.cost, kind)  # fmt: skip
