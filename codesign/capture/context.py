"""`codesign.capture`: the capture inside the program itself."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from codesign._common.errors import CodesignError, InsufficientDataError, UsageError
from codesign.capture.boot import optimizers
from codesign.capture.boot.settings import Settings
from codesign.capture.boot.status import Status
from codesign.capture.boot.window import Window
from codesign.capture.conditions import Conditions
from codesign.capture.finish import finish
from codesign.capture.live import check_writable, keep
from codesign.capture.observe import observed
from codesign.capture.session import captured, session, statuses
from codesign.workload.characterization import Characterization

_active: list[Capture] = []


class Capture:
    """Context manager that characterizes the steps run inside it.

        with codesign.capture("run.parquet", steps=5) as run:
            for batch in batches:
                train_step(batch)
        print(run.characterization)

    Steps end with the optimizer's step; `step()` (also `codesign.capture.step`) ends one where
    there is none, and from its first call on nothing else does. Only the window is profiled:
    the block may run on. On an exception what was captured is saved, marked incomplete.

    Args:
        output: file to write, or None to keep the result in ``characterization`` only.
        steps: steps to profile.
        warmup: steps to skip first, at least one.
        baseline: steps to time without the profiler.
        workload: name of the workload.
        system: name of the system, where the device does not tell it.
        keep_traces: folder for the raw traces.

    Raises UsageError on entry inside another capture or without PyTorch, DataError if
    ``output`` cannot be written, InsufficientDataError on exit if no step was captured. An
    exception of the block itself always comes through.
    """

    def __init__(
        self, output: str | Path | None = None, *, steps: int = 5, warmup: int = 3,
        baseline: int = 3, workload: str | None = None, system: str | None = None,
        keep_traces: str | Path | None = None,
    ) -> None:  # fmt: skip
        if steps < 1 or warmup < 0 or baseline < 0:
            raise UsageError("expected at least one step, and a warm-up and baseline of 0 or more")
        self._settings = Settings("", steps, max(1, warmup), baseline)
        self._output = None if output is None else Path(output)
        self._workload = workload or (self._output.stem if self._output else "capture")
        self._system = system
        self._keep = None if keep_traces is None else Path(keep_traces)
        self._explicit = False
        self._stack = ExitStack()
        self._folder = ""
        self._conditions = Conditions()
        self._window: Window | None = None
        self.status: Status | None = None
        self.characterization: Characterization | None = None
        """The result, once the block has ended."""

    @property
    def done(self) -> bool:
        """Whether the window has been captured: the loop may end."""
        return self._window is not None and self._window.done

    def __enter__(self) -> Capture:
        if _active:
            raise UsageError("a capture is already running in this process")
        if importlib.util.find_spec("torch") is None:
            raise UsageError("codesign.capture needs PyTorch: pip install 'codesign[live]'")
        if self._output is not None:
            check_writable(self._output)
        self._explicit = False
        self.characterization = None
        with ExitStack() as stack:  # undone if anything of it fails
            own = stack.enter_context(session(self._settings))
            self._conditions = stack.enter_context(observed())
            self.status = Status(own.folder)
            self._window = Window(own, self.status)
            stack.callback(optimizers.on_optimizer(self._stepped(optimizers.OptimizerSteps())))
            self._folder = own.folder
            self._stack = stack.pop_all()
        _active.append(self)
        return self

    def _stepped(self, choice: optimizers.OptimizerSteps) -> Callable[[object], None]:
        thread = threading.get_ident()

        def stepped(optimizer: object) -> None:
            window = self._window
            other = threading.get_ident() != thread  # a thread that trains something else
            if window is None or window.done or self._explicit or other:
                return
            ends, before = choice.stepped(optimizer, window.warm, window.open)
            if before is not None:
                window.restart(before)
            if ends:
                window.boundary()

        return stepped

    def step(self) -> None:
        """Say that a step has ended."""
        if self._window is None:
            raise UsageError("step() outside of the capture; use it inside the with block")
        if not self._explicit:
            self._explicit = True
            self._window.restart()
        self._window.boundary()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        _active.remove(self)
        window, self._window = self._window, None
        assert window is not None
        with self._stack:
            cut = "" if error is None else f"{type(error).__name__} inside the capture"
            window.finish(cut or "the block ended")
            try:
                self._conclude(window, cut)
            except CodesignError as failure:
                if error is None:
                    raise
                sys.stderr.write(f"codesign: {failure}\n")

    def _conclude(self, window: Window, cut: str) -> None:
        found = statuses(self._folder)
        self._conditions.enough()
        self._conditions.statuses = found
        ranks = captured(found)
        if ranks:
            whole = ranks[0]["state"] == "saved"
            done = f"{len(ranks[0]['profiled_step_s'])} of {self._settings.steps} steps"
            self.characterization, paths = finish(
                found, workload=self._workload, system=self._system,
                conditions=self._conditions,
                incomplete="" if whole else f"{done}: {cut or 'the block ended'}",
            )  # fmt: skip
            keep(paths, self._keep)
            if self._output is not None:
                self.characterization.save(self._output)
        elif not cut:
            failed = next((s["error"] for s in found if s.get("error")), None)
            raise InsufficientDataError(
                failed
                or f"{window.count} steps in all, and {self._settings.steps_needed} "
                "are needed; run more of them, or lower steps, warmup, baseline"
            )


def step() -> None:
    """Say that a step has ended, to the capture around this code, if there is one."""
    if _active:
        _active[-1].step()
        return
    agent = _agent()
    if agent is not None and agent.settings.marker == "explicit":
        agent.boundary()


def describe(**facts: Any) -> None:
    """Say what the workload is: ``tokens_per_step``, ``model``, ``parallelism``, ``phase``.

    Goes into the header of the characterization; without a capture around it does nothing.
    """
    agent = _agent()
    status = _active[-1].status if _active else None if agent is None else agent.status
    if status is not None:
        status.update(described={k: v for k, v in facts.items() if v is not None})


def _agent() -> Any:
    """The agent of a captured process, which loads it under a name of its own."""
    module = sys.modules.get("_codesign_capture.agent")
    return None if module is None else module.current()
