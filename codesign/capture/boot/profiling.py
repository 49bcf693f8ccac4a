"""PyTorch's profiler over the window, and peace with any other profiler of the process.

A process has room for one: where two meet the interpreter crashes. Ours waits while another
is at work, and gives way when one is started.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ENDS = (b"}", b"]")


class _Others:
    """Profilers that are not ours, by the calls that all of them are made of."""

    def __init__(self) -> None:
        self.active = False
        self.sessions: list[Session] = []
        self._own = threading.local()
        self._installed = False

    @contextmanager
    def own(self) -> Iterator[None]:
        """What is called inside is our own profiler's."""
        self._own.inside = True
        try:
            yield
        finally:
            self._own.inside = False

    def install(self) -> None:
        """Watch profilers start and stop from now on."""
        if self._installed:
            return
        self._installed = True
        from torch.autograd import profiler

        def begins() -> None:
            if not getattr(self._own, "inside", False):
                self.active = True
                for session in list(self.sessions):
                    session.give_way()

        def ends() -> None:
            if not getattr(self._own, "inside", False):
                self.active = False

        for name in ("_prepare_profiler", "_enable_profiler"):
            _around(profiler, name, before=begins)
        _around(profiler, "_disable_profiler", after=ends)


def _around(module: Any, name: str, before: Callable[[], None] = lambda: None,
            after: Callable[[], None] = lambda: None) -> None:  # fmt: skip
    original = getattr(module, name, None)
    if original is None:  # another version of PyTorch: nothing to watch
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before()
        try:
            return original(*args, **kwargs)
        finally:
            after()

    setattr(module, name, wrapped)


_others = _Others()


def watch() -> None:
    """From now on know of every profiler that this process starts."""
    _others.install()


def busy() -> bool:
    """Whether a profiler is at work, so that none may be started."""
    from torch._C import _autograd

    enabled = getattr(_autograd, "_profiler_enabled", lambda: False)
    return _others.active or bool(_others.sessions) or bool(enabled())


class Session:
    """The profiler from its start to its end, all on one thread."""

    def __init__(self, steps: int, on_gpu: bool, path: Path, give_way: Callable[[], None]) -> None:
        from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

        activities = [a for a in supported_activities() if a != ProfilerActivity.CPU]
        self.thread = threading.get_ident()
        self.path = path
        self._give_way = give_way
        self._wanted = True
        self.export_s: float | None = None
        """How long writing the trace took; None until it is written.

        It is before the last step if the device's buffers are full: the profiler ends itself then.
        """
        self._profiler = profile(
            activities=[ProfilerActivity.CPU, *(activities if on_gpu else [])],
            record_shapes=True,
            schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
            on_trace_ready=self._write,
        )
        with _others.own():
            self._profiler.start()
        _others.sessions.append(self)

    def step(self) -> None:
        """A step has ended."""
        with _others.own():
            self._profiler.step()

    def stop(self, keep: bool) -> None:
        """End, and write the trace if it is to be kept. Raises OSError if that fails."""
        self._wanted = keep
        if self in _others.sessions:
            _others.sessions.remove(self)
            with _others.own():
                self._profiler.stop()
        if keep and self.export_s is None:
            raise OSError("the profiler ended without one")

    def give_way(self) -> None:
        """Another profiler is about to start."""
        self._give_way()

    def _write(self, profiler: Any) -> None:
        if not self._wanted or self.export_s is not None:
            return
        begin = time.perf_counter()
        profiler.export_chrome_trace(str(self.path))
        _check(self.path)
        self.export_s = time.perf_counter() - begin


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
