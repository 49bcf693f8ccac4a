"""Integer columns of a SQLite table, from its pages, many rows at a time.

SQLite hands out rows one by one, and most of the time of reading a large export went
into making Python numbers of them. The file format is fixed and documented
(https://sqlite.org/fileformat2.html): a table is a tree of pages, a row a record whose
header says how many bytes each value has. Whatever is not plain (a journal beside the
file, rows that overflow their page, a value that is no integer) is left to SQLite.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_HEADER_BYTES = 100
_INTERIOR, _LEAF = 5, 13
_ROWS = 1 << 15
"""Rows decoded together: their numbers stay in the cache."""
# Bytes of a value by its serial type; types 7 and above 9 are no integers.
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0], dtype=np.uint8)
_NULL, _REAL, _ZERO, _ONE = 0, 7, 8, 9
_LARGEST = len(_SIZES) - 1
_MAX_COLUMNS = 100
_MAX_DEPTH = 12
_PAD = 8
JOURNALS = ("-wal", "-journal")
"""What SQLite adds to the name of a file that it has not written whole."""


class NotPlainError(Exception):
    """The table has something that only SQLite reads."""


class PageFile:
    """A database file that nobody writes to, as bytes."""

    def __init__(self, path: Path) -> None:
        header = _header(path)
        self.size = struct.unpack(">H", header[16:18])[0]
        self.size = 65536 if self.size == 1 else self.size
        # A write-ahead log or a journal may hold newer pages than the file.
        beside = [path.with_name(path.name + suffix) for suffix in JOURNALS]
        if self.size < 512 or any(p.exists() for p in beside):
            raise NotPlainError
        self.usable = self.size - header[20]
        self.data: Bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self.pages = len(self.data) // self.size

    def columns(self, root: int, nulls: Mapping[int, int]) -> dict[int, Ints]:
        """Columns by their places in the table whose first page is ``root``.

        ``nulls`` says which are wanted, and what stands for NULL. Raises NotPlainError.
        """
        if not nulls or max(nulls) >= _MAX_COLUMNS:
            raise NotPlainError
        cells = self._cells(self._leaves(root))
        found = {place: np.empty(len(cells), dtype=np.int64) for place in nulls}
        for start in range(0, len(cells), _ROWS):
            rows = slice(start, start + _ROWS)
            self._decode(cells[rows], nulls, {p: v[rows] for p, v in found.items()})
        return found

    def _leaves(self, root: int) -> Ints:
        """Pages that hold rows, in the rows' order; they all stand equally deep."""
        level = np.array([root], dtype=np.int64)
        for _ in range(_MAX_DEPTH):
            if not len(level) or level.min() < 2 or level.max() > self.pages:
                raise NotPlainError
            kinds = self.data[(level - 1) * self.size]
            if (kinds == _LEAF).all():
                return level
            if (kinds != _INTERIOR).any() or len(level) > self.pages:
                raise NotPlainError
            level = np.concatenate([self._children(page) for page in level.tolist()])
        raise NotPlainError

    def _children(self, page: int) -> Ints:
        base = (page - 1) * self.size
        raw = self.data[base : base + self.size]
        count = int(raw[3]) << 8 | int(raw[4])
        if 12 + 2 * count > self.size:
            raise NotPlainError
        place = raw[12 : 12 + 2 * count].tobytes()
        places = np.frombuffer(place, dtype=">u2").astype(np.int64)
        if len(places) and places.max() + 4 > self.size:
            raise NotPlainError
        # The right-most child stands in the page's header.
        places = np.append(places, 8)
        four = raw[places[:, None] + np.arange(4)].astype(np.int64)
        children: Ints = four @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
        return children

    def _cells(self, leaves: Ints) -> Ints:
        """Place in the file of every row, in order."""
        base = (leaves - 1) * self.size
        count = self.data[base + 3].astype(np.int64) << 8 | self.data[base + 4]
        if (8 + 2 * count > self.size).any():
            raise NotPlainError
        page = np.repeat(base, count)
        index = np.arange(len(page)) - np.repeat(np.cumsum(count) - count, count)
        pointer = page + 8 + 2 * index
        place = self.data[pointer].astype(np.int64) << 8 | self.data[pointer + 1]
        if len(place) and (place.max() >= self.size - 4 or place.min() < 8):
            raise NotPlainError
        cells: Ints = page + place
        return cells

    def _decode(self, cells: Ints, nulls: Mapping[int, int], out: dict[int, Ints]) -> None:
        # The rows of one stretch of the file, with room to read eight bytes at its end.
        low, high = int(cells.min()), min(int(cells.max()) + self.size, len(self.data))
        if high - low > 64 * self.size * max(1, len(cells)):
            raise NotPlainError
        data = np.zeros(high - low + _PAD, dtype=np.uint8)
        data[: high - low] = self.data[low:high]
        words = np.ndarray((high - low,), dtype=">i8", buffer=data.data, strides=(1,))
        size, at = _varint(data, cells - low)
        if (size > self.usable - 35).any():
            raise NotPlainError  # the row goes on in another page
        _, at = _varint(data, at)
        header, body = _varint(data, at)
        if (header > size).any() or (at + size > high - low).any():
            raise NotPlainError
        end, place = at + header, at + header
        for column in range(max(nulls) + 1):
            here = body + column
            # A column added after the row was written is not in it: it is NULL.
            kind = np.where(here < end, data[np.minimum(here, high - low)], _NULL)
            if kind.max(initial=0) > _LARGEST or (kind == _REAL).any():
                raise NotPlainError
            width = _SIZES[kind]
            if column in nulls:
                self._values(words, place, kind, out[column], nulls[column])
            place = place + width
        if (place > at + size).any():
            raise NotPlainError

    @staticmethod
    def _values(
        words: npt.NDArray[np.int64], place: Ints, kind: Bytes, out: Ints, null: int
    ) -> None:  # fmt: skip
        """Big-endian numbers of the width that ``kind`` says, at each place."""
        width = _SIZES[kind]
        first = int(kind[0])
        if (kind == first).all() and width[0]:  # as a rule all of a stretch are one width
            out[:] = words[np.minimum(place, len(words) - 1)]
            out >>= 64 - 8 * int(width[0])
            return
        out[:] = words[np.minimum(place, len(words) - 1)]
        out >>= (64 - 8 * width.astype(np.int64)) & 63
        for code, value in ((_NULL, null), (_ZERO, 0), (_ONE, 1)):
            out[kind == code] = value


def _header(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            header = stream.read(_HEADER_BYTES)
    except OSError as error:
        raise NotPlainError from error
    if len(header) < _HEADER_BYTES:
        raise NotPlainError
    return header


def _varint(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Numbers of one to nine bytes at each place, and the places after them."""
    if len(at) and (at.max() >= len(data) - _PAD or at.min() < 0):
        raise NotPlainError
    byte = data[at]
    value, at = (byte & 0x7F).astype(np.int64), at + 1
    more = np.flatnonzero(byte >= 0x80)
    for n in range(1, 9):
        if not more.size:
            return value, at
        if at[more].max() >= len(data) - _PAD:
            raise NotPlainError
        byte = data[at[more]]
        last = n == 8
        value[more] = value[more] << (8 if last else 7) | (byte if last else byte & 0x7F)
        at[more] += 1
        more = more[byte >= 0x80] if not last else more[:0]
    return value, at
