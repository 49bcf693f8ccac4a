"""Device events that stand in a file twice, as where captures were merged or written twice."""

from __future__ import annotations

import numpy as np

from codesign.sources.kineto._times import MISSING_ID, Ints
from codesign.sources.kineto.categories import GRAPH_LAUNCH_MARKS
from codesign.sources.kineto.events import Trace

_SAME = ("correlation", "start", "end", "name", "device", "stream", "kind")


def drop_duplicates(trace: Trace) -> int:
    """Keep of device events that agree in all of time, name, place and correlation id the first.

    A launch starts one activity, so a second one of its id at the same time is the same. Not so
    of a graph launch, whose branches may run side by side. Returns how many were dropped.
    """
    device = trace.device
    ids = device["correlation"]
    known = ids[ids != MISSING_ID]
    if (known[1:] > known[:-1]).all() or len(np.unique(known)) == len(known):
        return 0
    rows = np.flatnonzero((ids != MISSING_ID) & ~np.isin(ids, _graph_ids(trace)))
    columns = [device[name][rows] for name in _SAME]
    order = np.lexsort([rows, *reversed(columns)])
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for values in columns:
        same &= values[order[1:]] == values[order[:-1]]
    again = rows[order[1:][same]]
    if again.size:
        keep = np.ones(len(ids), dtype=bool)
        keep[again] = False
        trace.device = {name: values[keep] for name, values in device.items()}
    return int(again.size)


def _graph_ids(trace: Trace) -> Ints:
    names = [name.lower() for name in trace.names] or [""]
    graphs = np.array([any(mark in name for mark in GRAPH_LAUNCH_MARKS) for name in names])
    ids: Ints = trace.launches["correlation"][graphs[trace.launches["name"]]]
    return ids
