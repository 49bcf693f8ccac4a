"""How far the ranking depends on the weights, the cost values and the model: each alone, then all.

The order is that of the list (`rank.ordered`): levers that gain too little behind those that gain
more, then by group, then by criterion. Steps and groups stay as they were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.cost_ranges import draw_inputs, range_of
from codesign.hardware.costs import cost_draws, title_of
from codesign.recommend.rank import BY_COST, NOTHING, UNSUPPORTED, Pick, worth_it
from codesign.recommend.schema import FirstMoved, RankSensitivity, RankSpread
from codesign.recommend.wording import amount, percent

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.hardware.model import System
    from codesign.recommend.study import Evaluation, Study

Array = NDArray[np.float64]

WEIGHT_FACTOR = 2.0
"""Each weight is drawn from a half to twice itself, evenly in proportion, then normalised."""
_TIER, _GROUP = 1e9, 1e6
"""Further apart than any two gains per cost."""


@dataclass(frozen=True)
class _Field:
    """The levers that compete, as arrays over them."""

    study: Study
    prices: Costs
    picks: tuple[Pick, ...]
    systems: tuple[System, ...]
    gains: Array
    """(draws + 1, workloads, levers); row 0 is the point estimate."""
    weights: Array
    """(workloads,)"""
    priced: NDArray[np.bool_]
    """(levers,) whether gain per cost ranks it."""

    def gain(self, weights: Array, gains: Array) -> Array:
        """(n, levers) portfolio gain for weights (n or 1, workloads), gains (n or 1, ...)."""
        return np.asarray(1.0 / (weights[:, :, None] / gains).sum(axis=1) * weights.sum(axis=1)
                          [:, None])  # fmt: skip

    def costs(self, inputs: Mapping[str, Array]) -> Array:
        """(n, levers) ranking cost under drawn cost values; 1 of what gain ranks."""
        kind = self.study.portfolio.ranking
        size = max(np.size(v) for v in inputs.values())
        columns = []
        for system, priced in zip(self.systems, self.priced, strict=True):
            drawn = cost_draws(self.study.base, system, kind, inputs) if priced else None
            columns.append(np.ones(size) if drawn is None else np.broadcast_to(drawn, size))
        return np.stack(columns, axis=1)

    def ranks(self, gain: Array, costs: Array) -> NDArray[np.intp]:
        """(n, levers) rank, from 1."""
        gain, costs = np.broadcast_arrays(gain, costs)
        small = ~worth_it(gain - 1, self.study.portfolio.min_gain)
        group = np.array([p.group for p in self.picks], dtype=np.float64)
        per = (gain - 1) * 100 / np.where(self.priced, costs, 1.0)
        score = np.clip(per, -_GROUP / 4, _GROUP / 4) - group * _GROUP - small * _TIER
        order = np.argsort(-score, axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(1, gain.shape[1] + 1)[None, :], axis=1)
        return ranks


def rank_sensitivity(
    study: Study, evaluation: Evaluation, picks: Sequence[Pick], prices: Costs
) -> tuple[tuple[RankSensitivity, ...], tuple[FirstMoved, ...], int]:
    """Spread of each rank, single changes that move the first place, and how many were tried.

    Levers without effect, not studied, impossible, over budget or not identifiable do not
    compete. All three are empty if fewer than two do.
    """
    competing = tuple(p for p in picks if p.group not in (NOTHING, UNSUPPORTED))
    if len(competing) < 2 or evaluation.gain_draws.shape[0] < 2:
        return (), (), 0
    columns = [p.index for p in competing]
    field = _Field(
        study, prices, competing, tuple(evaluation.systems[i] for i in columns),
        np.stack([evaluation.projections[n].gain_draws[:, columns] for n in study.weights], axis=1),
        np.array(list(study.weights.values())),
        np.array([p.group == BY_COST for p in competing]),
    )  # fmt: skip
    moved, tried = _single_changes(field)
    return _spreads(field), moved, tried


def _spreads(field: _Field) -> tuple[RankSensitivity, ...]:
    n, seed = field.study.portfolio.draws, field.study.portfolio.seed
    exact = {name: np.array([entry.value]) for name, entry in field.prices.values.items()}
    drawn = draw_inputs(field.prices.values, n, seed)
    rng = np.random.default_rng([seed, len(field.weights)])
    span = np.log(WEIGHT_FACTOR)
    weights = field.weights * np.exp(rng.uniform(-span, span, (n, len(field.weights))))
    now, point = field.weights[None, :], field.gains[:1]
    gain_now = field.gain(now, point)
    costs_now, costs_drawn = field.costs(exact), field.costs(drawn)
    by_source = {
        "weights": field.ranks(field.gain(weights, point), costs_now),
        "costs": field.ranks(gain_now, costs_drawn),
        "model": field.ranks(field.gain(now, field.gains[1:]), costs_now),
        "together": field.ranks(field.gain(weights, field.gains[1:]), costs_drawn),
    }
    place = field.ranks(gain_now, costs_now)[0]
    return tuple(
        RankSensitivity(
            lever=pick.result.lever, rank=int(place[i]),
            **{source: _spread(ranks[:, i]) for source, ranks in by_source.items()},
        )
        for i, pick in enumerate(field.picks)
    )  # fmt: skip


def _spread(ranks: NDArray[np.intp]) -> RankSpread:
    lo, hi = np.quantile(ranks, [0.05, 0.95], method="nearest")
    return RankSpread(float((ranks == 1).mean()), int(lo), int(hi))


def _single_changes(field: _Field) -> tuple[tuple[FirstMoved, ...], int]:
    """Each weight gone, doubled, or the whole; each cost value at either end of its range."""
    exact = {name: np.array([entry.value]) for name, entry in field.prices.values.items()}
    now, point = field.weights[None, :], field.gains[:1]
    gain_now, costs_now = field.gain(now, point), field.costs(exact)
    first = _first(field, gain_now, costs_now)
    found: list[FirstMoved] = []
    tried = 0
    names = list(field.study.weights)
    for index, name in enumerate(names):
        if len(names) < 2:
            break
        for what, weights in _reweighted(field.weights, index):
            tried += 1
            after = _first(field, field.gain(weights[None, :], point), costs_now)
            if after is not first:
                found.append(_moved(f"{name} {what}", "weight", after))
    for name, entry in field.prices.values.items():
        low, high, _ = range_of(entry)
        for value in dict.fromkeys((low, high)):
            if value == entry.value:
                continue
            tried += 1
            costs = field.costs(exact | {name: np.array([value])})
            after = _first(field, gain_now, costs)
            if after is not first:
                said = f"{title_of(name)} at {amount(value)} {entry.unit}".rstrip()
                found.append(_moved(f"{said} (now {amount(entry.value)})", "cost", after))
    return tuple(found), tried


def _reweighted(weights: Array, index: int) -> list[tuple[str, Array]]:
    """What is said of each change of one weight, and the weights that it leaves."""
    gone, twice, alone = weights.copy(), weights.copy(), np.zeros_like(weights)
    gone[index], twice[index], alone[index] = 0.0, 2 * weights[index], 1.0
    share = 2 * weights[index] / twice.sum() if twice.sum() else 0.0
    options = [("gone", gone), (f"at twice its weight ({percent(share)} of all)", twice),
               ("alone", alone)]  # fmt: skip
    return [(what, w / w.sum()) for what, w in options if w.sum() > 0]


def _first(field: _Field, gain: Array, costs: Array) -> Pick:
    return field.picks[int(field.ranks(gain, costs)[0].argmin())]


def _moved(change: str, kind: Literal["weight", "cost"], pick: Pick) -> FirstMoved:
    return FirstMoved(change, kind, pick.result.lever, pick.result.title)
