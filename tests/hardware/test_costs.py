"""Costs: hand sums from the published figures, honesty about what is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.hardware import load_system
from codesign.hardware.cost_models import Values, usd_per_good_mm2
from codesign.hardware.costs import Cost, cost_of, load_costs, moved_levers
from codesign.hardware.lever_specs import NAMES
from codesign.hardware.levers import apply_lever, apply_levers

H100 = load_system("hgx-h100")
GB200 = load_system("gb200-nvl72")


def step(lever: str, factor: float, path: Path | None = None) -> Cost:
    return cost_of(H100, apply_lever(H100, lever, factor), load_costs(path))


def test_die_cost_matches_the_published_calculation() -> None:
    # Chiplet Actuary on the 814 mm2 GH100: 57.6 gross dies, 42.4 % good, 695 USD.
    values = Values({name: entry.value for name, entry in load_costs().values.items()})
    assert usd_per_good_mm2(values) * 814 == pytest.approx(695, rel=5e-3)


def test_hbm_bandwidth_by_hand() -> None:
    cost = step("hbm_bandwidth", 2.0)
    # Five more stacks of 10.45 + 4.0 mm2; 3.35 TB/s x 8 x 5.9 pJ = 158 W; 80 GB at 15 USD.
    assert cost.area.value == pytest.approx(5 * 14.45)
    assert cost.power.value == pytest.approx(158, rel=0.01)
    assert cost.money.value == pytest.approx(80 * 15 + 72.25 * 695 / 814, rel=5e-3)
    assert cost.money.evidence == "assumed"
    assert "HBM price: HBM3e in 2025" in cost.money.source


@pytest.mark.parametrize(("factor", "stacks"), [(1.1, 1), (1.2, 1), (1.25, 2), (1.5, 3), (2.0, 5)])
def test_stacks_are_whole_and_paid_whole(factor: float, stacks: int) -> None:
    """Of the H100's five stacks, +25 % is 1.25 stacks: nobody sells a quarter of one."""
    cost = step("hbm_bandwidth", factor)
    assert cost.area.value == pytest.approx(stacks * 14.45)
    assert cost.money.value == pytest.approx(stacks * (16 * 15 + 14.45 * 695 / 814), rel=5e-3)


def test_less_bandwidth_drops_whole_stacks_only() -> None:
    # 0.7 of five stacks is 3.5, so one can go.
    assert step("hbm_bandwidth", 0.7).area.value == pytest.approx(-14.45)


def test_faster_pins_add_no_stack_and_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text("hbm_stack_price_share: {value: 0, evidence: assumed, source: faster pins}\n")
    cost = step("hbm_bandwidth", 1.5, path)
    assert cost.area.value == cost.money.value == 0.0
    assert cost.power.value == pytest.approx(79, rel=0.01)


def test_capacity_that_comes_with_stacks_is_paid_once() -> None:
    costs = load_costs()
    both = apply_levers(H100, {"hbm_bandwidth": 2.0, "hbm_capacity": 2.0})
    alone = cost_of(H100, apply_lever(H100, "hbm_bandwidth", 2.0), costs)
    assert cost_of(H100, both, costs).money.value == pytest.approx(alone.money.value)


def test_sm_count_by_hand() -> None:
    cost = step("sm_count", 2.0)
    assert cost.area.value == pytest.approx(132 * 3.2)
    # The upper bound charges all of the TDP to the SMs: 5.30 W each.
    assert cost.power.value == pytest.approx(700)
    assert cost.power.evidence == "assumed"


def test_nvlink_by_hand() -> None:
    # 900 GB/s more at 5.5 pJ/bit is 40 W at the GPU and as much at the switch.
    cost = cost_of(GB200, apply_lever(GB200, "nvlink_bandwidth", 2.0), load_costs())
    assert cost.power.value == pytest.approx(2 * 39.6)


