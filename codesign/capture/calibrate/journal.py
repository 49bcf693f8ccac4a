"""The journal of a calibration: a header, then one line a point; a run that broke off goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codesign._common.errors import DataError

_SAME = ("device", "effort", "world_size")


def key(point: dict[str, Any]) -> str:
    """What tells a point from all others."""
    return json.dumps(point, sort_keys=True)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and lines; a line that was cut in the middle of writing is left out.

    Raises DataError if the file is no journal.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        header = json.loads(lines[0])
        assert isinstance(header, dict)
        assert "points" in header
    except (OSError, ValueError, IndexError, AssertionError) as error:
        raise DataError(f"{path}: not the journal of a calibration; remove it") from error
    found = []
    for line in lines[1:]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return header, found


def begin(path: Path, header: dict[str, Any], count: int) -> set[str]:
    """Start a journal, or go on with one: keys of the points that it holds.

    Raises DataError if it was made on another device or with another effort.
    """
    header = {**header, "points": count}
    if not path.exists():
        path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return set()
    before, lines = read(path)
    for name in _SAME:
        if before.get(name) != header[name]:
            raise DataError(
                f"{path}: was begun with {name} {before.get(name)!r}, now {header[name]!r}; "
                "remove it to begin again"
            )
    if not path.read_bytes().endswith(b"\n"):  # cut in the middle of a line
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n")
    return {key(line["point"]) for line in lines}


def add(path: Path, point: dict[str, Any], result: dict[str, Any]) -> None:
    """Append one result; it is on disk when this returns."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"point": point, **result}) + "\n")
