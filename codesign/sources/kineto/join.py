"""Which launch started a device activity, and which framework op asked for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.sources.kineto._times import MISSING_ID, Ints
from codesign.sources.kineto.categories import (
    ANNOTATION,
    GRAPH_LAUNCH_MARKS,
    LAUNCH_MARKS,
    NOT_LAUNCH_MARKS,
    OP,
)
from codesign.sources.kineto.classify import COMMUNICATION
from codesign.sources.kineto.coverage import answered, asking
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.processes import ids_by_process, mixed_processes
from codesign.sources.kineto.recording import recording
from codesign.sources.kineto.timeline import Bools

NONE = -1
# Clocks of host and device are aligned to about this much; an op may seem to end
# this much before its launch.
_SLACK_NS = 1000
_MAX_DEPTH = 10_000


@dataclass(frozen=True)
class Links:
    """Row numbers, NONE where there is no partner; one entry per device activity."""

    launch: Ints
    op: Ints
    graph: Bools
    """Activities that a graph launch started: they have no op of their own."""
    asks: Bools
    """Per launch row: a call that asks for a kernel."""
    answered: Bools
    """Per launch row: its kernel is there."""
    by_external: int
    by_enclosing: int


def link(trace: Trace) -> Links:
    """Join by correlation id to launches; by External id, else by enclosure, to ops.

    One launch may have many activities (graphs). An External id is believed only if
    its op was running at the launch: some versions write the correlation id there.
    """
    names = [n.lower() for n in trace.names]
    marks = np.array(
        [_has(n, LAUNCH_MARKS) and not _has(n, NOT_LAUNCH_MARKS) for n in names], dtype=bool
    )
    graphs = np.array([_has(n, GRAPH_LAUNCH_MARKS) for n in names], dtype=bool)
    called = trace.launches["name"]
    graph_launch = graphs[called] if len(called) else np.zeros(0, dtype=bool)
    launch = _launch_of(trace, graph_launch)
    linked = launch >= 0
    asks = asking(trace, marks)
    replies = answered(trace, asks, graph_launch, launch)
    asks &= replies | ~recording(trace)
    graph = np.zeros(len(launch), dtype=bool)
    graph[linked] = graph_launch[launch[linked]]
    op, by_external, by_enclosing = _op_of(trace, launch, graph)
    return Links(launch, op, graph, asks, replies, by_external, by_enclosing)


def _has(name: str, marks: tuple[str, ...]) -> bool:
    return any(mark in name for mark in marks)


def _launch_of(trace: Trace, graph_launch: Bools) -> Ints:
    """Per activity the launch with its correlation id, of the process that its device works for."""
    wanted, asked = trace.device["correlation"], trace.launches["correlation"]
    if not mixed_processes(trace):
        return _by_id(trace, wanted, asked, graph_launch)
    found = _by_id(trace, *ids_by_process(trace), graph_launch)
    rest = np.where(found >= 0, MISSING_ID, wanted)
    return np.where(found >= 0, found, _by_id(trace, rest, asked, graph_launch))


def _by_id(trace: Trace, wanted: Ints, given: Ints, graph_launch: Bools) -> Ints:
    """Per activity the launch with its id (``wanted``, ``given``).

    Of several it is the one that began last before it; where as many activities have the id,
    and the calls are the same, each has its own, in order.
    """
    begins, start = trace.launches["start"], trace.device["start"]
    found = np.full(len(wanted), NONE, dtype=np.int64)
    rows = np.flatnonzero(given != MISSING_ID)
    if not rows.size or not wanted.size:
        return found
    order = rows[np.lexsort((begins[rows], given[rows]))]
    ids = given[order]
    low = np.searchsorted(ids, wanted, side="left")
    high = np.searchsorted(ids, wanted, side="right")
    some = (high > low) & (wanted != MISSING_ID)
    found[some] = order[low[some]]
    # An id that came again, or a runtime call and the driver call inside it.
    several = np.flatnonzero(some & (high - low > 1))
    if not several.size:
        return found
    several = several[np.lexsort((start[several], wanted[several]))]
    low, high, when = low[several], high[several], start[several]
    first = np.flatnonzero(np.append(True, low[1:] != low[:-1]))
    of_id = np.diff(np.append(first, len(low)))
    mine = np.minimum(np.arange(len(low)) - np.repeat(first, of_id) + low, high - 1)
    pair, lead = order[mine], order[low]
    alike = (np.repeat(of_id, of_id) == high - low) & (begins[pair] <= when) & ~graph_launch[pair]
    alike &= trace.launches["name"][pair] == trace.launches["name"][lead]
    alike = np.repeat(np.logical_and.reduceat(alike, first), of_id)
    found[several] = np.where(alike, pair, order[_latest(begins[order], low, high, when)])
    return found


def _latest(begins: Ints, low: Ints, high: Ints, when: Ints) -> Ints:
    """Per time the last place in ``low`` to ``high`` that began by then, else the first."""
    # By bisection of all at once.
    low, high = low.copy(), high.copy()
    while (open_ := high - low > 1).any():
        middle = (low + high) // 2
        by_then = begins[middle] <= when
        low = np.where(open_ & by_then, middle, low)
        high = np.where(open_ & ~by_then, middle, high)
    return low


def _op_of(trace: Trace, launch: Ints, graph: Bools) -> tuple[Ints, int, int]:
    ops = trace.ops
    found = np.full(len(launch), NONE, dtype=np.int64)
    usable = (ops["kind"] == OP) | _communication(trace)
    rows = np.flatnonzero(usable & ~_step_names(trace)[ops["name"]])
    if not rows.size:
        return found, 0, 0
    external = trace.device["external"]
    order = rows[np.argsort(ops["external"][rows], kind="stable")]
    ids = ops["external"][order]
    place = np.minimum(np.searchsorted(ids, external), len(ids) - 1)
    match = (ids[place] == external) & (external != MISSING_ID)
    candidate = order[place]
    known = launch >= 0
    begin = trace.launches["start"][launch] if len(trace.launches["start"]) else external
    running = (ops["start"][candidate] - _SLACK_NS <= begin) & (
        begin <= ops["end"][candidate] + _SLACK_NS
    )
    match &= ~graph & (~known | running)
    found[match] = candidate[match]
    rest = np.flatnonzero(~match & known & ~graph)
    enclosing = _enclosing(trace, rows, launch[rest])
    found[rest] = enclosing
    return found, int(match.sum()), int((enclosing >= 0).sum())


def _communication(trace: Trace) -> Bools:
    talks = [n.startswith(COMMUNICATION) for n in trace.names]
    named: Bools = np.array(talks or [False], dtype=bool)[trace.ops["name"]]
    result: Bools = named & (trace.ops["kind"] == ANNOTATION)
    return result


def _step_names(trace: Trace) -> Bools:
    return np.array([n.startswith("ProfilerStep") for n in trace.names] or [False], dtype=bool)


def _enclosing(trace: Trace, rows: Ints, launch: Ints) -> Ints:
    """Innermost op of ``rows`` that runs on the launch's thread when the launch begins."""
    result = np.full(len(launch), NONE, dtype=np.int64)
    threads = trace.launches["thread"][launch]
    times = trace.launches["start"][launch]
    op_threads = trace.ops["thread"][rows]
    for thread in np.unique(threads):
        mine = np.flatnonzero(threads == thread)
        # Ops are numbered as they begin; where times are in microseconds, only that tells them.
        found = innermost(
            trace.ops["start"], trace.ops["end"], rows[op_threads == thread], times[mine],
            trace.ops["external"],
        )  # fmt: skip
        result[mine] = found
    return result


