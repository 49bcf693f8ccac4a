"""From device activities to the rows of the ops table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codesign.sources.kineto import classify
from codesign.sources.kineto._times import MAX_COUNT, Ints
from codesign.sources.kineto.categories import KERNEL
from codesign.sources.kineto.collectives import collective_dims, group_ranks
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.join import NONE, Links, innermost
from codesign.sources.kineto.shapes import Call, Dims, read_dims
from codesign.workload.schema import OP_CLASSES

Floats = npt.NDArray[np.float64]
PHASES = ("", "forward", "backward", "optimizer")
_OPTIMIZER = PHASES.index("optimizer")
_CONTROL = dict.fromkeys(range(32), "\N{REPLACEMENT CHARACTER}")


@dataclass(frozen=True)
class Activities:
    """Activities of one device that count: row numbers in the trace, and what they are."""

    row: Ints
    start: Ints
    end: Ints
    op_class: Ints
    """Index into OP_CLASSES."""
    phase: Ints
    """Index into PHASES."""
    step: Ints
    """Step that an activity starts in, -1 outside of all."""


@dataclass(frozen=True)
class Names:
    """What kernel and op names mean, by name code; each distinct name is looked at once."""

    kernel_class: Ints
    unit_class: Ints
    """Op class of an op that is one unit of work, else -1."""


def read_names(trace: Trace) -> Names:
    """Classify every name of the trace."""
    code = {c: i for i, c in enumerate(OP_CLASSES)}
    kernels = np.unique(trace.device["name"]).tolist()
    ops = np.unique(trace.ops["name"]).tolist()
    kernel_class = np.full(len(trace.names), code["other"], dtype=np.int64)
    unit_class = np.full(len(trace.names), -1, dtype=np.int64)
    for i in kernels:
        kernel_class[i] = code[classify.kernel_class(trace.names[i])]
    for i in ops:
        rule = classify.op_rule(trace.names[i])
        if rule is not None:
            unit_class[i] = code[rule[0]]
    return Names(kernel_class, unit_class)


def activity_classes(trace: Trace, links: Links, names: Names, phase: Ints) -> Ints:
    """Op class of every device activity; copies and memsets are ``copy``.

    Element-wise work of the optimizer's step is the optimizer, as ``foreach`` ones run it.
    """
    device = trace.device
    classes = names.kernel_class[device["name"]]
    collective = OP_CLASSES.index("collective")
    unit = np.full(len(classes), -1, dtype=np.int64)
    linked = links.op >= 0
    unit[linked] = names.unit_class[trace.ops["name"][links.op[linked]]]
    classes = np.where((unit >= 0) & (classes != collective), unit, classes)
    elementwise = classes == OP_CLASSES.index("elementwise")
    classes = np.where(elementwise & (phase == _OPTIMIZER), OP_CLASSES.index("optimizer"), classes)
    return np.where(device["kind"] == KERNEL, classes, OP_CLASSES.index("copy"))


def phases(trace: Trace, links: Links) -> Ints:
    """Phase of every activity (index into ``PHASES``), by where its launch stands on the host.

    Inside ``Optimizer.step`` it is the optimizer, inside an autograd node the
    backward pass; the rest is forward if the capture has a backward pass at all.
    """
    result = np.zeros(len(links.launch), dtype=np.int64)
    ops, linked = trace.ops, np.flatnonzero(links.launch >= 0)
    if not linked.size:
        return result
    text = trace.names
    backward = np.array([n.startswith("autograd::engine::evaluate_function") for n in text])
    stepping = np.array([n.startswith("Optimizer.step#") or n == "## optimizer ##" for n in text])
    launch = links.launch[linked]
    times, threads = trace.launches["start"][launch], trace.launches["thread"][launch]
    marks = ((backward, 2), (stepping, 3))
    if not backward[ops["name"]].any():
        return result
    result[linked] = 1
    for marked, phase in marks:
        rows = np.flatnonzero(marked[ops["name"]])
        for thread in np.unique(ops["thread"][rows]):
            mine = np.flatnonzero(threads == thread)
            found = innermost(
                ops["start"], ops["end"], rows[ops["thread"][rows] == thread], times[mine]
            )
            result[linked[mine[found != NONE]]] = phase
    return result


def build_rows(
    trace: Trace, links: Links, activities: Activities, claims: tuple[Ints, Ints, Ints], steps: int
) -> tuple[list[dict[str, object]], Ints]:
    """Rows of the ops table, without the work that shapes imply; times in s per step.

    Beside them the row of every activity, -1 outside of all steps.

    ``claims`` are (activity, step, ns) of ``timeline.exposed``. All kernels of one call
    of an op that is a unit of work make one row, under its longest kernel's name.
    """
    inside = np.flatnonzero(activities.step >= 0)
    row_of = np.full(len(activities.row), -1, dtype=np.int64)
    if not inside.size:
        return [], row_of
    call, keys = _calls(trace, links, activities, inside)
    first, inverse = _unique_rows(keys)
    key = np.stack([column[first] for column in keys], axis=1)
    # Call -> row, and from there activity -> row.
    row_of[inside] = inverse[call]
    length = activities.end[inside] - activities.start[inside]
    n = len(first)
    time = np.bincount(row_of[inside], weights=length, minlength=n)
    counts = np.bincount(inverse, minlength=n)
    claimed = row_of[claims[0]]
    used = claimed >= 0
    exposed = np.bincount(claimed[used], weights=claims[2][used], minlength=n)
    size = trace.device["size"][activities.row[inside]]
    size = np.where(size <= MAX_COUNT, np.maximum(size, 0), 0)
    moved = np.bincount(row_of[inside], weights=size, minlength=n)
    deviation = _deviation(row_of[inside], activities.step[inside], length, n, steps)
    make = _RowMaker(trace)
    rows = []
    for i in range(n):
        row = make.row(key[i].tolist())
        scale = float(counts[i]) / steps
        for work in ("flops", "bytes"):
            if work in row:
                row[work] = float(row[work]) * scale  # type: ignore[arg-type]
        if row.pop("memory_engine") and moved[i] > 0:
            row["bytes"] = float(moved[i]) / steps
        time_s, exposed_s = time[i] / 1e9 / steps, exposed[i] / 1e9 / steps
        row.update(count=scale, time_s=time_s, exposed_s=exposed_s, evidence="measured")
        if row["op_class"] == "collective":
            row["overlap_window_s"] = max(0.0, time_s - exposed_s)
        if steps > 1:
            row["time_sd_s"] = deviation[i]
        rows.append(row)
    order = np.argsort(-time, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    row_of[inside] = place[row_of[inside]]
    return [rows[i] for i in order.tolist()], row_of


def _calls(
    trace: Trace, links: Links, activities: Activities, inside: Ints
) -> tuple[Ints, list[Ints]]:
    """Call of each inside activity, and per call its key, column by column: what makes two
    calls one row.
    """
    rows = activities.row[inside]
    device, ops = trace.device, trace.ops
    op = links.op[rows]
    classes = activities.op_class[inside]
    is_kernel = device["kind"][rows] == KERNEL
    collective = classes == OP_CLASSES.index("collective")
    unit = _unit_ops(trace)
    linked = op >= 0
    merged = np.zeros(len(rows), dtype=bool)
    merged[linked] = unit[ops["name"][op[linked]]]
    merged &= is_kernel & ~collective
    if merged.any():
        ident = np.where(merged, op, len(ops["start"]) + np.arange(len(rows)))
        _, call = np.unique(ident, return_inverse=True)
        # The longest kernel names the call, of equal ones the first.
        length = activities.end[inside] - activities.start[inside]
        order = np.lexsort((-activities.start[inside], length, call))
        last = np.flatnonzero(np.append(call[order][1:] != call[order][:-1], True))
        lead = order[last]
    else:
        lead = call = np.arange(len(rows))  # each kernel is a call of its own
    op_lead = op[lead]
    has = (op_lead >= 0) & (is_kernel[lead])
    shaped = has & (merged[lead] | collective[lead])

    def from_op(column: str, mask: npt.NDArray[np.bool_], absent: int) -> Ints:
        if not len(ops[column]):
            return np.full(len(lead), absent, dtype=np.int64)
        return np.where(mask, ops[column][op_lead], absent)

    keys = [
        classes[lead], device["name"][rows[lead]], from_op("name", has, -1),
        from_op("inputs", shaped, 0),
        device["comm"][rows[lead]], activities.phase[inside][lead],
        is_kernel[lead].astype(np.int64), merged[lead].astype(np.int64),
    ]  # fmt: skip
    return call, keys


def _unit_ops(trace: Trace) -> npt.NDArray[np.bool_]:
    codes = np.unique(trace.ops["name"]).tolist()
    unit = np.zeros(max(1, len(trace.names)), dtype=bool)
    for code in codes:
        unit[code] = classify.op_rule(trace.names[code]) is not None
    return unit


_MAX_CODE = 2**62


def _unique_rows(keys: list[Ints]) -> tuple[Ints, Ints]:
    """First call of each distinct key, in order of keys, and each call's key number.

    The columns make one number, most significant first, which sorts as they do.
    """
    code = np.zeros(len(keys[0]), dtype=np.int64)
    largest = 1
    for column in keys:
        low, high = int(column.min()), int(column.max())
        if high == low:
            continue
        if largest * (high - low + 1) >= _MAX_CODE:
            distinct, code = np.unique(code, return_inverse=True)
            largest = len(distinct)
        code = code * (high - low + 1) + (column - low)
        largest *= high - low + 1
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    return first, number


def _deviation(row: Ints, step: Ints, length: Ints, rows: int, steps: int) -> Floats:
    """Standard deviation over steps of each row's time, in s."""
    if steps < 2:
        return np.zeros(rows)
    cells, inverse = np.unique(row * steps + step, return_inverse=True)
    per_cell = np.bincount(inverse, weights=length)
    owner = cells // steps
    mean = np.bincount(owner, weights=per_cell, minlength=rows) / steps
    # Steps without the row count as zero.
    filled = np.bincount(owner, minlength=rows)
    spread = np.bincount(owner, weights=(per_cell - mean[owner]) ** 2, minlength=rows)
    absent = (steps - filled) * mean**2
    result: Floats = np.sqrt((spread + absent) / (steps - 1)) / 1e9
    return result


