"""The recommendations file: the one thing that every renderer reads."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

# Also read from here, as parts of the file: lower layers make them.
from codesign._common.scores import Backtest, BacktestRow, Interval, WorkloadBacktestRow
from codesign.cluster.records import AtScale
from codesign.recommend.change_records import Changes, Scenario

SCHEMA_VERSION = 1

__all__ = [
    "SCHEMA_VERSION", "Assumption", "AtScale", "Backtest", "BacktestRow", "BreakdownRow", "Cost",
    "CostItem",
    "FirstByCost", "FirstMoved", "Gap", "GapRow", "Interval", "Ledger", "LedgerRow", "Level",
    "LeverPoint", "LeverResult", "MarginalGain", "OpShare", "Package", "PackageStep",
    "PackageStudy", "PairResult", "Provenance", "RankSensitivity", "RankSpread", "Recommendation",
    "Recommendations", "RooflinePoint", "SoftwareFinding", "SoftwareResult", "SoftwareSilence",
    "Status", "Verdict", "WorkloadBacktestRow", "WorkloadResult",
]  # fmt: skip

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
    """Natural experiments of the backtest that speak against the projected effect."""


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


class PackageStep(msgspec.Struct, frozen=True):
    """One lever of a package at its step."""

    lever: str
    title: str
    factor: float
    label: str
    status: Status


class Package(msgspec.Struct, frozen=True):
    """A combination of lever steps that no other beats at its cost or less."""

    steps: tuple[PackageStep, ...]
    """Empty for the baseline as it is."""
    gain: Interval
    cost: Cost | None
    gain_per_cost: float | None
    """Portfolio gain in per cent per unit of the study's cost."""
    fleet_gain: Interval | None
    """Gain of a fleet that may cost no more than today's: gain x baseline cost / cost."""
    p_best: float | None
    """Share of the joint draws in which its ``fleet_gain`` is the largest of the front."""


class MarginalGain(msgspec.Struct, frozen=True):
    """What a lever adds after all others of a package."""

    lever: str
    title: str
    label: str
    status: Status
    inside: bool
    """It is part of the package; the others are added to the whole of it."""
    alone: Interval
    last: Interval
    """Gain with it / gain without it, the package standing."""
    cost: CostItem | None
    gain_per_cost: float | None
    """``last`` in per cent per unit of the cost that it adds."""


class PackageStudy(msgspec.Struct, frozen=True):
    """The best combinations of levers by one kind of cost."""

    kind: Literal["area", "power", "money"]
    ranking_cost: str
    """Unit of that cost, such as ``W per GPU``."""
    baseline_cost: float | None
    """Of the GPU as it is, in that unit."""
    baseline_source: str
    budget: float | None
    """Most that a package may cost; None where the portfolio sets none."""
    front: tuple[Package, ...]
    """From the baseline up, thinned where it is long."""
    balanced: int | None
    """Index in ``front`` of the largest ``fleet_gain``; None without a baseline cost."""
    best: int
    """Index in ``front`` of the largest gain, within the budget if there is one."""
    marginal_to: int
    """Index in ``front`` of the package that ``marginal`` is about."""
    marginal: tuple[MarginalGain, ...]
    alone: dict[str, Interval]
    """Lever -> ``fleet_gain`` of its recommended step by itself; of the ranking cost alone."""
    tried: int
    exhaustive: bool
    left_out: dict[str, str]
    """Title of a lever that no package may hold -> why."""


class RankSpread(msgspec.Struct, frozen=True):
    """Where a lever stands in the list when one thing varies, all others as they are."""

    first: float
    """Share of the draws in which it is first."""
    lo: int
    """With ``hi`` the ranks between which it stands in nine draws of ten."""
    hi: int


class RankSensitivity(msgspec.Struct, frozen=True):
    """How far a lever's rank depends on what went into the ranking."""

    lever: str
    rank: int
    weights: RankSpread
    costs: RankSpread
    model: RankSpread
    together: RankSpread


