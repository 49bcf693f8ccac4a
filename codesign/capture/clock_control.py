"""Holding the SM clock for a run, only where the user allows it, and never for longer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from codesign._common.errors import DataError, UsageError
from codesign.capture.nvml import open_nvml

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
        gpus = range(nvml.count)
        guard = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "codesign.capture.clock_guard", *map(str, gpus)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert guard.stdin is not None
        assert guard.stdout is not None
        try:
            if not guard.stdout.readline():
                raise UsageError("--lock-clock: the process that would undo it did not start")
            for index in gpus:
                refused = nvml.lock_clock(index, clock_hz)
                if refused:
                    raise UsageError(
                        f"--lock-clock: GPU {index} refuses ({refused}); it needs root, and a "
                        "clock that nvidia-smi -q -d SUPPORTED_CLOCKS lists"
                    )
            yield
        finally:
            guard.stdin.close()
            guard.stdout.close()
            try:
                code = guard.wait(_GUARD_S)
            except subprocess.TimeoutExpired:
                code = 1
            if code:
                raise DataError(
                    "the clocks could not be let go: run sudo nvidia-smi --reset-gpu-clocks"
                )
