"""Which rank a trace belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from codesign._common.errors import UsageError

# ``rank-3``, ``rank_3``, ``rank3``; else a bare number before a dot, as in ``trace_3.json``. Before
# a time stamp stands a process id: the profiler's own name is ``host_4711.1700000000000.pt.trace``.
_RANK = re.compile(r"(?<![a-z])rank[-_.=]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"[-_](\d{1,5})\.(?!\d{10,}\.)")


def rank_of_name(path: Path) -> int | None:
    """Rank that a file's name states, or None."""
    for pattern in (_RANK, _NUMBER):
        found = pattern.findall(path.name)
        if found:
            return int(found[-1])
    return None


def resolve_ranks(paths: Sequence[Path], recorded: Sequence[int | None]) -> list[int]:
    """Rank of every file: as recorded in it, else by its name; a single file may be rank 0.

    Raises UsageError that names the files if a rank is unknown or claimed twice.
    """
    ranks = [
        rank_of_name(path) if rank is None else rank
        for path, rank in zip(paths, recorded, strict=True)
    ]
    if len(paths) == 1:
        return [ranks[0] if ranks[0] is not None else 0]
    unknown = [str(p) for p, r in zip(paths, ranks, strict=True) if r is None]
    if unknown:
        raise UsageError(
            f"no rank in {', '.join(unknown)}: neither distributedInfo nor the name tells it; "
            "name the files such as rank-0.json, rank-1.json"
        )
    owner: dict[int, Path] = {}
    known: list[int] = []
    for path, rank in zip(paths, ranks, strict=True):
        assert rank is not None
        if rank in owner:
            raise UsageError(f"{owner[rank]} and {path} are both rank {rank}; expected one each")
        owner[rank] = path
        known.append(rank)
    return known
