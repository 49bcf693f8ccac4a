"""Kineto traces to a characterization: the public entry."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from codesign._common.errors import UsageError
from codesign._common.text import encodable
from codesign.hardware import load_system
from codesign.sources.kineto._pool import Progress, read_captures
from codesign.sources.kineto.capture import Options
from codesign.sources.kineto.job import join_ranks
from codesign.sources.kineto.ranks import resolve_ranks
from codesign.workload.characterization import Characterization

if TYPE_CHECKING:
    from codesign.sources.execution_trace import ExecutionTrace

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_SUFFIXES = (".gz", ".json", ".trace", ".pt")


def read_kineto(
    paths: Paths,
    *,
    allow_truncated: bool = False,
    repair: bool = False,
    system: str | None = None,
    workload: str | None = None,
    execution_traces: Mapping[Path, ExecutionTrace] | None = None,
    rank: int | None = None,
    progress: Progress | None = None,
) -> Characterization:
    """Characterize a PyTorch profiler (Kineto) trace, or the traces of several ranks.

    The ops are those of one GPU: the busiest device of the lowest rank, or of ``rank``.
    With several ranks, ``header.rank_times`` compares them, and ``wait_s`` of a collective
    is the part of its time before the last of the ranks arrived. Large files are read on
    all cores. ``header.totals`` are sums over the whole capture, ``header.steps`` every step.

    Args:
        paths: a ``.json`` or ``.json.gz`` file, or one per rank.
        allow_truncated: read what is there of a file that was cut short.
        repair: mend or drop malformed events, and count them.
        system: name of the system, where the trace's device does not tell it.
        workload: name of the workload; by default the file's.
        execution_traces: by path of a trace, what gives shapes to its ops.
        rank: rank whose ops are wanted, by default the lowest.
        progress: called after each file with how many are read, and of how many.

    Raises:
        DataError: a file is malformed, truncated or holds no device activity.
        UsageError: no path, an unknown system or rank, or ranks that cannot be told apart.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not files:
        raise UsageError("no trace given; expected one or more Kineto files")
    if system is not None:
        load_system(system)
    captures = read_captures(
        files, Options(allow_truncated, repair, system), execution_traces or {}, progress
    )
    recorded = [c.recorded for c in captures]
    ranks = resolve_ranks(files, recorded)
    chosen = min(ranks) if rank is None else rank
    if chosen not in ranks:
        known = ", ".join(map(str, sorted(ranks)))
        raise UsageError(f"rank {chosen} is in none of the files; their ranks: {known}")
    lead = ranks.index(chosen)
    char = join_ranks(captures, ranks, lead)
    notes = char.header.notes
    if len(files) == 1 and recorded[0] is None:
        notes += (f"rank {ranks[0]}: the trace does not record it",)
    ops = char.ops.assign(source=encodable(files[lead].name)).astype({"source": "string"})
    header = msgspec.structs.replace(
        char.header,
        workload=workload or _stem(files[lead]),
        ranks=tuple(sorted(ranks)),
        gpus=max(char.header.gpus, len(files)),
        sources=tuple(c.source for c in captures),
        notes=notes,
    )
    return Characterization(header, ops)


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return name or path.name
