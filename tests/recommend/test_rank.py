"""Choice of steps, order and probabilities, on cases done by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codesign.recommend.levers import saturation, with_returns
from codesign.recommend.rank import (
    ASSUMED,
    BY_COST,
    BY_GAIN,
    NOTHING,
    UNSUPPORTED,
    UNSURE,
    ordered,
    p_best,
    pick,
    ranking_rule,
)
from codesign.recommend.schema import Cost, CostItem, Interval, LeverPoint, LeverResult
from codesign.recommend.would_change import swap_weight
from tests.recommend.cases import portfolio


def _cost(watts: float | None) -> Cost:
    def item(value: float | None, unit: str) -> CostItem:
        return CostItem(value, unit, "hand", "assumed")

    return Cost(item(None, "mm2"), item(watts, "W"), item(None, "USD"))


def _point(factor: float, gain: float, watts: float | None, lo: float | None = None) -> LeverPoint:
    per = None if watts is None else (gain - 1) * 100 / watts
    interval = Interval(gain, gain - 0.01 if lo is None else lo, gain + 0.01)
    return LeverPoint(
        factor, f"x{factor}", interval, {}, None if watts is None else _cost(watts), per
    )


def _result(lever: str, points: list[LeverPoint], **changes: Any) -> LeverResult:
    values: dict[str, Any] = {
        "lever": lever, "title": lever, "baseline": "", "status": "identified", "reason": "r",
        "points": tuple(points), "elasticity": None, "saturates_at": None, "saturation_note": "",
        "binding_before": {}, "binding_after": {}, "carried_by": (), "refuted_by": "",
    }  # fmt: skip
    return LeverResult(**(values | changes))


def test_the_step_with_the_most_gain_per_cost_that_is_worth_it() -> None:
    points = [_point(1.1, 1.015, 1), _point(1.5, 1.10, 10), _point(2.0, 1.15, 30)]
    # 1.5 % for 1 W is the most per W, but under the 2 % that make a step worth it.
    chosen = pick(portfolio(min_gain=0.02), _result("hbm_bandwidth", points), 5)
    assert chosen.point is points[1]
    assert chosen.index == 6
    assert chosen.group == BY_COST
    assert pick(portfolio(min_gain=0.01), _result("hbm_bandwidth", points), 0).point is points[0]


def test_a_step_whose_interval_reaches_one_is_not_chosen() -> None:
    points = [_point(1.1, 1.05, 1, lo=0.99), _point(1.5, 1.10, 10)]
    assert pick(portfolio(), _result("hbm_bandwidth", points), 0).point is points[1]
    unsure = pick(portfolio(), _result("hbm_bandwidth", points[:1]), 0)
    assert unsure.group == UNSURE


def test_an_assumed_effect_never_leads_and_claims_no_probability() -> None:
    """Ten times the gain per watt, but nothing measured says that the lever acts so."""
    measured = pick(portfolio(), _result("hbm_bandwidth", [_point(1.5, 1.10, 10)]), 0)
    guess = _result("scaleout_bandwidth", [_point(1.5, 1.20, 2)], status="assumed")
    assumed = pick(portfolio(), guess, 1)
    assert assumed.group == ASSUMED
    assert [p.result.lever for p in ordered([assumed, measured])] == [
        "hbm_bandwidth", "scaleout_bandwidth",
    ]  # fmt: skip
    draws = SimpleNamespace(gain_draws=np.array([[1.1, 1.2]] * 5))
    study: Any = SimpleNamespace(portfolio=portfolio())
    assert p_best(study, draws, [measured, assumed]) == {"hbm_bandwidth": 1.0}  # type: ignore[arg-type]


def test_without_a_cost_the_largest_step_before_saturation() -> None:
    points = [_point(1.25, 1.05, None), _point(1.5, 1.08, None), _point(2.0, 1.081, None)]
    result = _result("nvlink_domain", points, saturates_at=1.5)
    chosen = pick(portfolio(), result, 0)
    assert chosen.point is points[1]
    assert chosen.group == BY_GAIN


def test_budgets_exclude_steps() -> None:
    points = [_point(1.25, 1.03, 10), _point(2.0, 1.30, 50)]
    tight = portfolio(budgets={"power": 20.0})
    assert pick(tight, _result("hbm_bandwidth", points), 0).point is points[0]
    none = pick(portfolio(budgets={"power": 5.0}), _result("hbm_bandwidth", points), 0)
    assert none.group == UNSUPPORTED
    assert "no step that gains fits" in none.note


def test_what_no_budget_allows_stands_behind_what_one_does() -> None:
    tight = portfolio(budgets={"power": 15.0}, min_gain=0.02)
    large = pick(tight, _result("sm_count", [_point(1.1, 1.10, 70)]), 0)
    small = pick(tight, _result("nvlink_bandwidth", [_point(1.25, 1.018, 10)]), 1)
    assert [p.result.lever for p in ordered([large, small])] == ["nvlink_bandwidth", "sm_count"]
    free = portfolio(min_gain=0.02)
    picks = [pick(free, large.result, 0), pick(free, small.result, 1)]
    assert [p.result.lever for p in ordered(picks)] == ["sm_count", "nvlink_bandwidth"]


def test_a_cost_that_nobody_knows_fits_no_budget_for_sure() -> None:
    tight = portfolio(budgets={"power": 15.0, "money": 9.0})
    unknown = pick(tight, _result("nvlink_domain", [_point(2.0, 1.1, None)]), 0)
    assert "fits the budget of power and money is not known" in unknown.note
    priced = pick(tight, _result("hbm_bandwidth", [_point(1.5, 1.1, 10)]), 0)
    assert "fits the budget of money is not known" in priced.note
    assert "budget" not in pick(portfolio(), unknown.result, 0).note
    assert "held against no budget" in ranking_rule(tight)
    assert "held against no budget" not in ranking_rule(portfolio())


def test_what_is_not_identified_never_gets_a_confident_rank() -> None:
    alias = pick(portfolio(), _result("sm_clock", [_point(1.1, 1.5, 1)],
                                      status="not_identifiable"), 0)  # fmt: skip
    sure = pick(portfolio(), _result("hbm_bandwidth", [_point(1.1, 1.03, 100)]), 1)
    free = pick(portfolio(), _result("nvlink_domain", [_point(2.0, 1.4, None)]), 2)
    nothing = pick(portfolio(), _result("hbm_capacity", [_point(2.0, 1.0, None)],
                                        status="no_effect"), 3)  # fmt: skip
    order = [p.result.lever for p in ordered([nothing, alias, free, sure])]
    assert order == ["hbm_bandwidth", "nvlink_domain", "sm_clock", "hbm_capacity"]
    assert nothing.group == NOTHING
    evaluation: Any = SimpleNamespace(gain_draws=np.ones((5, 4)) * [1.03, 1.4, 1.5, 1.0])
    study: Any = SimpleNamespace(portfolio=portfolio())
    assert set(p_best(study, evaluation, [alias, sure, free, nothing])) == {
        "hbm_bandwidth", "nvlink_domain",
    }  # fmt: skip


def test_probabilities_come_from_the_joint_draws() -> None:
    a = pick(portfolio(), _result("hbm_bandwidth", [_point(1.1, 1.10, 10)]), 0)
    b = pick(portfolio(), _result("sm_count", [_point(1.1, 1.20, 40)]), 1)
    c = pick(portfolio(), _result("launch_latency", [_point(0.5, 1.15, None)]), 2)
    # Row 0 is the point estimate and takes no part.
    draws = np.array([
        [1.10, 1.20, 1.15],
        [1.10, 1.20, 1.15],  # per W: a 1.0, b 0.5; by gain: b first, c has 15 %
        [1.02, 1.20, 1.30],  # per W: a 0.2, b 0.5; c first by gain
        [1.10, 1.44, 1.15],  # per W: a 1.0, b 1.1
        [1.00, 1.00, 1.00],  # nobody wins
    ])  # fmt: skip
    evaluation: Any = SimpleNamespace(gain_draws=draws)
    study: Any = SimpleNamespace(portfolio=portfolio())
    assert p_best(study, evaluation, [a, b, c]) == {
        "hbm_bandwidth": 0.25, "sm_count": 0.5, "launch_latency": 0.25,
    }  # fmt: skip


def test_a_cheap_lever_that_gains_too_little_stands_behind_what_is_worth_it() -> None:
    """0.4 % for 1 W is more per watt than 26.8 % for 100 W, and worth nothing."""
    cheap = pick(
        portfolio(min_gain=0.02), _result("bf16_throughput", [_point(1.25, 1.004, 1, lo=1.002)]), 0
    )
    worth = pick(portfolio(min_gain=0.02), _result("hbm_bandwidth", [_point(1.5, 1.268, 100)]), 1)
    guess = pick(portfolio(min_gain=0.02), _result("nvlink_domain", [_point(2.0, 1.05, None)],
                                                   status="assumed"), 2)  # fmt: skip
    assert cheap.criterion > worth.criterion
    assert ordered([cheap, guess, worth]) == [worth, guess, cheap]
    # Draws: the cheap one wins only where it gains 2 % itself; where none does, nobody wins.
    draws = np.array([
        [1.004, 1.268, 1.05],
        [1.010, 1.300, 1.05],
        [1.025, 1.200, 1.05],
        [1.010, 1.015, 1.05],
        [1.004, 1.268, 1.05],
    ])  # fmt: skip
    study: Any = SimpleNamespace(portfolio=portfolio(min_gain=0.02))
    evaluation: Any = SimpleNamespace(gain_draws=draws)
    assert p_best(study, evaluation, [worth, guess, cheap]) == {
        "hbm_bandwidth": 0.5, "bf16_throughput": 0.25,
    }  # fmt: skip


def test_a_contradicted_lever_stands_behind_assumed_ones() -> None:
    seen = pick(portfolio(), _result("sm_clock", [_point(1.1, 1.5, 1)], status="contradicted"), 0)
    guess = pick(portfolio(), _result("nvlink_domain", [_point(2.0, 1.05, None)],
                                      status="assumed"), 1)  # fmt: skip
    assert ordered([seen, guess]) == [guess, seen]
    study: Any = SimpleNamespace(portfolio=portfolio())
    evaluation: Any = SimpleNamespace(gain_draws=np.ones((5, 2)) * 1.5)
    assert p_best(study, evaluation, [seen, guess]) == {}


def test_a_weight_at_which_the_gain_falls_under_the_least_swaps_too() -> None:
    # Alone in `train` the first gains 10 %; its cost is nothing, so only the threshold stops it:
    # 1 / (w / 1.1 + 1 - w) reaches 1.05 at w = 0.05 / 1.05 * 11 = 0.524.
    gains = [{"train": 1.1, "serve": 1.0}, {"train": 1.06, "serve": 1.06}]
    weights = {"train": 0.8, "serve": 0.2}
    at = swap_weight(weights, "train", gains, [1e-3, 1.0], 0.05)
    assert at == pytest.approx(0.05 / 1.05 * 11, abs=1e-3)
    assert swap_weight(weights, "train", gains, [1e-3, 1.0]) == pytest.approx(0.0, abs=2e-3)


def test_saturation_is_where_ten_per_cent_more_gains_less_than_the_threshold() -> None:
    # From x1 to x1.21 (two steps of 10 %) the gain is 1.04: 2 % a step; then 0.2 % a step.
    points = [_point(1.21, 1.0404, None), _point(1.4641, 1.0404 * 1.002**2, None)]
    returned = [p.next_ten for p in with_returns("hbm_bandwidth", points)]
    assert returned == pytest.approx([0.02, 0.002])
    at, note = saturation(with_returns("hbm_bandwidth", points), 0.005)
    assert at == 1.21
    assert "0.2 %" in note
    assert saturation(with_returns("hbm_bandwidth", points), 0.001)[0] is None
    assert saturation(with_returns("hbm_bandwidth", points[1:]), 0.02)[0] == 1.0


def test_the_weight_at_which_two_levers_swap() -> None:
    weights = {"train": 0.5, "serve": 0.5}
    first = {"train": 1.0, "serve": 2.0}
    second = {"train": 2.0, "serve": 1.0}
    # Symmetric levers: the second leads as soon as train holds more than half.
    at = swap_weight(weights | {"train": 0.4, "serve": 0.6}, "train", [first, second], [1, 1])
    assert at == pytest.approx(0.5, abs=1e-6)
    # At twice the cost the second needs more of it: (1/(1 - w/2) - 1) / 2 = 1/(1 - (1-w)/2) - 1.
    at = swap_weight(weights, "train", [first, second], [1.0, 2.0])
    w = at or 0.0
    assert w > 0.5
    assert 1 / (1 - (1 - w) / 2) - 1 == pytest.approx((1 / (1 - w / 2) - 1) / 2, rel=1e-4)
    worse = {"train": 1.0, "serve": 1.0}
    assert swap_weight(weights, "train", [first, worse], [1, 1]) is None
