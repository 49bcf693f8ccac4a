import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign._common import units
from codesign._common.errors import DataError
from codesign._common.units import format_si, parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3.35 TB/s", "byte/s", 3.35e12),
        ("400 Gb/s", "byte/s", 50e9),  # bits, never bytes (nor barns)
        ("400 Gbit/s", "byte/s", 50e9),
        ("80 GB", "byte", 80e9),
        ("80 GiB", "byte", 85_899_345_920),  # 7.4 % more
        ("50 MiB", "byte", 52_428_800),
        ("989.4 TFLOP/s", "flop/s", 989.4e12),
        ("1830 MHz", "hertz", 1.83e9),
        ("1.5GHz", "hertz", 1.5e9),
        ("2.4 us", "second", 2.4e-6),
        ("2.4 µs", "second", 2.4e-6),
        ("1.2 kW", "watt", 1200.0),
        ("80 watt", "watt", 80.0),
        ("1e3 W", "watt", 1000.0),
    ],
)
def test_quantities_by_hand(text, unit, value):
    assert parse_quantity(text, unit, "f.yaml: key") == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "700", "W", "", "700 horses", "80 GB/s/s", "3 W + 4 W", "9**9**9 W",
        "__import__('os') W", "1e999 W", "1" * 5000 + " W", "nan W", "inf W", "７ W", "1,000 W",
        "1 W\n2 W", "-", "+ W", None, 700, 7.5, ["700 W"], {"W": 1}, True, b"700 W",
    ],
)  # fmt: skip
def test_anything_else_is_one_line_that_names_the_place(text):
    with pytest.raises(DataError) as caught:
        parse_quantity(text, "watt", "gpus/x.yaml: power")
    assert str(caught.value).startswith("gpus/x.yaml: power: ")
    assert "700 W" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_bits_are_not_bytes_and_rates_are_not_amounts():
    assert parse_quantity("8 Gb", "byte", "w") == parse_quantity("1 GB", "byte", "w")
    with pytest.raises(DataError):
        parse_quantity("8 GB", "byte/s", "w")
    with pytest.raises(DataError):
        parse_quantity("8 GB/s", "byte", "w")


@given(st.text(max_size=60))
def test_hostile_text_never_raises_anything_else(text):
    try:
        value = parse_quantity(text, "byte/s", "w")
    except DataError:
        return
    assert math.isfinite(value)


@given(st.floats(1e-3, 1e5, allow_nan=False), st.sampled_from(["k", "M", "G", "T"]))
def test_decimal_prefixes_scale_by_a_thousand(number, prefix):
    power = {"k": 1, "M": 2, "G": 3, "T": 4}[prefix]
    text = f"{number:.6f} {prefix}B/s"
    expected = float(f"{number:.6f}") * 1000.0**power
    assert parse_quantity(text, "byte/s", "w") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (999.6, "W", "1.00 kW"),
        (999.4, "W", "999 W"),
        (0.9996, "s", "1.00 s"),
        (2.4e-6, "s", "2.40 µs"),
        (12.0, "s", "12.0 s"),
        (0.0, "B", "0 B"),
        (float("nan"), "B", "n/a"),
        (float("inf"), "B", "n/a"),
        (-3.35e12, "B/s", "-3.35 TB/s"),
    ],
)
def test_format(value, unit, text):
    assert format_si(value, unit) == text


@pytest.mark.parametrize("symbol", sorted(units._SYMBOLS))
@given(number=st.floats(1e-6, 1e9))
def test_symbols_mean_what_the_registry_says(symbol, number):
    unit, factor = units._SYMBOLS[symbol]
    assert number * factor == pytest.approx(units._converted(number, symbol, unit), rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        ("4.8 TB", "byte/s", "is in byte, not byte/s: did you mean 4.8 TB/s?"),
        ("4.8 TBps", "byte/s", "is not in a unit of byte/s: did you mean 4.8 TB/s?"),
        ("80 GB/s", "byte", "did you mean 80 GB?"),
        ("989 TFLOPS", "flop/s", "did you mean 989 TFLOP/s?"),
        ("3 bananas", "byte", "is not in a unit of byte; "),
    ],
)
def test_a_wrong_unit_is_named_and_the_likely_one_offered(text: str, unit: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_quantity(text, unit, "a.yaml: x")
    assert said in str(caught.value)
