"""When a natural experiment speaks against a lever, by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from codesign._common.scores import (
    Backtest,
    ExperimentRow,
    Interval,
    LeverEvidence,
    LeverOrderRow,
)
from codesign.recommend.contradiction import contradicted, missed_together
from codesign.recommend.schema import LeverResult

LEVER = LeverResult(
    lever="power", title="Power limit", baseline="700 W", status="identified", reason="fits",
    points=(), elasticity=None, saturates_at=None, saturation_note="", binding_before={},
    binding_after={}, carried_by=(), refuted_by="",
)  # fmt: skip


def _row(**changes: Any) -> ExperimentRow:
    """Measured x1.24 [1.20, 1.27], projected x1.03 [0.96, 1.10]."""
    row = ExperimentRow(
        name="more-power", title="", lever="power", role="test", before="a", after="b", moved={},
        measured=1.24, measured_lo=1.20, measured_hi=1.27, n=None, measured_by="published",
        stated=1.24, agrees=None, projected=Interval(1.03, 0.96, 1.10), inside=False, why_not="",
        trained_on=(), confounders=(), source="",
    )  # fmt: skip
    return msgspec.structs.replace(row, **changes)


def _status(**changes: Any) -> str:
    return contradicted(LEVER, Backtest(experiments=(_row(**changes),)), {}).status


def test_ranges_that_exclude_each_other_contradict_and_name_the_experiment() -> None:
    found = contradicted(LEVER, Backtest(experiments=(_row(),)), {})
    assert found.status == "contradicted"
    assert found.contradicted_by.startswith("more-power (x1.240 measured, x1.030")
    assert found.reason.startswith("contradicted by more-power")
    assert found.reason.endswith("; fits")


def test_what_does_not_contradict() -> None:
    assert _status(lever="sm_clock") == "identified"
    assert _status(role="control") == "identified"
    assert _status(inside=True) == "identified"
    assert _status(projected=None, inside=None) == "identified"
    # The measured spread holds the projected value: it says nothing against it.
    assert _status(measured_lo=1.0) == "identified"
    assert contradicted(LEVER, None, {}) is LEVER


def test_an_experiment_that_moved_more_demotes_nothing_and_names_what() -> None:
    beside = {"power": 1.17, "scaleout_bandwidth": 2.0, "hbm_capacity": 1.5, "sm_count": 1.01}
    assert _status(moved=beside) == "identified"
    assert _status(moved={"power": 1.17, "hbm_capacity": 1.5}) == "contradicted"
    backtest = Backtest(experiments=(_row(moved=beside),))
    (said,) = missed_together(backtest, {"power": "Power limit"})
    assert "more-power (x1.240 measured" in said
    assert said.endswith("since scale-out bandwidth x2 moved with it")
    assert missed_together(backtest, {}) == []


def test_shipped_parts_count_by_the_workloads_that_carry_the_gain() -> None:
    # 0.6 +- 1.645 x 0.2 reaches from 0.271 to 0.929.
    def order(projected: float) -> Backtest:
        effect = LeverEvidence("power", "b200", "b300", 1.1, 0.6, 0.2, projected)
        return Backtest(lever_order=(LeverOrderRow("train", "h100", (effect,), 0, (), ()),))

    assert contradicted(LEVER, order(0.26), {"train": 0.5}).status == "contradicted"
    assert contradicted(LEVER, order(0.94), {"train": 0.5}).status == "contradicted"
    assert contradicted(LEVER, order(0.28), {"train": 0.5}).status == "identified"
    assert contradicted(LEVER, order(0.26), {"train": 0.1}).status == "identified"
    assert contradicted(LEVER, order(0.26), {"serve": 1.0}).status == "identified"
    nothing = msgspec.structs.replace(LEVER, status="no_effect")
    assert contradicted(nothing, order(0.26), {"train": 1.0}) is nothing