class FirstMoved(msgspec.Struct, frozen=True):
    """A single change of a weight or a cost value that puts another lever first."""

    change: str
    kind: Literal["weight", "cost"]
    lever: str
    """That is first then."""
    title: str


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


class SoftwareFinding(msgspec.Struct, frozen=True):
    """What one software rule found in one workload."""

    workload: str
    evidence: str
    """What the characterization says, with numbers."""
    at_stake_s: float
    """Time of the step that it is about."""
    bound_s: float
    """Least that this time can become: the attainable bound."""
    bound: str
    """How the bound was derived."""
    gain: Interval
    """Of this workload: its step now over its step at the rule's reach."""
    ops: tuple[OpShare, ...]
    """Ops that it names; ``saved_share`` is the share of the time saved."""
    confidence: Level
    caveat: str = ""


class SoftwareResult(msgspec.Struct, frozen=True):
    """A change of software, over the portfolio: on the same scale as the levers."""

    rule: str
    title: str
    action: str
    gain: Interval
    """Of the portfolio. Its ends are those of ``reach``, not of joint draws."""
    by_workload: dict[str, Interval]
    reach: tuple[float, float, float]
    """Share of the gap to the bound taken to close: low end, value, high end."""
    reach_why: str
    confidence: Level
    confidence_why: str
    effort: Level
    effort_why: str
    confirm: str
    """The measurement that would confirm it."""
    findings: tuple[SoftwareFinding, ...]
    rivals: tuple[str, ...] = ()
    """Rules of this list that save the same time: gains do not multiply."""


class SoftwareSilence(msgspec.Struct, frozen=True):
    """A rule that could not be judged in some workloads, and why."""

    rule: str
    title: str
    reason: str
    workloads: tuple[str, ...]


class BreakdownRow(msgspec.Struct, frozen=True):
    """A slice of a workload's step."""

    label: str
    op_class: str
    time_s: float
    share: float


class RooflinePoint(msgspec.Struct, frozen=True):
    """An op on the roofline of its GPU."""

    label: str
    op_class: str
    precision: str
    flop_per_byte: float
    flops_per_s: float
    time_share: float


class GapRow(msgspec.Struct, frozen=True):
    """One op class or resource on the way from the ideal step to the measured one.

    Exposed seconds of the step; what it adds is a difference of two of them.
    """

    key: str
    bound_s: float
    """At the datasheet's peaks."""
    attainable_s: float
    """At what the fitted model gives kernels of their kind, or their own time if shorter."""
    time_s: float
    """In the step."""


class Gap(msgspec.Struct, frozen=True):
    """The way of a step from its datasheet bound over the attainable one to what it takes.

    In either split the rows add up to ``bound_s`` and ``attainable_s``, and their ``time_s``
    with ``bubble_s`` and ``idle_s`` to ``step_time_s``.
    """

    bound_s: float
    attainable_s: float
    step_time_s: float
    bubble_s: float
    idle_s: float
    by_class: tuple[GapRow, ...]
    by_resource: tuple[GapRow, ...]
    """By the resource that binds at the datasheet's peaks."""
    unknown_share: float
    """Share of the step of ops whose work is unknown: no gap is claimed for them."""
    unmodelled_share: float
    """Of ops with a bound but without a model: their own time counts as attainable."""
    beats_bound_share: float
    """Of ops faster than their datasheet bound, such as those whose data stay in L2."""


class WorkloadResult(msgspec.Struct, frozen=True):
    """One workload of the portfolio on the baseline system."""

    name: str
    title: str
    phase: str | None
    weight: float
    system: str
    gpus: int
    step_time_s: float
    step_time_modelled: Interval
    """What the fitted model says of the same step: how far it is to be trusted."""
    tokens_per_s_per_gpu: float | None
    breakdown: tuple[BreakdownRow, ...]
    """Slices of the step; times add up to it."""
    evidence: dict[str, float]
    """Share of step time by evidence; sums to 1."""
    binding: dict[str, float]
    """Share of step time by binding resource; sums to 1."""
    speed_of_light_s: float
    mfu: float | None
    roofline: tuple[RooflinePoint, ...]
    peak_flops_per_s: dict[str, float]
    hbm_bandwidth_bytes_per_s: float
    top_ops: tuple[OpShare, ...]
    quality_warnings: tuple[str, ...]
    assumptions: dict[str, str]
    recipe: dict[str, Any]
    gap: Gap | None = None


