"""Verdicts by rule, and orders that rest on bounds of costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codesign.recommend.rank import Pick, ordered, p_best, pick
from codesign.recommend.schema import Cost, CostItem, Interval, LeverPoint, LeverResult
from codesign.recommend.worth import verdict_rule, worth
from codesign.recommend.would_change import sentences
from tests.recommend.cases import portfolio

PLAN = portfolio(ranking="power", min_gain=0.02)


def result(
    lever: str, gain: float, watts: float | None, *, lo: float | None = None,
    bound: str = "central", range_w: tuple[float, float] | None = None, **changes: Any,
) -> LeverResult:  # fmt: skip
    low, high = range_w or (watts, watts)
    none = CostItem(None, "mm2", "hand", "unknown")
    power = CostItem(watts, "W", "hand", "modelled", bound, low, high)  # type: ignore[arg-type]
    cost = None if watts is None else Cost(none, power, none)
    per = None if watts is None else (gain - 1) * 100 / watts
    point = LeverPoint(1.5, "+50 %", Interval(gain, lo or gain - 0.001, gain + 0.01), {}, cost, per)
    values: dict[str, Any] = {
        "lever": lever, "title": lever, "baseline": "", "status": "identified", "reason": "r",
        "points": (point,), "elasticity": None, "saturates_at": None, "saturation_note": "",
        "binding_before": {}, "binding_after": {}, "carried_by": (), "refuted_by": "",
    }  # fmt: skip
    return LeverResult(**(values | changes))


def picks_of(*results: LeverResult) -> list[Pick]:
    return ordered([pick(PLAN, r, i) for i, r in enumerate(results)])


def test_each_verdict_by_its_rule() -> None:
    picks = picks_of(
        result("hbm_bandwidth", 1.10, 10),  # 1 % per W
        result("sm_count", 1.08, 20),  # 0.4 % per W: over a third
        result("bf16_throughput", 1.30, 100),  # 0.3 % per W: under a third
        result("sm_clock", 1.015, 1),  # 1.5 % per W, but under the 2 % worth a step
        result("nvlink_domain", 1.05, None),
        result("scaleout_bandwidth", 1.20, 1, status="assumed"),
        result("power", 1.10, 10, lo=0.99),
        result("l2_capacity", 1.10, 10, status="not_identifiable"),
        result("hbm_capacity", 1.0, None, status="not_studied"),
        result("fp8_throughput", 1.0, 5, status="no_effect"),
    )
    found = {p.result.lever: worth(PLAN, picks, i) for i, p in enumerate(picks)}
    # The marginal one has the most gain per watt and so stands first; the rule names it so.
    assert found["sm_clock"] == "marginal"
    rest = [p for p in picks if p.result.lever != "sm_clock"]
    assert {p.result.lever: worth(PLAN, rest, i) for i, p in enumerate(rest)} == {
        "hbm_bandwidth": "first", "sm_count": "strong", "bf16_throughput": "costly",
        "nvlink_domain": "unpriced", "scaleout_bandwidth": "untested", "power": "uncertain",
        "l2_capacity": "open", "hbm_capacity": "open", "fp8_throughput": "none",
    }  # fmt: skip
    tight = portfolio(ranking="power", budgets={"power": 5.0})
    over = [pick(tight, result("hbm_bandwidth", 1.1, 10), 0)]
    assert worth(tight, over, 0) == "over_budget"
    assert "2.0 %" in verdict_rule(PLAN)


def bounds_said(*results: LeverResult) -> list[str]:
    """What would change the first one's place, as far as it speaks of bounds."""
    picks = picks_of(*results)
    weights = {"a": 0.5, "b": 0.5}
    evaluation: Any = SimpleNamespace(
        gain_draws=np.array([[1.1] * len(picks)]),
        point_gains=lambda _: dict.fromkeys(weights, 1.1), projections={}, systems=(),
    )  # fmt: skip
    study: Any = SimpleNamespace(portfolio=PLAN, weights=dict.fromkeys(weights, 0.5), chars={})
    with pytest.MonkeyPatch.context() as patch:
        # Of no concern here, and in need of whole projections.
        patch.setattr("codesign.recommend.would_change.saved_shares", lambda *_: {})
        said = sentences(study, evaluation, picks, 0)
    return [line for line in said if "bound" in line]


