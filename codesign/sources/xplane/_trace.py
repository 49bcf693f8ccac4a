"""From planes to the columns that the time line and the ops table are made from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign.sources._protobuf import Buffer
from codesign.sources.kineto._chunk import Findings
from codesign.sources.kineto._times import MAX_DURATION_NS, MISSING_ID, Ints
from codesign.sources.kineto.categories import ANNOTATION, KERNEL, MEMCPY, MEMSET, OP
from codesign.sources.kineto.events import Coder, CommArgs, Trace
from codesign.sources.xplane._calls import Calls
from codesign.sources.xplane._space import Event, Line, Plane, Space, read_events

_DEVICE_PLANE = re.compile(r"/device:(?:GPU|TPU|CUSTOM)\b[^/]*")
_GPU_STREAM = re.compile(r"Stream #")
_OP_LINES = ("XLA Ops", "Async XLA Ops")
_STEP_LINE = "Steps"
_COPY_BYTES = re.compile(r"\b(?:size|num_bytes):(\d{1,18})\b")
_HOST_CALLS = ("launch", "memcpy", "memset")
_PYTHON_FRAME = "$"
_MAX_STEPS = 100_000
_NS_LIMIT = 2**60


@dataclass
class Steps:
    """Windows that mark steps, and what marked them."""

    by: str = "none"
    windows: list[tuple[int, int, int]] = field(default_factory=list)
    """(number, start, end) in ns."""


@dataclass
class Columns:
    """A trace with what the reader needs beside it."""

    trace: Trace
    calls: Calls
    steps: Steps
    python_frames: bool
    dropped: int
    ordered: tuple[Ints, Ints]
    """Per device activity: its call's key, and the call itself, both -1 without one."""


def device_planes(space: Space) -> list[Plane]:
    """Planes of accelerators that hold any time line."""
    return [p for p in space.planes if _DEVICE_PLANE.fullmatch(p.name) and _op_lines(p)]


def _op_lines(plane: Plane) -> list[Line]:
    streams = [line for line in plane.lines if _GPU_STREAM.match(line.name)]
    return streams or [line for line in plane.lines if line.name in _OP_LINES]


def build(data: Buffer, space: Space) -> Columns:
    """Columns of everything that ran on devices. Raises WireError."""
    names: Coder[str] = Coder()
    calls = Calls(data, space)
    device = _Table("start end kind name device stream correlation external size call")
    devices: Coder[str] = Coder()
    dropped = streams = 0
    for plane in device_planes(space):
        label = devices.code(plane.name.removeprefix("/device:"))
        for line in _op_lines(plane):
            events, bad = _good(read_events(data, plane, line))
            dropped += bad
            if line.name in _OP_LINES:
                events = _leaves(events)
            _add_line(device, events, (plane, line), (label, streams), names, calls)
            streams += 1
    launches, steps, frames = _host(data, space, names, device)
    columns = device.columns()
    call = columns.pop("call")
    comm, comms = _messages(calls, columns["external"])
    return Columns(
        Trace(
            device={**columns, "comm": comm},
            launches=launches,
            ops=_ops(calls, steps, names),
            names=names.values, devices=devices.values, inputs=[(b"", b"", b"")], comms=comms,
            metadata={},
            findings=Findings(events=len(call) + dropped, dropped=dropped,
                              complete=space.cut_at is None),
            unknown_categories=[], python_events=int(frames), odd_args=0,
        ),
        calls, steps, frames, dropped, (columns["external"], call),
    )  # fmt: skip


def _messages(calls: Calls, key: Ints) -> tuple[Ints, list[CommArgs]]:
    """What collectives send, in the columns where NCCL's own arguments would stand."""
    coder: Coder[CommArgs] = Coder()
    code = np.full(len(calls.keys) + 1, -1, dtype=np.int64)  # the last is that of no call
    for i, known in enumerate(calls.keys):
        work = known.work
        if work.collective is not None:
            size = -1 if work.message_bytes is None else work.message_bytes
            code[i] = coder.code(CommArgs(
                collective=work.collective, in_elements=size, out_elements=size, dtype="byte",
                group_size=work.group_size or -1, group_ranks="",
            ))  # fmt: skip
    return code[key], coder.values


class _Table:
    """Rows of integers, column by column."""

    def __init__(self, names: str) -> None:
        self.names = names.split()
        self.rows: list[tuple[int, ...]] = []

    def columns(self) -> dict[str, Ints]:
        matrix = np.array(self.rows, dtype=np.int64).reshape(-1, len(self.names))
        return {n: np.ascontiguousarray(matrix[:, i]) for i, n in enumerate(self.names)}


def _good(events: list[Event]) -> tuple[list[Event], int]:
    """Events whose times make sense, and how many do not."""
    longest_ps = MAX_DURATION_NS * 1000
    good = [
        e for e in events if 0 <= e.duration_ps <= longest_ps and abs(e.start_ps) < _NS_LIMIT * 4
    ]
    return good, len(events) - len(good)


def _leaves(events: list[Event]) -> list[Event]:
    """Events that hold no other: a loop on a TPU's line encloses the ops that it runs."""
    order = sorted(events, key=lambda e: (e.start_ps, -e.duration_ps))
    holds = set()
    stack: list[Event] = []
    for event in order:
        end = event.start_ps + event.duration_ps
        while stack and stack[-1].start_ps + stack[-1].duration_ps <= event.start_ps:
            stack.pop()
        if stack and event.duration_ps and end <= stack[-1].start_ps + stack[-1].duration_ps:
            holds.add(id(stack[-1]))
        stack.append(event)
    return [e for e in events if id(e) not in holds]


