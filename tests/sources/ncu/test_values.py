from __future__ import annotations

import math

import pytest

from codesign.sources.ncu._values import DecimalComma, number, unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("13,485", 13485), ("1,234,567.25", 1234567.25), ("0.74", 0.74), (" 42 ", 42),
        ("1e+06", 1e6), ("-3.5", -3.5), ("2,304 (12; 34)", 2304),
        ("1'234'567.25", 1234567.25), ("1\u2019234", 1234), ("10 500", 10500),
        ("1\u202f234\u202f567.5", 1234567.5), ("12.345", 12.345),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "n/a", "PolicySpread", "(nan)", "inf", "0x3f", "1;2;3"])
def test_what_is_no_number(text: str) -> None:
    assert math.isnan(number(text))


@pytest.mark.parametrize(
    "text",
    ["19,66", "1.234,5", "1239496049,13", "1.234.567,0", "1 234,5", "12'345,67", "1.234.567"],
)
def test_a_decimal_comma_is_refused(text: str) -> None:
    with pytest.raises(DecimalComma):
        number(text)


@pytest.mark.parametrize(
    ("text", "factor", "name"),
    [
        ("Gbyte/s", 1e9, "byte/s"), ("Mbyte", 1e6, "byte"), ("byte", 1, "byte"),
        ("us", 1e-6, "s"), ("usecond", 1e-6, "s"), ("nsecond", 1e-9, "s"), ("ms", 1e-3, "s"),
        ("Ghz", 1e9, "hz"), ("hz", 1, "hz"), ("cycle/nsecond", 1e9, "hz"),
        ("cycle/usecond", 1e6, "hz"), ("Kbyte/block", 1e3, "byte/block"), ("%", 1, "%"),
        ("register/thread", 1, "register/thread"), ("byte/nsecond", 1e9, "byte/s"), ("", 1, ""),
    ],
)  # fmt: skip
def test_units(text: str, factor: float, name: str) -> None:
    found, si = unit(text)
    assert found == pytest.approx(factor)
    assert si == name