class LedgerRow(msgspec.Struct, frozen=True):
    """On what kinds of times one step, or what one lever saves of it, rests."""

    workload: str
    lever: str
    """At its recommended step; empty for the step on the baseline."""
    rests_on: dict[str, float]
    """Share of the time by kind: an evidence of the op's time, or for a modelled one
    ``other_op``, ``other_precision``, ``other_gpu``, ``speed_of_light``: what it was derived
    from. Sums to 1; empty where nothing is saved."""
    held: float = 0.0
    """Share of the step of ops that the model does not cover, so that no projection moves them."""


class Ledger(msgspec.Struct, frozen=True):
    """The extrapolation ledger: a projection is measured time x model ratio."""

    gpu: str
    """Of the baseline."""
    ratio_seen: bool
    """The model was fitted on that GPU, too; else every ratio is a transfer from others."""
    rows: tuple[LedgerRow, ...]


class Assumption(msgspec.Struct, frozen=True):
    """A value that was not measured, and where to change it."""

    name: str
    value: str
    source: str
    evidence: str
    override: str


class Provenance(msgspec.Struct, frozen=True):
    """What this file was made from."""

    codesign_version: str
    model: str
    model_sha256: str
    trained_on: tuple[str, ...]
    seed: int
    draws: int
    inputs: dict[str, str]
    """File -> sha256."""
    software: dict[str, str]
    fingerprints: dict[str, str] = {}
    """SHA-256 of content: ``workload NAME``, ``baseline``, ``costs``, ``backtest``, ``code``."""
    settings: dict[str, Any] = {}
    """What of the portfolio decides the order: ``ranking, min_gain, budgets``..."""


class Recommendations(msgspec.Struct, frozen=True):
    """Everything that a report says."""

    title: str
    audience: str
    generated_at: str
    """ISO 8601, UTC; SOURCE_DATE_EPOCH is honoured."""
    baseline: str
    baseline_title: str
    ranking_cost: str
    """Unit of the cost that ranks, such as ``USD per GPU``."""
    recommendations: tuple[Recommendation, ...]
    levers: tuple[LeverResult, ...]
    pairs: tuple[PairResult, ...]
    workloads: tuple[WorkloadResult, ...]
    backtest: Backtest
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    ranking_rule: str = ""
    """How each lever's step was chosen and how the list was ordered, in words."""
    verdict_rule: str = ""
    """What each verdict means, in words."""
    first_by: tuple[FirstByCost, ...] = ()
    """By each kind of cost that does not rank."""
    software: tuple[SoftwareResult, ...] = ()
    """Changes of software with evidence, the largest gain first."""
    software_silent: tuple[SoftwareSilence, ...] = ()
    packages: tuple[PackageStudy, ...] = ()
    """By each kind of cost, the one that ranks first."""
    rank_sensitivity: tuple[RankSensitivity, ...] = ()
    """Of the levers that compete for ranks, in their order."""
    first_moved: tuple[FirstMoved, ...] = ()
    first_changes_tried: int = 0
    """Single changes of a weight or cost value that were tried for ``first_moved``."""
    ledger: Ledger | None = None
    at_scale: tuple[AtScale, ...] = ()
    """Workloads whose portfolio entry says on how many GPUs they run."""
    scenarios: tuple[Scenario, ...] = ()
    """The list as weighted, then under the weights of each scenario of the portfolio."""
    changes: Changes | None = None
    """Against an older file, where one was given."""
    schema_version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        first = self.recommendations[0] if self.recommendations else None
        best = f"first {first.headline} {first.label} x{first.gain.value:.3f}" if first else "empty"
        return (
            f"<Recommendations {self.title!r} against {self.baseline}: "
            f"{len(self.recommendations)} ranked, {best}>"
        )
