"""Bytes that strict JSON refuses and exporters write all the same.

Every replacement keeps the length, so that byte offsets in messages stay true.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

_MAX_QUOTES = 40

# Tab, line feed and carriage return stand between tokens; the rest never may.
_CONTROL = bytes(c for c in range(32) if c not in (9, 10, 13))
_CONTROL_TABLE = bytes.maketrans(_CONTROL, b"?" * len(_CONTROL))
# In each the group is what has to change.
_NOT_A_NUMBER = re.compile(rb"[:,\[]\s*(-?(?:nan|inf(?:inity)?))(?=\s*[,}\]])", re.IGNORECASE)
_SURROGATE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
# All up to the next backslash that escapes nothing.
_STRAY = re.compile(rb'(?:[^\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+(\\)')

EVENT_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:)')
_NAME = re.compile(
    rb'("name"\s*:\s*")(.*?)("\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:|\}\s*$))',
    re.DOTALL,
)


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


codecs.register_error("codesign-question-marks", _question_marks)


def sanitize(data: bytes) -> tuple[bytes, list[str]]:
    """``data`` with the common lapses of exporters made readable, and what they were.

    Control bytes and bytes that are not UTF-8 become ``?``, a stray backslash ``/``,
    and NaN and infinity a blank string (an unknown value).
    """
    found: list[str] = []
    # Room that was reserved and never written, where the writer died.
    written = len(data.rstrip(b"\0"))
    if written < len(data):
        found.append("NUL bytes at the end")
        data = data[:written].ljust(len(data))
    clean = data.translate(_CONTROL_TABLE)
    if clean != data:
        found.append("control bytes in names")
    data = clean
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        found.append("bytes that are not UTF-8")
        data = data.decode("utf-8", "codesign-question-marks").encode("utf-8")
    for what, mark, matches, change in _LAPSES:
        if mark in data:
            clean = _patched(data, matches(data), change)
            if clean is not data:
                found.append(what)
            data = clean
    return data, found


def _strays(data: bytes) -> Iterator[re.Match[bytes]]:
    """As ``finditer``, which would look for a match anew at every byte where there is none."""
    place = 0
    while match := _STRAY.match(data, place):
        yield match
        place = match.end()


Matches = Callable[[bytes], Iterator[re.Match[bytes]]]
_LAPSES: tuple[tuple[str, bytes, Matches, Callable[[bytes], bytes]], ...] = (
    ("stray backslashes", b"\\", _strays, lambda _: b"/"),
    ("halves of surrogate pairs", b"\\u", _SURROGATE.finditer, lambda _: b"\\u003f"),
    ("NaN or infinite numbers", b"", _NOT_A_NUMBER.finditer,
     lambda number: b'"' + b" " * (len(number) - 2) + b'"'),
)  # fmt: skip


def _patched(
    data: bytes, matches: Iterator[re.Match[bytes]], change: Callable[[bytes], bytes]
) -> bytes:
    """``data`` with the group of each match changed to as many other bytes.

    One match at a time: a hostile file may have as many of them as bytes.
    """
    patched: bytearray | None = None
    for match in matches:
        patched = bytearray(data) if patched is None else patched
        patched[match.start(1) : match.end(1)] = change(match[1])
    return data if patched is None else bytes(patched)


def mend_name(piece: bytes) -> bytes | None:
    """One event with quotes and line breaks inside its name escaped, or None."""
    match = _NAME.search(piece)
    if match is None:
        return None
    inner = match[2].replace(b'\\"', b'"').replace(b'"', b'\\"')
    inner = inner.replace(b"\n", b"\\n").replace(b"\r", b"\\r").replace(b"\t", b"\\t")
    return piece[: match.start(2)] + inner + piece[match.end(2) :]


def mend_quotes(piece: bytes, error_at: Callable[[bytes], int | None]) -> bytes | None:
    """One event with quotes inside any of its texts escaped, or None.

    ``error_at`` is the byte at which the parser stops, None if it does not. What ends a
    text too early is the last quote before that byte.
    """
    for _ in range(_MAX_QUOTES):
        at = error_at(piece)
        if at is None:
            return piece
        place = at
        while True:
            place = piece.rfind(b'"', 0, place)
            if place <= 0:
                return None
            if piece[place - 1 : place] != b"\\":
                break
        piece = piece[:place] + b"\\" + piece[place:]
    return None
