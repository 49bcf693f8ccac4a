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
        windows = _windows(start[calls].tolist(), turn[calls].tolist())
        if not windows:
            continue
        low, high = np.array(windows, dtype=np.int64).T
        at = np.searchsorted(low, start, side="right") - 1
        inside |= mine & (at >= 0) & (start <= high[np.maximum(at, 0)])
    return inside


def _windows(times: list[int], turns: list[int]) -> list[tuple[int, int]]:
    """From the begin of each recording to its end, in order; one without an end is none."""
    earliest = int(np.iinfo(np.int64).min)
    windows: list[tuple[int, int]] = []
    depth, begin = 0, earliest
    for time, turn in zip(times, turns, strict=True):
        if turn > 0:
            begin = begin if depth else time
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                windows.append((begin, time))
        elif not windows:
            # An end alone: the recording began before the capture did.
            windows.append((earliest, time))
    return windows


def _marked(trace: Trace, marks: tuple[str, ...]) -> Bools:
    names = np.unique(trace.launches["name"])
    known = [any(m in trace.names[code].lower() for m in marks) for code in names.tolist()]
    result: Bools = np.isin(trace.launches["name"], names[np.array(known, dtype=bool)])
    return result
