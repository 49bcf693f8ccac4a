"""Steps of a capture that marks none: the longest sequence of kernels that repeats.

A kernel that runs once per step stands between equal sequences of kernels. Layers repeat
inside of a step, too; what tells the step is that nothing is left over: before the first
and after the last repetition stand only kernels that the repetition itself holds. A
capture of one step has an embedding before its layers and a head after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from codesign.sources.kineto._times import Ints

MIN_STEPS = 3
"""Fewer repetitions prove nothing."""
# Kernels of two repetitions that may differ: an autotuned or a rarely run one.
_ALIKE = 0.9
_FOREIGN = 0.05
_MAX_COUNT = 10_000
_MAX_TRIES = 50


@dataclass(frozen=True)
class Periods:
    """Repetitions: from ``start[i]`` to ``end[i]``, with about ``kernels`` kernels each."""

    start: Ints
    end: Ints
    kernels: int


def find_periods(start: Ints, end: Ints, name: Ints) -> Periods | None:
    """Repetitions in a sequence of kernels, None if there are none; times in ns.

    The border is put before the kernel with most idle time in front of it. What precedes
    the first border or follows the last whole repetition belongs to none.
    """
    order = np.argsort(start, kind="stable")
    start, end, name = start[order], end[order], name[order]
    if len(start) < 2 * MIN_STEPS:
        return None
    for anchors in _anchors(start, end, name):
        found = _periods(start, end, name, anchors)
        if found is not None:
            return found
    return None


def _anchors(start: Ints, end: Ints, name: Ints) -> Iterator[Ints]:
    """Places of a kernel that may open each step, for each number of steps, fewest first."""
    names, code, counts = np.unique(name, return_inverse=True, return_counts=True)
    reach = np.maximum.accumulate(end)
    gap = np.zeros(len(start), dtype=np.int64)
    gap[1:] = np.maximum(start[1:] - reach[:-1], 0)
    idle = np.bincount(code, weights=gap, minlength=len(names))
    numbers = np.unique(counts[(counts >= MIN_STEPS) & (counts <= _MAX_COUNT)])
    for count in numbers[:_MAX_TRIES].tolist():
        candidates = np.flatnonzero(counts == count)
        best = candidates[np.argmax(idle[candidates])]
        yield np.flatnonzero(code == best)


def _periods(start: Ints, end: Ints, name: Ints, anchors: Ints) -> Periods | None:
    borders = np.append(anchors, len(name))
    lengths = np.diff(borders)
    whole = lengths[:-1]
    typical = int(np.median(whole))
    if typical < 2:
        return None
    # A sequence as a histogram of its kernels: their order may vary over streams.
    kinds, code = np.unique(name, return_inverse=True)
    pattern = np.median(
        [np.bincount(code[a:b], minlength=len(kinds)) for a, b in _few(borders[:-1])], axis=0
    )
    if pattern.sum() < _ALIKE * typical:
        return None
    for a, b in zip(borders[:-2].tolist(), borders[1:-1].tolist(), strict=True):
        if _difference(code[a:b], pattern) > (1 - _ALIKE) * typical:
            return None
    tail = code[borders[-2] :]
    around = np.concatenate([code[: borders[0]], tail])
    if (pattern[around] == 0).sum() > _FOREIGN * typical or borders[0] > typical * 1.1:
        return None
    complete = _difference(tail, pattern) <= (1 - _ALIKE) * typical
    count = len(anchors) - (0 if complete else 1)
    if count < MIN_STEPS or len(tail) > typical * 1.1:
        return None
    opens = start[anchors]
    closes = np.append(opens[1:], end[anchors[-1] :].max())
    return Periods(opens[:count], closes[:count], typical)


def _few(borders: Ints) -> list[tuple[int, int]]:
    """At most nine sequences, spread over all of them."""
    pairs = list(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True))
    return pairs[:: -(-len(pairs) // 9)]


def _difference(codes: Ints, pattern: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Kernels that would have to be added or taken away to make the pattern of the codes."""
    return float(np.abs(np.bincount(codes, minlength=len(pattern)) - pattern).sum())
