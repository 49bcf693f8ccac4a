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
from codesign.recommend.contradiction import judged, missed_together
from codesign.recommend.schema import LeverResult

LEVER = LeverResult(
    lever="power", title="Power limit", baseline="700 W", status="identified", reason="fits",
    points=(), elasticity=None, saturates_at=None, saturation_note="", binding_before={},
    binding_after={}, carried_by=(), refuted_by="",
)  # fmt: skip


def _row(**changes: Any) -> ExperimentRow:
    """Measured x1.03 [1.02, 1.05], projected x1.24 [1.16, 1.32]."""
    row = ExperimentRow(
        name="more-power", title="", lever="power", role="test", before="a", after="b", moved={},
        measured=1.03, measured_lo=1.02, measured_hi=1.05, n=None, measured_by="published",
        stated=1.03, agrees=None, projected=Interval(1.24, 1.16, 1.32), inside=False, why_not="",
        trained_on=(), confounders=(), source="",
    )  # fmt: skip
    return msgspec.structs.replace(row, **changes)


def _status(**changes: Any) -> str:
    return judged(LEVER, Backtest(experiments=(_row(**changes),)), {}).status


def test_ranges_that_exclude_each_other_contradict_and_name_the_experiment() -> None:
    found = judged(LEVER, Backtest(experiments=(_row(),)), {})
    assert found.status == "contradicted"
    assert found.contradicted_by.startswith("more-power (x1.030 measured, x1.240")
    assert found.reason.startswith("contradicted by more-power")
    assert found.reason.endswith("; fits")


def test_what_does_not_contradict() -> None:
    assert _status(lever="sm_clock") == "identified"
    assert _status(role="control") == "identified"
    assert _status(inside=True) == "identified"
    assert _status(projected=None, inside=None) == "identified"
    # The measured spread holds the projected value: it says nothing against it.
    assert _status(measured_hi=1.3) == "identified"
    assert judged(LEVER, None, {}) is LEVER


def test_an_experiment_that_moved_more_demotes_nothing_and_names_what() -> None:
    beside = {"power": 1.17, "scaleout_bandwidth": 2.0, "hbm_capacity": 1.5, "sm_count": 1.01}
    assert _status(moved=beside) == "identified"
    assert _status(moved={"power": 1.17, "hbm_capacity": 1.5}) == "contradicted"
    backtest = Backtest(experiments=(_row(moved=beside),))
    (said,) = missed_together(backtest, {"power": "Power limit"})
    assert "more-power (x1.030 measured" in said
    assert said.endswith("since scale-out bandwidth x2 moved with it")
    assert missed_together(backtest, {}) == []


def test_shipped_parts_count_by_the_workloads_that_carry_the_gain() -> None:
    # 0.6 +- 1.645 x 0.2 reaches from 0.271 to 0.929.
    def order(projected: float) -> Backtest:
        effect = LeverEvidence("power", "b200", "b300", 1.1, 0.6, 0.2, projected)
        return Backtest(lever_order=(LeverOrderRow("train", "h100", (effect,), 0, (), ()),))

    assert judged(LEVER, order(0.94), {"train": 0.5}).status == "contradicted"
    below = judged(LEVER, order(0.26), {"train": 0.5})
    assert (below.status, below.contradicted_by) == ("identified", "")
    assert below.understated_by.startswith("b300 against b200 on train")
    assert judged(LEVER, order(0.28), {"train": 0.5}).status == "identified"
    assert judged(LEVER, order(0.94), {"train": 0.1}).status == "identified"
    assert judged(LEVER, order(0.94), {"serve": 1.0}).status == "identified"
    nothing = msgspec.structs.replace(LEVER, status="no_effect")
    assert judged(nothing, order(0.94), {"train": 1.0}) is nothing


def test_silicon_that_gained_more_than_projected_demotes_nothing() -> None:
    more = {"measured": 1.24, "measured_lo": 1.20, "measured_hi": 1.27,
            "projected": Interval(1.03, 0.96, 1.10)}  # fmt: skip
    found = judged(LEVER, Backtest(experiments=(_row(**more),)), {})
    assert (found.status, found.contradicted_by) == ("identified", "")
    assert found.understated_by.startswith("more-power (x1.240 measured, x1.030")
    # A part with less of it lost more than projected: the effect is larger, too.
    fewer = {"moved": {"power": 0.5}, "measured": 0.6, "measured_lo": 0.58, "measured_hi": 0.62,
             "projected": Interval(0.8, 0.75, 0.85)}  # fmt: skip
    assert _status(**fewer) == "identified"
    assert _status(**{**fewer, "measured": 0.95, "measured_lo": 0.93, "measured_hi": 0.97}) == (
        "contradicted"
    )
