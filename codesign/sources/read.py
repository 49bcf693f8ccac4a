"""Any supported file to a characterization, by what it holds and not by its name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError, UsageError

if TYPE_CHECKING:
    from codesign.workload.characterization import Characterization

_SUPPORTED = (
    "a characterization (.parquet), a PyTorch/Kineto trace (.json, .json.gz), an Nsight Systems "
    "export (.sqlite) or its kernel summary (.csv), an Nsight Compute page (.csv, text), an XPlane "
    "profile (.xplane.pb) or the log of an nccl-tests run"
)
# In this order: an Nsight page may quote names that hold the marks of a later kind.
_TEXT_MARKS = (
    ("nccl-tests", re.compile(rb"nThread|nccl-tests|\bbusbw\b")),
    ("nsys-stats", re.compile(rb"Total Time \(|\bInstances\b.*\bName\b")),
    ("ncu", re.compile(rb'==PROF==|"Kernel Name"|Context \d+, Stream \d+')),
)
# An XSpace begins with a plane: its length, its number if it has one, its name.
_XSPACE = re.compile(
    rb"\n[\x80-\xff]{0,9}[\x00-\x7f](\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x01-\x7f][/#A-Za-z]"
)
_HEAD_BYTES = 8192


def read(
    path: str | Path | Sequence[str | Path],
    *,
    system: str | None = None,
    workload: str | None = None,
    allow_truncated: bool = False,
    repair: bool = False,
) -> Characterization:
    """Read one file, or the traces of several ranks of one job.

    Raises DataError if a file is unreadable or of no supported kind, UsageError if
    several files are not all traces.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(p) for p in path]
    if not paths:
        raise UsageError(f"no file given; expected {_SUPPORTED}")
    kinds = {p: _kind(p) for p in paths}
    if len(paths) == 1 and kinds[paths[0]] == "xplane":
        from codesign.sources.xplane import read_xplane

        return read_xplane(
            paths[0], system=system, workload=workload, allow_truncated=allow_truncated
        )
    if len(paths) == 1 and kinds[paths[0]] != "json":
        return _read_one(paths[0], kinds[paths[0]], system, workload)
    for p, kind in kinds.items():
        if kind != "json":
            raise UsageError(f"{p}: several files are read as traces of one job; this is not one")
    from codesign.sources.kineto import read_kineto

    return read_kineto(
        paths, system=system, workload=workload, allow_truncated=allow_truncated, repair=repair
    )


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
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
        if head[:4] == b"PAR1":
            return "parquet"
        if head[:16] == b"SQLite format 3\0":
            return "sqlite"
        if head[:2] == b"\x1f\x8b":
            head = _unpacked(head)
            if _XSPACE.match(head):
                raise DataError(f"{path}: a compressed XPlane profile; unpack it with gunzip first")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error
    if _XSPACE.match(head) or path.name.endswith(".xplane.pb"):
        return "xplane"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return "json"
    for kind, mark in _TEXT_MARKS:
        if mark.search(head):
            return kind
    raise DataError(f"{path}: not a file that codesign reads; expected {_SUPPORTED}")
