"""Parts of the recommendations file: levers, their costs and gains, and the ranked lines."""

from __future__ import annotations

from typing import Literal

import msgspec

from codesign._common.scores import Interval

Status = Literal[
    "identified", "assumed", "contradicted", "not_identifiable", "no_effect", "not_studied",
    "refused",
]  # fmt: skip
Verdict = Literal[
    "first", "strong", "costly", "unpriced", "untested", "marginal", "uncertain", "over_budget",
    "contradicted", "open", "none",
]  # fmt: skip
"""See ``verdict_rule`` of the file. ``open``: the study cannot say."""

Level = Literal["low", "medium", "high"]


class CostItem(msgspec.Struct, frozen=True):
    """One kind of cost of a lever step. ``value`` is None where no source gives it."""

    value: float | None
    unit: str
    source: str
    evidence: str
    bound: Literal["central", "lower", "upper"] = "central"
    """``lower`` or ``upper`` where the value is an end of what the cost can be."""
    lo: float | None = None
    """With ``hi`` the 90 % range over what the sources leave open."""
    hi: float | None = None


class Cost(msgspec.Struct, frozen=True):
    """What a lever step costs per GPU."""

    area: CostItem
    """mm2 of silicon."""
    power: CostItem
    """W at full rate."""
    money: CostItem
    """USD of components."""
    note: str = ""
    """What the step asks for beyond these: ``needs another die: ...``."""


class LeverPoint(msgspec.Struct, frozen=True):
    """A lever at one step size, over the portfolio."""

    factor: float
    label: str
    """As an architect says it: ``+50 %: 5.03 TB/s``."""
    gain: Interval
    """1 of a lever that is ``not_studied``, of which it says nothing."""
    by_workload: dict[str, Interval]
    cost: Cost | None
    gain_per_cost: float | None
    """Portfolio gain in per cent per unit of the ranking cost."""
    next_ten: float | None = None
    """Gain of 10 % more of the lever around this step, from the step before; a fraction."""


class OpShare(msgspec.Struct, frozen=True):
    """An op that carries part of a gain, with its share of the time saved."""

    workload: str
    op_class: str
    name: str
    shape: str
    precision: str | None
    evidence: str
    time_share: float
    """Of the workload's step on the baseline."""
    saved_share: float
    """Of the time that the lever saves over the portfolio."""


class LeverResult(msgspec.Struct, frozen=True):
    """One lever over all its step sizes."""

    lever: str
    title: str
    baseline: str
    """Value on the baseline, with its unit."""
    status: Status
    reason: str
    points: tuple[LeverPoint, ...]
    elasticity: Interval | None
    """d ln(time) / d ln(lever) at the baseline."""
    saturates_at: float | None
    """Factor past which the next step adds under ``saturation_threshold`` of gain."""
    saturation_note: str
    binding_before: dict[str, float]
    """Share of portfolio time by binding resource on the baseline; sums to 1."""
    binding_after: dict[str, float]
    """The same at the largest step studied."""
    carried_by: tuple[OpShare, ...]
    refuted_by: str
    """A measurement on hardware of today that would refute the claim."""
    contradicted_by: str = ""
    """Natural experiments of the backtest that show less than the projected effect."""
    understated_by: str = ""
    """Those that show more of it: the lever's gains are then likely too low."""


class FirstByCost(msgspec.Struct, frozen=True):
    """The lever that would be first if another kind of cost ranked the list."""

    ranking_cost: str
    """Unit of that cost, such as ``mm2 per GPU``."""
    lever: str
    """Empty where no lever that is worth it has such a cost."""
    headline: str
    factor: float
    label: str
    gain: Interval
    gain_per_cost: float | None
    """Portfolio gain in per cent per unit of that cost."""


class PairResult(msgspec.Struct, frozen=True):
    """Two levers moved together."""

    levers: tuple[str, str]
    factors: tuple[float, float]
    label: str
    gain: Interval
    product_of_singles: float
    interaction: Interval
    """gain / product of the single gains: above 1 they help each other."""
    cost: Cost | None
    gain_per_cost: float | None


class Recommendation(msgspec.Struct, frozen=True):
    """One ranked line of advice."""

    rank: int
    kind: Literal["hardware", "software"]
    lever: str
    headline: str
    factor: float
    label: str
    gain: Interval
    status: Status
    cost: Cost | None
    gain_per_cost: float | None
    ranked_by: str
    """``gain per USD`` or ``gain``; the latter says why there is no cost."""
    p_best: float | None
    """Share of the joint draws in which this is the best by ``ranked_by``."""
    reason: str
    by_workload: dict[str, Interval]
    carried_by: tuple[OpShare, ...]
    evidence: dict[str, float]
    """Share of the time saved by evidence; sums to 1, empty if nothing is saved."""
    would_change: tuple[str, ...]
    """What would change its place in the ranking."""
    refuted_by: str
    verdict: Verdict | None = None
    caveats: tuple[str, ...] = ()
    """Doubts about measurements that this gain rests on."""
