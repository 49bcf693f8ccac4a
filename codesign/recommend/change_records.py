"""Parts of the recommendations file: what changed against an older one, and ranks by scenario."""

from __future__ import annotations

from typing import Literal

import msgspec

from codesign._common.scores import Interval

CauseName = Literal[
    "data", "model", "baseline", "code", "backtest", "cost", "weights", "workloads", "settings",
]  # fmt: skip


class ChangeCause(msgspec.Struct, frozen=True):
    """One thing that differs between what went into two files."""

    name: CauseName
    what: tuple[str, ...]
    """What of it differs, a line each."""
    how: str
    """How its effect was told: recomputed, by elimination, or not apart from another."""


class LeverChange(msgspec.Struct, frozen=True):
    """A lever in the older list and in this one. None where it stands in one list only."""

    lever: str
    title: str
    rank_before: int | None
    rank_after: int | None
    label_before: str
    """Step that was recommended."""
    label_after: str
    gain_before: Interval | None
    """None, too, of what was not studied or cannot be."""
    gain_after: Interval | None
    factor: float | None
    """Step at which ``gains`` compare; None if no step is in both studies."""
    ranks: dict[str, int]
    """Stage -> rank once that stage's changes are in, from the older list to this one."""
    gains: dict[str, float]
    """Stage -> factor by which it multiplies the gain at ``factor``; their product is the whole
    change. A stage that multiplies by 1 is there, too."""


class Changes(msgspec.Struct, frozen=True):
    """This ranking against an older one, each change laid to what caused it."""

    old: str
    """Name of the older file."""
    old_sha256: str
    old_made: str
    summary: str
    first_before: str
    """Lever that was first; empty if none was ranked."""
    first_after: str
    first_by: tuple[str, ...]
    """Stages that put another lever first."""
    stages: tuple[str, ...]
    """Order in which changes are put in, such as ``data and model``, ``cost``, ``weights``."""
    causes: tuple[ChangeCause, ...]
    levers: tuple[LeverChange, ...]
    """In the order of this list."""
    notes: tuple[str, ...] = ()
    """What could not be told, and why."""


class ScenarioRank(msgspec.Struct, frozen=True):
    """A lever under the weights of one scenario."""

    lever: str
    title: str
    rank: int
    factor: float
    label: str
    gain: Interval
    verdict: str


class Scenario(msgspec.Struct, frozen=True):
    """The ranking under one set of weights; all else is the study's."""

    name: str
    weights: dict[str, float]
    """Workload -> share of GPU-hours; they add up to 1."""
    ranks: tuple[ScenarioRank, ...]
    """In order of rank."""
