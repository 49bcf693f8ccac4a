"""The report as a workbook: an index, then a sheet for each table, numbers as numbers.

Every string is written as a string: no formula, no link, no number is made of what a file says.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codesign.report.cell_numbers import Number, in_header, number_of, without_unit
from codesign.report.context import ReportView
from codesign.report.sheets import Sheet, sheets, summary_lines
from codesign.report.table import Cell, Table, joined
from codesign.report.text import printable, utf16_head, utf16_units

MAX_TEXT = 32_767
"""UTF-16 units of a cell that Excel takes."""
_MAX_FORMATS = 190
"""Distinct number formats; Excel promises to read 200."""
_WIDEST, _NARROWEST = 60, 8
_FORMULA_SIGNS = ("=", "+", "-", "@")
_TITLE_ROW, _HEAD_ROW = 0, 1
_INDEX = "Index"


def workbook(view: ReportView) -> bytes:
    """The workbook's bytes: the same for the same context."""
    import xlsxwriter

    stream = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False,
               "strings_to_numbers": False}  # fmt: skip
    book = xlsxwriter.Workbook(stream, options)
    made = datetime.datetime.fromisoformat(view.generated_at.replace("Z", "+00:00"))
    book.set_properties({
        "title": utf16_head(printable(view.title), 255), "author": "codesign",
        "created": made.replace(tzinfo=None),
    })  # fmt: skip
    found = sheets(view)
    book_styles = _Styles(book)
    _write_index(book.add_worksheet(_INDEX), view, found, book_styles)
    for sheet in found:
        _write_sheet(book.add_worksheet(sheet.name), sheet.table, book_styles)
    book.close()
    return stream.getvalue()


@dataclass
class _Styles:
    """Cell styles by what they are for, each made once."""

    book: Any
    _made: dict[tuple[tuple[str, Any], ...], Any] = field(default_factory=dict)
    _formats: set[str] = field(default_factory=set)

    def of(self, **properties: Any) -> Any:
        """The style with these properties."""
        key = tuple(sorted(properties.items()))
        if key not in self._made:
            self._made[key] = self.book.add_format({"valign": "top", **properties})
        return self._made[key]

    def takes(self, number: Number) -> bool:
        """Whether the workbook can hold the formats of one more number."""
        wanted = {number.format, number.end_format} | self._formats
        if len(wanted) > _MAX_FORMATS:
            return False
        self._formats = wanted
        return True


