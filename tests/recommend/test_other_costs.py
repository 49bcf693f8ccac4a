"""Who is first by another kind of cost, by hand."""

from __future__ import annotations

from codesign.recommend.other_costs import first_by
from codesign.recommend.schema import Cost, CostItem, Interval, LeverPoint, LeverResult
from tests.recommend.cases import portfolio


def _lever(name: str, *steps: tuple[float, float, float, float | None]) -> LeverResult:
    """Steps of (factor, gain, W, USD); no area is known."""
    points = []
    for factor, gain, watts, usd in steps:
        cost = Cost(
            CostItem(None, "mm2", "", "assumed"), CostItem(watts, "W", "", "assumed"),
            CostItem(usd, "USD", "", "assumed"),
        )  # fmt: skip
        interval = Interval(gain, gain - 0.001, gain + 0.01)
        points.append(
            LeverPoint(factor, f"x{factor}", interval, {}, cost, (gain - 1) * 100 / watts)
        )
    return LeverResult(
        lever=name, title=name, baseline="", status="identified", reason="", points=tuple(points),
        elasticity=None, saturates_at=None, saturation_note="", binding_before={},
        binding_after={}, carried_by=(), refuted_by="",
    )  # fmt: skip


def test_another_cost_has_its_own_first_and_its_own_step() -> None:
    # Per USD: a 10 / 100 = 0.1 and 15 / 120 = 0.125; b 5 / 25 = 0.2 and 8 / 160 = 0.05.
    # c gains 1 % for nearly nothing, which is not worth it.
    levers = [
        _lever("hbm_bandwidth", (1.5, 1.10, 10, 100), (2.0, 1.15, 30, 120)),
        _lever("sm_count", (1.1, 1.05, 50, 25), (1.5, 1.08, 60, 160)),
        _lever("bf16_throughput", (1.5, 1.01, 1, 0.1)),
    ]
    found = {f.ranking_cost: f for f in first_by(portfolio(min_gain=0.02), levers, [0, 2, 4])}
    assert set(found) == {"USD per GPU", "mm2 per GPU"}
    money = found["USD per GPU"]
    assert (money.lever, money.factor, money.gain.value) == ("sm_count", 1.1, 1.05)
    assert abs((money.gain_per_cost or 0) - 0.2) < 1e-9
    assert found["mm2 per GPU"].lever == ""
    assert found["mm2 per GPU"].gain_per_cost is None
