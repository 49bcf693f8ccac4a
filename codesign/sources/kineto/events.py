"""Columns of a trace: integer nanoseconds and coded names, no list of records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from codesign.sources.kineto._bytestream import ByteStream, located_error
from codesign.sources.kineto._chunk import Chunk, Findings
from codesign.sources.kineto._times import (
    INVALID_NS,
    MAX_DURATION_NS,
    Ints,
    one_count,
    to_ids,
    to_ns,
)
from codesign.sources.kineto._typed import (
    DeviceArgs,
    DeviceEvent,
    Id,
    LaunchArgs,
    LaunchEvent,
    OpArgs,
    OpEvent,
)
from codesign.sources.kineto.categories import (
    CATEGORIES,
    IGNORED,
    KERNEL,
    LAUNCH,
    MEMCPY,
    MEMSET,
)  # fmt: skip
from codesign.sources.kineto.classify import inputs_read
from codesign.sources.kineto.decode import EventReader

T = TypeVar("T")
_ON_DEVICE = (KERNEL, MEMCPY, MEMSET)
_NO_INPUTS = (b"", b"", b"")
_NO_DEVICE_ARGS, _NO_LAUNCH_ARGS, _NO_OP_ARGS = DeviceArgs(), LaunchArgs(), OpArgs()


class CommArgs(msgspec.Struct, frozen=True, gc=False):
    """NCCL arguments of a kernel, as recorded."""

    collective: str
    in_elements: int
    out_elements: int
    dtype: str
    group_size: int
    group_ranks: str
    group: str = ""
    """Name of the process group, the same on all of its ranks."""


class Coder(Generic[T]):
    """Distinct values in order of first sight; a value's code is its place."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._codes: dict[T, int] = {}

    def code(self, value: T) -> int:
        """Code of ``value``, a new one if it was not seen before."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def codes(self, values: Sequence[T]) -> Ints:
        """Codes of ``values``."""
        codes: list[int | None] = list(map(self._codes.get, values))
        if None in codes:
            codes = [self.code(v) for v in values]
        return np.array(codes, dtype=np.int64)


@dataclass
class Trace:
    """One rank's trace. Tables are dicts of equally long int64 columns; times in ns."""

    device: dict[str, Ints]
    """start, end, kind, name, device, stream, correlation, external, size, comm."""
    launches: dict[str, Ints]
    """start, end, name, thread, process, correlation, external."""
    ops: dict[str, Ints]
    """start, end, kind, name, thread, external, inputs; record: the record function id, under
    which an execution trace knows the op; process, coded as that of launches (absent where
    all are of one process)."""
    names: list[str]
    devices: list[str]
    inputs: list[tuple[bytes, bytes, bytes]]
    """Text of ``Input Dims``, ``Input type`` and, where it matters, ``Concrete Inputs``;
    entry 0 is empty."""
    comms: list[CommArgs]
    metadata: dict[str, msgspec.Raw]
    findings: Findings
    unknown_categories: list[str]
    python_events: int
    odd_args: int
    processes: list[str] = field(default_factory=list)
    """Names of the processes of launches, by code."""
    sha256: str = ""
    size: int = 0


@dataclass
class _Table:
    parts: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))

    def add(self, **columns: Ints) -> None:
        for name, values in columns.items():
            self.parts[name].append(values)

    def join(self, names: str) -> dict[str, Ints]:
        columns = {}
        for name in names.replace(",", " ").split():
            parts = self.parts.pop(name, [])
            columns[name] = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        return columns