def clean(name: str) -> str:
    """A name that every output can hold: control characters and half surrogates replaced."""
    return name.translate(_CONTROL).encode("utf-8", "replace").decode("utf-8")


class _RowMaker:
    """Turns a row's key into columns; inputs are parsed once per distinct call."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def row(self, key: list[int]) -> dict[str, object]:
        class_code, kernel_code, op_code, inputs, comm_code, phase, kernel, merged = key
        trace = self._trace
        op_class = OP_CLASSES[class_code]
        kernel_name = trace.names[kernel_code]
        op_name = trace.names[op_code] if op_code >= 0 else ""
        call = None
        if op_name:
            call = Call(op_name, *trace.inputs[inputs])
        dims: Dims = {}
        if op_class == "collective":
            comm = trace.comms[comm_code] if comm_code >= 0 else None
            dims = collective_dims(comm, call, kernel_name)
            if comm is not None and (ranks := group_ranks(comm)):
                dims["group_ranks"] = tuple(ranks)
        elif kernel:
            rule = classify.op_rule(op_name) if merged and op_name else None
            if call is not None and rule is not None:
                dims = read_dims(rule[1], call)
            reader = "" if rule is None else rule[1]
            types = call.tensor_types(reader) if call is not None and merged else []
            dims["precision"] = classify.precision(op_class, types, kernel_name)
        name = op_name or (classify.short_name(kernel_name) if kernel else kernel_name)
        if op_class == "collective":
            # Those that nccl-tests does not have (reduce, gather, barrier) as the profiler says.
            recorded = trace.comms[comm_code].collective if comm_code >= 0 else ""
            name = str(dims.get("collective") or recorded or name)
        return {
            "op_class": op_class, "name": clean(name) or "unnamed", "kernel": clean(kernel_name),
            "phase": PHASES[phase] or None, "memory_engine": not kernel, **dims,
        }  # fmt: skip
