"""What of the context becomes a sheet: every table, and every text beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from codesign.report.context import ReportView
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import printable, utf16_head
from codesign.report.views.ranking import Figure

MAX_NAME = 31
"""UTF-16 units of a sheet's name that Excel takes."""
_FORBIDDEN = re.compile(r"[\[\]:*?/\\']")
_CHARTS = "codesign.report.charts"
_SILENT = ("anchor", "id", "tag", "href")
"""Fields that are no words: places in the page and styles."""


@dataclass(frozen=True)
class Sheet:
    """One table under the name of its sheet."""

    name: str
    section: str
    table: Table


def sheets(view: ReportView) -> tuple[Sheet, ...]:
    """A sheet for each table of the context, then one for the text of each section.

    Names are unique without regard to case, at most `MAX_NAME` units and free of what
    Excel forbids, whatever the titles hold; the number in front (``L2``: the second lever)
    tells apart what is cut.
    """
    taken: set[str] = {"index", "history"}
    found: list[Sheet] = []
    for part in fields(view):
        value = getattr(view, part.name)
        section = _words(part.name)
        for label, owner, table in _tables(value, part.name, ""):
            name = _unique(" ".join((label, owner)).strip(), taken)
            found.append(Sheet(name, section, table))
        text = _text(value) if _is_view(value) or _is_views(value) else []
        if text:
            rows = [[Cell(owner), Cell(what), Cell(said)] for owner, what, said in text]
            columns = (Column("Of", wide=True), Column("What"), Column("Text", wide=True))
            table = make_table(f"{part.name}-text", f"{section}: what is said", columns, rows)
            found.append(Sheet(_unique(f"{section} text", taken), section, table))
    return tuple(found)


def summary_lines(view: ReportView) -> tuple[tuple[str, str], ...]:
    """(what, text) of everything that the context says outside of its sections."""
    found: list[tuple[str, str]] = []
    for part in fields(view):
        value = getattr(view, part.name)
        if not isinstance(value, Table):
            found += _own_text(part.name, value)
    return tuple(found)


def _tables(value: Any, name: str, mark: str, owner: str = "") -> Iterator[tuple[str, str, Table]]:
    """(label, owner, table) below ``value``; ``mark`` numbers what it is part of."""
    if isinstance(value, Table):
        yield _words(name) if not mark else f"{mark} {_words(name).lower()}", "", value
    elif _is_view(value):
        owner = _title(value) or owner
        for part in fields(value):
            inner = getattr(value, part.name)
            if isinstance(inner, Table):
                label = f"{mark} {_words(part.name).lower()}" if mark else (
                    f"{_words(name)} {_words(part.name).lower()}")  # fmt: skip
                yield label, owner, inner
            elif _is_view(inner) or _is_views(inner):
                yield from _tables(inner, part.name if mark else name, mark, owner)
    elif _is_views(value):
        for index, inner in enumerate(value, start=1):
            number = f"{mark}.{index}" if mark else f"{name[0].upper()}{index}"
            yield from _tables(inner, name, number, owner)


def _text(value: Any, owner: str = "") -> list[tuple[str, str, str]]:
    """(owner, what, text) of every word below ``value`` that stands in no table."""
    if isinstance(value, Table):
        return []
    found: list[tuple[str, str, str]] = []
    if _is_view(value):
        owner = _title(value) or owner
        for part in fields(value):
            inner = getattr(value, part.name)
            if _is_view(inner) or _is_views(inner):
                found += _text(inner, owner)
            elif part.name not in ("title", "heading"):
                found += [(owner, what, said) for what, said in _own_text(part.name, inner)]
    elif _is_views(value):
        for inner in value:
            found += _text(inner, owner)
    return found


def _own_text(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(what, text) of a field that holds words: a string, lines, or named values."""
    if name.endswith(_SILENT):
        return
    if isinstance(value, str):
        if value:
            yield _words(name), value
    elif isinstance(value, tuple):
        for item in value:
            if isinstance(item, str):
                yield _words(name), item
            elif isinstance(item, Figure):
                yield item.label, f"{item.value}; {item.detail}"
            elif isinstance(item, tuple) and all(isinstance(x, str) for x in item):
                yield item[0], "; ".join(item[1:])


def _is_view(value: Any) -> bool:
    """A record of the context; a chart is none, since its numbers stand in a table, too."""
    return is_dataclass(value) and not type(value).__module__.startswith(_CHARTS)


def _is_views(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(_is_view(x) for x in value)


def _title(value: Any) -> str:
    for name in ("title", "heading", "workload"):
        found = getattr(value, name, None)
        if isinstance(found, str) and found:
            return found
    return ""


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _unique(name: str, taken: set[str]) -> str:
    base = " ".join(_FORBIDDEN.sub("_", printable(name)).split()) or "Sheet"
    made, number = utf16_head(base, MAX_NAME).rstrip(), 1
    while made.lower() in taken:
        number += 1
        end = f" ~{number}"
        made = utf16_head(base, MAX_NAME - len(end)).rstrip() + end
    taken.add(made.lower())
    return made
