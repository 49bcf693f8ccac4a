"""`characterize` of a command: run it, read what it left, say what went wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign._common.files import atomic_path
from codesign.capture.boot import markers
from codesign.capture.boot.settings import Settings
from codesign.capture.finish import finish
from codesign.capture.launch import Outcome, run
from codesign.capture.observe import observed
from codesign.capture.session import captured, session
from codesign.capture.verdict import problem
from codesign.workload.characterization import Characterization


@dataclass(frozen=True)
class Result:
    """What a run under capture gave: a characterization, an error, or both."""

    characterization: Characterization | None
    error: CodesignError | None = None
    """Why it is partial, or absent."""
    interruption: BaseException | None = None
    """Ctrl-C or SIGTERM, to be raised once the results are safe."""
    traces: tuple[Path, ...] = ()
    """Raw traces that were kept."""
    journal: Path | None = None
    """Of a calibration that is whole: to be removed once its result is saved."""


def characterize_command(
    command: Sequence[str],
    settings: Settings,
    *,
    workload: str,
    system: str | None = None,
    timeout_s: float | None = None,
    stop: bool = False,
    keep_traces: Path | None = None,
    extra: Mapping[str, str] | None = None,
    held_clock_hz: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run ``command`` with the capture in each of its Python processes.

    Args:
        command: program and arguments, such as ``["torchrun", "train.py"]``.
        settings: steps, warm-up, ranks, marker; the folder is filled in.
        workload: name of the workload.
        system: name of the system, where the device does not tell it.
        timeout_s: time by which the window must be captured.
        stop: end the command once it is.
        keep_traces: folder for the raw traces, where they are to be kept.
        extra: environment variables for the command.
        held_clock_hz: SM clock that is being held meanwhile, to be compared with what was seen.
        say: told what happens.

    Raises UsageError for a command that cannot be started or a wrong marker. Whatever else
    goes wrong is in the result, beside what was captured until then.
    """
    wrong = markers.check(settings.marker)
    if wrong:
        raise UsageError(wrong)
    if settings.steps < 1 or settings.warmup < 0 or settings.baseline < 0:
        raise UsageError("expected at least one step, and a warm-up and baseline of 0 or more")
    # Counting the first step needs something before it that ended.
    settings = replace(settings, warmup=max(1, settings.warmup))
    with session(settings) as own:
        with observed() as conditions:
            outcome = run(
                command, own, timeout_s=timeout_s, stop=stop, extra=extra, say=say,
                captured=conditions.enough,
            )  # fmt: skip
        conditions.statuses = outcome.statuses
        conditions.held_clock_hz = held_clock_hz
        error = problem(outcome, own, label(command))
        if not captured(list(outcome.statuses)):
            return Result(None, error, outcome.interruption)
        say("reading the traces")
        try:
            char, paths = finish(
                outcome.statuses, workload=workload, system=system, conditions=conditions,
                incomplete=_incomplete(outcome, own, error),
            )  # fmt: skip
        except CodesignError as failure:
            return Result(None, error or failure, outcome.interruption)
        try:
            kept = keep(paths, keep_traces)
        except DataError as failure:
            return Result(char, error or failure, outcome.interruption)
    return Result(char, error, outcome.interruption, kept)


def label(command: Sequence[str]) -> str:
    """A command in a line: the program, and what it was told to run."""
    shown = [Path(command[0]).name]
    for part in command[1:]:
        shown.append(part)
        if not part.startswith("-"):
            break
    return " ".join(shown)[:200]


def _incomplete(outcome: Outcome, settings: Settings, error: CodesignError | None) -> str:
    """Why the window is not whole, empty if it is."""
    ranks = captured(list(outcome.statuses))
    if all(s["state"] == "saved" for s in ranks):
        return ""
    done = min(len(s.get("profiled_step_s") or []) for s in ranks)
    why = str(error) if error is not None else "the run was interrupted"
    return f"{done} of {settings.steps} steps were captured: {why}"


def keep(paths: Sequence[Path], folder: Path | None) -> tuple[Path, ...]:
    """Copy the traces into ``folder`` as rank-N.json, in place of those of an earlier run.

    Raises DataError if that fails.
    """
    if folder is None:
        return ()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in kept_traces(folder):  # of a run on more ranks, they would be read as its own
            old.unlink()
        kept = []
        for path in paths:
            kept.append(folder / f"{path.name.split('.')[0]}.json")
            with atomic_path(kept[-1]) as temporary:
                shutil.copyfile(path, temporary)
        return tuple(kept)
    except OSError as error:
        raise DataError(f"{folder}: cannot keep the traces: {error.strerror or error}") from error


def kept_traces(folder: Path) -> list[Path]:
    """What `keep` left in a folder."""
    return sorted(p for p in folder.glob("rank-*.json") if p.stem[5:].isdigit())


def check_writable(path: Path) -> None:
    """Raise DataError now, not after the run, if ``path`` cannot be written."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: cannot write: is a folder or no ordinary file")
    folder = next(p for p in path.absolute().parents if p.exists())
    if not os.access(folder, os.W_OK):
        raise DataError(f"{path}: cannot write here: {folder} is read-only")
    probe = path.parent / f".{path.name[:20]}.probe"
    with atomic_path(probe) as temporary:
        temporary.write_bytes(b"\0" * 4096)
    probe.unlink(missing_ok=True)
