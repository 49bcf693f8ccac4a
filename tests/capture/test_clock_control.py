"""Clocks are held only while the block runs, however it ends; SMs are limited only where told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from codesign._common.errors import UsageError
from codesign.capture.sm_count import green_context, mps_environment
from codesign.cli.characterize import command
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
        while time.monotonic() < deadline and "reset 1" not in lines:
            lines = log.read_text().splitlines() if log.exists() else []
            time.sleep(0.05)
            if more:
                break
        return lines, stderr

    return run


LOCKED = ["lock 0 1410 1410", "lock 1 1410 1410"]


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
    assert lines == [*LOCKED, "reset 0", "reset 1"]


def test_a_refusal_is_one_line_and_changes_nothing(holding: Any) -> None:
    lines, stderr = holding("pass", FAKE_NVML_REFUSES="1")
    assert not [line for line in lines if line.startswith("lock")]
    assert "GPU 0 refuses (Insufficient Permissions)" in stderr
    assert "root" in stderr


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


def test_green_contexts_are_refused_where_there_are_none() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there may be some")
    with pytest.raises(UsageError, match="--sm-percent"), green_context(64, 0):
        pass
    with green_context(None, 0):
        pass
