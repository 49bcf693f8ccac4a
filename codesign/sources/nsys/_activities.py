"""Device activities and the calls that launched them, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codesign._common.errors import DataError
from codesign.sources.kineto._times import MAX_DURATION_NS
from codesign.sources.kineto.categories import (
    CAPTURE_BEGIN_MARKS,
    CAPTURE_END_MARKS,
    KERNEL,
    MEMCPY,
    MEMSET,
)
from codesign.sources.nsys._database import MISSING, NO_TEXT, NO_TIME, Database, Ints, distinct

Bools = npt.NDArray[np.bool_]

GRAPH_TABLE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_KINDS = {
    KERNEL_TABLE: KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": MEMCPY,
    "CUPTI_ACTIVITY_KIND_MEMSET": MEMSET,
    GRAPH_TABLE: KERNEL,
}
_NAME_COLUMNS = ("demangledName", "shortName", "mangledName", "name")
_TIMES = ("start", "end")
_PLACE = ("deviceId", "contextId", "streamId", "correlationId", "globalPid")
# CUPTI_ACTIVITY_MEMCPY_KIND of the CUDA toolkit.
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP", 11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD",
}  # fmt: skip
# Of the runtime and driver calls only those that start something on a device matter, and
# those between which a graph is recorded.
_CALLS = ("launch", "memcpy", "memset", *CAPTURE_BEGIN_MARKS, *CAPTURE_END_MARKS)
_PID_SHIFT, _PID_MASK = 24, 0xFFFFFF
"""Serialized ids hold the thread in their lowest 24 bits, the process above."""


@dataclass
class Activities:
    """Columns of a trace while they are gathered; names are coded."""

    device: dict[str, Ints]
    """start, end, kind, name, deviceId, contextId, streamId, correlation, process, pid, size."""
    launches: dict[str, Ints]
    """start, end, name, thread, process, correlation."""
    names: list[str]
    dropped: int = 0
    graphs: int = 0
    """Graph launches that were recorded whole, without their kernels."""
    nameless: int = 0
    """Kernels whose name is not among the file's texts."""


@dataclass
class Names:
    """Distinct names, coded in order of first sight."""

    values: list[str] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def codes(self, names: list[str]) -> Ints:
        """Codes of ``names``."""
        found = []
        for name in names:
            if name not in self._codes:
                self._codes[name] = len(self.values)
                self.values.append(name)
            found.append(self._codes[name])
        return np.array(found, dtype=np.int64)

    def of_ids(self, ids: Ints, database: Database) -> Ints:
        """Codes of string ids; each distinct one is looked up once."""
        found, inverse = distinct(ids)
        codes: Ints = self.codes(database.strings(found))[inverse]
        return codes


def read_activities(database: Database, names: Names) -> Activities:
    """Everything that ran on devices, in any order, and the calls that asked for it."""
    parts = [
        part
        for table, kind in _KINDS.items()
        for version in database.tables(table)
        if len((part := _device_part(database, version, kind, names))["start"])
    ]
    calls = _calls(database, names)
    if not parts:
        return Activities({}, calls, names.values)
    device = {
        c: np.concatenate([p[c] for p in parts]) if len(parts) > 1 else parts[0][c]
        for c in parts[0]
    }
    _take_process(device, calls, device.pop("globalPid") == MISSING)
    _, codes = distinct(np.concatenate([device["process"], calls["process"]]))
    count = len(device["process"])
    for columns, process in ((device, codes[:count]), (calls, codes[count:])):
        columns["process"] = process
        columns["correlation"] = _unique_correlation(columns)
    good = sane(device["start"], device["end"])
    whole = _redundant_graphs(device)
    keep = good & ~whole
    if not keep.all():
        device = {c: v[keep] for c, v in device.items()}
    graphs = int(device.pop("graph").sum())
    nameless = names.values.index(NO_TEXT) if NO_TEXT in names.values else -1
    return Activities(
        device, _first_calls(calls), names.values, int((~good).sum()), graphs,
        int(((device["name"] == nameless) & (device["kind"] == KERNEL)).sum()),
    )  # fmt: skip


