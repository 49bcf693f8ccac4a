"""Steps of a workload on the device's time line."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from codesign.sources.kineto._times import Ints
from codesign.sources.kineto.categories import ANNOTATION, KERNEL
from codesign.sources.kineto.classification import STEP_ANNOTATIONS
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.join import Links
from codesign.sources.kineto.periodicity import Periods, find_periods

# Device time that may run in another step than the one that launched it, before the
# host's step borders are given up for the device's own.
_SPILL = 0.01
_MAX_STEPS = 100_000
_PATTERNS = [re.compile(p, re.IGNORECASE) for p in STEP_ANNOTATIONS]


@dataclass(frozen=True)
class Steps:
    """Disjoint windows in order; ``by`` as in ``Quality.steps_by``."""

    names: list[str]
    start: Ints
    end: Ints
    by: str
    borders: str
    """``host`` (annotations), ``device`` (first kernel that a step launched) or ``capture``."""
    overlapping: int = 0
    """Marked steps that were left out, since they begin inside of another."""

    def of(self, times: Ints) -> Ints:
        """Step that holds each time, -1 outside of all."""
        index = np.searchsorted(self.start, times, side="right") - 1
        inside = (index >= 0) & (times < self.end[np.maximum(index, 0)])
        return np.where(inside, index, -1)


def find_steps(trace: Trace, links: Links, rows: Ints, finish: Ints) -> Steps:
    """Steps from ``ProfilerStep#N``, else step-like annotations, else repeating kernels.

    Where nothing repeats, the whole capture is one step.
    ``rows`` are the activities of the device in question, ``finish`` their ends. A step
    is bounded by the host's annotation if the work it launched also runs inside it.
    Where the device lags behind, step i runs from the first activity that it launched to the first
    one of step i + 1, so that no work is cut in two or lost at the end.
    """
    begin = trace.device["start"][rows]
    names, start, end, by, overlapping = _annotated(trace, links, rows)
    if not names:
        periods = _repeated(trace, rows, finish)
        if periods is not None:
            named = [f"period {i + 1}" for i in range(len(periods.start))]
            return Steps(named, periods.start, periods.end, "periodicity", "device")
        first, last = int(begin.min()), int(finish.max())
        one = np.array([first]), np.array([max(last, first + 1)])
        return Steps(["capture"], one[0], one[1], "none", "capture")
    host = Steps(names, start, end, by, "host", overlapping)
    launch = links.launch[rows]
    linked = launch >= 0
    asked_at = np.where(linked, trace.launches["start"][launch] if linked.any() else begin, begin)
    launched_in = host.of(asked_at)
    length = finish - begin
    inside = np.minimum(finish, end[launched_in]) - np.maximum(begin, start[launched_in])
    inside = np.where(launched_in >= 0, np.clip(inside, 0, None), length)
    if (length - inside).sum() <= _SPILL * length.sum():
        return _stretched(host, launched_in, finish)
    return _device_steps(host, launched_in, begin, finish)


def _repeated(trace: Trace, rows: Ints, finish: Ints) -> Periods | None:
    kernel = trace.device["kind"][rows] == KERNEL
    mine = rows[kernel]
    return find_periods(trace.device["start"][mine], finish[kernel], trace.device["name"][mine])


def _annotated(trace: Trace, links: Links, device: Ints) -> tuple[list[str], Ints, Ints, str, int]:
    """Names, starts and ends of the marked steps, by what, and how many overlap others."""
    ops = trace.ops
    profiler = [n.startswith("ProfilerStep") for n in trace.names]
    rows = np.flatnonzero(np.array(profiler or [False])[ops["name"]])
    by = "ProfilerStep"
    if not rows.size:
        by = "annotation"
        annotated = np.flatnonzero(ops["kind"] == ANNOTATION)
        for pattern in _PATTERNS:
            like = [pattern.search(n[:200]) is not None for n in trace.names]
            rows = annotated[np.array(like or [False])[ops["name"][annotated]]]
            if rows.size:
                break
    rows = rows[ops["end"][rows] > ops["start"][rows]]
    rows = _own_process(trace, links, device, rows)
    rows = rows[np.argsort(ops["start"][rows], kind="stable")][:_MAX_STEPS]
    # Nested or concurrent ones (several threads or ranks) are not further steps.
    kept: list[int] = []
    last = None
    for row in rows.tolist():
        if last is None or ops["start"][row] >= last:
            kept.append(row)
            last = int(ops["end"][row])
    index = np.array(kept, dtype=np.int64)
    names = [trace.names[c] for c in ops["name"][index].tolist()]
    return names, ops["start"][index], ops["end"][index], by, len(rows) - len(kept)


def _own_process(trace: Trace, links: Links, device: Ints, marks: Ints) -> Ints:
    """Of the marks those of the process that launched most of the device's work, if it has any.

    Where ranks are merged in one file, each marks its own steps.
    """
    launch = links.launch[device]
    launch = launch[launch >= 0]
    if "process" not in trace.ops or not launch.size:
        return marks
    owner = np.bincount(trace.launches["process"][launch]).argmax()
    mine = marks[trace.ops["process"][marks] == owner]
    return mine if mine.size else marks


def _stretched(host: Steps, launched_in: Ints, finish: Ints) -> Steps:
    """The last step lasts until the work that it launched is done."""
    mine = finish[launched_in == len(host.names) - 1]
    end = host.end.copy()
    if mine.size:
        end[-1] = max(int(end[-1]), int(mine.max()))
    return Steps(host.names, host.start, end, host.by, host.borders, host.overlapping)


def _device_steps(host: Steps, launched_in: Ints, begin: Ints, finish: Ints) -> Steps:
    """Borders where the device reaches each step's first work."""
    n = len(host.names)
    never = np.iinfo(np.int64).max
    first = np.full(n, never, dtype=np.int64)
    last = np.full(n, np.iinfo(np.int64).min, dtype=np.int64)
    used = launched_in >= 0
    np.minimum.at(first, launched_in[used], begin[used])
    np.maximum.at(last, launched_in[used], finish[used])
    # A step without work keeps the host's border, unless a neighbour reaches over it.
    start = np.maximum.accumulate(np.where(first == never, host.start, first))
    end = np.maximum(np.maximum(host.end, last), start + 1)
    # Steps that follow each other on the host share a border on the device.
    gap = host.start[1:] - host.end[:-1]
    joined = gap <= 0.05 * (host.end[:-1] - host.start[:-1])
    end[:-1] = np.where(joined, start[1:], np.minimum(end[:-1], start[1:]))
    keep = end > start
    names = [name for name, k in zip(host.names, keep.tolist(), strict=True) if k]
    return Steps(names, start[keep], end[keep], host.by, "device", host.overlapping)
