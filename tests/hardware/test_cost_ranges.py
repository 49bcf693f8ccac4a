"""Bounds and ranges of costs, and what a step does to the die."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign._common.errors import DataError
from codesign._common.files import data_dir
from codesign.hardware import load_gpu, load_system
from codesign.hardware.cost_ranges import draw_inputs, range_of
from codesign.hardware.costs import CostItem, cost_draws, cost_of, die_note, load_costs
from codesign.hardware.lever_specs import NAMES
from codesign.hardware.levers import apply_lever, apply_levers

H100 = load_system("hgx-h100")
B200 = load_system("hgx-b200")
COSTS = load_costs()


def power(lever: str, factor: float) -> CostItem:
    return cost_of(H100, apply_lever(H100, lever, factor), COSTS).power


@pytest.mark.parametrize(
    ("lever", "bound"),
    [("sm_count", "upper"), ("bf16_throughput", "upper"), ("sm_clock", "upper"),
     ("scaleout_bandwidth", "lower"), ("nvlink_bandwidth", "upper"),
     ("hbm_bandwidth", "central"), ("power", "central")],
)  # fmt: skip
def test_which_powers_are_bounds(lever: str, bound: str) -> None:
    """SMs are charged the whole power limit, a network only the optics of one end."""
    assert power(lever, 1.5 if lever != "sm_clock" else 1.1).bound == bound


def test_the_bound_of_what_is_saved_is_the_other_one() -> None:
    # Fewer SMs save at most their share of the whole limit: as a cost, at least minus that.
    assert power("sm_count", 0.5).value == pytest.approx(-350)
    assert power("sm_count", 0.5).bound == "lower"


def test_a_range_holds_its_value_and_follows_the_sources() -> None:
    # 225 GB/s in two directions at 2 to 5.5 pJ/bit: 7.2 to 19.8 W.
    item = power("nvlink_bandwidth", 1.5)
    assert item.value == item.hi == pytest.approx(19.8)
    assert item.lo == pytest.approx(7.2 * (5.5 / 2) ** 0.05, rel=0.05)  # its 5 % quantile
    for lever in NAMES:
        for factor in (0.5, 2.0) if lever != "fp4_throughput" else ():
            cost = cost_of(H100, apply_lever(H100, lever, factor), COSTS)
            for known in (i for i in (cost.area, cost.power, cost.money) if i.value is not None):
                assert known.lo is not None
                assert known.hi is not None
                assert known.lo <= known.value <= known.hi


def test_draws_are_even_in_proportion_and_stay_in_the_range() -> None:
    drawn = draw_inputs(COSTS.values, 4000, 1)
    for name, entry in COSTS.values.items():
        low, high, why = range_of(entry)
        assert why
        assert low - 1e-9 <= drawn[name].min() <= drawn[name].max() <= high + 1e-9
    middle = math.sqrt(3.9 * 9.0)
    assert (drawn["hbm_energy"] < middle).mean() == pytest.approx(0.5, abs=0.03)
    assert np.ptp(drawn["die_area"]) == 0  # measured


def test_a_value_without_a_source_for_its_range_says_assumed() -> None:
    entry = COSTS.values["pcie_area_per_lane"]
    assert range_of(entry)[2].startswith("assumed")
    assert range_of(entry)[:2] == pytest.approx((0.68 / 1.5, 0.68 * 1.5))
    floor = replace(entry, bound="lower")
    assert range_of(floor)[:2] == pytest.approx((0.68, 0.68 * 2.25))


def test_levers_that_rest_on_one_value_are_dear_together() -> None:
    inputs = draw_inputs(COSTS.values, 50, 0)
    sms, clock = (cost_draws(H100, apply_lever(H100, lever, 1.1), "power", inputs)
                  for lever in ("sm_count", "sm_clock"))  # fmt: skip
    assert sms is not None
    assert clock is not None
    assert np.corrcoef(sms, clock)[0, 1] > 0.95
    unknown = apply_lever(H100, "launch_latency", 0.5)
    assert cost_draws(H100, unknown, "power", inputs) is None


def test_a_die_beyond_the_reticle_is_flagged() -> None:
    def note(system: object, lever: str, factor: float) -> str:
        after = apply_lever(system, lever, factor)  # type: ignore[arg-type]
        return die_note(system, cost_of(system, after, COSTS).area, COSTS)  # type: ignore[arg-type]

    # GH100: 814 mm2, so 44 are left under 858. 33 SMs of 3.2 mm2 do not fit, 13 do.
    assert note(H100, "sm_count", 1.1) == ""
    assert note(H100, "sm_count", 1.25).startswith("needs another die: the die of 814 mm2 would")
    assert "920 mm2" in note(H100, "sm_count", 1.25)
    # GB100: two dies of 800 share it: 37 SMs are 118 mm2, 59 on each.
    assert "2 dies of 800 mm2 would grow to 859 mm2" in note(B200, "sm_count", 1.25)
    assert note(B200, "sm_count", 1.2) == ""
    unknown = replace(H100, gpu=replace(H100.gpu, die_area_mm2=None))
    assert note(unknown, "sm_count", 2.0) == ""
    assert note(H100, "sm_count", 0.5) == ""


def test_no_shipped_die_is_beyond_the_reticle() -> None:
    limit = COSTS.values["reticle_area"].value
    assert limit == 26 * 33
    for name in ("v100", "a100-80gb-sxm", "h100-sxm", "b200-sxm", "l40s", "mi250x"):
        gpu = load_gpu(name)
        assert gpu.die_area_mm2 is not None
        assert gpu.die_area_mm2 < limit


def test_units_and_titles() -> None:
    pair = apply_levers(H100, {"hbm_bandwidth": 1.5, "sm_count": 1.5})
    cost = cost_of(H100, pair, COSTS)
    assert tuple(i.unit for i in (cost.area, cost.power, cost.money)) == ("mm2", "W", "USD")
    assert "HBM PHY area per stack: LLMCompass" in cost.area.source
    assert "SM share of TDP" in cost.power.source
    assert not any(name in cost.power.source for name in COSTS.values)


@pytest.mark.parametrize("value", ["-3", "true", "814 mm2", "20000"])
def test_a_die_area_that_cannot_be_is_refused(value: str, tmp_path: Path) -> None:
    text = (data_dir("hwspecs") / "gpus" / "h100-sxm.yaml").read_text()
    path = tmp_path / "h100-sxm.yaml"
    path.write_text(text.replace("area_mm2: 814", f"area_mm2: {value}"))
    with pytest.raises(DataError, match=r"die\.area_mm2: expected a number from 10 to 2000"):
        load_gpu(path)
