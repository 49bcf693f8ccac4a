"""The wire format of protocol buffers, as far as reading known fields needs it.

A message is never turned into objects as a whole: fields come one by one, as places in
the file's bytes, so that memory does not grow with the file and what is not asked for is
passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Buffer = bytes
NUMBER = -1
"""Stands for the end of a field that is a number and not a span of bytes."""
_MAX_SHIFT = 63
_SIGN, _RANGE = 1 << 63, 1 << 64


class WireError(ValueError):
    """Bytes that are no message; ``offset`` says where."""

    def __init__(self, offset: int, text: str) -> None:
        super().__init__(f"byte {offset}: {text}")
        self.offset = offset


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The number at ``at`` and the place after it. Raises WireError."""
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (_RANGE - 1), at
        shift += 7
        if shift > _MAX_SHIFT:
            raise WireError(start, "a number of more than 64 bits")
    raise WireError(start, "the message ends within a number")


def fields(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(field, value, ``NUMBER``) for numbers, (field, start, end) for all else.

    Raises WireError for what is no message.
    """
    while at < end:
        # Numbers below 128, which are most, are one byte: they are taken without a call.
        start = at
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = varint(data, start, end)
        field, kind = tag >> 3, tag & 7
        if kind in (0, 2):
            value = data[at] if at < end else 0x80
            at += 1
            if value >= 0x80:
                value, at = varint(data, at - 1, end)
            if kind == 0:
                yield field, value, NUMBER
                continue
            size = value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise WireError(start, f"wire type {kind}, which is not in use")
        if not field or size > end - at:
            raise WireError(start, "the message is shorter than it says")
        yield field, at, at + size
        at += size


def text(data: Buffer, start: int, end: int) -> str:
    """A field as text; empty if it is a number."""
    return data[start:end].decode("utf-8", "replace") if end != NUMBER else ""


def signed(value: int, end: int) -> int:
    """A field as a signed 64-bit number; 0 if it is none."""
    if end != NUMBER:
        return 0
    return value - _RANGE if value >= _SIGN else value


def double(data: Buffer, start: int, end: int) -> float:
    """A field of eight bytes as a floating-point number; 0 if it is none."""
    if end == NUMBER or end - start != 8:
        return 0.0
    return float(struct.unpack("<d", data[start:end])[0])


def numbers(data: Buffer, start: int, end: int) -> list[int]:
    """A repeated integer field: packed, or one of its elements alone."""
    if end == NUMBER:
        return [signed(start, end)]
    found = []
    while start < end:
        value, start = varint(data, start, end)
        found.append(signed(value, NUMBER))
    return found
