"""Several processes in one file, which number their launches alike: whose activity is whose."""

from __future__ import annotations

import numpy as np

from codesign.sources.kineto._times import MISSING_ID, Ints
from codesign.sources.kineto.categories import KERNEL
from codesign.sources.kineto.coverage import occurrences
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.timeline import TOLERATED_OVERLAP_NS

UNKNOWN = -1
# Share of a device's own ids that one process has to have launched for the device to be its.
_DECISIVE = 0.9


def mixed_processes(trace: Trace) -> bool:
    """Whether several processes launched under the same correlation ids (merged ranks)."""
    launches = trace.launches
    ids = launches["correlation"]
    keep = ids != MISSING_ID
    process = launches["process"][keep]
    if len(process) == 0 or (process == process[0]).all():
        return False  # the usual case, and sorting millions of pairs is slow
    ids = ids[keep]
    if (ids[1:] > ids[:-1]).all():
        return False
    order = np.argsort(ids, kind="stable")
    ids, process = ids[order], process[order]
    return bool(((ids[1:] == ids[:-1]) & (process[1:] != process[:-1])).any())


def ids_by_process(trace: Trace) -> tuple[Ints, Ints]:
    """Ids of device activities and of launches that are equal only within a process.

    An activity has MISSING_ID where the process of its device is not known.
    """
    owner = _owners(trace)[trace.device["device"]]
    own, asked = trace.device["correlation"], trace.launches["correlation"]
    process = trace.launches["process"]
    _, code = np.unique(np.concatenate([own, asked]), return_inverse=True)
    count = int(process.max()) + 1
    wanted = np.where(
        (own == MISSING_ID) | (owner == UNKNOWN), MISSING_ID, code[: len(own)] * count + owner
    )
    given = np.where(asked == MISSING_ID, MISSING_ID, code[len(own) :] * count + process)
    return wanted, given


def split_devices(trace: Trace, launch: Ints) -> list[str]:
    """Give each process a device of its own where several cannot have shared one.

    Ranks that see one GPU each all call it 0. Their kernels (``launch`` per activity) then
    overlap on one stream, which no stream does. Returns the labels of the devices that were
    split.
    """
    process = np.full(len(launch), UNKNOWN, dtype=np.int64)
    linked = launch >= 0
    process[linked] = trace.launches["process"][launch[linked]]
    known = np.flatnonzero(linked & (trace.device["kind"] == KERNEL))
    if not known.size or (process[known] == process[known[0]]).all():
        return []
    columns = (trace.device[c][known] for c in ("start", "end", "stream", "device"))
    start, end, stream, device = columns
    order = np.lexsort((start, stream, device))
    start, end, stream, device = (c[order] for c in (start, end, stream, device))
    owner = process[known][order]
    torn = (stream[1:] == stream[:-1]) & (device[1:] == device[:-1]) & (owner[1:] != owner[:-1])
    torn &= end[:-1] - start[1:] >= TOLERATED_OVERLAP_NS
    codes = np.unique(device[1:][torn])
    for code in codes.tolist():
        on_it = trace.device["device"] == code
        every, votes = np.unique(owner[device == code], return_counts=True)
        # What has no launch stays with the process that launched most.
        lead = int(every[votes.argmax()])
        label = trace.devices[code]
        for one in every.tolist():
            named = f"{label} of process {_name(trace, one)}"
            if one == lead:
                trace.devices[code] = named
            else:
                trace.device["device"][on_it & (process == one)] = len(trace.devices)
                trace.devices.append(named)
    return [trace.devices[code] for code in codes.tolist()]


def _name(trace: Trace, process: int) -> str:
    return trace.processes[process] if process < len(trace.processes) else str(process)


def _owners(trace: Trace) -> Ints:
    """Process that each device (by code) works for, UNKNOWN where nothing tells it.

    Ids that a single process launched tell it at once. Of ids that several did, and that ran
    on as many devices, the first to launch is taken for the first to run.
    """
    ids, process, begin = _first(
        trace.launches["correlation"], trace.launches["process"], trace.launches["start"]
    )
    kernel = trace.device["kind"] == KERNEL
    columns = ("correlation", "device", "start")
    ran, device, start = _first(*(trace.device[c][kernel] for c in columns))
    asked = occurrences(ids, ran)
    alone = np.flatnonzero(asked == 1)
    certain = device[alone], process[np.searchsorted(ids, ran[alone])]
    shared = np.flatnonzero((asked > 1) & (asked == occurrences(ran, ran)))
    mine = np.isin(ids, ran[shared])
    order = np.lexsort((begin[mine], ids[mine]))
    likely = device[shared[np.lexsort((start[shared], ran[shared]))]], process[mine][order]
    owner = np.full(len(trace.devices), UNKNOWN, dtype=np.int64)
    for votes, share in ((likely, 0.5), (certain, _DECISIVE)):
        _elect(owner, *votes, share)
    return owner


def _elect(owner: Ints, device: Ints, process: Ints, share: float) -> None:
    """Write into ``owner`` the process that has more than ``share`` of a device's votes."""
    if not device.size:
        return
    span = int(process.max()) + 1
    pairs, votes = np.unique(device * span + process, return_counts=True)
    total = np.bincount(device, minlength=len(owner))
    won = votes > share * total[pairs // span]
    owner[pairs[won] // span] = pairs[won] % span


def _first(ids: Ints, of: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct pairs of id and owner with the first time of each, ordered by id."""
    known = np.flatnonzero(ids != MISSING_ID)
    order = known[np.lexsort((times[known], of[known], ids[known]))]
    ids, of = ids[order], of[order]
    new = np.ones(len(ids), dtype=bool)
    new[1:] = (ids[1:] != ids[:-1]) | (of[1:] != of[:-1])
    return ids[new], of[new], times[order][new]
