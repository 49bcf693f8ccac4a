"""Launches that ask for a kernel, and those of them whose kernels are in the capture."""

from __future__ import annotations

import numpy as np

from codesign.sources.kineto._times import MISSING_ID, Ints
from codesign.sources.kineto.categories import KERNEL
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.timeline import Bools


def asking(trace: Trace, marks: Bools) -> Bools:
    """Launch rows that ask for a kernel; ``marks`` says by name code which calls launch one.

    An id may be used again, by the same call as a rule. Of different calls under an id, a
    driver call inside a runtime call, only those of the more frequent name count.
    """
    launches = trace.launches
    asks = np.zeros(len(launches["name"]), dtype=bool)
    if not len(marks):
        return asks
    rows = np.flatnonzero(marks[launches["name"]] & (launches["correlation"] != MISSING_ID))
    process, ids = launches["process"][rows], launches["correlation"][rows]
    if not rows.size or ((process == process[0]).all() and (ids[1:] > ids[:-1]).all()):
        asks[rows] = True  # the usual case: ids that rise from launch to launch
        return asks
    name, start = launches["name"][rows], launches["start"][rows]
    order = np.lexsort((start, name, ids, process))
    of_id = _changes(process[order], ids[order])
    of_name = of_id | _changes(name[order])
    # A launch that stands in the file twice asks once.
    once = of_name | _changes(start[order])
    label = np.cumsum(of_name) - 1
    often = np.bincount(label[once])
    group, begin = np.cumsum(of_id)[of_name] - 1, start[order][of_name]
    best = np.lexsort((begin, -often, group))
    best = best[_changes(group[best])]
    chosen = np.zeros(len(often), dtype=bool)
    chosen[best] = True
    asks[rows[order[once & chosen[label]]]] = True
    return asks


def answered(trace: Trace, asks: Bools, graph: Bools, launch: Ints) -> Bools:
    """Per launch row whether a kernel carries its correlation id.

    Of launches that ask (``asks``) under one id, of several processes or one after another,
    only as many are answered as there are kernels; of graph launches (``graph`` per row) as
    many as kernels were joined to (``launch`` per activity), or as devices ran any.
    """
    kernels = trace.device["kind"] == KERNEL
    ids, launches = trace.device["correlation"][kernels], trace.launches
    result: Bools = np.isin(launches["correlation"], ids)
    rows = np.flatnonzero(asks & result)
    own = launches["correlation"][rows]
    if (own[1:] > own[:-1]).all():
        return result
    order = np.lexsort((launches["start"][rows], launches["process"][rows], own))
    rows, own = rows[order], own[order]
    if _changes(own).all():
        return result
    place = np.arange(len(own)) - np.searchsorted(own, own, side="left")
    joined, device = launch[kernels], trace.device["device"][kernels]
    replays = np.maximum(
        occurrences(_distinct(ids, joined), own), occurrences(_distinct(ids, device), own)
    )
    result[rows] = place < np.where(graph[rows], replays, occurrences(np.sort(ids), own))
    return result


def _changes(*columns: Ints) -> Bools:
    """Where any of the columns differs from the row before; the first row does."""
    new = np.zeros(len(columns[0]), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def _distinct(ids: Ints, of: Ints) -> Ints:
    """Ids of the distinct pairs, in order."""
    order = np.lexsort((of, ids))
    found: Ints = ids[order][_changes(ids[order], of[order])]
    return found


def occurrences(ordered: Ints, ids: Ints) -> Ints:
    """How often each id stands among the ordered ones."""
    return np.searchsorted(ordered, ids, side="right") - np.searchsorted(ordered, ids, side="left")
