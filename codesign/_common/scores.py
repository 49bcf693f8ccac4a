"""Intervals and backtest scores: records that several layers pass upwards."""

from __future__ import annotations

from typing import Literal

import msgspec

BACKTEST_SCHEMA_VERSION = 1


class Interval(msgspec.Struct, frozen=True):
    """A value with its 90 % interval."""

    value: float
    lo: float
    hi: float


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


class Backtest(msgspec.Struct, frozen=True):
    """The content of the backtest file."""

    ops: tuple[BacktestRow, ...] = ()
    workloads: tuple[WorkloadBacktestRow, ...] = ()
    protocol: str = ""
    schema_version: int = BACKTEST_SCHEMA_VERSION
