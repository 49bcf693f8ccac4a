"""Bytes of a trace file, plain or gzip, hashed while they are read."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from types import TracebackType

from codesign._common.errors import DataError
from codesign._common.files import require_ordinary
from codesign.sources._heads import OTHER_FORMATS

_READ_BYTES = 1 << 17
_GZIP_MAGIC = b"\x1f\x8b"


class ByteStream:
    """A file read front to back; gzip is told by its first bytes, not by its name.

    ``cut`` becomes a reason once the compressed stream ends early or is damaged:
    what was unpacked up to there is still returned. ``damaged`` tells the two apart.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = ""
        self.damaged = False
        self.size = 0
        self._hash = hashlib.sha256()
        self._spare = b""  # what a damaged stream gave beyond what was asked for
        self._end = False
        require_ordinary(path)
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
        magic = self._peek()
        for prefix, kind in OTHER_FORMATS.items():
            if magic.startswith(prefix):
                self._file.close()
                raise DataError(f"{path}: this is {kind}; expected a Kineto trace, .json or .gz")
        self._unpack = zlib.decompressobj(wbits=31) if magic.startswith(_GZIP_MAGIC) else None

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def _peek(self) -> bytes:
        try:
            head = self._file.read(16)
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise DataError(f"{self.path}: cannot read: {error.strerror or error}") from error
        return head

    def _read_raw(self, size: int = _READ_BYTES) -> bytes:
        try:
            raw = self._file.read(size)
        except OSError as error:
            raise DataError(f"{self.path}: cannot read: {error.strerror or error}") from error
        self._hash.update(raw)
        self.size += len(raw)
        return raw

    def read(self, size: int) -> bytes:
        """The next ``size`` unpacked bytes; fewer only at the end."""
        parts = [self._spare] if self._spare else []
        missing = size - len(self._spare)
        while missing > 0 and not self._end:
            if self._unpack is None:
                part = self._read_raw(missing)
                self._end = not part
            else:
                part = self._unpack_some(missing)
            parts.append(part)
            missing -= len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._spare = data[size:]
        return data[:size] if self._spare else data

    def _unpack_some(self, limit: int) -> bytes:
        unpack = self._unpack
        assert unpack is not None
        try:
            if unpack.eof:
                rest = self._after_member(unpack.unused_data)
                if not rest.startswith(_GZIP_MAGIC):
                    # Padding or junk after the last member, as gzip itself allows.
                    self._end = True
                    return b""
                unpack = self._unpack = zlib.decompressobj(wbits=31)
                return self._decompress(unpack, rest, limit)
            raw = unpack.unconsumed_tail or self._read_raw()
            if not raw:
                self._end = True
                self.cut = "the gzip stream ends early"
                return unpack.flush()
            return self._decompress(unpack, raw, limit)
        except zlib.error as error:
            self._end = self.damaged = True
            self.cut = f"the gzip stream is damaged ({error})"
            return b""

    def _after_member(self, rest: bytes) -> bytes:
        """What follows a member and its padding: enough of it to tell another member."""
        while len(rest := rest.lstrip(b"\0")) < len(_GZIP_MAGIC) and (more := self._read_raw()):
            rest += more
        return rest

    def _decompress(self, unpack: zlib._Decompress, raw: bytes, limit: int) -> bytes:
        """What ``raw`` unpacks to, up to where it is damaged."""
        before = unpack.copy()
        try:
            return unpack.decompress(raw, limit)
        except zlib.error as error:
            self._end = self.damaged = True
            self.cut = f"the gzip stream is damaged ({error})"
        # The failed call kept what it had unpacked: again, in ever smaller steps.
        parts, size = [], len(raw)
        while size:
            size //= 2
            ahead = before.copy()
            try:
                parts.append(ahead.decompress(raw[:size]))
            except zlib.error:
                continue
            before, raw = ahead, raw[size:]
        return b"".join(parts)

    def sha256(self) -> str:
        """Digest of the whole file as stored; reads what is left of it."""
        while self._read_raw():
            pass
        return self._hash.hexdigest()


def located_error(stream: ByteStream, offset: int, reason: str, hint: str) -> DataError:
    """A DataError with file, byte offset in the unpacked file, and line."""
    line, left = 1, offset
    with ByteStream(stream.path) as again:
        while left > 0 and (part := again.read(min(left, 1 << 20))):
            line += part.count(b"\n")
            left -= len(part)
    return DataError(f"{stream.path}: byte {offset} (line {line}): {reason}; {hint}")
