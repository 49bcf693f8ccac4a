"""Tables as data: the HTML and the Markdown report print the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from codesign.report.text import escape_markdown


@dataclass(frozen=True)
class Column:
    """A column: its heading, whether it holds numbers, and a hint of what it means."""

    title: str
    numeric: bool = False
    hint: str = ""
    wide: bool = False
    """Prose that needs room to wrap in."""
    narrow: bool = False
    """Single words, which need little."""


@dataclass(frozen=True)
class Cell:
    """One value as printed, with the key it sorts by and the marks of its footnotes."""

    text: str
    sort: float | str | None = None
    notes: tuple[str, ...] = ()
    href: str = ""
    tag: str = ""
    """A style: ``status-assumed``, ``miss``; never the only carrier of the meaning."""
    sub: str = ""
    """A second line, such as the step under the name of its lever."""
    bar: tuple[tuple[str, float], ...] = ()
    """Shares drawn as a small bar in HTML; the text says the same."""


@dataclass(frozen=True)
class Table:
    """A table with its footnotes. ``rows`` are as wide as ``columns``."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footnotes: tuple[tuple[str, str], ...] = ()
    row_header: int = 0
    """Column whose cells name their row."""


@dataclass
class Footnotes:
    """Hands out one letter for each distinct note of a table."""

    _marks: dict[str, str] = field(default_factory=dict)

    def mark(self, note: str) -> str:
        """The mark of ``note``: a, b, ... z, aa, ab."""
        if note not in self._marks:
            self._marks[note] = _letters(len(self._marks))
        return self._marks[note]

    def items(self) -> tuple[tuple[str, str], ...]:
        """(mark, note) in the order of first use."""
        return tuple((mark, note) for note, mark in self._marks.items())


def _letters(index: int) -> str:
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def make_table(
    id: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell | str]],
    footnotes: Footnotes | None = None,
    *,
    row_header: int = 0,
) -> Table:
    """A table from cells or plain strings.

    Raises ValueError if a row is not as wide as the header: a renderer's bug.
    """
    cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    for row in cells:
        if len(row) != len(columns):
            raise ValueError(f"table {id}: a row of {len(row)} cells under {len(columns)} columns")
    notes = footnotes.items() if footnotes else ()
    return Table(id, caption, tuple(columns), cells, notes, row_header)


def to_markdown(table: Table) -> str:
    """The table as GitHub-flavoured Markdown, its footnotes as a list below."""
    head = [escape_markdown(c.title) for c in table.columns]
    rule = ["---:" if c.numeric else "---" for c in table.columns]
    lines = [_row(head), _row(rule)]
    lines += [_row([_cell(c) for c in row]) for row in table.rows]
    if table.footnotes:
        lines.append("")
        lines += [f"- ({mark}) {escape_markdown(note)}" for mark, note in table.footnotes]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    marks = f" ({', '.join(cell.notes)})" if cell.notes else ""
    return (escape_markdown(joined(cell)) or " ") + marks


def joined(cell: Cell) -> str:
    """Both lines of a cell on one."""
    return f"{cell.text}, {cell.sub}" if cell.sub else cell.text