def innermost(
    start: Ints, end: Ints, rows: Ints, times: Ints, depth: Ints | None = None
) -> Ints:  # fmt: skip
    """Innermost of the nested intervals ``rows`` at each time, NONE outside of all.

    Of equal intervals the one of greater ``depth`` is inside, else the one that stands last.
    """
    result = np.full(len(times), NONE, dtype=np.int64)
    if not rows.size or not len(times):
        return result
    keys = (-end[rows], start[rows])
    order = rows[np.lexsort(keys if depth is None else (depth[rows], *keys))]
    lows, highs = start[order], end[order]
    parent = _parents(lows.tolist(), highs.tolist())
    current = np.searchsorted(lows, times, side="right") - 1
    for _ in range(_MAX_DEPTH):
        over = (current >= 0) & (highs[np.maximum(current, 0)] < times)
        if not over.any():
            break
        current[over] = parent[current[over]]
    inside = current >= 0
    result[inside] = order[current[inside]]
    return result


def _parents(lows: list[int], highs: list[int]) -> Ints:
    """Index of the closest earlier interval that still runs, NONE for the outermost."""
    parents = np.full(len(lows), NONE, dtype=np.int64)
    stack: list[int] = []
    for i, low in enumerate(lows):
        while stack and highs[stack[-1]] <= low:
            stack.pop()
        if stack:
            parents[i] = stack[-1]
        stack.append(i)
    return parents
