"""Shapes of an execution trace put to the ops of a Kineto trace of the same run."""

from __future__ import annotations

import numpy as np

from codesign._common.errors import DataError
from codesign._common.text import printable
from codesign.sources.execution_trace.read import ExecutionTrace
from codesign.sources.kineto._times import MISSING_ID, Ints
from codesign.sources.kineto.categories import OP
from codesign.sources.kineto.classify import inputs_read
from codesign.sources.kineto.events import Coder, Trace

_SAME_RUN = 0.5
"""Share of the ids both have whose names must agree: ids count from 1 in every run."""


def add_shapes(trace: Trace, execution: ExecutionTrace, where: str) -> tuple[str, ...]:
    """Give the ops of ``trace`` the inputs that ``execution`` recorded; says what was done.

    Ops are one if they have the same record function id and name. An execution trace
    covers one iteration as a rule: other steps with the very same sequence of ops on a
    thread take their shapes from it. What the trace recorded itself stays.

    Raises DataError if the two have no op in common or are of different runs.
    """
    ops = trace.ops
    record = ops.get("record")
    usable = np.zeros(0, dtype=np.int64)
    if record is not None:
        usable = np.flatnonzero((record != MISSING_ID) & (ops["kind"] == OP))
    if record is None or not usable.size:
        raise DataError(
            f"{where}: its ops have no 'Record function id', so {execution.path} cannot be joined "
            "to it; capture both with PyTorch 2.1 or newer"
        )
    coder: Coder[tuple[bytes, bytes, bytes]] = Coder()
    coder.codes(trace.inputs)
    given = ops["inputs"].copy()
    met = np.zeros(len(given), dtype=bool)
    joined = disagree = 0
    for row, ident, name in zip(
        usable.tolist(), record[usable].tolist(), ops["name"][usable].tolist(), strict=True
    ):
        node = execution.nodes.get(ident)
        if node is None:
            continue
        if node.name != trace.names[name]:
            disagree += 1
            continue
        met[row] = True
        joined += 1
        reads = inputs_read(node.name)
        if reads and not given[row] and node.inputs[0]:
            dims, types, concrete = node.inputs
            given[row] = coder.code((dims, types, concrete if reads > 1 else b""))
    if joined < _SAME_RUN * (joined + disagree) or not joined:
        raise DataError(
            f"{execution.path}: not of the run of {where}: {joined} ops in common, {disagree} ids "
            "whose names differ; give the execution trace that was captured with this trace"
        )
    copied = _other_steps(trace, given, met)
    ops["inputs"] = given
    trace.inputs = coder.values
    notes = [
        f"shapes of {joined} ops from {printable(execution.path.name)} (schema {execution.schema})"
    ]
    if copied:
        notes.append(
            f"shapes of {copied} ops in other steps taken from the step that the execution trace "
            "covers: the same ops in the same order"
        )
    return tuple(notes)


def _other_steps(trace: Trace, given: Ints, met: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Copy inputs to steps that run the same sequence of ops on a thread. Returns how many."""
    ops = trace.ops
    marks = np.array([n.startswith("ProfilerStep") for n in trace.names] or [False])
    steps = np.flatnonzero(marks[ops["name"]])
    steps = steps[np.argsort(ops["start"][steps], kind="stable")]
    if steps.size < 2:
        return 0
    begins, ends = ops["start"][steps], ops["end"][steps]
    rows = np.flatnonzero(ops["kind"] == OP)
    place = np.searchsorted(begins, ops["start"][rows], side="right") - 1
    inside = (place >= 0) & (ops["start"][rows] < ends[np.maximum(place, 0)])
    rows, place = rows[inside], place[inside]
    copied = 0
    for thread in np.unique(ops["thread"][rows]):
        mine = np.flatnonzero(ops["thread"][rows] == thread)
        order = mine[np.lexsort((-ops["end"][rows[mine]], ops["start"][rows[mine]], place[mine]))]
        groups = np.split(rows[order], np.flatnonzero(np.diff(place[order])) + 1)
        if len(groups) < 2:
            continue
        source = max(groups, key=lambda g: int(met[g].sum()))
        if not met[source].any():
            continue
        names = ops["name"][source]
        for group in groups:
            if group is source or not np.array_equal(ops["name"][group], names):
                continue
            fill = (given[group] == 0) & (given[source] != 0)
            given[group[fill]] = given[source[fill]]
            copied += int(fill.sum())
    return copied
