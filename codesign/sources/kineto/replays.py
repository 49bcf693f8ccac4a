"""Replays of a CUDA graph of which only a part was recorded."""

from __future__ import annotations

import numpy as np

from codesign.sources.kineto._times import Ints

_MAX_GRAPHS = 20
"""Different sequences of kernels that are compared with each other, the longest ones."""
# What was not recorded of a replay took its time, too.
_SAME_TIME = 0.9


def missing_kernels(
    launch: Ints, name: Ints, start: Ints, end: Ints, others: tuple[Ints, Ints]
) -> tuple[int, int]:  # fmt: skip
    """Kernels that partly recorded replays lack, and how many all replays would have.

    Rows are the kernels of graph launches on one device; ``others`` are the starts and the ends
    of all of its activities, each in order. A replay is a part of another if its kernels stand
    in the other in the same order, and if nothing else ran around them for as long as the other
    took. Before and after a graph that is just shorter, something else runs.
    """
    order = np.lexsort((start, launch))
    launch, name, start, end = launch[order], name[order], start[order], end[order]
    first = np.flatnonzero(np.append(True, launch[1:] != launch[:-1]))
    last = np.append(first[1:], len(launch))
    sequences = [tuple(name[a:b].tolist()) for a, b in zip(first, last, strict=True)]
    begin = start[first]
    done = np.maximum.reduceat(end, first)
    span = done - begin
    starts, ends = others
    # What precedes the first replay or follows the last one was not captured.
    follows = np.append(starts, done.max())[np.searchsorted(starts, done, side="left")]
    precedes = np.append(begin.min(), ends)[np.searchsorted(ends, begin, side="right")]
    room = follows - precedes
    longest: dict[tuple[int, ...], int] = {}
    for sequence, length in zip(sequences, span.tolist(), strict=True):
        longest[sequence] = max(longest.get(sequence, 0), length)
    wholes = sorted(longest, key=len, reverse=True)[:_MAX_GRAPHS]
    parts = {s: [w for w in wholes if len(w) > len(s) and _within(s, w)] for s in wholes}
    missing = 0
    for sequence, free in zip(sequences, room.tolist(), strict=True):
        like = [w for w in parts.get(sequence, ()) if free >= _SAME_TIME * longest[w]]
        missing += max((len(w) for w in like), default=len(sequence)) - len(sequence)
    return missing, missing + len(launch)


def _within(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether the elements of ``part`` stand in ``whole`` in the same order."""
    rest = iter(whole)
    return all(element in rest for element in part)
