"""A capture session: its folder, the environment of the captured command, its statuses."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from codesign._common.errors import DataError
from codesign.capture.boot.settings import VARIABLE, Settings

_BOOT = Path(__file__).resolve().parent / "boot"
SAVED = ("saved", "partial")
_ROOM_BYTES = 1 << 16
"""What statuses need at least. On a fuller disk a capture could not even say that it is full."""


@contextmanager
def session(settings: Settings) -> Iterator[Settings]:
    """The settings with a temporary folder of their own, removed at the end.

    Raises DataError if no folder can be made.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="codesign-capture-") as folder:
            own = replace(settings, folder=folder)
            own.save(Path(folder) / "settings.json")
            _check_room(Path(folder))
            yield own
    except OSError as error:
        if error.filename is None or "codesign-capture-" not in str(error.filename):
            raise
        reason = error.strerror or error
        raise DataError(
            f"{error.filename}: cannot write the session's files: {reason}; set TMPDIR"
        ) from error


def _check_room(folder: Path) -> None:
    """Raise OSError if the disk is full."""
    probe = folder / "room"
    try:
        probe.write_bytes(b"\0" * _ROOM_BYTES)
    except OSError as error:  # a write that fails, unlike an open, does not name its file
        raise OSError(error.errno, error.strerror, str(folder)) from error
    probe.unlink()


def environment(settings: Settings, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables under which a command's Python processes capture themselves."""
    found = dict(os.environ if base is None else base)
    found[VARIABLE] = str(Path(settings.folder) / "settings.json")
    path = [str(_BOOT), *filter(None, [found.get("PYTHONPATH")])]
    found["PYTHONPATH"] = os.pathsep.join(path)
    # The lines that the profiler itself writes to stderr would be taken for those of the script.
    found.setdefault("KINETO_LOG_LEVEL", "6")
    return found


def statuses(folder: str | Path) -> list[dict[str, Any]]:
    """What the captured processes have told so far, by rank and process."""
    found = []
    for path in Path(folder).glob("status-*.json"):
        try:
            found.append(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):  # being replaced at this moment
            continue
    return sorted(found, key=lambda s: (s.get("rank", 0), s["pid"]))


def captured(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Statuses that have a trace, one for each rank.

    Where several processes claim one rank, none of them is of a job: the one with the most
    steps is kept.
    """
    best: dict[int, dict[str, Any]] = {}
    for status in found:
        if status["state"] not in SAVED:
            continue
        rank = int(status.get("rank", 0))
        if rank not in best or status["steps"] > best[rank]["steps"]:
            best[rank] = status
    return [best[rank] for rank in sorted(best)]


def settled(found: list[dict[str, Any]]) -> bool:
    """Whether every process that steps has finished its window."""
    stepping = [s for s in found if s["steps"] > 0]
    done = (*SAVED, "failed", "not wanted")
    return any(s["state"] in SAVED for s in stepping) and all(
        s["state"] in done or s.get("ended") for s in stepping
    )