class TraceBuilder:
    """Collects the columns chunk by chunk."""

    def __init__(self, stream: ByteStream, *, repair: bool) -> None:
        self._stream = stream
        self._repair = repair
        self._names: Coder[str] = Coder()
        self._threads: Coder[tuple[Id, Id]] = Coder()
        self._processes: Coder[Id] = Coder()
        self._devices: Coder[tuple[str, str]] = Coder()
        self._streams: Coder[str] = Coder()
        self._inputs: Coder[tuple[bytes, bytes, bytes]] = Coder()
        self._inputs.code(_NO_INPUTS)
        self._comms: Coder[CommArgs] = Coder()
        self._device, self._launch, self._op = _Table(), _Table(), _Table()
        self._categories: Counter[str] = Counter()
        self._reads: list[int] = []
        self._odd_phases = 0
        self._thread_code: dict[tuple[Id, Id], int] = {}

    def add(self, chunk: Chunk, reader: EventReader) -> None:
        """Take the events of one chunk.

        Raises DataError for a kernel or copy whose time is missing or negative,
        unless repairing, where it is dropped and counted.
        """
        timed = self._timed(chunk)
        if timed is None:
            chunk = reader.exact(chunk)
            timed = self._timed(chunk)
            assert timed is not None
        for category, events in chunk.groups.items():
            self._categories[category.lower()] += len(events)
        for category, (events, starts, lasts) in timed.items():
            kind = CATEGORIES[category.lower()]
            if kind in _ON_DEVICE:
                bad = self._untimed(category, events, (starts, lasts), chunk, reader.findings)
                if bad is not None:
                    events = [e for e, b in zip(events, bad, strict=True) if not b]  # noqa: PLW2901
                    starts, lasts = starts[~bad], lasts[~bad]  # noqa: PLW2901
                if events:
                    self._add_device(kind, events, starts, lasts)
            elif kind == LAUNCH:
                self._add_launches(events, starts, lasts)
            else:
                self._add_ops(kind, events, starts, lasts)

    def _timed(self, chunk: Chunk) -> dict[str, tuple[list[Any], Ints, Ints]] | None:
        """Kept events by category with start and duration; None if floats would round those."""
        timed = {}
        for category, group in chunk.groups.items():
            kind = CATEGORIES.get(category.lower(), IGNORED)
            if kind == IGNORED:
                continue
            events = [e for e in group if e.ph == "X"]
            if kind in _ON_DEVICE:
                self._odd_phases += len(group) - len(events)
            if not events:
                continue
            starts, lasts = to_ns([e.ts for e in events]), to_ns([e.dur for e in events])
            if starts is None or lasts is None:
                return None
            timed[category] = events, starts, lasts
        return timed

    def _untimed(
        self, category: str, events: list[DeviceEvent], times: tuple[Ints, Ints],
        chunk: Chunk, findings: Findings,
    ) -> npt.NDArray[np.bool_] | None:  # fmt: skip
        """Events without a usable time, to be dropped; None if all have one."""
        starts, lasts = times
        bad: npt.NDArray[np.bool_] = (
            (starts == INVALID_NS) | (lasts < 0) | (lasts > MAX_DURATION_NS)
        )
        if not bad.any():
            return None
        if not self._repair:
            event = events[int(bad.argmax())]
            index = next(i for i, e in enumerate(chunk.groups[category]) if e is event)
            ts, dur = (str(_shown(t))[:40] for t in (event.ts, event.dur))
            raise located_error(
                self._stream, chunk.offset_of(category, index),
                f"{category} {(event.name or '')[:80]!r} has ts={ts}, dur={dur}; "
                "expected microseconds, dur not negative and below ten days",
                "--repair drops such events",
            )  # fmt: skip
        findings.dropped += int(bad.sum())
        return bad

    def _add_device(self, kind: int, events: list[DeviceEvent], starts: Ints, lasts: Ints) -> None:
        args = [e.args or _NO_DEVICE_ARGS for e in events]
        comm = np.full(len(events), -1, dtype=np.int64)
        for i, a in enumerate(args):
            if a.collective is not None or a.in_elements is not None:
                comm[i] = self._comms.code(_comm(a))
        self._device.add(
            start=starts, end=starts + lasts, comm=comm,
            kind=np.full(len(events), kind, dtype=np.int64),
            name=self._names.codes([e.name or "" for e in events]),
            device=self._devices.codes(
                [(_number(e.pid if a.device is None else a.device), _number(e.pid))
                 for e, a in zip(events, args, strict=True)]
            ),
            stream=self._streams.codes(
                [_number(e.tid if a.stream is None else a.stream)
                 for e, a in zip(events, args, strict=True)]
            ),
            correlation=to_ids([a.correlation for a in args]),
            external=to_ids(_external(args)),
            size=to_ids([a.size for a in args]),
        )  # fmt: skip

    def _add_launches(self, events: list[LaunchEvent], starts: Ints, lasts: Ints) -> None:
        args = [e.args or _NO_LAUNCH_ARGS for e in events]
        known = starts != INVALID_NS
        self._launch.add(
            start=np.where(known, starts, 0), end=np.where(known, starts + np.maximum(lasts, 0), 0),
            name=self._names.codes([e.name or "" for e in events]),
            thread=self._thread_codes(events),
            process=self._processes.codes([e.pid for e in events]),
            correlation=to_ids([a.correlation for a in args]),
            external=to_ids(_external(args)),
            timed=known.astype(np.int64),
        )  # fmt: skip

    def _add_ops(self, kind: int, events: list[OpEvent], starts: Ints, lasts: Ints) -> None:
        known = starts != INVALID_NS
        if not known.all():
            events = [e for e, k in zip(events, known, strict=True) if k]
            starts, lasts = starts[known], lasts[known]
            if not events:
                return
        args = [e.args or _NO_OP_ARGS for e in events]
        names = self._names.codes([e.name or "" for e in events])
        self._op.add(
            start=starts, end=starts + np.maximum(lasts, 0),
            kind=np.full(len(events), kind, dtype=np.int64), name=names,
            thread=self._thread_codes(events),
            external=to_ids(_external(args)),
            inputs=self._input_codes(names, args),
            record=to_ids([a.record for a in args]),
        )  # fmt: skip

    def _input_codes(self, names: Ints, args: list[OpArgs]) -> Ints:
        """Codes of the recorded inputs of the ops whose inputs are read, 0 of others."""
        for name in self._names.values[len(self._reads) :]:
            self._reads.append(inputs_read(name))
        reads = np.array(self._reads, dtype=np.int64)[names]
        codes = np.zeros(len(args), dtype=np.int64)
        rows = np.flatnonzero(reads).tolist()
        codes[rows] = self._inputs.codes([
            (bytes(a.dims), bytes(a.types) or bytes(a.types_old),
             bytes(a.concrete) if reads[i] > 1 else b"")
            for i in rows if (a := args[i])
        ])  # fmt: skip
        return codes

    def _thread_codes(self, events: Sequence[LaunchEvent] | Sequence[OpEvent]) -> Ints:
        pairs = [(e.pid, e.tid) for e in events]
        codes = list(map(self._thread_code.get, pairs))
        if None in codes:
            for pid, tid in pairs:
                self._thread_code[pid, tid] = self._threads.code((pid, _thread(tid)))
            codes = [self._thread_code[pair] for pair in pairs]
        return np.array(codes, dtype=np.int64)

    def finish(self, reader: EventReader) -> Trace:
        """The columns; the builder is used up."""
        unknown = sorted(c for c in self._categories if c not in CATEGORIES)
        if self._odd_phases:
            reader.findings.lapses.add(
                f"{self._odd_phases} device events that are not complete ones (ph X), left out"
            )
        ops = self._op.join("start end kind name thread external inputs record")
        if len(self._processes.values) > 1:
            of_thread = [self._processes.code(pid) for pid, _ in self._threads.values]
            ops["process"] = np.array(of_thread, dtype=np.int64)[ops["thread"]]
        return Trace(
            device=self._device.join(
                "start end kind name device stream correlation external size comm"
            ),
            launches=self._launch.join("start end name thread process correlation external timed"),
            ops=ops,
            names=self._names.values, devices=_device_labels(self._devices.values),
            inputs=self._inputs.values, comms=self._comms.values,
            metadata=reader.metadata, findings=reader.findings, unknown_categories=unknown,
            python_events=self._categories["python_function"], odd_args=reader.odd_args,
            processes=[_number(pid)[:100] for pid in self._processes.values],
        )  # fmt: skip


