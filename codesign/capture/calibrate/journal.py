"""The journal of a calibration: a header, then one line a point; a run that broke off goes on."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codesign._common.errors import DataError

_MOST_DEATHS = 3
"""Times a process may die in the middle of a point before it is left out."""
RESTART = 75
"""Exit code of a sweep whose GPU can do no more in that process; another one goes on."""
_SAME = ("effort", "world_size")
_SAME_DEVICE = ("type", "name", "sm_count", "threads")
_SAME_SOFTWARE = ("torch", "cuda")


def key(point: dict[str, Any]) -> str:
    """What tells a point from all others."""
    return json.dumps(point, sort_keys=True)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and lines; a line that was cut in the middle of writing is left out.

    Raises DataError if the file is no journal.
    """
    try:
        # What a broken disk or a crash left in the middle costs its own lines only.
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        header = json.loads(lines[0])
        assert isinstance(header, dict)
        assert type(header["points"]) is type(header["world_size"]) is int
        parts = ("device", "software", "environment")
        assert all(isinstance(header.setdefault(k, {}), dict) for k in parts)
        assert isinstance(header["device"]["name"], str)
    except (OSError, ValueError, LookupError, AssertionError) as error:
        raise DataError(f"{path}: not the journal of a calibration; remove it") from error
    found = {}
    for line in lines[1:]:
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if _is_result(entry):
                found[key(entry["point"])] = entry
    return header, list(found.values())


def _is_result(entry: Any) -> bool:
    """Whether a line is the result of a point."""
    if not isinstance(entry, dict) or not isinstance(entry.get("point"), dict):
        return False
    if not all(isinstance(entry["point"].get(k), str) for k in ("op_class", "name", "precision")):
        return False
    if "skipped" in entry:
        return isinstance(entry["skipped"], str)
    times = entry.get("time_s"), entry.get("time_sd_s")
    return all(isinstance(t, int | float) and 0.0 <= t < math.inf for t in times)


def begin(path: Path, header: dict[str, Any], count: int) -> set[str]:
    """Start a journal, or go on with one: keys of the points that it holds.

    Raises DataError if it was made on another kind of device, by other software, or with
    another effort: its times would be no others' beside ours. Which of several equal GPUs it
    is does not matter, since a scheduler gives now this one and now that.
    """
    header = {**header, "points": count}
    if not path.exists():
        path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return set()
    before, lines = read(path)
    for what, was, now in _differences(before, header):
        if was != now:
            raise DataError(
                f"{path}: was begun with {what} {was!r}, now {now!r}; remove it to begin again"
            )
    if not path.read_bytes().endswith(b"\n"):  # cut in the middle of a line
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    done = {key(line["point"]) for line in lines}
    for point in _deadly(path, done):
        add(path, point, {"skipped": f"the process ended in the middle of it {_MOST_DEATHS} times"})
        done.add(key(point))
    return done


def _deadly(path: Path, done: set[str]) -> list[dict[str, Any]]:
    """Points that were begun again and again and never ended."""
    begun: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("begun"), dict):
            begun[key(entry["begun"])] += 1
    return [json.loads(k) for k, n in begun.items() if n >= _MOST_DEATHS and k not in done]


def begun(path: Path, point: dict[str, Any]) -> None:
    """Say which point comes now, in case it is the last thing that this process does."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"begun": point}) + "\n")


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(what, as it was, as it is) of all that must not change in a journal."""
    for name in _SAME:
        yield name, before.get(name), now[name]
    for group, names in (("device", _SAME_DEVICE), ("software", _SAME_SOFTWARE)):
        was = before.get(group)
        for name in names:
            yield (f"{group} {name}", was.get(name) if isinstance(was, dict) else None,
                   now[group].get(name))  # fmt: skip


def add(path: Path, point: dict[str, Any], result: dict[str, Any]) -> None:
    """Append one result; it is on disk when this returns."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"point": point, **result}) + "\n")


def error_path(path: Path) -> Path:
    """Where a sweep says why it did not go on with a journal."""
    return path.with_name(f"{path.name}.error")
