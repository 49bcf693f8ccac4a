"""Kineto traces to a characterization: the public entry."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import UsageError
from codesign._common.text import encodable
from codesign._common.units import format_si
from codesign.hardware import load_system
from codesign.sources.kineto import metadata
from codesign.sources.kineto._bytestream import ByteStream
from codesign.sources.kineto.events import Trace, load_trace
from codesign.sources.kineto.rank import characterize_rank
from codesign.sources.kineto.ranks import resolve_ranks
from codesign.workload.characterization import Characterization, SourceFile

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
) -> Characterization:
    """Characterize a PyTorch profiler (Kineto) trace, or the traces of several ranks.

    The ops are those of one GPU: the busiest device of the lowest rank. With several
    files ``header.ranks`` lists all, and ``header.notes`` has a line for each.
    ``header.totals`` are sums over the whole capture, ``header.steps`` every step.

    Args:
        paths: a ``.json`` or ``.json.gz`` file, or one per rank.
        allow_truncated: read what is there of a file that was cut short.
        repair: mend or drop malformed events, and count them.
        system: name of the system, where the trace's device does not tell it.
        workload: name of the workload; by default the file's.
        execution_traces: by path of a trace, what gives shapes to its ops.

    Raises:
        DataError: a file is malformed, truncated or holds no device activity.
        UsageError: no path, an unknown system, or ranks that cannot be told apart.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not files:
        raise UsageError("no trace given; expected one or more Kineto files")
    if system is not None:
        load_system(system)
    recorded: list[int | None] = []
    found: list[Characterization] = []
    sources: list[SourceFile] = []
    shaped: tuple[str, ...] = ()
    for path in files:
        with ByteStream(path) as stream:
            trace = load_trace(stream, allow_truncated=allow_truncated, repair=repair)
        shaped += _shaped(trace, path, execution_traces)
        recorded.append(metadata.distributed(trace.metadata).rank)
        sources.append(SourceFile(path.name, trace.sha256, trace.size))
        found.append(characterize_rank(trace, str(path), system))
    ranks = resolve_ranks(files, recorded)
    lead = ranks.index(min(ranks))
    header = found[lead].header
    notes = header.notes + shaped
    if len(files) == 1 and recorded[0] is None:
        notes += (f"rank {ranks[0]}: the trace does not record it",)
    if len(files) > 1:
        notes += _per_rank(files, ranks, found)
    ops = found[lead].ops
    ops["source"] = encodable(files[lead].name)
    name = workload or _stem(files[lead])
    return Characterization(header, ops).with_header(
        workload=name,
        ranks=tuple(sorted(ranks)),
        gpus=max(header.gpus, len(files)),
        sources=tuple(sources),
        notes=notes,
    )


def _shaped(
    trace: Trace, path: Path, execution_traces: Mapping[Path, ExecutionTrace] | None
) -> tuple[str, ...]:
    """Give the trace the shapes of its execution trace, if it has one; says what was done."""
    execution = (execution_traces or {}).get(path)
    if execution is None:
        return ()
    from codesign.sources.execution_trace import add_shapes

    return add_shapes(trace, execution, str(path))


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return name or path.name


def _per_rank(
    files: Sequence[Path], ranks: Sequence[int], found: Sequence[Characterization]
) -> tuple[str, ...]:
    lines = []
    for rank, path, char in sorted(zip(ranks, files, found, strict=True), key=lambda x: x[0]):
        header = char.header
        totals = header.totals
        lines.append(
            f"rank {rank} ({path.name}): step {format_si(header.step_time_s or 0.0, 's')}, "
            f"{totals['kernels']:.0f} kernels, compute {format_si(totals['compute_s'], 's')}, "
            f"exposed communication {format_si(totals['exposed_comm_s'], 's')} "
            f"of {format_si(totals['comm_s'], 's')}"
        )
    return tuple(lines)
