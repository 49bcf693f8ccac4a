"""Untrusted text made harmless: control characters, Markdown, ids."""

from __future__ import annotations

import re

from codesign._common.text import printable as printable  # noqa: PLC0414 - as part of this module

# An interval such as [1.18, 1.29] is no link, and stays readable in the source.
_MARKDOWN = re.compile(
    r"[\\`*|~$<>&]|\[(?![\d., -]+\](?![(\[:]))|(?<![^\W_])_|_(?![^\W_])"
    r"|^(?:#{1,6}|[+=-]+|\d+[.)])(?=\s|$)"
)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "|": "\\|"}


def escape_markdown(text: str) -> str:
    """``text`` as Markdown that shows it literally, in a table cell as in a paragraph.

    An underscore inside a word starts no emphasis in CommonMark, so that op names
    such as ``gate_up`` stay readable in the source.
    """
    return _MARKDOWN.sub(_escape_match, printable(text))


def _escape_match(match: re.Match[str]) -> str:
    found = match.group()
    if found in _ENTITIES:
        return _ENTITIES[found]
    return f"{found[:-1]}\\{found[-1]}"


def slug(text: str, index: int) -> str:
    """An id for an HTML anchor: unique by ``index`` whatever the text holds."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    return f"{index}-{cleaned}" if cleaned else str(index)


def ellipsis(text: str, width: int) -> str:
    """``text`` cut to ``width`` characters for a chart label; its hover text has it whole."""
    text = printable(text)
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def utf16_units(text: str) -> int:
    """Length of ``text`` as spreadsheets count it: a character such as an emoji is two."""
    return len(text.encode("utf-16-le")) // 2


def utf16_head(text: str, units: int) -> str:
    """The head of ``text`` in at most ``units`` UTF-16 units, no character cut in two."""
    return text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")


def sentence(text: str) -> str:
    """``text`` with an initial capital and a full stop, as a sentence of its own."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def remark(text: str) -> str:
    """``text`` as `sentence` makes it, but for a name at its head, which stays as it is."""
    first = text.strip().partition(" ")[0]
    if first.isalpha():
        return sentence(text)
    return sentence(f".{text.strip()}")[1:]


def join_words(words: list[str]) -> str:
    """``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
