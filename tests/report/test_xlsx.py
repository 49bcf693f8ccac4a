"""The workbook, as another library reads it."""

from __future__ import annotations

import io
import zipfile
from functools import cache

import msgspec
import openpyxl
import pytest

from codesign.report import render_xlsx
from codesign.report.context import build
from codesign.report.sheets import MAX_NAME, sheets
from codesign.report.text import printable
from codesign.report.xlsx import MAX_TEXT
from tests.report.factory import empty, recommendations
from tests.report.small import short
from tests.report.test_hostile import HOSTILE, poisoned


@cache
def book_of(which: str = "full") -> openpyxl.Workbook:
    made = {"full": recommendations, "empty": empty, "short": short}
    recs = made[which]() if which in made else poisoned(HOSTILE[which])
    return openpyxl.load_workbook(io.BytesIO(render_xlsx(recs)))


def texts(book: openpyxl.Workbook) -> set[str]:
    return {c.value for page in book for row in page.iter_rows() for c in row
            if isinstance(c.value, str)}  # fmt: skip


def test_there_is_a_sheet_for_every_table_and_an_index_that_leads_to_each() -> None:
    book = book_of()
    found = sheets(build(recommendations()))
    assert book.sheetnames == ["Index", *(s.name for s in found)]
    index = book["Index"]
    links = {c.hyperlink.location for row in index.iter_rows() for c in row if c.hyperlink}
    assert links == {f"'{name}'!A1" for name in book.sheetnames[1:]}
    assert index["B1"].value == recommendations().title


def test_heads_are_frozen_and_name_columns_with_their_units() -> None:
    page = book_of()["Ranking"]
    heads = [c.value for c in page[2] if c.value]
    assert heads == ["Rank", "Recommendation", "Verdict", "Portfolio gain",
                     "Portfolio gain: low end", "Portfolio gain: high end", "Area, mm²",
                     "Power, W", "Money, USD", "Gain, % per USD", "P(best)", "Carried by",
                     "Evidence", "Status", "Notes"]  # fmt: skip
    assert page.freeze_panes == "C3"
    assert page.column_dimensions["B"].width > page.column_dimensions["A"].width
    assert page.auto_filter.ref == f"A2:O{2 + len(recommendations().recommendations)}"


def test_numbers_are_those_of_the_file() -> None:
    recs = recommendations()
    page = book_of()["Ranking"]
    for row, rec in enumerate(recs.recommendations, start=3):
        assert page.cell(row, 1).value == rec.rank
        assert page.cell(row, 4).value == pytest.approx(rec.gain.value, abs=1e-12)
        assert page.cell(row, 5).value == pytest.approx(rec.gain.lo, abs=5e-4)
        assert page.cell(row, 6).value == pytest.approx(rec.gain.hi, abs=5e-4)
        if rec.cost and rec.cost.money.value:
            assert page.cell(row, 9).value == pytest.approx(rec.cost.money.value)
        else:
            assert page.cell(row, 9).value == "–"
        assert page.cell(row, 11).value == pytest.approx(rec.p_best)
        assert page.cell(row, 11).number_format in (r"0.0\ %", r"0\ %")
    steps = book_of()["L1 steps HBM bandwidth"]
    assert [steps.cell(r, 2).value for r in range(3, 8)] == [1.1, 1.25, 1.5, 2.0, 3.0]


def test_no_cell_is_a_formula_and_no_address_is_a_link() -> None:
    for name in ("full", *HOSTILE):
        for page in book_of(name):
            for row in page.iter_rows():
                for cell in row:
                    assert cell.data_type in ("s", "n"), (page.title, cell.coordinate)
                    link = cell.hyperlink
                    assert link is None or (page.title == "Index" and link.target is None)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_stands_whole_in_its_cells(name: str) -> None:
    key = next(k for k, v in HOSTILE.items() if v == name)
    book = book_of(key)
    assert printable(name) in texts(book)
    # As many sheets as with a plain name, each with a name that Excel takes.
    assert len(book.sheetnames) == len(set(map(str.lower, book.sheetnames)))
    assert all(0 < len(n) <= MAX_NAME and not set(n) & set("[]:*?/\\'") for n in book.sheetnames)


def test_lengths_count_as_excel_counts_them() -> None:
    """A character outside of the first plane is two of Excel's."""
    name = "\N{ROCKET}" * 40
    book = openpyxl.load_workbook(io.BytesIO(render_xlsx(poisoned(name))))
    units = [len(n.encode("utf-16-le")) // 2 for n in book.sheetnames]
    assert max(units) in (MAX_NAME - 1, MAX_NAME)
    assert name in texts(book)
    recs = recommendations()
    first = msgspec.structs.replace(recs.assumptions[0], source="\N{ROCKET}" * 20_000)
    raw = render_xlsx(msgspec.structs.replace(recs, assumptions=(first,)))
    (cut,) = [t for t in texts(openpyxl.load_workbook(io.BytesIO(raw))) if "(cut: 20,000" in t]
    assert len(cut.encode("utf-16-le")) // 2 <= MAX_TEXT


def test_text_that_begins_as_a_formula_stays_text_when_edited() -> None:
    page = book_of("formula")["Assumptions"]
    cell = page["A3"]
    assert cell.value == "=1+1"
    assert cell.data_type == "s"
    assert cell.quotePrefix


def test_text_that_no_cell_holds_is_cut_and_says_so() -> None:
    recs = recommendations()
    first = msgspec.structs.replace(recs.assumptions[0], source="s" * 40_000)
    raw = render_xlsx(msgspec.structs.replace(recs, assumptions=(first,)))
    found = [t for t in texts(openpyxl.load_workbook(io.BytesIO(raw))) if t.startswith("sss")]
    (text,) = found
    assert len(text) == MAX_TEXT
    assert text.endswith("(cut: 40,000 characters, more than a cell holds)")


def test_an_empty_file_makes_a_workbook() -> None:
    assert book_of("empty").sheetnames[0] == "Index"


def test_the_same_file_gives_the_same_bytes_and_no_macro_or_link_outside() -> None:
    raw = render_xlsx(short())
    assert raw == render_xlsx(short())
    names = zipfile.ZipFile(io.BytesIO(raw)).namelist()
    assert not [n for n in names if "vba" in n.lower() or "externalLink" in n]