@pytest.mark.parametrize("lever", ["nvlink_domain", "launch_latency"])
def test_what_nobody_published_is_none_and_never_zero(lever: str) -> None:
    cost = step(lever, 2.0 if lever == "nvlink_domain" else 0.5)
    for item in (cost.area, cost.power, cost.money):
        assert item.value is None
        assert item.evidence == "unknown"
        assert "found" in item.source


def test_an_unknown_part_makes_the_sum_unknown() -> None:
    pair = apply_levers(H100, {"hbm_bandwidth": 1.5, "nvlink_domain": 2.0})
    cost = cost_of(H100, pair, load_costs())
    assert cost.money.value is None
    assert cost.money.source.startswith("NVLink domain: ")
    # By itself a lever need not be named.
    assert step("nvlink_domain", 2.0).money.source.startswith("no price of the switches")


def test_a_pair_costs_the_sum_of_its_levers() -> None:
    pair = apply_levers(H100, {"hbm_bandwidth": 1.5, "l2_capacity": 2.0})
    singles = [step("hbm_bandwidth", 1.5), step("l2_capacity", 2.0)]
    cost = cost_of(H100, pair, load_costs())
    assert cost.area.value == pytest.approx(sum(s.area.value or 0 for s in singles))
    assert cost.power.value is None  # no power of L2 was found


@pytest.mark.parametrize("lever", NAMES)
def test_only_the_moved_lever_is_seen(lever: str) -> None:
    after = apply_lever(GB200, lever, 0.5)
    assert moved_levers(GB200, after) == [lever]
    cost = cost_of(GB200, after, load_costs())
    for item in (cost.area, cost.power, cost.money):
        assert item.value is None or item.value < 0  # less hardware saves


def test_sms_and_clock_do_not_pass_for_throughput() -> None:
    after = apply_levers(GB200, {"sm_count": 1.25, "sm_clock": 1.1})
    assert moved_levers(GB200, after) == ["sm_count", "sm_clock"]
    more = apply_lever(after, "fp8_throughput", 1.5)
    assert moved_levers(GB200, more) == ["sm_count", "sm_clock", "fp8_throughput"]


def test_nothing_moved_costs_nothing() -> None:
    cost = step("hbm_bandwidth", 1.0)
    assert (cost.area.value, cost.power.value, cost.money.value) == (0.0, 0.0, 0.0)


def test_a_users_value_goes_over_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text('hbm_price: {value: 30, evidence: measured, source: "our contract"}\n')
    dearer = step("hbm_capacity", 2.0, path).money
    assert dearer.value == pytest.approx(80 * 30)
    assert "our contract" in dearer.source
    assert step("sm_count", 2.0, path).area == step("sm_count", 2.0).area


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hbm_prise: {value: 1}", "hbm_prise: unknown key; allowed:"),
        ("hbm_price: {value: 1, evidence: modelled}", "hbm_price.source: expected text"),
        ("hbm_price: {value: 1, source: x}", "evidence: missing; expected one of measured"),
        ("hbm_price: {value: 1, evidence: sure, source: x}", "evidence: 'sure'; allowed: measured"),
        ("hbm_price: {value: 1, unit: EUR/GB, evidence: assumed, source: x}", "expected 'USD/GB'"),
        ("hbm_price: {value: -1, evidence: assumed, source: x}", "expected a number of 0 or more"),
        (
            "hbm_price: {value: .nan, evidence: assumed, source: x}",
            "expected a number of 0 or more",
        ),
        (
            "hbm_price: {value: 9, evidence: assumed, source: x, low: 1}",
            "low, high and range (its source) go together",
        ),
        (
            "hbm_price: {value: 9, evidence: assumed, source: x, low: 1, high: 2, range: y}",
            "the value 9 is not in its range, 1 to 2",
        ),
        (
            "hbm_price: {value: 9, evidence: assumed, source: x, low: 1, high: 9, range: y, "
            "bound: lower}",
            "hbm_price.bound: a value that is the lower bound is that end of its range",
        ),
        ("hbm_price: {value: 9, evidence: assumed, source: x, bound: high}", "bound: 'high'"),
    ],
)
def test_a_broken_cost_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        load_costs(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
