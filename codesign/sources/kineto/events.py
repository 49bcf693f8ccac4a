"""Columns of a trace: integer nanoseconds and coded names, no list of records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
import numpy as np

from codesign.sources.kineto._bytestream import ByteStream
from codesign.sources.kineto._scan import Event
from codesign.sources.kineto._times import (
    INVALID_NS,
    MAX_DURATION_NS,
    Ints,
    text_to_ns,
    to_ids,
    to_ns,
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
from codesign.sources.kineto.decode import Chunk, EventReader, Findings, located_error

_Id = int | float | str | None
T = TypeVar("T")
A = TypeVar("A", bound=msgspec.Struct)
_NO_INPUTS = (b"", b"", b"")
_NO_TEXT = msgspec.Raw(b"")


class DeviceArgs(msgspec.Struct, gc=False):
    """Arguments of a kernel, copy or memset."""

    device: _Id = None
    stream: _Id = None
    correlation: _Id = None
    external: _Id = msgspec.field(default=None, name="External id")
    external_old: _Id = msgspec.field(default=None, name="external id")
    size: _Id = msgspec.field(default=None, name="bytes")
    collective: str | None = msgspec.field(default=None, name="Collective name")
    in_elements: _Id = msgspec.field(default=None, name="In msg nelems")
    out_elements: _Id = msgspec.field(default=None, name="Out msg nelems")
    dtype: str | None = None
    group_size: _Id = msgspec.field(default=None, name="Group size")
    group_ranks: _Id = msgspec.field(default=None, name="Process Group Ranks")


class LaunchArgs(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: _Id = None
    external: _Id = msgspec.field(default=None, name="External id")
    external_old: _Id = msgspec.field(default=None, name="external id")


class OpArgs(msgspec.Struct, gc=False):
    """Arguments of an operator or annotation; shapes stay text until needed."""

    external: _Id = msgspec.field(default=None, name="External id")
    external_old: _Id = msgspec.field(default=None, name="external id")
    dims: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input type")
    types_old: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input Type")
    concrete: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Concrete Inputs")


class CommArgs(msgspec.Struct, frozen=True, gc=False):
    """NCCL arguments of a kernel, as recorded."""

    collective: str
    in_elements: int
    out_elements: int
    dtype: str
    group_size: int
    group_ranks: str


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
        return np.array([self.code(v) for v in values], dtype=np.int64)


@dataclass
class Trace:
    """One rank's trace. Tables are dicts of equally long int64 columns; times in ns."""

    device: dict[str, Ints]
    """start, end, kind, name, device, stream, correlation, external, size, comm."""
    launches: dict[str, Ints]
    """start, end, name, thread, process, correlation, external."""
    ops: dict[str, Ints]
    """start, end, kind, name, thread, external, inputs."""
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
        self._threads: Coder[tuple[_Id, _Id]] = Coder()
        self._processes: Coder[_Id] = Coder()
        self._devices: Coder[str] = Coder()
        self._streams: Coder[str] = Coder()
        self._inputs: Coder[tuple[bytes, bytes, bytes]] = Coder()
        self._inputs.code(_NO_INPUTS)
        self._comms: Coder[CommArgs] = Coder()
        self._device, self._launch, self._op = _Table(), _Table(), _Table()
        self._categories: Counter[str] = Counter()
        self._odd_args = 0
        self._device_args = self._args_reader(DeviceArgs)
        self._launch_args = self._args_reader(LaunchArgs)
        self._op_args = self._args_reader(OpArgs)

    def add(self, chunk: Chunk, findings: Findings) -> None:
        """Take the events of one chunk.

        Raises DataError for a kernel or copy whose time is missing or negative,
        unless repairing, where it is dropped and counted.
        """
        buckets: dict[str | None, list[Event]] = defaultdict(list)
        for event in chunk.events:
            buckets[event.cat].append(event)
        exact: dict[int, tuple[msgspec.Raw, msgspec.Raw]] = {}
        for category, events in buckets.items():
            name = (category or "").lower()
            self._categories[name] += len(events)
            kind = CATEGORIES.get(name, IGNORED)
            if kind == IGNORED:
                continue
            events = [e for e in events if e.ph == "X"]  # noqa: PLW2901
            if not events:
                continue
            starts = to_ns([e.ts for e in events])
            lasts = to_ns([e.dur for e in events])
            if starts is None or lasts is None:
                if not exact:
                    again = chunk.exact_events()
                    exact = {id(e): (x.ts, x.dur) for e, x in zip(chunk.events, again, strict=True)}
                pairs = [exact[id(e)] for e in events]
                starts = text_to_ns([p[0] for p in pairs])
                lasts = text_to_ns([p[1] for p in pairs])
            if kind in (KERNEL, MEMCPY, MEMSET):
                self._add_device(kind, events, (starts, lasts), chunk, findings)
            elif kind == LAUNCH:
                self._add_launches(events, starts, lasts)
            else:
                self._add_ops(kind, events, starts, lasts)

    def _add_device(
        self, kind: int, events: list[Event], times: tuple[Ints, Ints],
        chunk: Chunk, findings: Findings,
    ) -> None:  # fmt: skip
        starts, lasts = times
        bad = (starts == INVALID_NS) | (lasts < 0) | (lasts > MAX_DURATION_NS)
        if bad.any():
            if not self._repair:
                self._refuse(events[int(bad.argmax())], chunk)
            findings.dropped += int(bad.sum())
            events = [e for e, b in zip(events, bad, strict=True) if not b]
            starts, lasts = starts[~bad], lasts[~bad]
            if not events:
                return
        args = self._device_args(events)
        comm = np.full(len(events), -1, dtype=np.int64)
        for i, a in enumerate(args):
            if a.collective is not None or a.in_elements is not None:
                comm[i] = self._comms.code(_comm(a))
        self._device.add(
            start=starts, end=starts + lasts, comm=comm,
            kind=np.full(len(events), kind, dtype=np.int64),
            name=self._names.codes([e.name or "" for e in events]),
            device=self._devices.codes(
                [str(e.pid if a.device is None else a.device)
                 for e, a in zip(events, args, strict=True)]
            ),
            stream=self._streams.codes(
                [str(e.tid if a.stream is None else a.stream)
                 for e, a in zip(events, args, strict=True)]
            ),
            correlation=to_ids([a.correlation for a in args]),
            external=to_ids(_external(args)),
            size=to_ids([a.size for a in args]),
        )  # fmt: skip

    def _refuse(self, event: Event, chunk: Chunk) -> None:
        index = next(i for i, e in enumerate(chunk.events) if e is event)
        raise located_error(
            self._stream, chunk.offset_of(index),
            f"{event.cat} {(event.name or '')[:80]!r} has ts={event.ts!r}, dur={event.dur!r}; "
            "expected microseconds, dur not negative and below ten days",
            "--repair drops such events",
        )  # fmt: skip

    def _add_launches(self, events: list[Event], starts: Ints, lasts: Ints) -> None:
        args = self._launch_args(events)
        known = starts != INVALID_NS
        self._launch.add(
            start=np.where(known, starts, 0), end=np.where(known, starts + np.maximum(lasts, 0), 0),
            name=self._names.codes([e.name or "" for e in events]),
            thread=self._threads.codes([(e.pid, _thread(e.tid)) for e in events]),
            process=self._processes.codes([e.pid for e in events]),
            correlation=to_ids([a.correlation for a in args]),
            external=to_ids(_external(args)),
            timed=known.astype(np.int64),
        )  # fmt: skip

    def _add_ops(self, kind: int, events: list[Event], starts: Ints, lasts: Ints) -> None:
        known = starts != INVALID_NS
        if not known.all():
            events = [e for e, k in zip(events, known, strict=True) if k]
            starts, lasts = starts[known], lasts[known]
            if not events:
                return
        args = self._op_args(events)
        texts = [e.name or "" for e in events]
        inputs = [
            _NO_INPUTS if (reads := inputs_read(t)) == 0
            else (bytes(a.dims), bytes(a.types) or bytes(a.types_old),
                  bytes(a.concrete) if reads > 1 else b"")
            for t, a in zip(texts, args, strict=True)
        ]  # fmt: skip
        self._op.add(
            start=starts, end=starts + np.maximum(lasts, 0),
            kind=np.full(len(events), kind, dtype=np.int64),
            name=self._names.codes(texts),
            thread=self._threads.codes([(e.pid, _thread(e.tid)) for e in events]),
            external=to_ids(_external(args)),
            inputs=self._inputs.codes(inputs),
        )  # fmt: skip

    def _args_reader(self, kind: type[A]) -> Callable[[list[Event]], list[A]]:
        many = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        one = msgspec.json.Decoder(kind)

        def read(events: list[Event]) -> list[A]:
            try:
                return many.decode(b"[" + b",".join([e.args for e in events]) + b"]")
            except (msgspec.DecodeError, RecursionError):
                return [alone(e) for e in events]

        def alone(event: Event) -> A:
            try:
                return one.decode(event.args)
            except (msgspec.DecodeError, RecursionError):
                self._odd_args += 1
                return kind()

        return read

    def finish(self, reader: EventReader) -> Trace:
        """The columns; the builder is used up."""
        unknown = sorted(c for c in self._categories if c not in CATEGORIES)
        return Trace(
            device=self._device.join(
                "start end kind name device stream correlation external size comm"
            ),
            launches=self._launch.join("start end name thread process correlation external timed"),
            ops=self._op.join("start end kind name thread external inputs"),
            names=self._names.values, devices=self._devices.values,
            inputs=self._inputs.values, comms=self._comms.values,
            metadata=reader.metadata, findings=reader.findings, unknown_categories=unknown,
            python_events=self._categories["python_function"], odd_args=self._odd_args,
        )  # fmt: skip


