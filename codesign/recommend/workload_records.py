"""Parts of the recommendations file: workloads on the baseline, and what projections rest on."""

from __future__ import annotations

from typing import Any

import msgspec

from codesign._common.scores import Interval
from codesign.recommend.lever_records import OpShare


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
    mfu_peaks: dict[str, float] = {}
    """Dense peaks in FLOP/s that ``mfu`` holds multiplies against, each its precision's; a part
    without a rate of its own for one multiplies at that of a wider type, which stands here then."""


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
