"""Nsight Systems' SQLite export to a characterization: the public entry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from codesign._common.errors import DataError
from codesign._common.files import sha256
from codesign.hardware import load_system
from codesign.sources.kineto._chunk import Findings
from codesign.sources.kineto._duplicates import drop_duplicates
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.rank import characterize_rank
from codesign.sources.nsys._activities import Activities, Names, read_activities
from codesign.sources.nsys._database import MISSING, Database, Ints, distinct, open_database
from codesign.sources.nsys._devices import Devices, read_devices
from codesign.sources.nsys._ranges import Ranges, read_ranges
from codesign.workload.characterization import Characterization, Header, Reliability, SourceFile

_MAX_MESSAGES = 5
_PID_SHIFT = 24
_WARNING_AND_ERROR = "(2, 3)"
# "Not all CUDA events might have been collected" and the like, of the events used here.
_LOST = re.compile(
    r"(not all|lost|drop|missing|incomplete|overflow|exceed).*(cuda|cupti|gpu|kernel)"
    r"|(cuda|cupti|gpu|kernel).*(lost|drop|missing|incomplete|overflow|exceed)",
    re.IGNORECASE,
)


def read_nsys(
    path: str | Path, *, system: str | None = None, workload: str | None = None
) -> Characterization:
    """Characterize a capture of Nsight Systems, exported by ``nsys export --type sqlite``.

    The ops are those of the busiest GPU; ``header.steps`` has every GPU by itself. NVTX
    ranges name the ops and mark the steps (``ProfilerStep#N``, ``step N``...); those of
    PyTorch's ``emit_nvtx(record_shapes=True)`` give shapes. Steps, exposed and idle time
    follow the conventions of the Kineto reader, whose time line this uses.

    Args:
        path: the ``.sqlite`` file.
        system: name of the system, where the devices of the file do not tell it.
        workload: name of the workload; by default the file's.

    Raises:
        DataError: the file is not SQLite, is damaged, or holds no device activity.
        UsageError: an unknown system.
    """
    path = Path(path)
    if system is not None:
        system = load_system(system).name
    with open_database(path) as database:
        capture = _capture(database)
    trace = _trace(capture)
    trace.findings.duplicates = drop_duplicates(trace)
    # Of the columns only what the trace has is needed from here on: first use of memory is slow.
    capture.activities.device.clear()
    capture.activities.launches.clear()
    capture.devices.code = capture.devices.code[:0]
    lead = characterize_rank(trace, str(path), system)
    lead.ops["source"] = path.name
    return Characterization(_header(lead.header, capture, path, workload), lead.ops)


@dataclass(frozen=True)
class _Capture:
    """What the file holds, read in one go while it is open."""

    activities: Activities
    ranges: Ranges
    devices: Devices
    software: dict[str, str]
    messages: tuple[str, ...]


def _capture(database: Database) -> _Capture:
    names = Names()
    activities = read_activities(database, names)
    if not activities.device or not len(activities.device["start"]):
        bad = f" with a possible time ({n} have none)" if (n := activities.dropped) else ""
        raise DataError(
            f"{database.path}: no device activity: no CUPTI_ACTIVITY_KIND_KERNEL, MEMCPY, MEMSET "
            f"or GRAPH_TRACE rows{bad}; capture with `nsys profile --trace=cuda,nvtx`"
        )
    ranges = read_ranges(database, activities, names)
    return _Capture(
        activities, ranges, read_devices(database, activities.device), _software(database),
        _messages(database),
    )  # fmt: skip


def _trace(capture: _Capture) -> Trace:
    """The columns that the time line and the ops table are made from."""
    device, launches, ranges = (
        capture.activities.device, capture.activities.launches, capture.ranges,
    )  # fmt: skip
    count = len(device["start"])
    labels, code = capture.devices.labels, capture.devices.code
    stream = code
    for column in ("process", "contextId", "streamId"):
        values, place = distinct(device[column])
        _, stream = distinct(stream * len(values) + place)
    if ranges.process is not None:
        # Which process marks its steps how, coded alike on both sides.
        owners = np.concatenate([launches["thread"] >> _PID_SHIFT, ranges.process])
        if len(distinct(owners)[0]) > 1:
            _, owner = distinct(owners)
            cut = len(launches["thread"])
            launches = {**launches, "process": owner[:cut]}
            ranges.ops["process"] = owner[cut:]
    properties = [{"id": k, "name": n} for k, n in capture.devices.names.items()]
    missing = _same(MISSING, count)
    return Trace(
        device={
            **{c: device[c] for c in ("start", "end", "kind", "name", "correlation", "size")},
            "device": code, "stream": stream,
            "external": ranges.external, "comm": missing,
        },
        launches={
            **launches,
            "external": _same(MISSING, len(launches["start"])),
            "timed": _same(1, len(launches["start"])),
        },
        ops=ranges.ops, names=capture.activities.names, devices=labels, inputs=ranges.inputs,
        comms=[],
        metadata={"deviceProperties": msgspec.Raw(msgspec.json.encode(properties))},
        findings=Findings(events=count, dropped=capture.activities.dropped),
        unknown_categories=[], python_events=0, odd_args=0,
    )  # fmt: skip


def _same(value: int, count: int) -> Ints:
    """A column of one value, in the memory of one."""
    column: Ints = np.broadcast_to(np.int64(value), count)
    return column


# What the Kineto reader advises, in this profiler's words.
_ADVICE = {
    "coverage: 0 % of GPU time has shapes": "coverage: 0 % of GPU time has shapes, FLOPs are "
    "unknown: put torch.autograd.profiler.emit_nvtx(record_shapes=True) around the workload",
    "no steps are marked (": "no steps are marked by an NVTX range (ProfilerStep#N, step N, "
    "iteration N): the whole capture counts as one step",
}


def _header(header: Header, capture: _Capture, path: Path, workload: str | None) -> Header:
    warnings = [_reworded(w) for w in header.quality.warnings]
    reliability = {
        q: Reliability(r.reliable, tuple(_reworded(t) for t in r.reasons))
        for q, r in header.quality.reliability.items()
    }

    def doubt(text: str, *quantities: str) -> None:
        warnings.append(text)
        for q in quantities:
            reasons = reliability.get(q, Reliability(True)).reasons
            reliability[q] = Reliability(False, (*reasons, text))

    if graphs := capture.activities.graphs:
        doubt(
            f"{graphs} CUDA graph launches were recorded whole, without their kernels: what is "
            "inside is unknown; capture with --cuda-graph-trace=node",
            "exposed",
            "flops",
        )
    if nameless := capture.activities.nameless:
        doubt(f"{nameless} kernels have no name in the file (table StringIds), so no class either")
    for message in capture.messages:
        lost = _LOST.search(message) is not None
        doubt(f"the profiler says: {message}", *(("idle", "launch", "exposed") if lost else ()))
    quality = msgspec.structs.replace(
        header.quality, warnings=tuple(dict.fromkeys(warnings)), reliability=reliability
    )
    return msgspec.structs.replace(
        header,
        workload=workload or path.stem,
        quality=quality,
        capture_method="nsight-systems",
        software=capture.software,
        notes=_notes(capture, header),
        sources=(SourceFile(path.name, sha256(path), path.stat().st_size),),
    )


def _reworded(text: str) -> str:
    return next((new for old, new in _ADVICE.items() if text.startswith(old)), text)


def _notes(capture: _Capture, header: Header) -> tuple[str, ...]:
    ranges, devices = capture.ranges, capture.devices
    notes = [f"device {k}: {n}" for k, n in devices.names.items() if k in devices.labels]
    notes += list(devices.notes)
    notes.append(f"steps by {header.quality.steps_by}")
    if ranges.push_pop or ranges.start_end:
        notes.append(f"NVTX: {ranges.push_pop} push/pop and {ranges.start_end} start/end ranges")
    for kind, count in sorted((ranges.unattributed or {}).items()):
        if count:
            notes.append(f"{count} NVTX ranges of type {kind} not attributed: no launch inside")
    if ranges.unclosed:
        notes.append(f"{ranges.unclosed} NVTX ranges have no end and were left out")
    return tuple(notes)


def _software(database: Database) -> dict[str, str]:
    wanted = {"EXPORT_PRODUCT_VERSION": "nsight-systems", "EXPORT_SCHEMA_VERSION": "nsys_schema"}
    found: dict[str, str] = {}
    for table in database.tables("META_DATA_EXPORT"):
        if {"name", "value"} <= database.columns(table):
            query = f'SELECT name, value FROM "{table}"'  # noqa: S608
            found |= {
                wanted[str(name)]: str(value)[:100]
                for name, value in database.rows(query)
                if str(name) in wanted
            }
    return found


def _messages(database: Database) -> tuple[str, ...]:
    """What the profiler itself complained of: its warnings and errors."""
    found: list[str] = []
    for table in database.tables("DIAGNOSTIC_EVENT"):
        if {"severity", "text"} <= database.columns(table):
            where = f"severity IN {_WARNING_AND_ERROR} LIMIT 50"
            query = f'SELECT DISTINCT text FROM "{table}" WHERE {where}'  # noqa: S608
            found += [" ".join(str(row[0]).split())[:200] for row in database.rows(query)]
    if len(found) > _MAX_MESSAGES:
        return (*found[:_MAX_MESSAGES], f"... and {len(found) - _MAX_MESSAGES} more messages")
    return tuple(found)
