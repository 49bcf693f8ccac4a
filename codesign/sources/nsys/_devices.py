"""GPUs of a capture: which one an activity ran on, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.sources.nsys._database import Database, Ints, distinct


@dataclass
class Devices:
    """GPUs by label; ``code`` is an index into ``labels`` per activity."""

    labels: list[str]
    code: Ints
    names: dict[str, str]
    """Name that the driver reports, by label, of every GPU of the node."""
    notes: tuple[str, ...] = ()


def read_devices(database: Database, device: dict[str, Ints]) -> Devices:
    """The GPU of every activity.

    A process numbers the devices that it sees; where the file has the table, that
    number is translated to the node's own.
    """
    ids = device["deviceId"]
    notes: tuple[str, ...] = ()
    mapped = _node_ids(database)
    if mapped:
        pids, which = distinct(device["pid"])
        numbers, number = distinct(ids)
        # One entry per process and device that any process sees: a small table.
        node = np.array(
            [[mapped.get((int(p), int(d)), int(d)) for d in numbers] for p in pids], dtype=np.int64
        )
        ids = node[which, number]
    elif len(distinct(device["pid"])[0]) > 1:
        notes = ("several processes: a device is told by the number that its process gives it",)
    found, code = distinct(ids)
    return Devices([str(int(d)) for d in found], code, _names(database), notes)


def _node_ids(database: Database) -> dict[tuple[int, int], int]:
    """Node-wide id of a GPU by (process, the process's own number of it)."""
    found: dict[tuple[int, int], int] = {}
    for table in database.tables("TARGET_INFO_CUDA_DEVICE"):
        if {"gpuId", "cudaId", "pid"} <= database.columns(table):
            columns = database.integers(table, ("pid", "cudaId", "gpuId"))
            rows = zip(*(columns[c].tolist() for c in ("pid", "cudaId", "gpuId")), strict=True)
            found |= {(pid & 0xFFFFFF, cuda): gpu for pid, cuda, gpu in rows}
    return found


def _names(database: Database) -> dict[str, str]:
    found: dict[str, str] = {}
    for table in database.tables("TARGET_INFO_GPU"):
        if {"id", "name"} <= database.columns(table):
            rows = database.rows(f'SELECT id, name FROM "{table}"')  # noqa: S608
            found |= {str(i): str(n).strip()[:200] for i, n in rows if n is not None}
    return dict(sorted(found.items()))
