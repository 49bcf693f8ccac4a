"""Any supported file to a characterization, by what it holds and not by its name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError, UsageError
from codesign._common.files import require_ordinary
from codesign._common.kinds import KIND_TEXTS, own_json
from codesign.sources._heads import OTHER_FORMATS, is_execution_trace, is_xspace
from codesign.sources._textlines import as_utf8

if TYPE_CHECKING:
    from codesign.sources.execution_trace import ExecutionTrace
    from codesign.workload.characterization import Characterization

_SUPPORTED = (
    "a characterization (.parquet), a PyTorch/Kineto trace (.json, .json.gz), an Nsight Systems "
    "export (.sqlite) or its kernel summary (.csv), an Nsight Compute page (.csv, text), an XPlane "
    "profile (.xplane.pb) or the log of an nccl-tests run"
)
# In this order: an Nsight page may quote names that hold the marks of a later kind.
_TEXT_MARKS = (
    ("nccl-tests", re.compile(rb"nThread\s+\d|nccl-tests version|#[^\n]*\bbusbw\b")),
    ("nsys-stats", re.compile(rb"Total Time \(|Start \(\w+\),Duration \(|\bInstances\b.*\bName\b")),
    (
        "ncu",
        re.compile(rb'==PROF==|"Kernel Name"|\bID,[^\n]*\bKernel Name\b|Context \d+, Stream \d+'),
    ),
)
# A list of events; what mpirun puts before each line of a log, ``[1,0]<stdout>:``, is none.
_JSON = re.compile(rb"\{|\[\s*(?:[{\]]|$)")
_HEAD_BYTES = 8192
# Further down only lines that hold one of these are looked at.
_LATE_HINTS = (
    "nThread ", "nccl-tests version", "busbw", "Total Time (", "==PROF==", "Kernel Name",
)  # fmt: skip
_LATE_CHARACTERS, _LATE_LINE = 1 << 20, 2048


def read(
    path: str | Path | Sequence[str | Path],
    *,
    system: str | None = None,
    workload: str | None = None,
    allow_truncated: bool = False,
    repair: bool = False,
    execution_trace: str | Path | Sequence[str | Path] = (),
    ncu: str | Path | Sequence[str | Path] = (),
    rank: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Characterization:
    """Read one file, or the traces of several ranks of one job.

    An ``execution_trace`` (PyTorch's or Chakra's), which may stand among the paths as well,
    adds shapes to the Kineto trace of the same run; of several ranks by the files' names.
    Pages of Nsight Compute given as ``ncu`` add counters to the ops of the same kernels.
    ``rank`` says whose ops are wanted, by default those of the lowest rank; ``progress`` is
    called after each trace with how many are read, and of how many.

    Raises DataError if a file is unreadable or of no supported kind, UsageError if
    several files are not all traces.
    """
    if counters := _paths(ncu):
        from codesign.sources.ncu import join_ncu

        char = read(path, system=system, workload=workload, allow_truncated=allow_truncated,
                    repair=repair, execution_trace=execution_trace, rank=rank,
                    progress=progress)  # fmt: skip
        return join_ncu(char, counters)
    paths = _paths(path)
    if not paths:
        raise UsageError(f"no file given; expected {_SUPPORTED}")
    kinds = {p: _kind(p) for p in [*paths, *_paths(execution_trace)]}
    executions = [p for p, kind in kinds.items() if kind == "execution trace"]
    for p in _paths(execution_trace):
        if p not in executions:
            raise DataError(
                f"{p}: no execution trace; expected the .json of PyTorch's ExecutionTraceObserver "
                "or a Chakra .et"
            )
    paths = [p for p in paths if p not in executions]
    if not paths:
        raise DataError(
            f"{executions[0]}: an execution trace: it has shapes but no times of a device; give "
            "it beside the Kineto trace of the same run (--from TRACE --execution-trace FILE)"
        )
    if executions and any(kinds[p] != "json" for p in paths):
        raise UsageError(f"{executions[0]}: an execution trace goes with a Kineto trace only")
    if rank is not None and kinds[paths[0]] != "json":
        raise UsageError(f"{paths[0]}: only Kineto traces are chosen from by rank; leave it out")
    if len(paths) == 1 and kinds[paths[0]] == "xplane":
        from codesign.sources.xplane import read_xplane

        return read_xplane(
            paths[0], system=system, workload=workload, allow_truncated=allow_truncated
        )
    if len(paths) == 1 and kinds[paths[0]] != "json":
        return _read_one(paths[0], kinds[paths[0]], system, workload)
    for p in paths:
        if kinds[p] != "json":
            raise UsageError(f"{p}: several files are read as traces of one job; this is not one")
    from codesign.sources.kineto import read_kineto

    return read_kineto(
        paths, system=system, workload=workload, allow_truncated=allow_truncated, repair=repair,
        execution_traces=_executions(paths, executions), rank=rank, progress=progress,
    )  # fmt: skip


def _paths(path: str | Path | Sequence[str | Path]) -> list[Path]:
    return [Path(path)] if isinstance(path, str | Path) else [Path(p) for p in path]


def _executions(traces: list[Path], executions: list[Path]) -> dict[Path, ExecutionTrace]:
    """The execution trace of each trace that has one."""
    if not executions:
        return {}
    from codesign.sources.execution_trace import pair, read_execution_trace

    return {t: read_execution_trace(e) for t, e in pair(traces, executions).items()}


def _read_one(path: Path, kind: str, system: str | None, workload: str | None) -> Characterization:
    if kind == "parquet":
        from codesign.workload.characterization import Characterization

        return _renamed(Characterization.load(path), path, system, workload)
    if kind == "nccl-tests":
        from codesign.sources.nccl_tests import read_nccl_tests

        return read_nccl_tests(path, system=system)
    if kind == "ncu":
        from codesign.sources.ncu import characterize_ncu

        return characterize_ncu(path, system=system, workload=workload)
    from codesign.sources.nsys import read_nsys, read_nsys_stats

    reader = read_nsys if kind == "sqlite" else read_nsys_stats
    return reader(path, system=system, workload=workload)


def _renamed(
    char: Characterization, path: Path, system: str | None, workload: str | None
) -> Characterization:
    """The characterization with what its file does not know filled in."""
    from codesign.hardware import load_system

    if system is not None:
        name, known = load_system(system).name, char.header.system
        if known not in (None, name):
            raise UsageError(f"{path}: was measured on {known}, not on {name}; leave --system out")
        char = char.with_header(system=name)
    return char if workload is None else char.with_header(workload=workload)


def _unpacked(head: bytes) -> bytes:
    """The first bytes of a gzip stream; an opening brace where it is cut or damaged.

    Only traces are compressed, and their reader says how far one can be read.
    """
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES) or b"{"
    except zlib.error:
        return b"{"


def _kind(path: Path) -> str:
    head = _head(path)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:16] == b"SQLite format 3\0":
        return "sqlite"
    if is_execution_trace(head):
        return "execution trace"
    if (ours := own_json(head)) is not None:
        raise DataError(f"{path}: {KIND_TEXTS[ours]}, no measurement; expected {_SUPPORTED}")
    opening = head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if is_xspace(head) or path.name.endswith(".xplane.pb"):
        kind: str | None = "xplane"
    elif _JSON.match(opening):
        kind = "json"
    else:
        kind = next((k for k, mark in _TEXT_MARKS if mark.search(head)), None)
    if kind is None and opening and b"\0" not in head:
        kind = _late_kind(path)
    if kind is None and opening[:1] == b"[":
        kind = "json"  # its reader says where it is malformed
    if kind is None:
        packed = next((what for mark, what in OTHER_FORMATS.items() if head.startswith(mark)), None)
        what = "not a file that codesign reads" if opening else "the file is empty"
        if packed is not None:
            what = f"this is {packed}; unpack it first"
        raise DataError(f"{path}: {what}; expected {_SUPPORTED}")
    return kind


def _late_kind(path: Path) -> str | None:
    """Kind of a text that begins with other output, such as a launcher's banner."""
    from codesign.sources._textlines import text_file

    with text_file(path) as stream:
        text = stream.read(_LATE_CHARACTERS)
    for line in text.splitlines():
        if not any(hint in line for hint in _LATE_HINTS):
            continue
        short = line[:_LATE_LINE].encode("utf-8", "replace")
        if kind := next((k for k, mark in _TEXT_MARKS if mark.search(short)), None):
            return kind
    return None


def _head(path: Path) -> bytes:
    """The first bytes, unpacked, text as UTF-8."""
    require_ordinary(path)
    try:
        with path.open("rb") as stream:
            head = as_utf8(stream.read(_HEAD_BYTES))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error
    if head[:2] != b"\x1f\x8b":
        return head
    head = as_utf8(_unpacked(head))
    for packed, what in (
        (is_xspace(head), "XPlane profile"), (head[:4] == b"PAR1", "Parquet file"),
        (head[:6] == b"SQLite", "SQLite file"),
    ):  # fmt: skip
        if packed:
            raise DataError(f"{path}: a compressed {what}; unpack it with gunzip first")
    return head
