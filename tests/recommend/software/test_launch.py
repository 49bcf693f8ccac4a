from __future__ import annotations

import pytest

from tests.recommend.software.cases import (
    compute,
    found,
    look,
    nothing,
    one_step,
    silence,
    unreliable,
)

# A step of 1 s: 0.5 s of work, 0.5 s idle, of it 0.4 s with nothing launched.


def test_launches_gain_what_lies_outside_of_long_gaps_less_a_launch_latency_a_kernel() -> None:
    at = look([compute(0.5)], idle_s=0.5, steps=one_step(0.5, 0.4, 0.1))
    finding = found("launch_bound", at)
    # 0.4 - 0.1 wait for launches; 1000 kernels x 1 us remain; 0.299 s can go, 80 % of it does.
    assert finding.at_stake_s == pytest.approx(0.3)
    assert finding.bound_s == pytest.approx(0.001)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.8 * 0.299))
    assert finding.gain.lo == pytest.approx(1 / (1 - 0.5 * 0.299))
    assert finding.gain.hi == pytest.approx(1 / (1 - 0.299))


def test_one_long_gap_is_no_launch_overhead_but_a_stall() -> None:
    at = look([compute(0.5)], idle_s=0.5, steps=one_step(0.5, 0.4, 0.4))
    assert nothing("launch_bound", at)
    # 0.4 of the 0.5 s have nothing launched, 0.4 lie in long gaps: 0.3 do both at the least.
    finding = found("host_stall", at)
    assert finding.at_stake_s == pytest.approx(0.3)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.7 * 0.3))


def test_a_full_queue_is_neither() -> None:
    # All idle time has work queued: the device waits for other ranks or events.
    at = look([compute(0.5)], idle_s=0.5, steps=one_step(0.5, 0.0, 0.5))
    assert nothing("launch_bound", at)
    assert nothing("host_stall", at)


@pytest.mark.parametrize("key", ["launch_bound", "host_stall"])
def test_idle_time_that_is_not_reliable_is_no_evidence(key: str) -> None:
    for quantity in ("idle", "launch"):
        at = look([compute(0.5)], idle_s=0.5, steps=one_step(0.5, 0.4, 0.2),
                  quality=unreliable(quantity))  # fmt: skip
        assert silence(key, at) == f"{quantity} not reliable: clipped"


@pytest.mark.parametrize("key", ["launch_bound", "host_stall"])
def test_idle_time_of_unknown_cause_is_no_evidence(key: str) -> None:
    for steps in ((), one_step(0.5, None, None)):
        at = look([compute(0.5)], idle_s=0.5, steps=steps)
        assert "unknown" in silence(key, at)


def test_other_devices_of_the_capture_do_not_count() -> None:
    mine, other = one_step(0.5, 0.4, 0.1), one_step(0.9, 0.9, 0.0)
    other = tuple(type(s)(**{f: getattr(s, f) for f in s.__struct_fields__} | {"device": "1"})
                  for s in other)  # fmt: skip
    at = look([compute(0.5)], idle_s=0.5, steps=mine + other)
    assert found("launch_bound", at).at_stake_s == pytest.approx(0.3)
