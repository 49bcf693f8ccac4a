"""An Nsight Systems export as SQL: tables and columns by what is there, values as arrays.

Tables come into being with their first row and may carry a version suffix, so that
what a file holds is looked up and never assumed.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from codesign._common.errors import DataError
from codesign._common.files import require_ordinary
from codesign.sources.nsys._pages import JOURNALS, NotPlainError, PageFile

Ints = npt.NDArray[np.int64]

MISSING = -1
"""Stands for NULL in integer columns."""
NO_TIME = -(2**62)
"""Stands for NULL in ``start`` and ``end``, which may be small negative numbers."""
NO_TEXT = "?"
_HEADER = b"SQLite format 3\x00"
_HEAD_BYTES, _READ_VERSION_AT = 100, 19
_ADVICE = {
    "is locked": "another program is writing it: wait until that is done",
    "unable to open": "a journal beside it may need a folder that can be written: copy both there",
    "attempt to write": "the export was interrupted (a journal stands beside it): export it again",
}
_CHUNK = 500
_DENSE_FACTOR = 8
_MAX_STRING = 4096


class Database:
    """One export, opened read-only."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._pages = _page_file(path)
        names = "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        found = [(str(kind), str(name)) for kind, name in connection.execute(names)]
        self._tables = [name for kind, name in found if kind == "table"]
        self._views = [name for kind, name in found if kind == "view"]

    def tables(self, name: str) -> list[str]:
        """Tables called ``name``, with or without a suffix such as ``_V2``.

        Raises DataError if that is a view: a query of somebody's own, which may never end.
        """
        pattern = re.compile(rf"{re.escape(name)}(_V\d{{1,4}})?", re.IGNORECASE)
        if view := next(filter(pattern.fullmatch, self._views), None):
            raise DataError(
                f"{self.path}: {view} is a view, expected the table that `nsys export --type "
                "sqlite` writes; export the report again, or store the view as a table"
            )
        return [t for t in self._tables if pattern.fullmatch(t)]

    def columns(self, table: str) -> set[str]:
        """Names of the columns of a table that exists."""
        return {str(row[1]) for row in self._connection.execute(f'PRAGMA table_info("{table}")')}

    def rows(self, query: str) -> Iterator[tuple[object, ...]]:
        """Rows of a query."""
        return self._connection.execute(query)

    def integers(self, table: str, names: Sequence[str], where: str = "") -> dict[str, Ints]:
        """Columns as int64; NULL, and a column that the table lacks, are ``MISSING``
        or ``NO_TIME``.

        Raises DataError if a value is no integer.
        """
        known = self.columns(table)
        have = [n for n in names if n in known]
        if not where and (fast := self._from_pages(table, names)) is not None:
            return fast
        null = {n: NO_TIME if n in ("start", "end") else MISSING for n in names}
        listed = ", ".join(f'ifnull("{n}", {null[n]})' for n in have) or "1"
        width = max(len(have), 1)
        cursor = self._connection.execute(f'SELECT {listed} FROM "{table}" {where}')  # noqa: S608
        try:
            flat = np.fromiter(chain.from_iterable(cursor), dtype=np.int64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self.path}: table {table}: expected integers in {', '.join(have)}: {error}"
            ) from error
        matrix = flat.reshape(-1, width)
        return {
            n: np.ascontiguousarray(matrix[:, have.index(n)])
            if n in have
            else np.full(len(matrix), null[n], dtype=np.int64)
            for n in names
        }

    def _from_pages(self, table: str, names: Sequence[str]) -> dict[str, Ints] | None:
        """As ``integers``, of the whole table, without SQLite; None where only that can."""
        if self._pages is None:
            return None
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
        root = next(iter(self._connection.execute(query, (table,))), (0,))[0]
        info = list(self._connection.execute(f'PRAGMA table_xinfo("{table}")'))
        # An INTEGER PRIMARY KEY stands in the row's number; generated columns nowhere; a
        # default stands for values that old rows lack.
        if any(key or hidden or default is not None for *_, default, key, hidden in info):
            return None
        null = {n: NO_TIME if n in ("start", "end") else MISSING for n in names}
        place = {str(row[1]): int(row[0]) for row in info}
        try:
            found = self._pages.columns(int(root), {place[n]: null[n] for n in names if n in place})
        except NotPlainError:
            return None
        # SQLite knows how many rows there are; a damaged tree shows here at the latest.
        count = next(iter(self._connection.execute(f'SELECT count(*) FROM "{table}"')))[0]  # noqa: S608
        if any(len(values) != count for values in found.values()):
            return None
        return {
            n: found[place[n]] if n in place else np.full(count, null[n], dtype=np.int64)
            for n in names
        }

    def strings(self, ids: Ints) -> list[str]:
        """Texts of the string ids, in their order; an id without a text reads ``NO_TEXT``."""
        found: dict[int, str] = {}
        wanted = [int(i) for i in distinct(ids)[0] if i != MISSING]
        for table in self.tables("StringIds"):
            for start in range(0, len(wanted), _CHUNK):
                part = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(part))
                query = f'SELECT id, value FROM "{table}" WHERE id IN ({marks})'  # noqa: S608
                found.update(
                    (int(i), (_text(v) if isinstance(v, bytes) else str(v))[:_MAX_STRING])
                    for i, v in self._connection.execute(query, part)
                    if v is not None
                )
        return [found.get(int(i), NO_TEXT) for i in ids]


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """Distinct values, ascending, and the place of each value among them.

    As ``np.unique``, without a sort where the values span few numbers, as ids do.
    """
    if not len(values):
        return values, values.astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > _DENSE_FACTOR * len(values):
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse.reshape(-1).astype(np.int64)
    seen = np.zeros(high - low + 1, dtype=bool)
    seen[values - low] = True
    place = np.cumsum(seen) - 1
    return np.flatnonzero(seen) + low, place[values - low]


