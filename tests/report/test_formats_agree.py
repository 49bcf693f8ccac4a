"""Every number of every table, through every format: HTML, Markdown, XLSX, PDF, JSON."""

from __future__ import annotations

import io
import re
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
import openpyxl
import pypdf
import pytest

from codesign._common.errors import UsageError
from codesign.report import render_html, render_json, render_markdown, render_pdf, render_xlsx
from codesign.report.context import build
from codesign.report.pdf import engine
from codesign.report.sheets import sheets
from codesign.report.table import Table, joined
from tests.report.factory import recommendations
from tests.report.reading import normal, read_html, read_markdown_tables
from tests.report.small import short, with_all
from tests.report.test_cell_numbers import shown

PREFIXES = {"n": -9, "µ": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
RECS = with_all(recommendations())


def tables() -> list[Table]:
    return [sheet.table for sheet in sheets(build(RECS)) if not sheet.table.id.endswith("-text")]


def printed(table: Table) -> list[list[str]]:
    """What the context says of a table: its cells with the marks of their footnotes."""
    heads = [normal(c.title) for c in table.columns]
    rows = [[normal(joined(c) + (f" ({', '.join(c.notes)})" if c.notes else "")) for c in row]
            for row in table.rows]  # fmt: skip
    return [heads, *rows]


@cache
def from_html() -> dict[str, list[list[str]]]:
    return read_html(render_html(RECS)).tables


@cache
def book() -> openpyxl.Workbook:
    return openpyxl.load_workbook(io.BytesIO(render_xlsx(RECS)))


def test_html_prints_every_table_of_the_context() -> None:
    assert len(tables()) > 40
    for table in tables():
        assert from_html()[table.id] == printed(table), table.id
    assert set(from_html()) == {t.id for t in tables()}


def test_markdown_prints_every_table_of_the_context() -> None:
    wanted = sorted(printed(t) for t in tables())
    assert sorted(read_markdown_tables(render_markdown(RECS))) == wanted


def quantities(text: str) -> list[Decimal]:
    """Numbers of a cell in base units: an SI prefix before its unit counts for all of them."""
    prefix = re.search(r"\d ([nµmkMGTPE])(?:s|B/s|FLOP/s)\b", text)
    power = PREFIXES[prefix[1]] if prefix else 0
    return [Decimal(n.replace(",", "")).scaleb(power).normalize() for n in NUMBER.findall(text)]


def test_a_workbook_shows_every_number_with_the_digits_that_are_printed() -> None:
    numeric = 0
    for sheet in sheets(build(RECS)):
        page = book()[sheet.name]
        heads = [str(c.value) for c in page[2] if c.value is not None]
        for row, cells in enumerate(sheet.table.rows, start=3):
            at = 0
            for cell in cells:
                ends = 3 if heads[at + 1 : at + 2] == [f"{heads[at]}: low end"] else 1
                found = [page.cell(row, at + 1 + i) for i in range(ends)]
                at += ends
                if not isinstance(found[0].value, int | float):
                    assert (found[0].value or "") == joined(cell)
                    continue
                numeric += 1
                said = " ".join(
                    shown(c.value, c.number_format) for c in found if c.value is not None
                )
                if cell.text == "x1 exactly":
                    said = said.partition(" ")[0]
                assert quantities(said) == quantities(cell.text), (sheet.name, cell.text, said)
    assert numeric > 1000


def test_a_pdf_prints_every_number_of_every_table() -> None:
    try:
        engine()
    except UsageError as missing:
        pytest.skip(str(missing))
    recs = short()
    pages = pypdf.PdfReader(io.BytesIO(render_pdf(recs))).pages
    # Cells break over lines, and pages repeat heads: so each number by itself, as a multiset.
    text = re.sub(r"\s+", " ", " ".join(p.extract_text() for p in pages))
    left = NUMBER.findall(text)
    counts = {n: left.count(n) for n in set(left)}
    for sheet in sheets(build(recs)):
        if sheet.table.id.endswith("-text"):
            continue
        for cells in sheet.table.rows:
            for cell, column in zip(cells, sheet.table.columns, strict=True):
                for number in NUMBER.findall(cell.text) if column.numeric else ():
                    counts[number] = counts.get(number, 0) - 1
                    assert counts[number] >= 0, (sheet.name, cell.text)


RECORDED = re.compile(
    r"ranking|actions|pairs|(steps|workloads|table|ops|breakdown|front|marginal)$"
)
"""Tables of what the file holds; the others also have sums, differences and ratios of it."""
RATIOS = ("Gap", "Above attainable")


def numbers_in(value: Any) -> set[float]:
    if isinstance(value, dict):
        return set().union(*(numbers_in(v) for v in value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*(numbers_in(v) for v in value)) if value else set()
    return {float(value)} if isinstance(value, int | float) else set()


def test_the_numbers_behind_the_cells_are_those_of_the_json_file() -> None:
    known = numbers_in(msgspec.json.decode(render_json(RECS)))
    checked = 0
    for table in tables():
        if not RECORDED.search(table.id):
            continue
        for row in table.rows:
            for cell, column in zip(row, table.columns, strict=True):
                if column.title in RATIOS or not column.numeric:
                    continue
                if isinstance(cell.sort, int | float):
                    checked += 1
                    assert float(cell.sort) in known, (table.id, column.title, cell)
    assert checked > 800