def _write_index(page: Any, view: ReportView, found: Sequence[Sheet], styles: _Styles) -> None:
    page.set_column(0, 0, 34)
    page.set_column(1, 1, 26)
    page.set_column(2, 2, 90)
    page.set_column(3, 3, 8)
    row = 0
    for what, said in summary_lines(view):
        _text(page, row, 0, what, styles.of(bold=row == 0, text_wrap=True), styles)
        style = styles.of(text_wrap=True, **({"bold": True, "font_size": 14} if row == 0 else {}))
        page.merge_range(row, 1, row, 3, "", style)
        _text(page, row, 1, said, style, styles)
        # Merged cells do not grow with what they hold.
        page.set_row(row, 15.0 * max(1, -(-len(said) // 115)) * (1.4 if row == 0 else 1.0))
        row += 1
    row += 1
    for column, title in enumerate(("Sheet", "Section", "Table", "Rows")):
        _text(page, row, column, title, styles.of(bold=True, bottom=1), styles)
    for sheet in found:
        row += 1
        # A place in this workbook, by a name of our own making.
        place = sheet.name.replace("'", "''")
        page.write_url(row, 0, f"internal:'{place}'!A1", styles.of(font_color="#0a5c96"),
                       sheet.name)  # fmt: skip
        _text(page, row, 1, sheet.section, styles.of(), styles)
        _text(page, row, 2, sheet.table.caption, styles.of(), styles)
        page.write_number(row, 3, len(sheet.table.rows), styles.of())


@dataclass(frozen=True)
class _Column:
    """Where a column of the table goes: its cells, and their ends if some have them."""

    title: str
    cells: tuple[Cell, ...]
    numbers: tuple[Number | None, ...]
    at: int
    ends: bool
    unit: str


def _columns(table: Table) -> list[_Column]:
    placed, at = [], 0
    for index, column in enumerate(table.columns):
        cells = tuple(row[index] for row in table.rows)
        numbers = tuple(number_of(c) if column.numeric else None for c in cells)
        unit = in_header(numbers)
        if unit:
            numbers = tuple(None if n is None else without_unit(n) for n in numbers)
        ends = any(n is not None and n.end_format for n in numbers)
        placed.append(_Column(column.title, cells, numbers, at, ends, unit))
        at += 3 if ends else 1
    return placed


def _write_sheet(page: Any, table: Table, styles: _Styles) -> None:
    columns = _columns(table)
    width = columns[-1].at + (3 if columns[-1].ends else 1) if columns else 1
    marked = any(cell.notes for row in table.rows for cell in row)
    _text(page, _TITLE_ROW, 0, table.caption, styles.of(bold=True, font_size=13), styles)
    head = styles.of(bold=True, bottom=1, text_wrap=True)
    for column in columns:
        title = f"{column.title}, {column.unit}" if column.unit else column.title
        heads = [title, f"{title}: low end", f"{title}: high end"] if column.ends else [title]
        for shift, said in enumerate(heads):
            _text(page, _HEAD_ROW, column.at + shift, said, head, styles)
            page.set_column(column.at + shift, column.at + shift, _width(column, said, shift))
        for row, cell in enumerate(column.cells, start=_HEAD_ROW + 1):
            _write_cell(page, row, column, cell, column.numbers[row - _HEAD_ROW - 1], styles)
    last = _HEAD_ROW + len(table.rows)
    if marked:
        _text(page, _HEAD_ROW, width, "Notes", head, styles)
        page.set_column(width, width, 24)
        for row, cells in enumerate(table.rows, start=_HEAD_ROW + 1):
            said = _marks(table, cells)
            if said:
                _text(page, row, width, said, styles.of(text_wrap=True), styles)
    for shift, (mark, note) in enumerate(table.footnotes, start=2):
        _text(page, last + shift, 0, f"({mark}) {note}", styles.of(), styles)
    frozen = columns[table.row_header].at + 1 if columns else 0
    page.freeze_panes(_HEAD_ROW + 1, frozen if frozen <= 2 else 0)
    if table.rows and columns:
        page.autofilter(_HEAD_ROW, 0, last, width - (0 if marked else 1))
    page.set_landscape()
    page.set_paper(9)
    page.fit_to_pages(1, 0)
    page.repeat_rows(_HEAD_ROW)


def _write_cell(
    page: Any, row: int, column: _Column, cell: Cell, number: Number | None, styles: _Styles
) -> None:
    if number is None or not styles.takes(number):
        _text(page, row, column.at, joined(cell), styles.of(text_wrap=True), styles)
        return
    bold = {"bold": True} if cell.tag == "strong" else {}
    style = styles.of(num_format=number.format, align="right", **bold)
    page.write_number(row, column.at, number.value, style)
    if number.lo is not None and number.hi is not None:
        ends = styles.of(num_format=number.end_format, align="right")
        page.write_number(row, column.at + 1, number.lo, ends)
        page.write_number(row, column.at + 2, number.hi, ends)


def _marks(table: Table, cells: Sequence[Cell]) -> str:
    return "; ".join(
        f"{column.title} ({', '.join(cell.notes)})"
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.notes
    )


def _text(page: Any, row: int, column: int, text: str, style: Any, styles: _Styles) -> None:
    shown = _cut(printable(text))
    if shown.startswith(_FORMULA_SIGNS):
        # Editing such a cell by hand makes no formula of it either.
        style = styles.of(quote_prefix=True, text_wrap=True)
    page.write_string(row, column, shown, style)


def _cut(text: str) -> str:
    if utf16_units(text) <= MAX_TEXT:
        return text
    note = f" … (cut: {len(text):,} characters, more than a cell holds)"
    return utf16_head(text, MAX_TEXT - len(note)) + note


def _width(column: _Column, head: str, shift: int) -> float:
    if shift:
        return 11.0
    longest = max(
        (len(joined(c)) if n is None else 12 for c, n in zip(column.cells, column.numbers,
                                                             strict=True)), default=0,
    )  # fmt: skip
    word = max((len(w) for w in head.split()), default=0)
    return float(min(max(longest + 1, word + 2, _NARROWEST), _WIDEST))
