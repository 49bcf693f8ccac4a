"""Launches that only record a CUDA graph: they ask for nothing by themselves."""

from __future__ import annotations

import numpy as np

from codesign.sources.kineto.categories import CAPTURE_BEGIN_MARKS, CAPTURE_END_MARKS
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.timeline import Bools


def recording(trace: Trace) -> Bools:
    """Per launch row whether its process was recording a graph when it began.

    Other threads may launch meanwhile, so a kernel that did run is still an answer.
    """
    launches = trace.launches
    inside = np.zeros(len(launches["start"]), dtype=bool)
    turn = _marked(trace, CAPTURE_BEGIN_MARKS).astype(np.int64)
    turn -= _marked(trace, CAPTURE_END_MARKS)
    if not turn.any():
        return inside
    start = launches["start"]
    for process in np.unique(launches["process"][turn != 0]).tolist():
        mine = launches["process"] == process
        calls = np.flatnonzero(mine & (turn != 0))
        calls = calls[np.argsort(start[calls], kind="stable")]
        for low, high in _windows(start[calls].tolist(), turn[calls].tolist()):
            inside |= mine & (start >= low) & (start <= high)
    return inside


def _windows(times: list[int], turns: list[int]) -> list[tuple[int, int]]:
    """From the begin of each recording to its end; one without an end is none."""
    windows, depth, begin = [], 0, np.iinfo(np.int64).min
    for time, turn in zip(times, turns, strict=True):
        if depth == 0 and turn > 0:
            begin = time
        if depth <= 1 and turn < 0:
            # An end alone: the recording began before the capture did.
            windows.append((int(begin), time))
        depth = max(0, depth + turn)
    return windows


def _marked(trace: Trace, marks: tuple[str, ...]) -> Bools:
    names = np.unique(trace.launches["name"])
    known = [any(m in trace.names[code].lower() for m in marks) for code in names.tolist()]
    result: Bools = np.isin(trace.launches["name"], names[np.array(known, dtype=bool)])
    return result
