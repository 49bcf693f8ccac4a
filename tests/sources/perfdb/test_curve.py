"""Interpolation in log space as a property: between its neighbours, exact at the points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.sources.perfdb._curve import Curve, bracket, log_mix

points = st.lists(
    st.tuples(st.integers(1, 10**9), st.floats(1e-7, 10.0)), min_size=2, max_size=20,
    unique_by=lambda p: p[0],
)  # fmt: skip


def curve_of(pairs):
    x, t = (np.array(v, dtype=float) for v in zip(*pairs, strict=True))
    return Curve.of(x, t)


@given(points)
def test_a_measured_point_returns_its_time(pairs):
    curve = curve_of(pairs)
    for x, time_s in pairs:
        assert curve.at(x) == time_s
        assert curve.exact(x)


@given(points, st.floats(0, 1))
def test_a_point_lies_between_its_neighbours(pairs, where):
    curve = curve_of(pairs)
    i = min(int(where * (len(curve.x) - 1)), len(curve.x) - 2)
    middle = float(np.sqrt(curve.x[i] * curve.x[i + 1]))
    low, high = sorted(curve.time_s[i : i + 2])
    assert low * (1 - 1e-9) <= curve.at(middle) <= high * (1 + 1e-9)


def test_a_power_law_is_followed_exactly():
    x = np.array([1.0, 10.0, 100.0])
    curve = Curve.of(x, 3e-6 * x**1.5)
    assert curve.at(37.0) == pytest.approx(3e-6 * 37.0**1.5)


def test_beyond_an_end_the_utilization_is_kept():
    curve = Curve.of(np.array([1.0, 4.0]), np.array([2.0, 4.0]))
    assert curve.beyond(8.0, lambda x: x) == pytest.approx(8.0)


def test_repeats_become_their_median():
    curve = Curve.of(np.array([2.0, 1.0, 2.0, 2.0]), np.array([5.0, 1.0, 3.0, 4.0]))
    assert curve.x.tolist() == [1.0, 2.0]
    assert curve.at(2.0) == 4.0


def test_of_several_kernels_the_fastest_is_taken_where_asked_for():
    curve = Curve.of(np.array([2.0, 1.0, 2.0]), np.array([5.0, 1.0, 3.0]), np.min)
    assert curve.at(2.0) == 3.0


@given(st.floats(1, 1e6))
def test_weights_of_a_bracket_add_up(x):
    parts = bracket(np.array([1.0, 7.0, 100.0, 1e6]), x)
    assert sum(w for _, w in parts) == pytest.approx(1.0)
    assert log_mix(parts) == pytest.approx(x, rel=1e-6)
