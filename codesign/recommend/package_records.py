"""Parts of the recommendations file: levers together, and how firm the ranking is."""

from __future__ import annotations

from typing import Literal

import msgspec

from codesign._common.scores import Interval
from codesign.recommend.lever_records import Cost, CostItem, Status


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
