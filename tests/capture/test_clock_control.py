"""Clocks are held only while the block runs, however it ends; SMs are limited only where told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest

from codesign._common.errors import DataError, UsageError
from codesign.capture.live import Result
from codesign.capture.sm_count import check_granularity, green_context, limited, mps_environment
from codesign.cli.characterize import command
from codesign.workload.characterization import Characterization, Header
from codesign.workload.schema import ops_frame
from tests.capture import fake_pynvml

ROOT = Path(__file__).resolve().parents[2]
HOLDS = """
import sys, time
from codesign.capture.clock_control import locked_clock
with locked_clock(1.41e9):
    print("held", flush=True)
    {what}
"""


@pytest.fixture
def holding(tmp_path: Path) -> Any:
    shutil.copy(str(fake_pynvml.__file__), tmp_path / "pynvml.py")
    log = tmp_path / "log"
    environment = {**os.environ, "FAKE_NVML_LOG": str(log),
                   "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}  # fmt: skip

    def run(what: str, number: int | None = None, **more: str) -> tuple[list[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS.format(what=what)], env={**environment, **more},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        if number is not None:
            process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        deadline = time.monotonic() + 20
        lines: list[str] = []
        while time.monotonic() < deadline and RESET[-1] not in lines:
            lines = log.read_text().splitlines() if log.exists() else []
            time.sleep(0.05)
            if more:
                break
        return lines, stderr

    return run


LOCKED = ["lock gpu 0 1410 1410", "lock gpu 1 1410 1410"]
RESET = ["reset gpu 0", "reset gpu 1"]


@pytest.mark.parametrize(
    ("what", "number"),
    [
        ("pass", None),
        ("raise SystemError", None),
        ("time.sleep(600)", signal.SIGINT),
        ("time.sleep(600)", signal.SIGKILL),
    ],
)
def test_clocks_are_let_go(holding: Any, what: str, number: int | None) -> None:
    lines, _ = holding(what, number)
    assert lines == [*LOCKED, *RESET]


def test_a_refusal_is_one_line_and_changes_nothing(holding: Any) -> None:
    # Who may not lock may not reset either: that must not be what is complained of.
    lines, stderr = holding(
        "pass", FAKE_NVML_FAIL="DeviceSetGpuLockedClocks=4,DeviceResetGpuLockedClocks=4"
    )
    assert lines == []
    assert "GPU 0 refuses (Insufficient Permissions)" in stderr
    assert "root" in stderr


def test_clocks_that_cannot_be_let_go_are_said(holding: Any) -> None:
    lines, stderr = holding("pass", FAKE_NVML_FAIL="DeviceResetGpuLockedClocks=15")
    assert lines == LOCKED
    assert "sudo nvidia-smi --reset-gpu-clocks" in stderr


def test_a_run_whose_clocks_were_not_let_go_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def sticking(clock_hz: float) -> Iterator[None]:
        yield
        raise DataError(f"{clock_hz:.0f} stays")

    kept = Characterization(Header("w", None), ops_frame([]))
    asked: dict[str, Any] = {}

    def run(*_: Any, **options: Any) -> Result:
        asked.update(options)
        return Result(kept)

    monkeypatch.setattr("codesign.capture.clock_control.locked_clock", sticking)
    monkeypatch.setattr("codesign.capture.live.characterize_command", run)
    out = tmp_path / "x.parquet"
    with pytest.raises(DataError, match="1410000000 stays"):
        command.main(["-q", "-o", str(out), "--lock-clock", "1410", "--allow-clock-control", "--",
                      "true"], standalone_mode=False)  # fmt: skip
    assert out.exists()
    assert asked["held_clock_hz"] == 1.41e9


def test_clocks_are_not_touched_unless_allowed(tmp_path: Path) -> None:
    run = ["-o", str(tmp_path / "x.parquet"), "--", "true"]
    for options in (["--lock-clock", "1410"], ["--allow-clock-control"]):
        with pytest.raises(click.UsageError, match="go together"):
            command.main([*options, *run], standalone_mode=False)


def test_a_share_of_the_sms_needs_the_daemon(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nvidia-cuda-mps-control -d"):
        mps_environment(50, {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
    (tmp_path / "control").touch()
    found = mps_environment(37.5, {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
    assert found == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "37.5"}
    for percent in (0, -1, 101):
        with pytest.raises(UsageError, match="at most 100"):
            mps_environment(percent)


def test_a_share_of_the_sms_that_was_not_given_is_noticed() -> None:
    half = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
    assert limited(half, 66, 132) == ""
    assert limited(half, 72, 132) == ""  # rounded up to what SMs come in
    assert "132 of 132 SMs: is the MPS daemon alive?" in limited(half, 132, 132)
    for environment in ({}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"}):
        assert limited(environment, 132, 132) == ""


@pytest.mark.parametrize(
    ("sms", "capability", "fits"),
    [
        (64, (9, 0), True), (66, (9, 0), False), (4, (9, 0), False), (72, (10, 0), True),
        (66, (8, 0), True), (2, (8, 0), False), (65, (8, 9), False), (2, (7, 5), True),
    ],
)  # fmt: skip
def test_green_contexts_come_in_steps(sms: int, capability: tuple[int, int], fits: bool) -> None:
    with nullcontext() if fits else pytest.raises(UsageError, match="in multiples of"):
        check_granularity(sms, capability)


class GreenContext:
    """As PyTorch 2.12's; before that it had no stream."""

    events: ClassVar[list[str]] = []

    @classmethod
    def create(cls, *, num_sms: int, device_id: int) -> Any:
        cls.events.append(f"create {num_sms} on {device_id}")
        return cls()

    def set_context(self) -> None:
        self.events.append("set")

    def pop_context(self) -> None:
        self.events.append("pop")


class WithStream(GreenContext):
    events: ClassVar[list[str]] = []

    def Stream(self) -> str:
        return "green stream"


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (WithStream, ["create 64 on 1", "enter green stream", "work", "leave"]),
        (GreenContext, ["create 64 on 1", "set", "work", "pop"]),
    ],
)
def test_all_work_goes_to_the_green_context(
    monkeypatch: pytest.MonkeyPatch, kind: Any, events: list[str]
) -> None:
    torch = pytest.importorskip("torch")
    kind.events.clear()

    @contextmanager
    def stream(which: str) -> Iterator[None]:
        kind.events.append(f"enter {which}")
        yield
        kind.events.append("leave")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda.green_contexts, "GreenContext", kind)
    with green_context(64, 1):
        # Backward runs where the context is current: on this thread, not on autograd's own.
        assert not torch.autograd.is_multithreading_enabled()
        kind.events.append("work")
    assert torch.autograd.is_multithreading_enabled()
    assert kind.events == events
    with pytest.raises(UsageError, match="multiples of 8"), green_context(66, 1):
        pass


def test_green_contexts_are_refused_where_there_are_none() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there may be some")
    with pytest.raises(UsageError, match="--sm-percent"), green_context(64, 0):
        pass
    with green_context(None, 0):
        pass
