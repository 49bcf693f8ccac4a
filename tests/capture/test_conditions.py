"""What NVML says of a run, and what is made of it. The GPU is a fake one."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from codesign.capture.conditions import Conditions
from codesign.capture.nvml import open_nvml
from codesign.capture.observe import observed
from codesign.workload.characterization import Characterization, Header
from codesign.workload.schema import ops_frame
from tests.capture import fake_pynvml


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml)
    monkeypatch.setenv("FAKE_NVML_PIDS", "4243")
    return monkeypatch


def rank(number: int = 0, uuid: str = "GPU-11", **more: Any) -> dict[str, Any]:
    return {"rank": number, "state": "saved", "steps": 12, "pid": 4243 + number,
            "device": {"type": "cuda", "uuid": uuid, "index": 0},
            "environment": {"NCCL_ALGO": "Ring"}, **more}  # fmt: skip


def recorded(*ranks: dict[str, Any], seconds: float = 0.12, held: float | None = None,
             meanwhile: Any = None) -> Characterization:  # fmt: skip
    """A run of ``seconds`` under a look every hundredth of one."""
    with observed(interval_s=0.01) as seen:
        if meanwhile is not None:
            meanwhile()
        since = time.time()
        time.sleep(seconds)
        until = time.time()
    seen.held_clock_hz = held
    seen.statuses = [{"since": since, "until": until, **r} for r in ranks or (rank(),)]
    return seen.record(Characterization(Header("w", None), ops_frame([])))


def warnings(char: Characterization) -> str:
    return "\n".join(char.header.quality.warnings)


@pytest.mark.usefixtures("fake")
def test_clocks_power_and_facts_of_the_right_gpu() -> None:
    char = recorded()
    totals, conditions = char.header.totals, char.header.conditions
    assert totals["sm_clock_mean_hz"] == 1.755e9
    assert totals["power_max_w"] == 640.5  # of the moment, not the mean of the last second
    assert totals["temperature_max_c"] == 61.0
    assert totals["throttled_share"] == 0.0
    assert int(conditions["NVML samples in the window"]) > 3
    assert conditions["gpu"] == "NVIDIA H200"
    assert conditions["power limit"] == "700 W"
    assert conditions["ECC"] == "on"
    assert "MIG" not in conditions  # it does not tell
    assert conditions["NVLink links up"] == "18"
    assert (conditions["NVLink to"], conditions["NVLink version"]) == ("switches", "4.0")
    assert conditions["NVLink from GPU 0 to 1"] == "yes"
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
    fake.setenv("FAKE_NVML_THROTTLE", "0x1")  # idle between two kernels is no throttling
    assert recorded().header.quality.warnings == ()


def test_the_slowest_gpu_of_several_is_what_counts(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_THROTTLE_1", "0x40")
    char = recorded(rank(0, "GPU-00"), rank(3, "GPU-11"))
    assert char.header.totals["throttled_share"] == 0.0  # of the rank that is told
    (reason,) = char.header.quality.reliability["step_time"].reasons
    assert reason.startswith("rank 3: the GPU's clock was held down by hardware thermal slowdown")


def test_what_nvml_does_not_tell_is_said_not_taken_for_good(fake: pytest.MonkeyPatch) -> None:
    fake.setenv(
        "FAKE_NVML_FAIL",
        "DeviceGetCurrentClocksEventReasons=13,DeviceGetCurrentClocksThrottleReasons=4,"
        "DeviceGetNvLinkState=4,DeviceGetP2PStatus=3,DeviceGetEccMode=3",
    )
    char = recorded()
    assert "throttled is not known: NVML does not tell (Insufficient Permissions)" in warnings(char)
    assert "throttled_share" not in char.header.totals
    assert not {"NVLink links up", "ECC", "NVLink from GPU 0 to 1"} & set(char.header.conditions)
    assert char.header.totals["sm_clock_mean_hz"] == 1.755e9


def test_an_older_driver_is_asked_by_its_own_names(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_FAIL", "DeviceGetCurrentClocksEventReasons=13,DeviceGetFieldValues=13")
    char = recorded()
    assert "hardware slowdown" in warnings(char)
    assert char.header.totals["power_mean_w"] == 500.0


def test_a_gpu_that_is_lost_leaves_no_readings(fake: pytest.MonkeyPatch) -> None:
    lost = ",".join(f"{name}=15" for name in (
        "DeviceGetClockInfo", "DeviceGetFieldValues", "DeviceGetPowerUsage",
        "DeviceGetCurrentClocksEventReasons", "DeviceGetCurrentClocksThrottleReasons",
        "DeviceGetComputeRunningProcesses",
    ))  # fmt: skip
    char = recorded(meanwhile=lambda: fake.setenv("FAKE_NVML_FAIL", lost))
    assert "(GPU is lost)" in warnings(char)
    assert "power_mean_w" not in char.header.totals


@pytest.mark.usefixtures("fake")
def test_a_window_shorter_than_the_sampling_is_told_by_what_is_near() -> None:
    with observed(interval_s=0.05) as seen:
        time.sleep(0.12)
    at = seen.samples[0][0] + 0.001
    seen.statuses = [rank(since=at, until=at + 1e-4)]
    char = seen.record(Characterization(Header("w", None), ops_frame([])))
    assert char.header.totals["sm_clock_mean_hz"] == 1.755e9
    assert char.header.quality.warnings == ()


@pytest.mark.usefixtures("fake")
def test_nothing_is_sampled_once_the_window_is_over() -> None:
    with observed(interval_s=0.01) as seen:
        time.sleep(0.05)
        seen.enough()
        time.sleep(0.03)
        count = len(seen.samples)
        time.sleep(0.05)
    assert len(seen.samples) == count > 0


@pytest.mark.parametrize(
    ("before", "during", "pid", "others"),
    [
        ("4242", "4242,4243", 4243, 1),  # somebody else's was there and stayed
        ("4242", "4243", 4243, 0),  # it ended before the window
        ("", "4243,4244", 4243, 1),  # somebody came meanwhile
        ("77", "77,4243", 4243, 0),  # the server of MPS computes nothing of its own
        ("9001", "9001,9002", 4243, 1),  # numbered by the host, seen from a container
        ("", "9002", 4243, 0),
    ],
)
def test_whether_the_gpu_was_shared(
    fake: pytest.MonkeyPatch, before: str, during: str, pid: int, others: int
) -> None:
    fake.setenv("FAKE_NVML_PIDS", before)
    char = recorded(rank(pid=pid), meanwhile=lambda: fake.setenv("FAKE_NVML_PIDS", during))
    assert char.header.quality.reliable("step_time") == (not others)
    assert (f"{others} other process" in warnings(char)) == bool(others)


# Named: the number of a process differs between those that run tests side by side.
@pytest.mark.parametrize("pids", [str(os.getpid()), "9001"], ids=["own", "host"])
def test_a_program_that_captures_itself_is_no_stranger(fake: pytest.MonkeyPatch, pids: str) -> None:
    fake.setenv("FAKE_NVML_PIDS", pids)  # on the GPU before and during; in a container by another
    assert recorded(rank(pid=os.getpid())).header.quality.warnings == ()  # number


def test_processes_that_cannot_be_seen(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_PIDS", "")
    char = recorded()
    assert char.header.conditions["other processes on the GPU"] == "not visible from here"
    fake.setenv("FAKE_NVML_BUSY", "37")
    char = recorded()
    assert "in use (37% of the time) before" in warnings(char)
    assert not char.header.quality.reliable("step_time")


def test_a_slice_of_a_gpu_is_found_and_said(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_MIG", "1")
    # PyTorch writes the UUID of the slice without saying that it is one.
    char = recorded(rank(uuid="1-01-0"))
    assert "ran on a MIG slice" in warnings(char)
    assert char.header.conditions["MIG"] == "on"


@pytest.mark.usefixtures("fake")
def test_a_gpu_that_nvml_does_not_know_is_not_taken_for_another() -> None:
    char = recorded(rank(uuid="99"))
    assert "its conditions are not known" in warnings(char)
    assert "gpu" not in char.header.conditions


def test_a_clock_that_was_not_held(fake: pytest.MonkeyPatch) -> None:
    char = recorded(held=1.755e9)
    assert char.header.conditions["SM clock to be held"] == "1755 MHz"
    assert char.header.quality.warnings == ()
    fake.setenv("FAKE_NVML_CLOCK", "1200")
    char = recorded(held=1.755e9)
    assert "was 1200 MHz, not the 1755 MHz" in warnings(char)
    assert not char.header.quality.reliable("step_time")


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        ("Init=4", "Insufficient Permissions"),
        ("Init=9", "Driver Not Loaded"),
        ("DeviceGetCount=15", "NVML shows no GPU (GPU is lost)"),
    ],
)
def test_no_permission_is_said_and_nothing_is_lost(
    fake: pytest.MonkeyPatch, fail: str, said: str
) -> None:
    fake.setenv("FAKE_NVML_FAIL", fail)
    char = recorded(seconds=0.0)
    assert said in warnings(char)
    assert char.header.conditions == {"env NCCL_ALGO": "Ring"}


def test_one_gpu_that_may_not_be_asked(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_NVML_FAIL", "DeviceGetHandleByIndex=4")
    assert "its conditions are not known" in warnings(recorded())


def test_no_library_is_said_only_where_a_gpu_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with open_nvml() as nvml:
        assert nvml == "the package nvidia-ml-py is not installed"
    char = Characterization(Header("w", None), ops_frame([]))
    cpu = Conditions(absent="no NVML", statuses=[{"device": {"type": "cpu"}}])
    assert cpu.record(char).header.quality.warnings == ()
    gpu = Conditions(absent="no NVML", statuses=[{"device": {"type": "cuda"}}])
    assert "no NVML: clocks" in gpu.record(char).header.quality.warnings[0]
