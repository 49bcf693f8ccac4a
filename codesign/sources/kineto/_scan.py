"""Typed events, and where each ends in the text: found by the parser, never by counting braces."""

from __future__ import annotations

import re

import msgspec

_CUT = re.compile(rb"\}\s*,(?=\s*\{)")
_SKIP = re.compile(rb"[\s,]*")
_TRIES = 4
BYTE = re.compile(r"\(byte (\d+)\)")
"""Position in the parser's messages; counts from 1."""


class Event(msgspec.Struct, gc=False):
    """What is read of every event; ``args`` stays text until somebody needs it."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class ExactEvent(msgspec.Struct, gc=False):
    """The same with times as text, for times that a binary float would round."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"{}")


LIST = msgspec.json.Decoder(list[Event])
EXACT_LIST = msgspec.json.Decoder(list[ExactEvent])
ONE = msgspec.json.Decoder(Event)
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
# RecursionError: nesting deeper than any exporter writes is malformed, too.
REFUSED = (msgspec.DecodeError, RecursionError)


def ends_early(error: Exception, size: int) -> bool:
    """Whether the parser ran out of its ``size`` bytes, be it inside a number (``12.``)."""
    message = str(error)
    byte = BYTE.search(message)
    return "truncated" in message or (byte is not None and int(byte[1]) >= size)


def decoded(piece: bytes) -> Event | None:
    try:
        return ONE.decode(piece)
    except REFUSED:
        return None


def error_at(piece: bytes) -> int | None:
    """Byte before which the parser stops reading an event, None if it reads it."""
    try:
        ONE.decode(piece)
    except REFUSED as error:
        byte = BYTE.search(str(error))
        return int(byte[1]) if byte else len(piece)
    return None


def event_follows(data: bytes, position: int) -> bool:
    """Whether a whole event comes next, rather than some object inside of one."""
    _, event = object_end(data, skip(data, position))
    return event is not None and event.ph is not None and event.ts is not None


def skip(data: bytes, position: int) -> int:
    match = _SKIP.match(data, position)
    return match.end() if match else position


def cuts(data: bytes) -> list[tuple[int, int]]:
    """Last few places that look like the end of an event: (after brace, after comma)."""
    for reach in (1 << 12, 1 << 16, 1 << 20, len(data)):
        start = max(0, len(data) - reach)
        found = list(_CUT.finditer(data, start))
        if found:
            return [(m.start() + 1, m.end()) for m in reversed(found[-_TRIES:])]
        if start == 0:
            break
    return []


def object_end(data: bytes, position: int) -> tuple[int, Event | None]:
    """End of the event at ``position`` and the event.

    (-1, None) if the data end first; (position, None) if it is malformed.
    """
    window = 1 << 14
    view = memoryview(data)
    while True:
        try:
            part = view[position : position + window]
            event = ONE.decode(part)
            return position + len(part), event
        except REFUSED as error:
            message = str(error)
            byte = BYTE.search(message)
            if "trailing characters" in message and byte is not None:
                end = data.rfind(b"}", position, position + int(byte[1]) - 1) + 1
                return end, ONE.decode(view[position:end])
            if not ends_early(error, len(part)):
                return position, None
            if position + window >= len(data):
                return -1, None
            window *= 4