def _page_file(path: Path) -> PageFile | None:
    try:
        return PageFile(path)
    except (NotPlainError, OSError, ValueError):
        return None


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """The export at ``path``, read-only.

    Raises DataError if it cannot be read, is not SQLite, or turns out to be damaged
    while the block reads it.
    """
    require_ordinary(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
    if head[: len(_HEADER)] != _HEADER:
        raise DataError(
            f"{path}: not a SQLite file; make one with `nsys export --type sqlite REPORT.nsys-rep`"
        )
    _require_whole(path, head)
    connection = None
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{_mode(path, head)}", uri=True)
        connection.text_factory = _text
        yield Database(path, connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # a damaged schema in its own message
        raise DataError(
            f"{path}: cannot be read as an Nsight Systems export: {_reason(error)}"
        ) from error
    finally:
        if connection is not None:
            connection.close()


def _require_whole(path: Path, head: bytes) -> None:
    """Raise DataError if the file has fewer pages than its header counts.

    SQLite takes what a missing page held for absent: a table, a name, a launch. A journal
    may hold the pages, and old writers left the count unset (its change counter differs).
    """
    if len(head) < _HEAD_BYTES or _journals(path):
        return
    size, changes, pages = struct.unpack(">H", head[16:18])[0], head[24:28], head[28:32]
    expected = struct.unpack(">I", pages)[0] * (65536 if size == 1 else size)
    if changes == head[92:96] and path.stat().st_size < expected:
        raise DataError(
            f"{path}: cannot be read as an Nsight Systems export: cut short, "
            f"{path.stat().st_size} of {expected} bytes are there; copy or export it again"
        )


def _journals(path: Path) -> bool:
    return any(path.with_name(path.name + suffix).exists() for suffix in JOURNALS)


def _mode(path: Path, head: bytes) -> str:
    """With a write-ahead log SQLite writes beside the file even to read it; where there is none
    yet, nothing is newer than the file, and it is read as it stands.
    """
    logged = head[_READ_VERSION_AT : _READ_VERSION_AT + 1] == b"\2"
    return "mode=ro&immutable=1" if logged and not _journals(path) else "mode=ro"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, sqlite3.Error) else "its schema is not text"
    advice = next((do for what, do in _ADVICE.items() if what in text), "export it again")
    return f"{text}; {advice}"
