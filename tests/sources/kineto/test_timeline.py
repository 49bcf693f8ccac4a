"""Interval unions against counting nanosecond by nanosecond."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codesign.sources.kineto.timeline import (
    COMM,
    COMPUTE,
    COPY,
    clip_overlaps,
    exposed,
    first_come,
    union,
)

SPAN = 60
intervals = st.lists(
    st.tuples(st.integers(0, SPAN), st.integers(0, 20), st.sampled_from([COMPUTE, COMM, COPY])),
    max_size=12,
)
borders = st.lists(st.integers(0, SPAN + 20), min_size=2, max_size=6, unique=True).map(sorted)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 0] + table[:, 1], table[:, 2]


def covered(rows: list[tuple[int, int, int]], kinds: tuple[int, ...]) -> set[int]:
    return {t for s, n, k in rows if k in kinds for t in range(s, s + n)}


@given(intervals)
def test_union_measures_what_is_covered(rows: list[tuple[int, int, int]]) -> None:
    start, end, _ = columns(rows)
    found = union(start, end)
    points = covered(rows, (COMPUTE, COMM, COPY))
    assert found.measure() == len(points)
    assert (found.start[1:] > found.end[:-1]).all()
    times = np.arange(SPAN + 25)
    assert found.before(times).tolist() == [sum(p < t for p in points) for t in times.tolist()]


@given(intervals)
def test_first_come_parts_are_disjoint_and_cover_the_union(
    rows: list[tuple[int, int, int]],
) -> None:
    start, end, _ = columns(rows)
    low, high = first_come(start, end)
    points = [t for a, b in zip(low.tolist(), high.tolist(), strict=True) for t in range(a, b)]
    assert len(points) == len(set(points))
    assert set(points) == covered(rows, (COMPUTE, COMM, COPY))
    assert (low >= start).all() or not rows
    assert (high <= end).all()


@given(intervals, borders)
def test_exposed_time_adds_up_in_every_window(
    rows: list[tuple[int, int, int]], edges: list[int]
) -> None:
    start, end, kinds = columns(rows)
    begin, finish = np.array(edges[:-1]), np.array(edges[1:])
    activity, window, length = exposed(start, end, kinds, (begin, finish))
    assert (length > 0).all()
    compute, comm = covered(rows, (COMPUTE,)), covered(rows, (COMM,))
    copy = covered(rows, (COPY,))
    expected = {COMPUTE: compute, COMM: comm - compute, COPY: copy - comm - compute}
    for w, (a, b) in enumerate(pairwise(edges)):
        for kind, points in expected.items():
            mine = length[(window == w) & (kinds[activity] == kind)].sum()
            assert mine == len([t for t in points if a <= t < b])


@given(intervals)
def test_clipping_never_changes_the_busy_time_of_a_lane_beyond_the_faulty_tail(
    rows: list[tuple[int, int, int]],
) -> None:
    start, end, _ = columns(rows)
    start, end = start * 1000, end * 1000
    none = np.full(len(start), -1, dtype=np.int64)
    clipped = clip_overlaps(start, end, np.zeros_like(start), none)
    assert (clipped.end <= end).all()
    assert (clipped.end >= start).all()
    order = np.lexsort((clipped.end, start))
    later = start[order][1:] > start[order][:-1]
    assert (clipped.end[order][:-1] <= start[order][1:])[later].all()


def test_three_windows_by_hand() -> None:
    start, end = np.array([0, 50]), np.array([100, 150])
    claims = exposed(
        start, end, np.array([COMPUTE, COMM]), (np.array([0, 75, 120]), np.array([75, 120, 200]))
    )
    assert [c.tolist() for c in claims] == [[0, 0, 1, 1], [0, 1, 1, 2], [75, 25, 20, 30]]
