"""The recommendations file: the one thing that every renderer reads."""

from __future__ import annotations

from typing import Any

import msgspec

# Also read from here, as parts of the file.
from codesign._common.scores import Backtest, BacktestRow, Interval, WorkloadBacktestRow
from codesign.cluster.records import AtScale
from codesign.recommend.change_records import Changes, Scenario
from codesign.recommend.lever_records import (
    Cost,
    CostItem,
    FirstByCost,
    Level,
    LeverPoint,
    LeverResult,
    OpShare,
    PairResult,
    Recommendation,
    Status,
    Verdict,
)
from codesign.recommend.package_records import (
    FirstMoved,
    MarginalGain,
    Package,
    PackageStep,
    PackageStudy,
    RankSensitivity,
    RankSpread,
)
from codesign.recommend.software_records import (
    SoftwareFinding,
    SoftwareResult,
    SoftwareSilence,
)
from codesign.recommend.workload_records import (
    BreakdownRow,
    Gap,
    GapRow,
    Ledger,
    LedgerRow,
    RooflinePoint,
    WorkloadResult,
)

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
    requested: dict[str, Any] = {}
    """What the command line set of the portfolio; what is not here is the portfolio's own."""


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

    @property
    def measured_share(self) -> float:
        """Share of portfolio time that was measured, or interpolated between what was."""
        weight = sum(w.weight for w in self.workloads)
        known = sum(
            w.weight * sum(w.evidence.get(k, 0.0) for k in ("measured", "interpolated"))
            for w in self.workloads
        )
        return known / weight if weight else 0.0

    def __repr__(self) -> str:
        first = self.recommendations[0] if self.recommendations else None
        best = f"first {first.headline} {first.label} x{first.gain.value:.3f}" if first else "empty"
        return (
            f"<Recommendations {self.title!r} against {self.baseline}: "
            f"{len(self.recommendations)} ranked, {best}>"
        )
