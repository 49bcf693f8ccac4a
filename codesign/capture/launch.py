"""Runs the command under capture, and ends it when it must end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codesign._common.errors import UsageError
from codesign.capture.boot.settings import Settings
from codesign.capture.session import environment, settled, statuses

_POLL_S = 0.1
GRACE_S = 15.0
"""Time that a process has to save its trace after SIGTERM."""
_FORWARD_S = 2.0
"""Time that a launcher has to pass a signal on to ranks in sessions of their own."""


@dataclass(frozen=True)
class Outcome:
    """How the command ended."""

    exit_code: int | None
    """Negative is the signal that ended it; None if it had to be ended by us."""
    ended_by: str
    """``itself``, ``timeout``, ``stop`` (asked for, after the capture), or ``interrupt``."""
    interruption: BaseException | None
    """What interrupted us: to be raised once the results are safe."""
    statuses: tuple[dict[str, Any], ...]
    elapsed_s: float
    """Until it ended or was to be ended."""


def run(
    command: Sequence[str],
    settings: Settings,
    *,
    timeout_s: float | None = None,
    stop: bool = False,
    extra: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    captured: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run ``command`` to its end with the capture in every Python process of it.

    Args:
        command: program and arguments.
        settings: of a session; see `session.session`.
        timeout_s: time until the window must be captured; the command is ended then.
        stop: end the command as soon as the window is captured.
        extra: environment variables beside ours.
        say: told what happens.
        captured: called once every window is over.

    Raises UsageError if the command cannot be started.
    """
    begin = time.monotonic()
    try:
        # A session of its own: a signal at the terminal reaches us first, and no child is lost.
        child = subprocess.Popen(  # noqa: S603 - running the user's command is the job
            list(command), env={**environment(settings), **(extra or {})}, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"cannot run {command[0]!r}: {error.strerror or error}") from error
    ended_by, interruption, elapsed_s = "itself", None, None
    try:
        with _hangup():
            ended_by = _watch(child, settings, begin, timeout_s, stop, say, captured)
        elapsed_s = time.monotonic() - begin
        if ended_by != "itself":
            _end(child, settings, signal.SIGTERM)
    except (KeyboardInterrupt, SystemExit) as error:
        ended_by, interruption = "interrupt", error
        number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
        try:
            say("ending the command; again to kill it")
            _end(child, settings, number)
        except (KeyboardInterrupt, SystemExit):
            _end(child, settings, signal.SIGKILL)
    finally:
        if child.poll() is None:
            _end(child, settings, signal.SIGKILL)
    code = child.returncode if ended_by == "itself" else None
    return Outcome(
        code,
        ended_by,
        interruption,
        tuple(statuses(settings.folder)),
        time.monotonic() - begin if elapsed_s is None else elapsed_s,
    )


def _watch(
    child: subprocess.Popen[bytes], settings: Settings, begin: float, timeout_s: float | None,
    stop: bool, say: Callable[[str], None], captured: Callable[[], None],
) -> str:  # fmt: skip
    """Wait until the command ends or has to; returns why."""
    done = False
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
            return "itself"
        if done:
            continue
        found = statuses(settings.folder)
        say(_progress(found, settings))
        done = settled(found)
        if done:
            captured()
        if done and stop:
            return "stop"
        if timeout_s is not None and not done and time.monotonic() - begin > timeout_s:
            return "timeout"


def _progress(found: list[dict[str, Any]], settings: Settings) -> str:
    stepping = [s for s in found if s["steps"] > 0]
    if not stepping:
        return "waiting for the first step"
    failed = next((s["error"] for s in stepping if s["state"] == "failed"), None)
    if failed is not None:
        return f"{failed}; the command goes on"
    profiled = min(int(s.get("profiled", 0)) for s in stepping)
    if profiled >= settings.steps:
        return "captured; the command goes on"
    if any(s["state"] == "profiling" for s in stepping):
        return f"profiling: step {profiled} of {settings.steps}"
    skipped = min(int(s["steps"]) for s in stepping)
    return f"warming up: step {skipped} of {settings.warmup + settings.baseline}"


@contextmanager
def _hangup() -> Iterator[None]:
    """End as by SIGTERM when the terminal goes, which the command would not notice.

    Not under nohup, which has that signal ignored.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: object) -> None:  # noqa: ARG001
        raise SystemExit(128 + number)

    signal.signal(signal.SIGHUP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _end(child: subprocess.Popen[bytes], settings: Settings, number: int) -> None:
    """Send a signal to all of the command, and SIGKILL to what is left of it after a while.

    Launchers put their ranks into sessions of their own and pass signals on: a rank that gets
    one twice may die of the second while it saves. Only those that none reached get ours.
    """
    begin = time.monotonic()
    _send(child, [], number)
    if number != signal.SIGKILL:
        forwarded = False
        while time.monotonic() - begin < GRACE_S:
            child.poll()
            alive = _alive(settings)
            if child.returncode is not None and not alive:
                return
            orphaned = child.returncode is not None or time.monotonic() - begin > _FORWARD_S
            if orphaned and not forwarded:
                forwarded = True
                _send_ranks(child, alive, number)
            time.sleep(_POLL_S)
    _send(child, _alive(settings), signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(5.0)


def _send(child: subprocess.Popen[bytes], pids: list[int], number: int) -> None:
    """To the command's group, and to these processes of others."""
    if child.returncode is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
    _send_ranks(child, pids, number)


def _send_ranks(child: subprocess.Popen[bytes], pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if child.returncode is not None or os.getpgid(pid) != child.pid:
                os.kill(pid, number)


def _alive(settings: Settings) -> list[int]:
    """Captured processes that still run; a pid that was given to another process is none."""
    found = []
    for status in statuses(settings.folder):
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{status['pid']}/stat").read_text(encoding="utf-8")
            fields = text.rpartition(")")[2].split()
            if fields[0] != "Z" and int(fields[19]) == status["started"]:
                found.append(int(status["pid"]))
    return found
