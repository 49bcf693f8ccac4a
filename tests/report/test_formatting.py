from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.recommend.schema import CostItem, Interval
from codesign.report import formatting as fmt


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.23456, "1.23"),
        (9.996, "10.0"),
        (99.96, "100"),
        (12345.0, "12,300"),
        (0.0012345, "0.00123"),
        (-0.4567, "-0.457"),
        (0.0, "0"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
    ],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert fmt.significant(value) == text


@given(st.floats(1e-9, 1e12))
def test_significant_keeps_the_value_to_half_a_unit_of_the_third_digit(value: float) -> None:
    text = fmt.significant(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.00501)


def test_gain_shows_value_and_interval() -> None:
    assert fmt.gain(Interval(1.2341, 1.1809, 1.2949)) == "x1.234 [1.181, 1.295]"
    # Two decimals would print 1.02 for the value and for both of its ends.
    assert fmt.gain(Interval(1.0197, 1.0151, 1.0249)) == "x1.020 [1.015, 1.025]"
    assert fmt.gain(Interval(12.345, 9.9996, 14.0)) == "x12.3 [10.0, 14.0]"


def test_no_effect_is_exact_and_a_small_one_is_not() -> None:
    assert fmt.gain(Interval(1.0, 1.0, 1.0)) == "x1 exactly"
    assert fmt.gain(Interval(1.0004, 1.0001, 1.0008)) == "x1.000 [1.000, 1.001]"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.0001, "<0.1 %"), (0.99995, ">99.9 %"), (0.4234, "42.3 %")],
)
def test_a_share_reads_as_zero_or_whole_only_if_it_is(value: float, text: str) -> None:
    assert fmt.share(value) == text


def test_signed_share_has_no_negative_zero() -> None:
    assert fmt.signed_share(-0.0001) == "0.0 %"
    assert fmt.signed_share(-0.2145) == "-21.4 %"
    assert fmt.signed_share(0.031) == "+3.1 %"


def test_a_duration_and_its_interval_share_one_unit() -> None:
    assert fmt.seconds_interval(Interval(0.0012, 0.0009, 0.0015)) == "1.20 ms [0.900, 1.50]"
    assert fmt.seconds_interval(Interval(0.0, 0.0, 0.0)) == "0 ns [0, 0]"


def test_cost_has_its_sign_and_unit_or_a_dash() -> None:
    assert fmt.cost_item(CostItem(31.24, "mm2", "", "modelled")) == "+31.2 mm²"
    assert fmt.cost_item(CostItem(-5.0, "W", "", "modelled")) == "−5.00 W"
    assert fmt.cost_item(CostItem(0.0, "W", "", "modelled")) == "0 W"
    assert fmt.cost_item(CostItem(68.94, "W", "", "assumed", "upper")) == "≤ 68.9 W"
    assert fmt.cost_item(CostItem(3.9, "W", "", "modelled", "lower")) == "≥ 3.90 W"
    assert fmt.cost_item(CostItem(-350.0, "W", "", "assumed", "lower")) == "≥ −350 W"
    assert fmt.cost_item(CostItem(None, "USD", "no source", "assumed")) == "–"


def test_gain_per_cost_names_the_unit_of_the_ranking_cost() -> None:
    assert fmt.per_cost(0.02604, "USD per GPU") == "0.0260 % per USD"
    assert fmt.per_cost(None, "USD per GPU") == "–"


def test_shares_come_from_the_firm_to_the_weak_and_skip_zeros() -> None:
    text = fmt.shares({"assumed": 0.1, "measured": 0.9, "modelled": 0.0})
    assert text == "measured 90.0 %, assumed 10.0 %"