def load_trace(stream: ByteStream, *, allow_truncated: bool, repair: bool) -> Trace:
    """Read one trace file into columns.

    Raises DataError for what cannot be read; see ``EventReader`` and ``TraceBuilder``.
    """
    reader = EventReader(stream, allow_truncated=allow_truncated, repair=repair)
    builder = TraceBuilder(stream, repair=repair)
    for chunk in reader.chunks():
        builder.add(chunk, reader)
    trace = builder.finish(reader)
    trace.sha256 = stream.sha256()
    trace.size = stream.size
    return trace


def _device_labels(devices: Sequence[tuple[str, str]]) -> list[str]:
    """A label for each (device, pid of its events): where ranks of several nodes were merged,
    their devices have the same number, and only the pid tells them apart.
    """
    shared = Counter(device for device, _ in devices)
    return [
        device if shared[device] == 1 else f"{device} of process {pid}" for device, pid in devices
    ]


def _external(args: Sequence[DeviceArgs] | Sequence[LaunchArgs] | Sequence[OpArgs]) -> list[Id]:
    return [a.external_old if a.external is None else a.external for a in args]


def _number(value: Id) -> str:
    # Some exporters write whole numbers with a point, now and then.
    return str(value).removesuffix(".0")


def _shown(time: object) -> object:
    shown = bytes(time).decode("utf-8", "replace") if isinstance(time, msgspec.Raw) else time
    blank = isinstance(shown, str) and not shown.strip(' "')
    return "no number" if blank or shown is None else shown


def _thread(tid: Id) -> Id:
    # Old exporters write the same thread id now as a number, now as text.
    return int(tid) if isinstance(tid, str) and tid.isascii() and tid.isdigit() else tid


def _comm(args: DeviceArgs) -> CommArgs:
    numbers = [one_count(n) for n in (args.in_elements, args.out_elements, args.group_size)]
    return CommArgs(
        collective=args.collective or "", in_elements=numbers[0], out_elements=numbers[1],
        dtype=args.dtype or "", group_size=numbers[2], group_ranks=str(args.group_ranks or ""),
        group="" if args.group is None else str(args.group),
    )  # fmt: skip
