"""Printed numbers read back: what a spreadsheet shows is what is printed elsewhere."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.recommend.schema import CostItem, Interval
from codesign.report import formatting as fmt
from codesign.report.cell_numbers import in_header, number_of, without_unit
from codesign.report.table import Cell


def shown(value: float, number_format: str) -> str:
    """What Excel shows of a number: sections, literals, places, percent, thousands."""
    positive, _, negative = number_format.partition(";")
    section = negative if value < 0 and negative else positive
    sign = "-" if value < 0 and not negative else ""

    literals = re.split(r'"([^"]*)"', section)
    out = []
    for index, part in enumerate(literals):
        if index % 2:
            out.append(part)
            continue
        match = re.search(r"(#,##)?0(?:\.(0+))?", part)
        if match is None:
            out.append(part.replace("\\", ""))
            continue
        scale = 100 if "%" in part else 1
        places = Decimal(1).scaleb(-len(match[2] or ""))
        digits = (Decimal(f"{abs(value):.15g}") * scale).quantize(places, ROUND_HALF_UP)
        text = f"{digits:,f}" if match[1] else f"{digits:f}"
        out.append(part.replace(match[0], text).replace("\\", ""))

    return sign + "".join(out)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("x1.024", 1.0243, 1.0243),
        ("42.3 %", 0.4232, 0.4232),
        ("0 %", 0.0, 0.0),
        ("+31.2 mm²", 31.1999, 31.1999),
        ("≤ 68.9 W", 68.93, 68.93),
        ("−12.0 USD", -12.04, -12.04),
        ("12,300", 12_345.0, 12_300.0),  # Three digits are printed, so three are written.
        ("<0.1 %", 0.0003, 0.0003),
        (">99.9 %", 0.9999, 0.9999),
        ("0.0 %", -0.0001, 0.0),
        ("x1 exactly", 1.0, 1.0),
    ],
)
def test_a_cell_shows_what_is_printed(text: str, key: float, value: float) -> None:
    number = number_of(Cell(text, key))
    assert number is not None
    assert number.value == value
    assert shown(number.value, number.format) == text


@pytest.mark.parametrize(
    ("cell", "value_s", "text"),
    [
        (Cell("12.3 ms", 0.01234), 0.01234, "0.0123 s"),
        (Cell("2.08 µs", 2.0806e-6), 2.0806e-6, "0.00000208 s"),
        (Cell("18.4 s", 18.4), 18.4, "18.4 s"),
        (Cell("−1.20 ms", -0.0012), -0.0012, "−0.00120 s"),
        (Cell("989 TFLOP/s", 989.4e12), 989e12, "989,000,000,000,000 FLOP/s"),
    ],
)
def test_prefixes_become_base_units_of_the_same_digits(
    cell: Cell, value_s: float, text: str
) -> None:
    number = number_of(cell)
    assert number is not None
    assert number.value == pytest.approx(value_s, rel=1e-12)
    assert shown(number.value, number.format) == text


def test_an_interval_has_its_ends_beside_the_value() -> None:
    number = number_of(Cell("x1.186 [1.157, 1.219]", 1.18634))
    assert number is not None
    assert (number.value, number.lo, number.hi) == (1.18634, 1.157, 1.219)
    assert shown(number.lo, number.end_format) == "1.157"
    time = number_of(Cell("12.3 ms [11.8, 12.9]", 0.0123))
    assert time is not None
    assert (time.lo, time.hi) == (0.0118, 0.0129)


@pytest.mark.parametrize(
    "cell",
    [
        Cell("–"), Cell("n/a", math.nan), Cell("2 to 4, first in 34.0 %", 6.0), Cell("5", 10.0),
        Cell("=1+1", 2.0), Cell("x1.2", "a"), Cell("1.2", 1.2, sub="a second line"),
        Cell("+3.2 %", -0.032), Cell("x1.1 to x1.3", 1.1), Cell("12 ms", 5.0),
    ],
)  # fmt: skip
def test_what_is_not_one_number_that_the_key_means_stays_text(cell: Cell) -> None:
    assert number_of(cell) is None


def test_a_unit_that_all_cells_share_goes_into_the_heading() -> None:
    numbers = [number_of(Cell("+31.2 mm²", 31.2)), None, number_of(Cell("0 mm²", 0.0))]
    assert in_header(numbers) == "mm²"
    assert [shown(n.value, without_unit(n).format) for n in numbers if n] == ["+31.2", "0"]
    assert in_header([number_of(Cell("12.3 ms", 0.0123)), number_of(Cell("2.0 s", 2.0))]) == "s"
    assert in_header([number_of(Cell("1.0 W", 1.0)), number_of(Cell("2.0 s", 2.0))]) == ""
    assert in_header([number_of(Cell("42.3 %", 0.423))]) == ""


@given(st.floats(1e-4, 1e6), st.floats(0.001, 0.5))
def test_every_gain_that_is_printed_reads_back_with_its_digits(value: float, half: float) -> None:
    gain = Interval(value, value * (1 - half), value * (1 + half))
    number = number_of(Cell(fmt.gain(gain), gain.value))
    assert number is not None
    assert number.lo is not None
    assert f"{shown(number.value, number.format)} " == fmt.gain(gain).partition("[")[0]
    printed = fmt.gain(gain).partition("[")[2].partition(",")[0] if number.lo < 1000 else None
    assert printed is None or float(printed) == number.lo


@given(st.floats(-0.999, 20.0))
def test_every_share_reads_back_with_its_digits(value: float) -> None:
    for text in (fmt.signed_share(value), fmt.share(abs(value))):
        key = abs(value) if text == fmt.share(abs(value)) else value
        number = number_of(Cell(text, key))
        assert number is not None, text
        assert shown(number.value, number.format).replace("−", "-") == text


@given(st.floats(1e-9, 1e6), st.sampled_from(["central", "lower", "upper"]))
def test_every_cost_reads_back_with_its_digits(value: float, bound: str) -> None:
    item = CostItem(value, "W", "a source", "measured", bound)  # type: ignore[arg-type]
    number = number_of(Cell(fmt.cost_item(item), value))
    assert number is not None
    assert shown(number.value, number.format) == fmt.cost_item(item)