def sane(start: Ints, end: Ints) -> Bools:
    """Whether the times are there, in order, and such that their differences are numbers."""
    known = (start > NO_TIME // 2) & (end < -(NO_TIME // 2)) & (end >= start)
    result: Bools = known & (np.where(known, end, 0) - np.where(known, start, 0) <= MAX_DURATION_NS)
    return result


def _take_process(device: dict[str, Ints], calls: dict[str, Ints], unknown: Bools) -> None:
    """Activities of an unknown process are those of the one process that launched, if it is one."""
    process = distinct(calls["process"])[0]
    if unknown.any() and len(process) == 1:
        device["process"] = np.where(unknown, process[0], device["process"])
        device["pid"] = device["process"] & _PID_MASK


def _device_part(database: Database, table: str, kind: int, names: Names) -> dict[str, Ints]:
    known = database.columns(table)
    if missing := [c for c in _TIMES if c not in known]:
        raise DataError(
            f"{database.path}: table {table} has no column {missing[0]!r}; export the report again "
            "with a current `nsys export --type sqlite`"
        )
    name = next((c for c in _NAME_COLUMNS if c in known), "")
    graph = table.startswith(GRAPH_TABLE)
    extra = {KERNEL: name or "shortName", MEMCPY: "copyKind", MEMSET: "value"}[kind]
    extra = "graphId" if graph else extra
    columns = database.integers(table, [*_TIMES, *_PLACE, "bytes", extra])
    count = len(columns["start"])
    process = _process(columns["globalPid"])
    if graph:
        code = _labelled(columns[extra], names, "CUDA graph {}")
    elif kind == MEMCPY:
        code = _labelled(columns[extra], names, "Memcpy {}", _COPIES)
    elif kind == MEMSET:
        code = _labelled(np.zeros(count, dtype=np.int64), names, "Memset (Device)")
    else:
        code = names.of_ids(columns[extra], database)
    return {
        **{c: columns[c] for c in ("start", "end", "deviceId", "contextId", "streamId")},
        "kind": np.full(count, kind, dtype=np.int64), "name": code,
        "correlation": columns["correlationId"], "size": columns["bytes"],
        "process": process, "pid": process & _PID_MASK, "globalPid": columns["globalPid"],
        "graph": np.full(count, int(graph), dtype=np.int64),
    }  # fmt: skip


def _labelled(
    values: Ints, names: Names, pattern: str, meanings: dict[int, str] | None = None
) -> Ints:
    found, inverse = distinct(values)
    labels = [(meanings or {}).get(int(v), str(v)) for v in found]
    codes: Ints = names.codes([pattern.format(label) for label in labels])[inverse]
    return codes


def _calls(database: Database, names: Names) -> dict[str, Ints]:
    """Runtime and driver calls that start device work and did not fail."""
    wanted = ["start", "nameId", "globalTid", "correlationId", "returnValue"]
    starting = _starting(database)
    parts = []
    for table in database.tables("CUPTI_ACTIVITY_KIND_RUNTIME"):
        part = database.integers(table, wanted)
        # A call without a result is one that did not fail.
        keep = sane(part["start"], part["start"]) & np.isin(part["returnValue"], (0, MISSING))
        if starting is not None and "nameId" in database.columns(table):
            keep &= _member(part["nameId"], starting)
        parts.append({c: v[keep] if not keep.all() else v for c, v in part.items()})
    merged = {
        c: parts[0][c] if len(parts) == 1 else np.concatenate([p[c] for p in parts] or [_EMPTY])
        for c in wanted
    }
    return {
        "start": merged["start"], "end": merged["start"],  # nothing asks how long a call took
        "name": names.of_ids(merged["nameId"], database), "thread": merged["globalTid"],
        "process": _process(merged["globalTid"]), "correlation": merged["correlationId"],
    }  # fmt: skip


def _starting(database: Database) -> Ints | None:
    """Ids of the names of calls that start device work; None without a table of strings."""
    strings = database.tables("StringIds")
    if not strings:
        return None
    likes = " OR ".join(f"value LIKE '%{mark}%'" for mark in _CALLS)
    query = f'SELECT id FROM "{strings[0]}" WHERE {likes}'  # noqa: S608
    found = [row[0] for row in database.rows(query) if isinstance(row[0], int)]
    if not found and next(database.rows(f'SELECT count(*) FROM "{strings[0]}"'))[0] == 0:  # noqa: S608
        return None
    return np.array(sorted(found), dtype=np.int64)


def _member(values: Ints, wanted: Ints) -> Bools:
    if not len(values):
        return np.zeros(0, dtype=bool)
    ids, place = distinct(values)
    result: Bools = np.isin(ids, wanted)[place]
    return result


_EMPTY: Ints = np.zeros(0, dtype=np.int64)


def _process(serialized: Ints) -> Ints:
    return serialized >> _PID_SHIFT


def _unique_correlation(table: dict[str, Ints]) -> Ints:
    """Correlation ids count within a process; the process is made a part of the id."""
    raw = table["correlation"]
    low = raw & 0xFFFFFFFF
    return np.where(raw < 0, MISSING, (table["process"] << 32) | low)


def _redundant_graphs(device: dict[str, Ints]) -> Bools:
    """Records of whole graph launches whose kernels are there one by one as well."""
    graph: Bools = device["graph"] == 1
    if not graph.any():
        return graph
    kernels = (device["kind"] == KERNEL) & ~graph
    known = device["correlation"] != MISSING
    one_by_one = np.isin(device["correlation"], device["correlation"][kernels])
    result: Bools = graph & known & one_by_one
    return result


def _first_calls(calls: dict[str, Ints]) -> dict[str, Ints]:
    """One call per correlation id, the outermost: a driver call may stand inside a runtime call."""
    ids = calls["correlation"]
    if len(ids) and ids[0] != MISSING and (ids[1:] > ids[:-1]).all():
        return calls
    known = np.flatnonzero(ids != MISSING)
    order = known[np.lexsort((calls["start"][known], ids[known]))]
    ids = calls["correlation"][order]
    first = np.append(True, ids[1:] != ids[:-1]) if len(ids) else np.zeros(0, dtype=bool)
    return {c: v[order[first]] for c, v in calls.items()}
