"""The window of steps that is profiled: warm-up, a baseline without profiler, the window."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from pathlib import Path

from . import profiling
from . import status as facts
from .optimizers import in_backward
from .settings import Settings
from .shield import shielded, when_thread_ends
from .status import Status

_HANDOVER_S = 5.0
"""Time that the thread of the steps has to close its window when another thread must end."""
_MOST_RESTARTS = 3
"""Times the window gives way to another profiler before what it has is kept."""


class Window:
    """Goes from step to step; `boundary` is called at the end of each.

    After ``warmup`` steps ``baseline`` steps are timed as they are, one step lets the
    profiler settle, ``steps`` steps are profiled, and the trace is written. Whatever goes
    wrong in here, the program goes on.
    """

    def __init__(self, settings: Settings, status: Status) -> None:
        self._settings = settings
        self._status = status
        self._session: profiling.Session | None = None
        self._last_s = 0.0
        self._plain_s: list[float] = []
        self._profiled_s: list[float] = []
        self._total = 0
        self._gave_way = 0
        self._asked = ""
        self._lost = False
        self.count = 0
        self.done = False
        profiling.watch()

    @property
    def warm(self) -> bool:
        """Whether the warm-up is over."""
        return self.count >= self._settings.warmup

    @property
    def open(self) -> bool:
        """Whether the profiler is at work."""
        return self._session is not None and not self.done

    def restart(self, count: int = 0) -> None:
        """Count again, from so many steps on: what was taken for a step was none.

        The step that ends now began elsewhere than it seemed: it is of the warm-up at the latest.
        """
        if self._session is None:
            self.count = min(count, self._settings.warmup - 1)
            self._plain_s = []

    def boundary(self) -> None:
        """A step has ended."""
        if self.done:
            if self._lost:
                self._drop()
            return
        try:
            if _recording():
                return  # into a CUDA graph: nothing was run, and nothing may wait for it
            if in_backward():
                return  # such as a forward pass done again: no step ends in the middle of one
            if self._asked:
                self._close(self._asked)
            else:
                self._advance()
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the capture failed: {_line(error)}")

    def _advance(self) -> None:
        self.count += 1
        self._total += 1
        plan = self._settings
        first, last = plan.warmup, plan.warmup + plan.baseline
        if self._session is not None:
            self._profiled(self._session)
            return
        if first < self.count <= last:
            if self.count == last:
                _synchronize()
            self._plain_s.append(time.perf_counter() - self._last_s)
        if self.count == first:
            _synchronize()
        self._status.note(state="stepping", steps=self._total)
        if self.count >= last:
            if profiling.busy():
                self._status.update(waiting="another profiler was at work")
                self.restart()
            else:
                self._start()
        self._last_s = time.perf_counter()

    def _start(self) -> None:
        place, device = facts.place(), facts.device()
        self._status.update(**place, device=device, software=facts.software(),
                            environment=facts.environment(), waiting="", steps=self._total,
                            plain_step_s=self._plain_s)  # fmt: skip
        wanted = self._settings.ranks
        if wanted is not None and place["rank"] not in wanted:
            self.done = True
            self._status.update(state="not wanted")
            return
        pid = self._status.facts["pid"]
        path = Path(self._settings.folder) / f"rank-{place['rank']}.pid-{pid}.json"
        try:
            with shielded():
                self._session = profiling.Session(
                    self._settings.steps, device["type"] != "cpu", path, self._give_way
                )
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the profiler did not start: {_line(error)}")
            return
        when_thread_ends(self._thread_ends)
        self._status.update(state="profiling", profiled=0)

    def _profiled(self, session: profiling.Session) -> None:
        """One more step under the profiler has ended; the first of them let it settle."""
        elapsed = self.count - self._settings.warmup - self._settings.baseline
        now = time.perf_counter()
        if elapsed > 1:
            if elapsed == self._settings.steps + 1:
                _synchronize()
                now = time.perf_counter()
            self._profiled_s.append(now - self._last_s)
        profiled = len(self._profiled_s)
        told = {"steps": self._total, "profiled": profiled, "profiled_step_s": self._profiled_s}
        if elapsed == 1:
            _synchronize()
            # On disk before the first step that counts: a short window then holds no writing.
            self._status.update(since=time.time(), **told)
        else:
            self._status.note(until=time.time(), **told)
        if profiled >= self._settings.steps:
            self._stop(session, last=True)
        else:
            session.step()
            if session.export_s is not None:
                self._overflowed(session)
        self._last_s = time.perf_counter()

    def _overflowed(self, session: profiling.Session) -> None:
        """The profiler has ended by itself: of the last step the device's buffers lack a part."""
        self._profiled_s = self._profiled_s[:-1]
        reason = f"the profiler's buffers were full after {len(self._profiled_s)} whole steps"
        self._status.update(overflow=reason)
        if not self._profiled_s:
            self._fail(f"{reason}; a shorter step is needed: fewer micro-batches or layers")
            return
        self._stop(session)

    def finish(self, reason: str, deliver: bool = True) -> None:
        """The process ends, or the window is closed early: keep what there is.

        The profiler belongs to the thread that started it: another one asks, and waits.
        ``deliver``: signals that come meanwhile are passed on; else the process ends anyway.
        """
        if self.done:
            return
        session = self._session
        if session is None or session.thread == threading.get_ident():
            self._close(reason, deliver)
            return
        self._asked = reason
        until = time.monotonic() + _HANDOVER_S
        while not self.done and time.monotonic() < until:
            if all(t.ident != session.thread for t in threading.enumerate()):
                break
            time.sleep(0.02)
        if not self.done:
            self.done = self._lost = True
            self._status.update(cut=reason, lost="the thread of the steps did not answer")

    def _close(self, reason: str, deliver: bool = True) -> None:
        self._status.update(cut=reason, steps=self._total)
        if self._session is None:
            self.done = True
        else:
            self._stop(self._session, deliver=deliver)

    def _stop(self, session: profiling.Session, last: bool = False, deliver: bool = True) -> None:
        """End the profiler; after the ``last`` step, or inside of one that does not count."""
        self.done = True
        keep = bool(self._profiled_s)
        try:
            with shielded(deliver):
                if last:
                    session.step()
                session.stop(keep)
                if keep:
                    self._saved(session)
        except Exception as error:  # noqa: BLE001 - the user's program comes first
            self._fail(f"the trace could not be written: {_line(error)}")

    def _saved(self, session: profiling.Session) -> None:
        whole = len(self._profiled_s) >= self._settings.steps
        self._status.update(
            state="saved" if whole else "partial", trace=str(session.path),
            export_s=session.export_s, profiled_step_s=self._profiled_s,
        )  # fmt: skip

    def _give_way(self) -> None:
        """The program starts a profiler of its own: ours goes, and comes again later."""
        session = self._session
        if session is None or self.done:
            return
        self._gave_way += 1
        if session.thread != threading.get_ident() or self._gave_way > _MOST_RESTARTS:
            self.finish("the program started a profiler of its own")
            return
        session.stop(keep=False)
        self._session = None
        self._profiled_s = []
        self.restart()
        self._status.update(state="stepping", profiled=0, profiled_step_s=[])

    def _thread_ends(self) -> None:
        if self.done:
            self._drop()
        else:
            self.finish("its thread ended")

    def _drop(self) -> None:
        """End the profiler, whatever it says, and keep nothing."""
        self._lost = False
        if self._session is not None:
            with contextlib.suppress(Exception):
                self._session.stop(keep=False)

    def _fail(self, reason: str) -> None:
        self.done = True
        self._drop()
        if not self._status.update(state="failed", error=reason):
            sys.stderr.write(f"codesign: {reason}\n")


def _gpu_in_use() -> bool:
    import torch

    return bool(torch.cuda.is_available() and torch.cuda.is_initialized())


def _synchronize() -> None:
    """Wait for every device that this process uses; one that it does not would get a context."""
    import torch

    if not _gpu_in_use():
        return
    uses = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    devices: list[int | None] = []
    if uses is not None:
        devices = [i for i in range(torch.cuda.device_count()) if uses(i)]
    for device in devices or [None]:
        torch.cuda.synchronize(device)


def _recording() -> bool:
    """Whether the GPU's work is being recorded into a graph instead of run."""
    import torch

    return _gpu_in_use() and bool(torch.cuda.is_current_stream_capturing())


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
