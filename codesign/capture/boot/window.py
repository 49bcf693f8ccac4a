"""The window of steps that is profiled: warm-up, a baseline without profiler, the window."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from . import status as facts
from .settings import Settings
from .status import Status

_ENDS = (b"}", b"]")


class Window:
    """Goes from step to step; `boundary` is called at the end of each.

    After ``warmup`` steps ``baseline`` steps are timed as they are, one step lets the
    profiler settle, ``steps`` steps are profiled, and the trace is written.
    """

    def __init__(self, settings: Settings, status: Status) -> None:
        self._settings = settings
        self._status = status
        self._profiler: Any = None
        self._last_s = 0.0
        self._plain_s: list[float] = []
        self._profiled_s: list[float] = []
        self.count = 0
        self.done = False

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over."""
        return self.count >= self._settings.warmup

    def restart(self) -> None:
        """Count again from the start: what was taken for a step was none."""
        if self._profiler is None:
            self.count = 0
            self._plain_s = []

    def boundary(self) -> None:
        """A step has ended."""
        if self.done:
            return
        self.count += 1
        plan = self._settings
        first, last = plan.warmup, plan.warmup + plan.baseline
        if self._profiler is not None:
            self._profiled()
            return
        if first < self.count <= last:
            if self.count == last:
                _synchronize()
            self._plain_s.append(time.perf_counter() - self._last_s)
        if self.count == first:
            _synchronize()
        self._status.note(state="stepping", steps=self.count)
        if self.count == last:
            self._start()
        self._last_s = time.perf_counter()

    def _start(self) -> None:
        place = facts.place()
        self._status.update(**place, device=facts.device(), software=facts.software(),
                            environment=facts.environment(),
                            plain_step_s=self._plain_s)  # fmt: skip
        wanted = self._settings.ranks
        if wanted is not None and place["rank"] not in wanted:
            self.done = True
            self._status.update(state="not wanted")
            return
        from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

        activities = [a for a in supported_activities() if a != ProfilerActivity.CPU]
        if facts.device()["type"] == "cpu":
            activities = []
        try:
            self._profiler = profile(
                activities=[ProfilerActivity.CPU, *activities],
                record_shapes=True,
                schedule=schedule(wait=0, warmup=1, active=self._settings.steps, repeat=1),
                on_trace_ready=self._write,
            )
            self._profiler.start()
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the profiler did not start: {_line(error)}")
            return
        self._status.update(state="profiling", profiled=0)

    def _profiled(self) -> None:
        """One more step under the profiler has ended; the first of them let it settle."""
        elapsed = self.count - self._settings.warmup - self._settings.baseline
        now = time.perf_counter()
        if elapsed > 1:
            if elapsed == self._settings.steps + 1:
                _synchronize()
                now = time.perf_counter()
            self._profiled_s.append(now - self._last_s)
        profiled = len(self._profiled_s)
        self._status.note(
            steps=self.count, profiled=profiled, profiled_step_s=self._profiled_s,
            until=time.time(),
        )  # fmt: skip
        if elapsed == 1:
            _synchronize()
            self._status.note(since=time.time())
        try:
            self._profiler.step()
            if profiled >= self._settings.steps:
                self.done = True
                self._profiler.stop()
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the profiler failed: {_line(error)}")
        self._last_s = time.perf_counter()

    def finish(self, reason: str) -> None:
        """The process ends, or the window is closed early: keep what there is."""
        if self.done:
            return
        self.done = True
        self._status.update(cut=reason)
        if self._profiler is None:
            return
        try:
            self._profiler.stop()
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the trace was lost: {_line(error)}")

    def _write(self, profiler: Any) -> None:
        if not self._profiled_s:
            return  # the step that was cut is all that there is
        begin = time.perf_counter()
        rank = self._status.facts.get("rank", 0)
        path = Path(self._settings.folder) / f"rank-{rank}.pid-{self._status.facts['pid']}.json"
        try:
            profiler.export_chrome_trace(str(path))
            _check(path)
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the trace could not be written to {path}: {_line(error)}")
            return
        whole = len(self._profiled_s) >= self._settings.steps
        self._status.update(
            state="saved" if whole else "partial",
            trace=str(path),
            export_s=time.perf_counter() - begin,
        )

    def _fail(self, reason: str) -> None:
        self.done = True
        self._status.update(state="failed", error=reason)
        sys.stderr.write(f"codesign: {reason}\n")


def _synchronize() -> None:
    """Wait for the device, where one is in use."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _check(path: Path) -> None:
    """Raise OSError if the file does not end as a trace does: the exporter tells nothing."""
    if not path.exists():
        raise OSError("nothing was written; is the disk full?")
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - 64))
        tail = stream.read().rstrip()
    if not tail.endswith(_ENDS):
        path.unlink()
        raise OSError(f"cut short after {size} bytes; is the disk full?")


def _line(error: BaseException | None) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