def load_trace(stream: ByteStream, *, allow_truncated: bool, repair: bool) -> Trace:
    """Read one trace file into columns.

    Raises DataError for what cannot be read; see ``EventReader`` and ``TraceBuilder``.
    """
    reader = EventReader(stream, allow_truncated=allow_truncated, repair=repair)
    builder = TraceBuilder(stream, repair=repair)
    for chunk in reader.chunks():
        builder.add(chunk, reader.findings)
    trace = builder.finish(reader)
    trace.sha256 = stream.sha256()
    trace.size = stream.size
    return trace


def _external(args: Sequence[DeviceArgs] | Sequence[LaunchArgs] | Sequence[OpArgs]) -> list[_Id]:
    return [a.external_old if a.external is None else a.external for a in args]


def _thread(tid: _Id) -> _Id:
    # Old exporters write the same thread id now as a number, now as text.
    return int(tid) if isinstance(tid, str) and tid.isascii() and tid.isdigit() else tid


def _comm(args: DeviceArgs) -> CommArgs:
    numbers = to_ids([args.in_elements, args.out_elements, args.group_size]).tolist()
    return CommArgs(
        collective=args.collective or "", in_elements=numbers[0], out_elements=numbers[1],
        dtype=args.dtype or "", group_size=numbers[2], group_ranks=str(args.group_ranks or ""),
    )  # fmt: skip
