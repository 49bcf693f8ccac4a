"""Intervals and backtest scores: records that several layers pass upwards."""

from __future__ import annotations

from typing import Literal

import msgspec

BACKTEST_SCHEMA_VERSION = 1


Z_90 = 1.645
"""Standard deviations from the middle to either end of a normal's 90 % interval."""


class Interval(msgspec.Struct, frozen=True):
    """A value with its 90 % interval."""

    value: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.lo:.4g}, {self.hi:.4g}]"


class BacktestRow(msgspec.Struct, frozen=True):
    """Op-level score on one GPU that the model had not seen. Errors are fractions."""

    op_class: str
    precision: str
    target: str
    tier: Literal["spec-only", "transfer"]
    source: str | None
    """Source GPU of the transfer tier."""
    trained_on: tuple[str, ...]
    n: int
    median_ape: float
    mape: float
    p90_ape: float
    bias: float
    coverage_90: float
    roofline_median_ape: float
    """Datasheet roofline on the same rows."""
    ratio_median_ape: float | None
    """Source time x peak ratio on the same rows; transfer tier only."""
    fitted_roofline_median_ape: float | None = None
    """Roofline with a fitted floor, two efficiencies and a smoothness, on the same rows."""
    fitted_roofline_mape: float | None = None


class WorkloadBacktestRow(msgspec.Struct, frozen=True):
    """A whole workload projected from source to target, against the target's own measurements."""

    workload: str
    source: str
    target: str
    measured_gain: float
    projected_gain: Interval
    error: float
    """projected / measured - 1."""
    covered: bool
    trained_on: tuple[str, ...]
    scored_share: float = 1.0
    """Share of the source's step time whose rows were measured on both sides and so decide."""
    note: str = ""
    """What was left out of the comparison, and why."""
    framework: str = "trtllm"
    """Whose kernels both sides were composed from."""


class ExperimentRow(msgspec.Struct, frozen=True):
    """A natural experiment beside its projection. Ratios are time before / time after."""

    name: str
    title: str
    lever: str
    role: Literal["test", "control"]
    before: str
    after: str
    moved: dict[str, float]
    """After / before of every quantity of the hardware that differed."""
    measured: float
    """As the kernel tables give it today, where they do; else as published."""
    measured_lo: float | None
    measured_hi: float | None
    n: int | None
    measured_by: Literal["kernels", "composed", "published"]
    stated: float
    """As the record states it."""
    agrees: bool | None
    """Whether the stated ratio is that of the tables; None where they cannot tell."""
    projected: Interval | None
    inside: bool | None
    """Whether the measured ratio lies in the projected 90 % interval."""
    why_not: str
    """Why nothing was projected, or recomputed; empty if it was."""
    trained_on: tuple[str, ...]
    confounders: tuple[str, ...]
    source: str


class LeverEvidence(msgspec.Struct, frozen=True):
    """One lever of one workload: what a shipped part showed, and what was projected."""

    lever: str
    before: str
    after: str
    factor: float
    """What the part moved the lever by."""
    measured: float
    """d ln(gain) / d ln(lever), other quantities that moved allowed for."""
    measured_sd: float
    projected: float


class LeverOrderRow(msgspec.Struct, frozen=True):
    """Whether the order of a workload's levers is that which shipped parts show."""

    workload: str
    system: str
    levers: tuple[LeverEvidence, ...]
    """By measured effect, largest first."""
    decided: int
    """Pairs of levers whose measured effects differ by more than their noise."""
    reversed: tuple[tuple[str, str], ...]
    """Decided pairs (larger, smaller) that the projection has the other way round."""
    trained_on: tuple[str, ...]
    note: str = ""

    @property
    def agrees(self) -> bool | None:
        """None where no pair is decided."""
        return None if not self.decided else not self.reversed


class Backtest(msgspec.Struct, frozen=True):
    """The content of the backtest file."""

    ops: tuple[BacktestRow, ...] = ()
    workloads: tuple[WorkloadBacktestRow, ...] = ()
    experiments: tuple[ExperimentRow, ...] = ()
    lever_order: tuple[LeverOrderRow, ...] = ()
    protocol: str = ""
    schema_version: int = BACKTEST_SCHEMA_VERSION
