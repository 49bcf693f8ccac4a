"""Time on a device by unions of intervals, never by sums. All times integer ns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codesign.sources.kineto._times import Ints

Bools = npt.NDArray[np.bool_]

COMPUTE, COMM, COPY = range(3)
"""Kinds of device activity, in the order in which they claim the wall time."""


@dataclass(frozen=True)
class Union:
    """Disjoint intervals in order: ``start[i] < end[i] < start[i + 1]``."""

    start: Ints
    end: Ints

    def measure(self) -> int:
        """Total length."""
        return int((self.end - self.start).sum())

    def before(self, times: Ints) -> Ints:
        """Length of the union up to each of ``times``."""
        if not self.start.size:
            return np.zeros(len(times), dtype=np.int64)
        lengths = self.end - self.start
        done = np.concatenate([[0], np.cumsum(lengths)])
        index = np.searchsorted(self.start, times, side="right")
        last = np.maximum(index - 1, 0)
        partial = np.clip(times - self.start[last], 0, lengths[last])
        inside = done[last] + partial
        return np.where(index == 0, 0, inside).astype(np.int64)

    def within(self, starts: Ints, ends: Ints) -> Ints:
        """Length of the union inside each interval."""
        return self.before(ends) - self.before(starts)


def union(starts: Ints, ends: Ints) -> Union:
    """Union of intervals in any order; empty ones vanish."""
    keep = ends > starts
    if not keep.all():
        starts, ends = starts[keep], ends[keep]
    if not starts.size:
        return Union(starts, ends)
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.concatenate([[True], starts[1:] > reach[:-1]])
    first = np.flatnonzero(opens)
    return Union(starts[first], reach[np.concatenate([first[1:] - 1, [len(starts) - 1]])])


def first_come(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Disjoint parts whose lengths add up to the union: each interval less what earlier ones cover.

    The part of an interval is what lies after the latest end of all that started
    before it; a part may be empty.
    """
    if (starts[1:] > starts[:-1]).all():  # in order, as a profiler writes them
        low = starts.copy()
        low[1:] = np.maximum(low[1:], np.maximum.accumulate(ends)[:-1])
        return np.minimum(low, ends, out=low), ends
    order = np.lexsort((ends, starts))
    low, high = starts[order], ends[order]
    reach = np.maximum.accumulate(high)
    low = low.copy()
    low[1:] = np.maximum(low[1:], reach[:-1])
    parts_low, parts_high = np.empty_like(low), np.empty_like(high)
    parts_low[order] = np.minimum(low, high)
    parts_high[order] = high
    return parts_low, parts_high


def exposed(starts: Ints, ends: Ints, kinds: Ints, windows: tuple[Ints, Ints]) -> tuple[
    Ints, Ints, Ints
]:  # fmt: skip
    """Wall time of each window that belongs to each activity.

    Compute claims its time first, then communication, then copies; within a kind
    the earlier start claims. Returns (activity, window, ns) triples, non-zero ones
    only: their sum over a window is the busy time of that window, exactly.
    """
    claims: list[tuple[Ints, Ints, Ints]] = []
    covered: Union | None = None
    for kind in (COMPUTE, COMM, COPY):
        index = np.flatnonzero(kinds == kind)
        if not index.size:
            continue
        mine = starts[index], ends[index]
        activity, window, low, high = _split(index, *first_come(*mine), windows)
        length = high - low
        if covered is not None:
            length -= covered.within(low, high)
        keep = length > 0
        claims.append((activity[keep], window[keep], length[keep]))
        if covered is not None:
            mine = (
                np.concatenate([covered.start, mine[0]]), np.concatenate([covered.end, mine[1]])
            )  # fmt: skip
        if (kinds > kind).any():
            covered = union(*mine)
    if not claims:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    activities, found, lengths = zip(*claims, strict=True)
    return np.concatenate(activities), np.concatenate(found), np.concatenate(lengths)


def _split(
    index: Ints, low: Ints, high: Ints, windows: tuple[Ints, Ints]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Cut disjoint parts at the borders of disjoint, ordered windows."""
    begin, finish = windows
    first = np.searchsorted(finish, low, side="right")
    last = np.searchsorted(begin, high, side="left") - 1
    spans = np.maximum(last - first + 1, 0)
    spans[high <= low] = 0
    if (spans == 1).all():  # as a rule nothing runs across a border
        return index, first, np.maximum(low, begin[first]), np.minimum(high, finish[first])
    repeat = np.repeat(np.arange(len(index)), spans)
    offset = np.arange(len(repeat)) - np.repeat(np.cumsum(spans) - spans, spans)
    window = first[repeat] + offset
    return (
        index[repeat],
        window,
        np.maximum(low[repeat], begin[window]),
        np.minimum(high[repeat], finish[window]),
    )


@dataclass(frozen=True)
class Clipped:
    """Activities whose recorded end ran over the next slice of their stream."""

    end: Ints
    index: Ints
    """Activities that were clipped."""
    raw_ns: Ints
    """Their lengths as recorded."""


TOLERATED_OVERLAP_NS = 1000


def clip_overlaps(start: Ints, end: Ints, lane: Ints, correlation: Ints) -> Clipped:
    """End each activity where the next one on its lane (device and stream) starts.

    A stream runs one thing after another, so a longer overlap than a microsecond is
    a recording fault. Kernels of one graph launch share a correlation id and may
    truly run side by side although the profiler books them on one stream.
    """
    order = np.lexsort((end, start, lane))
    s, e, ln = start[order], end[order], lane[order]
    n = len(s)
    # What does not reach over its neighbour's start reaches over no later one.
    if not ((ln[1:] == ln[:-1]) & (e[:-1] - s[1:] >= TOLERATED_OVERLAP_NS)).any():
        return Clipped(end, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    corr = correlation[order]
    # Start of the next run: another lane, a later start, and not the same graph launch.
    same_graph = (corr[1:] == corr[:-1]) & (corr[1:] >= 0)
    joined = (ln[1:] == ln[:-1]) & (same_graph | (s[1:] == s[:-1]))
    breaks = np.flatnonzero(~joined) + 1
    position = np.searchsorted(breaks, np.arange(n), side="right")
    following = np.where(
        position < len(breaks), breaks[np.minimum(position, max(len(breaks) - 1, 0))], n
    ) if len(breaks) else np.full(n, n)  # fmt: skip
    valid = following < n
    nxt = np.minimum(following, n - 1)
    valid &= ln[nxt] == ln
    over = valid & (e - s[nxt] >= TOLERATED_OVERLAP_NS)
    fixed = end.copy()
    fixed[order[over]] = s[nxt[over]]
    return Clipped(fixed, order[over], (e - s)[over])