def _add_line(
    table: _Table, events: list[Event], place: tuple[Plane, Line], codes: tuple[int, int],
    names: Coder[str], calls: Calls,
) -> None:  # fmt: skip
    """Device activities of one line; consecutive kernels of one instruction are one call."""
    plane, line = place
    previous, seen, call = -1, set[int](), -1
    for event in events:
        name = plane.event_names.get(event.meta, "")
        stats = event.stats
        kind = _kind(name, stats)
        kernel = names.code(calls.kernel_name(name, stats, plane.name) or "unnamed")
        key = calls.key(name, stats) if kind == KERNEL else MISSING_ID
        if key != previous or kernel in seen:
            call, seen = calls.next_call(), set()
        seen.add(kernel)
        previous = key
        start, end = _ns(line, event)
        table.rows.append((
            start, end, kind, kernel, *codes, _id(stats.get("correlation_id")),
            key, _copied(stats), call,
        ))  # fmt: skip


def _kind(name: str, stats: dict[str, int | float | str]) -> int:
    if name.startswith("Memset"):
        return MEMSET
    return MEMCPY if name.startswith("Memcpy") or "memcpy_details" in stats else KERNEL


def _ns(line: Line, event: Event) -> tuple[int, int]:
    """Start and end rounded to nanoseconds, each by itself, so that neighbours stay neighbours."""
    origin = max(-_NS_LIMIT, min(_NS_LIMIT, line.start_ns))
    start = (event.start_ps + 500) // 1000
    end = (event.start_ps + event.duration_ps + 500) // 1000
    return origin + start, origin + end


def _id(value: int | float | str | None) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**62 else MISSING_ID


def _copied(stats: dict[str, int | float | str]) -> int:
    match = _COPY_BYTES.search(str(stats.get("memcpy_details", "")))
    return int(match[1]) if match else MISSING_ID


def _host(
    data: Buffer, space: Space, names: Coder[str], device: _Table
) -> tuple[dict[str, Ints], Steps, bool]:
    """Launches by correlation id, the steps, and whether Python frames were recorded."""
    launches = _Table("start end name thread process correlation external timed")
    marked: list[tuple[int, int, int]] = []
    jitted: dict[str, list[tuple[int, int]]] = {}
    frames, thread = False, 0
    for plane in space.planes:
        if not plane.name.startswith("/host:"):
            continue
        frames |= any(n.startswith(_PYTHON_FRAME) for n in plane.event_names.values())
        steps = "step_num" in plane.stat_names.values()
        kinds = {i: n for i, n in plane.event_names.items()
                 if (steps and not n.startswith(_PYTHON_FRAME)) or _is_call(n)}  # fmt: skip
        for line in plane.lines:
            thread += 1
            for event in read_events(data, plane, line, kinds.__contains__):
                name = kinds[event.meta]
                start, end = _ns(line, event)
                number = event.stats.get("step_num")
                if isinstance(number, int):
                    marked.append((number, start, end))
                elif name.startswith("PjitFunction("):
                    jitted.setdefault(name, []).append((start, end))
                elif (ident := _id(event.stats.get("correlation_id"))) != MISSING_ID:
                    code = names.code(name)
                    launches.rows.append((start, end, code, thread, 0, ident, MISSING_ID, 1))
    return launches.columns(), _steps(data, space, marked, jitted, device), frames


def _is_call(name: str) -> bool:
    lowered = name.lower()
    return name.startswith("PjitFunction(") or any(mark in lowered for mark in _HOST_CALLS)


def _steps(
    data: Buffer, space: Space, marked: list[tuple[int, int, int]],
    jitted: dict[str, list[tuple[int, int]]], device: _Table,
) -> Steps:  # fmt: skip
    """By the program's own annotation, a TPU's step line, or calls of the one jitted function."""
    if marked:
        return Steps("step_num", sorted(marked, key=lambda w: w[1])[:_MAX_STEPS])
    for plane in device_planes(space):
        for line in plane.lines:
            if line.name == _STEP_LINE:
                windows = [(i, *_ns(line, e)) for i, e in enumerate(read_events(data, plane, line))]
                if windows:
                    return Steps("XLA step line", windows[:_MAX_STEPS])
    if len(jitted) == 1 and device.rows:
        (name, calls), = jitted.items()  # fmt: skip
        calls = _outermost(calls)
        if len(calls) > 1:
            last = max([calls[-1][1], *(row[1] for row in device.rows)])
            starts = [start for start, _ in calls] + [last + 1]
            windows = [(i, starts[i], starts[i + 1]) for i in range(len(calls))]
            return Steps(name, [w for w in windows if w[2] > w[1]][:_MAX_STEPS])
    return Steps()


def _outermost(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Windows in order without those inside another: a call is recorded by each layer of it."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(windows, key=lambda w: (w[0], -w[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def _ops(calls: Calls, steps: Steps, names: Coder[str]) -> dict[str, Ints]:
    """A row per distinct call, found by its number, and one per step."""
    table = _Table("start end kind name thread external inputs")
    low = -_NS_LIMIT * 2
    high = -low
    for key in range(len(calls.keys)):
        name = names.code(calls.placeholder(key))
        table.rows.append((low, high, OP, name, MISSING_ID - 1, key, 0))
    for number, start, end in _merged(steps.windows):
        name = names.code(f"step {number}")
        table.rows.append((start, end, ANNOTATION, name, MISSING_ID - 1, MISSING_ID, 0))
    return table.columns()


def _merged(windows: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """One window per step where several hosts or threads mark the same one."""
    found: dict[int, tuple[int, int]] = {}
    for number, start, end in windows:
        low, high = found.get(number, (start, end))
        found[number] = (min(low, start), max(high, end))
    return [(n, a, b) for n, (a, b) in found.items() if n >= 0]
