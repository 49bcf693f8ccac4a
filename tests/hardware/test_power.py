"""Watts against what tensor cores would take, from the figures of data sheets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from codesign.hardware.power import clock_headroom


@pytest.mark.parametrize(
    ("name", "headroom"),
    [
        ("hgx-h100", 1.0),
        ("hgx-h200", 1.0),  # the same silicon at the same power
        # 400 W, 312 TFLOP/s at 1.41 GHz in N7, whose FLOPs take 1 / 0.7 of the energy. H100's
        # 132 SMs of 4096 FLOP a clock run at 1.98 GHz.
        ("hgx-a100", 400 / 312 * 0.7 / 1.41**2 / (700 / (132 * 4.096 * 1.98) / 1.98**2)),
        ("l40s-pcie", 350 / 362.05 / 2.52**2 / (700 / (132 * 4.096 * 1.98) / 1.98**2)),
        # The same silicon with 400 W in place of 700, at 1.785 GHz.
        ("h100-nvl", 400 / 700 * (1.98 / 1.785) ** 3),
        ("mi300x-platform", 1.0),  # process not known: assumed
    ],
)
def test_headroom_is_watts_a_flop_at_its_clock(name: str, headroom: float) -> None:
    assert clock_headroom(load_system(name)) == pytest.approx(headroom, rel=0.01)


@given(lever=st.sampled_from(["sm_count", "sm_clock", "bf16_throughput", "power", "hbm_bandwidth"]),
       factor=st.floats(1.0, 2.0))  # fmt: skip
def test_levers_leave_it(lever: str, factor: float) -> None:
    base = load_system("hgx-b200")
    changed = apply_lever(base, lever, factor)
    # SMs are rounded to whole ones.
    assert clock_headroom(changed) == pytest.approx(clock_headroom(base), rel=0.02)
