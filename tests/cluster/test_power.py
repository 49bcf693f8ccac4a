"""The sustained clock by the watts of a part: published parts, levers, and its limits."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.cluster.efficiency import DEFAULT, Efficiency
from codesign.cluster.power import sustained
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from codesign.hardware.power import watts_needed

HALF = msgspec.structs.replace(DEFAULT, gemm=2.0, power_exponent=0.5)


def _ratio(name: str, efficiency: Efficiency = HALF) -> float:
    return float(sustained([load_system(name)], efficiency)[0, 0])


@pytest.mark.parametrize(
    ("name", "headroom"),
    [
        ("hgx-b200", 1.0),  # 1000 W / 2250 TFLOP/s: what the others are held to
        ("gb200-nvl72", (1200 / 2500) / (1000 / 2250)),
        ("gb300-nvl72", (1400 / 2500) / (1000 / 2250)),
        ("hgx-h100", (700 / 989.4) / (1000 / 2250 / 0.9)),
        ("hgx-a100", (400 / 312) * 0.7 / (1000 / 2250 / 0.9)),
    ],
)  # fmt: skip
def test_headroom_is_watts_a_flop_by_process(name: str, headroom: float) -> None:
    assert _ratio(name) == pytest.approx(headroom**-0.5, rel=0.01)


def test_four_times_the_power_doubles_a_clock_that_goes_with_its_root() -> None:
    base = load_system("hgx-b200")
    times = sustained([base, apply_lever(base, "power", 2.25)], HALF)[:, 0]
    assert times[0] / times[1] == pytest.approx(1.5)


def test_no_part_runs_faster_than_its_microbenchmarks() -> None:
    wide = apply_lever(load_system("hgx-b200"), "power", 15.0)
    assert sustained([wide], HALF)[0, 0] == pytest.approx(1 / 2.0)
    plain = msgspec.structs.replace(HALF, gemm=1.0)
    assert sustained([wide], plain)[0, 0] == 1.0


def test_an_unknown_architecture_stands_at_one_and_still_has_the_power_lever() -> None:
    amd = load_system("mi300x-platform")
    times = sustained([amd, apply_lever(amd, "power", 1.44)], HALF)[:, 0]
    assert times.tolist() == pytest.approx([1.0, 1 / 1.2])


@settings(max_examples=30)
@given(
    lever=st.sampled_from(["sm_count", "sm_clock", "bf16_throughput"]),
    factor=st.floats(1.0, 2.0),
    name=st.sampled_from(["hgx-h100", "hgx-b200", "gb300-nvl72"]),
)  # fmt: skip
def test_other_levers_leave_the_clock(lever: str, factor: float, name: str) -> None:
    base = load_system(name)
    changed = apply_lever(base, lever, factor)
    # SMs and throughput are rounded to what a part can have.
    assert watts_needed(changed) == pytest.approx(watts_needed(base), rel=0.02)
    ratio = np.ptp(sustained([base, changed], HALF)[:, 0])
    assert ratio < 0.01
