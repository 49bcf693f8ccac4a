"""Holding the SM clock for a run, only where the user allows it, and never for longer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from codesign._common.errors import DataError, UsageError
from codesign.capture.nvml import Nvml, open_nvml

_GUARD_S = 30.0


@contextmanager
def locked_clock(clock_hz: float) -> Iterator[None]:
    """Hold the SM clock of every GPU of this machine at ``clock_hz`` inside the block.

    A guard process, started first, lets the clocks go when the block ends or this process
    does, by whatever it ends. Raises UsageError if there is no NVML or the driver refuses
    (it needs root), DataError if the clocks could not be let go.
    """
    with open_nvml() as nvml:
        if isinstance(nvml, str):
            raise UsageError(f"--lock-clock: {nvml}")
        guard = subprocess.Popen(
            [sys.executable, "-m", "codesign.capture.clock_guard"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert guard.stdin is not None
        assert guard.stdout is not None
        try:
            if not guard.stdout.readline():
                raise UsageError("--lock-clock: the process that would undo it did not start")
            _lock_all(nvml, clock_hz, guard.stdin)
            yield
        finally:
            _let_go(guard)


def _lock_all(nvml: Nvml, clock_hz: float, guard: IO[bytes]) -> None:
    for index in range(nvml.count):
        _tell(guard, f"+{index}")  # first, since we may be killed right after the lock
        refused = nvml.lock_clock(index, clock_hz)
        if refused:
            _tell(guard, f"-{index}")
            raise UsageError(
                f"--lock-clock: GPU {index} refuses ({refused}); it needs root, and a "
                "clock that nvidia-smi -q -d SUPPORTED_CLOCKS lists"
            )


def _tell(guard: IO[bytes], text: str) -> None:
    try:
        guard.write(f"{text}\n".encode())
        guard.flush()
    except OSError as error:
        raise UsageError("--lock-clock: the process that would undo it has ended") from error


def _let_go(guard: subprocess.Popen[bytes]) -> None:
    """Have the guard reset the clocks. Raises DataError if it could not."""
    assert guard.stdin is not None
    assert guard.stdout is not None
    with suppress(OSError):
        guard.stdin.close()
    try:
        code = guard.wait(_GUARD_S)
    except subprocess.TimeoutExpired:
        code = 1
    guard.stdout.close()
    if code:
        raise DataError("the clocks could not be let go: run sudo nvidia-smi --reset-gpu-clocks")
