"""The capture inside one process: hooks that find steps, and ways out that keep what there is."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import markers, optimizers
from .settings import Settings
from .status import Status
from .window import Window


class Agent:
    """One process under capture."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._begin()

    def _begin(self) -> None:
        self.status = Status(self.settings.folder)
        self.window = Window(self.settings, self.status)
        self.optimizers = optimizers.OptimizerSteps()
        self._thread: int | None = None

    def hook(self) -> None:
        """Ask torch to tell when a step ends."""
        kind, _, rest = self.settings.marker.partition(":")
        if kind == "optimizer":
            optimizers.on_optimizer(self._optimizer_stepped)
        elif kind == "forward":
            markers.on_forward(self.boundary)
        elif kind == "annotation":
            markers.on_annotation(rest, self.boundary)
        elif kind == "function":
            markers.on_function(self.boundary)

    def boundary(self) -> None:
        """A step has ended. The profiler belongs to one thread, so others do not count."""
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        if thread == self._thread:
            self.window.boundary()
            if self.window.done and self.optimizers.counts:
                names = self.optimizers.names
                self.status.update(optimizers=[names[k] for k in self.optimizers.counts])

    def _optimizer_stepped(self, optimizer: Any) -> None:
        if self.window.done:
            return
        window = self.window
        ends, before = self.optimizers.stepped(optimizer, window.warm, window.open)
        if before is not None:
            self.window.restart(before)
        if ends:
            self.boundary()

    def finish(self) -> None:
        """The process ends."""
        error = getattr(sys, "last_value", None)
        if error is not None:
            text = (str(error).strip().splitlines() or [""])[0]
            name = type(error).__name__
            text = f"{name}: {text}"[:300] if text else name
            self.status.update(exception=text, failed_at=time.time())
        self.window.finish("the process ended", deliver=False)
        if markers.missing and not self.window.count:
            text = f"--step-marker {self.settings.marker}: {markers.missing[0]}"
            self.status.update(state="failed", error=text)
        self.status.update(ended=True)

    def forked(self) -> None:
        """A child of fork captures for itself; what its parent has begun is not its own."""
        self._inherited = self.window  # taking it down here would end the parent's profiler
        self._begin()

    def leaving(self) -> None:
        """The process ends without a word, as multiprocessing's forked children do."""
        if self.window.open:
            self.finish()

    def terminate(self, number: int, frame: object) -> None:  # noqa: ARG002
        """Keep what there is, then die of the signal as if nobody had listened."""
        signal.signal(number, signal.SIG_IGN)  # launchers pass on what came directly too
        self.window.finish("terminated", deliver=False)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


_agent: Agent | None = None


def current() -> Agent | None:
    """The agent of this process, if it is captured."""
    return _agent


def attach(settings: Settings) -> None:
    """Start capturing in this process. Called while torch is being imported."""
    global _agent  # noqa: PLW0603 - one process, one agent
    if _agent is not None:
        return
    _agent = agent = Agent(settings)
    agent.status.update()
    agent.hook()
    atexit.register(agent.finish)
    setattr(os, "_exit", _told(os._exit, agent))  # noqa: B010 - its type says that it has none
    os.register_at_fork(after_in_child=agent.forked)
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, agent.terminate)


def _told(leave: Callable[[int], NoReturn], agent: Agent) -> Callable[[int], NoReturn]:
    @functools.wraps(leave)
    def wrapped(status: int) -> NoReturn:
        agent.leaving()
        leave(status)

    return wrapped
