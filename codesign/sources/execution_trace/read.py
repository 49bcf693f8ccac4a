"""Execution traces from files, and which of them belongs to which Kineto trace."""

from __future__ import annotations

import codecs
import re
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from codesign._common.errors import DataError, UsageError
from codesign._common.files import read_bytes
from codesign._common.text import printable
from codesign.sources._heads import TAR_AT, TAR_MARK
from codesign.sources._protobuf import WireError
from codesign.sources.execution_trace._chakra import decode_chakra
from codesign.sources.execution_trace._json import decode_json
from codesign.sources.execution_trace._node import Node
from codesign.sources.kineto.ranks import rank_of_name

_MAX_BYTES = 1 << 30
_GZIP = b"\x1f\x8b"
_SUFFIX = re.compile(r"\.(et|json)$")


@dataclass(frozen=True)
class ExecutionTrace:
    """Ops with their inputs, and no times."""

    path: Path
    schema: str
    pid: int | None
    nodes: dict[int, Node]
    """By record function id."""


def read_execution_trace(path: str | Path) -> ExecutionTrace:
    """A PyTorch execution trace (``.json``) or a Chakra one (``.et``), plain, gzip or
    alone in a tar archive.

    Raises DataError (file and place) if it is none, is damaged or holds no ops.
    """
    path = Path(path)
    content = _unpacked(path)
    try:
        if content.lstrip()[:1] == b"{":
            schema, pid, nodes = decode_json(content)
        else:
            schema, pid, nodes = decode_chakra(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, WireError) as error:
        raise DataError(
            f"{path}: not a readable execution trace (PyTorch's .json or Chakra's .et): {error}"
        ) from error
    if not nodes:
        raise DataError(
            f"{path}: an execution trace without ops (no rf_id); capture it with "
            "torch.profiler.ExecutionTraceObserver"
        )
    return ExecutionTrace(path, printable(schema)[:60], pid, nodes)


def _unpacked(path: Path) -> bytes:
    content = read_bytes(path, _MAX_BYTES)
    if content.startswith(_GZIP):
        content = _gunzipped(path, content)
    content = content.removeprefix(codecs.BOM_UTF8)
    if content[TAR_AT : TAR_AT + len(TAR_MARK)] == TAR_MARK:
        return _member(path, content)
    return content


def _gunzipped(path: Path, packed: bytes) -> bytes:
    """All members of a gzip file; padding and junk after them are passed over."""
    parts, left = [], _MAX_BYTES
    while packed.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(packed, left + 1))
        except zlib.error as error:
            raise DataError(f"{path}: a damaged gzip file: {error}") from error
        left -= len(parts[-1])
        if left < 0 or not unpacker.eof:
            cause = "over 1 GB" if left < 0 else "truncated"
            raise DataError(f"{path}: {cause} when unpacked; expected a whole execution trace")
        packed = unpacker.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _member(path: Path, content: bytes) -> bytes:
    """The one execution trace of an archive."""
    import io

    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            found = []
            for member in archive:
                if member.isfile() and _SUFFIX.search(member.name):
                    found.append(member)
                if len(found) > 100:
                    break
            if len(found) == 1 and (stream := archive.extractfile(found[0])) is not None:
                return stream.read(_MAX_BYTES)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise DataError(f"{path}: a damaged tar archive: {error}") from error
    names = ", ".join(printable(m.name) for m in found[:5]) or "none"
    raise DataError(
        f"{path}: expected one execution trace (.et or .json) in the archive, found {names}; "
        "unpack the one that is meant"
    )


def pair(traces: Sequence[Path], execution: Sequence[Path]) -> dict[Path, Path]:
    """Kineto trace -> execution trace: one with one, else by the rank in the files' names.

    Raises UsageError that names the files.
    """
    if len(traces) == 1 and len(execution) == 1:
        return {traces[0]: execution[0]}
    by_rank: dict[int, Path] = {}
    for path in execution:
        rank = rank_of_name(path)
        if rank is None or rank in by_rank:
            raise UsageError(
                f"{path}: which trace does it belong to? name the files by rank, such as "
                "rank-0.json and rank-0_et.json"
            )
        by_rank[rank] = path
    ranks = {rank_of_name(p): p for p in traces}
    lost = [str(p) for r, p in by_rank.items() if r not in ranks]
    if lost:
        raise UsageError(f"{', '.join(lost)}: no trace of that rank is given with --from")
    return {ranks[rank]: path for rank, path in by_rank.items()}