def test_an_upper_bound_ranked_under_another_may_be_ahead() -> None:
    first = result("hbm_bandwidth", 1.10, 20)  # 0.5 % per W
    # 0.25 % per W at 40 W; ahead of 0.5 below 20 W, and its range goes down to 10.
    (said,) = bounds_said(first, result("sm_count", 1.10, 40, bound="upper", range_w=(10, 40)))
    assert said == (
        "The power of sm_count is an upper bound, 40 W per GPU: it is ahead of it below 20, and "
        "may be as low as 10."
    )
    # A range that ends before the two cross leaves the order alone.
    assert bounds_said(first, result("sm_count", 1.10, 40, bound="upper", range_w=(25, 40))) == []
    assert bounds_said(first, result("sm_count", 1.10, 40, range_w=(10, 90))) == []


def test_a_lower_bound_ranked_above_another_may_be_behind() -> None:
    cheap = result("scaleout_bandwidth", 1.10, 4, bound="lower", range_w=(4, 20))  # 2.5 % per W
    (said,) = bounds_said(cheap, result("hbm_bandwidth", 1.10, 10))  # 1 % per W
    assert said == (
        "Its power is a lower bound, 4 W per GPU: hbm_bandwidth is ahead of it above 10, and it "
        "may be as high as 20."
    )


def test_the_draws_take_the_costs_from_their_ranges() -> None:
    a, b = result("hbm_bandwidth", 1.10, 10), result("sm_count", 1.10, 12)
    picks = [pick(PLAN, a, 0), pick(PLAN, b, 1)]
    evaluation: Any = SimpleNamespace(gain_draws=np.full((5, 2), 1.10))
    study: Any = SimpleNamespace(portfolio=PLAN)
    assert p_best(study, evaluation, picks) == {"hbm_bandwidth": 1.0, "sm_count": 0.0}
    # Equal gains, so the cheaper one wins: three draws of four.
    drawn = {"hbm_bandwidth": np.array([10.0, 10, 10, 20]), "sm_count": np.array([15.0, 5, 5, 5])}
    assert p_best(study, evaluation, picks, drawn) == {"hbm_bandwidth": 0.25, "sm_count": 0.75}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("grouped_gemm (31 %)", "grouped GEMM (31 %)"),
        ("moves together with sm_count", "moves together with SM count"),
        ("known to +-0.06", "known to ±0.06"),
        ("no peak_dense.fp4 to multiply", "no dense FP4 peak to multiply"),
        ("gate_up_gemm.wgrad and gemm-3", "gate_up_gemm.wgrad and gemm-3"),
        ("lower launch_latency", "lower launch latency"),
    ],
)
def test_keys_become_names_and_op_names_stay(text: str, told: str) -> None:
    from codesign.recommend.wording import readable

    assert readable(text) == told


@pytest.mark.parametrize(
    ("value", "text"), [(1262.0, "1,260"), (10.452, "10.5"), (0.2204, "0.22"), (350.0, "350")]
)
def test_amounts_have_three_digits(value: float, text: str) -> None:
    from codesign.recommend.wording import amount

    assert amount(value) == text


def test_equal_rows_of_a_workload_are_one_op() -> None:
    """A collective of the forward pass and its like in the backward pass, and another shape."""
    from codesign.recommend.carriers import op_shares
    from tests.projection.fakes import characterization, collective

    rows = [
        collective(1.0, 1e9, name="tp.all_gather", phase="forward"),
        collective(1.0, 1e9, name="tp.all_gather", phase="backward"),
        collective(2.0, 2e9, name="tp.all_gather", phase="forward"),
    ]
    ops = characterization(rows).ops
    found = op_shares("w", ops, np.array([0.25, 0.25, 0.5]), np.array([0.2, 0.3, 0.4]))
    assert [(op.name, op.saved_share, op.time_share) for op in found] == [
        ("tp.all_gather", 0.5, 0.5), ("tp.all_gather", 0.4, 0.5),
    ]  # fmt: skip
    assert found[0].shape != found[1].shape
