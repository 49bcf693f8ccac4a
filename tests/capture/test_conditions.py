"""What NVML says of a run, and what is made of it. The GPU is a fake one."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from codesign.capture.conditions import Conditions, observed
from codesign.capture.nvml import open_nvml
from codesign.workload.characterization import Characterization, Header
from codesign.workload.schema import ops_frame
from tests.capture import fake_pynvml


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml)
    return monkeypatch


def recorded(seconds: float = 0.3, device: str = "GPU-11", **status: Any) -> Characterization:
    with observed(interval_s=0.02) as seen:
        since = time.time()
        time.sleep(seconds)
        until = time.time()
    seen.statuses = [{"device": {"type": "cuda", "uuid": device, "index": 0}, "since": since,
                      "until": until, "environment": {"NCCL_ALGO": "Ring"}, **status}]  # fmt: skip
    return seen.record(Characterization(Header("w", None), ops_frame([])))


@pytest.mark.usefixtures("fake")
def test_clocks_power_and_facts_of_the_right_gpu() -> None:
    char = recorded()
    totals, conditions = char.header.totals, char.header.conditions
    assert totals["sm_clock_mean_hz"] == 1.755e9
    assert totals["power_max_w"] == 640.5
    assert totals["temperature_max_c"] == 61.0
    assert totals["throttled_share"] == 0.0
    assert int(conditions["NVML samples in the window"]) > 3
    assert conditions["gpu"] == "NVIDIA H200"
    assert conditions["power limit"] == "700 W"
    assert conditions["ECC"] == "on"
    assert "MIG" not in conditions  # it does not tell
    assert conditions["NVLink links up"] == "18"
    assert conditions["env NCCL_ALGO"] == "Ring"
    assert char.header.quality.warnings == ()


def test_heat_makes_the_step_unreliable_and_the_power_cap_is_said(
    fake: pytest.MonkeyPatch,
) -> None:
    fake.setenv("FAKE_NVML_THROTTLE", "0x44")  # software power cap, hardware thermal slowdown
    quality = recorded().header.quality
    assert any("software power cap in 100%" in w for w in quality.warnings)
    (reason,) = quality.reliability["step_time"].reasons
    assert "hardware thermal slowdown" in reason
    fake.setenv("FAKE_NVML_THROTTLE", "0x4")  # the cap alone: how a busy GPU runs
    assert recorded().header.quality.reliable("step_time")


def test_a_gpu_that_was_busy_before_is_shared(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_PIDS", "4242")
    quality = recorded().header.quality
    assert not quality.reliable("step_time")
    assert any("1 other process" in w for w in quality.warnings)


def test_no_permission_is_said_and_nothing_is_lost(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_DENIED", "1")
    char = recorded(0.0)
    assert any("Insufficient Permissions" in w for w in char.header.quality.warnings)
    assert char.header.conditions == {"env NCCL_ALGO": "Ring"}


def test_no_library_is_said_only_where_a_gpu_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with open_nvml() as nvml:
        assert nvml == "the package nvidia-ml-py is not installed"
    char = Characterization(Header("w", None), ops_frame([]))
    cpu = Conditions(absent="no NVML", statuses=[{"device": {"type": "cpu"}}])
    assert cpu.record(char).header.quality.warnings == ()
    gpu = Conditions(absent="no NVML", statuses=[{"device": {"type": "cuda"}}])
    assert "no NVML: clocks" in gpu.record(char).header.quality.warnings[0]
