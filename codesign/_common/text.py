"""Untrusted text on one line: for messages, tables and reports alike."""

from __future__ import annotations

import unicodedata

# Characters that would reorder or break what stands around them: controls, line and
# paragraph separators, lone surrogates, and the bidirectional overrides among formats.
_BREAKING_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """``text`` on one line, each breaking character shown as its escape: ``a\\nb``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c) for c in text)


def _visible(character: str) -> str:
    if unicodedata.category(character) in _BREAKING_CATEGORIES or character in _BIDI:
        code = ord(character)
        return _ESCAPES.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
    return character


def middle_cut(text: str, width: int) -> str:
    """``text`` cut to ``width`` characters in its middle, where the least is said."""
    if len(text) <= width:
        return text
    half = (width - 3) // 2
    return f"{text[:half]} … {text[len(text) - half :]}"


def quoted(value: object, width: int = 80) -> str:
    """``repr`` of a value from a file, short enough for a message whatever the value."""
    try:
        return middle_cut(repr(value), width)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        return f"a {type(value).__name__} too long to print"


def counted(number: int, what: str) -> str:
    """``1 problem``, ``2 problems``: a number with its noun."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def encodable(text: str) -> str:
    """``text`` without lone surrogates, as file names that are no UTF-8 bring them."""
    return text.encode("utf-8", "replace").decode("utf-8")
