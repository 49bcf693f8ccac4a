"""Planes, lines and events of an XSpace, as far as a characterization needs them.

Field numbers are those of ``xplane.proto`` of the OpenXLA project.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from codesign.sources._protobuf import (
    Buffer,
    WireError,
    double,
    fields,
    signed,
    text,
)

Value = int | float | str
Span = tuple[int, int]
_SPACE_PLANE, _SPACE_ERROR, _SPACE_WARNING, _SPACE_HOST = 1, 2, 3, 4
_PLANE_NAME, _PLANE_LINE, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STAT = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_START, _LINE_EVENT = 1, 2, 3, 4
_EVENT_META, _EVENT_OFFSET, _EVENT_DURATION, _EVENT_STAT = 1, 2, 3, 4
_KEY, _VALUE = 1, 2
_META_NAME, _META_STAT = 2, 5
_STAT_META, _STAT_DOUBLE, _STAT_UNSIGNED, _STAT_SIGNED, _STAT_TEXT, _STAT_BYTES, _STAT_REF = (
    1, 2, 3, 4, 5, 6, 7,
)  # fmt: skip
_MAX_TEXT = 4096
_MAX_CACHE = 1 << 16
_MAX_EVENTS = 20_000_000
_MAX_PS = 2**63 - 1
_HLO_PROTO = re.compile("hlo_?proto", re.IGNORECASE)


@dataclass(slots=True)
class Event:
    """One event of a line; ``stats`` may be shared and is not to be changed."""

    meta: int
    start_ps: int
    """From the line's own start."""
    duration_ps: int
    stats: dict[str, Value]


@dataclass
class Line:
    """One time line: a stream of a device, a thread of the host."""

    id: int
    name: str
    start_ns: int
    span: Span


@dataclass
class Plane:
    """A device or host; names and statistics of its kinds of event by their ids."""

    name: str
    lines: list[Line] = field(default_factory=list)
    stat_names: dict[int, str] = field(default_factory=dict)
    event_names: dict[int, str] = field(default_factory=dict)
    event_stats: dict[int, dict[str, Value]] = field(default_factory=dict)
    stats: dict[str, Value] = field(default_factory=dict)
    hlo: dict[int, Span] = field(default_factory=dict)
    """By program id: where its HLO stands in the file."""


@dataclass
class Space:
    """Everything that the file holds, events aside."""

    planes: list[Plane] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    cut_at: int | None = None
    """Byte at which the file ends within a plane."""


def read_space(data: Buffer) -> Space:
    """The planes of a file, with their lines but without the events.

    A file that is cut short keeps the planes before the cut. Raises WireError if it is
    no XSpace at all.
    """
    space = Space()
    lists = {_SPACE_ERROR: space.errors, _SPACE_WARNING: space.warnings, _SPACE_HOST: space.hosts}
    try:
        for number, start, end in fields(data, 0, len(data)):
            if number == _SPACE_PLANE:
                space.planes.append(_plane(data, start, end))
            elif number in lists and len(lists[number]) < 100:
                lists[number].append(text(data, start, min(end, start + _MAX_TEXT)))
    except WireError as error:
        if not space.planes:
            raise
        space.cut_at = error.offset
    return space


def _plane(data: Buffer, start: int, end: int) -> Plane:
    plane = Plane("")
    kinds: list[Span] = []
    own: list[Span] = []
    for number, low, high in fields(data, start, end):
        if number == _PLANE_NAME:
            plane.name = text(data, low, min(high, low + _MAX_TEXT))
        elif number == _PLANE_LINE:
            plane.lines.append(_line(data, low, high))
        elif number == _PLANE_EVENTS:
            kinds.append((low, high))
        elif number == _PLANE_STATS:
            key, value = _entry(data, low, high)
            plane.stat_names[key] = _meta_name(data, value)
        elif number == _PLANE_OWN_STAT and high >= 0:
            own.append((low, high))
    # Names of statistics may stand behind their use.
    reader = StatReader(data, plane)
    for low, high in kinds:
        key, value = _entry(data, low, high)
        plane.event_names[key] = _meta_name(data, value)
        stats: dict[str, Value] = {}
        for number, a, b in fields(data, *value):
            if number == _META_STAT and b >= 0:
                _keep(stats, reader.read(a, b))
                if (span := reader.bytes_of(a, b)) is not None:
                    plane.hlo[key] = span
        if stats:
            plane.event_stats[key] = stats
    for low, high in own:
        _keep(plane.stats, reader.read(low, high))
    return plane


def _keep(stats: dict[str, Value], stat: tuple[str, Value] | None) -> None:
    if stat is not None:
        stats[stat[0]] = stat[1]


def _entry(data: Buffer, start: int, end: int) -> tuple[int, Span]:
    """Key and value of an entry of a map."""
    key, value = 0, (end, end)
    for number, low, high in fields(data, start, end):
        if number == _KEY:
            key = signed(low, high)
        elif number == _VALUE and high >= 0:
            value = (low, high)
    return key, value


def _meta_name(data: Buffer, span: Span) -> str:
    name = ""
    for number, low, high in fields(data, *span):
        if number == _META_NAME:
            name = text(data, low, min(high, low + _MAX_TEXT))
    return name


def _line(data: Buffer, start: int, end: int) -> Line:
    line = Line(0, "", 0, (start, end))
    for number, low, high in fields(data, start, end):
        if number == _LINE_ID:
            line.id = signed(low, high)
        elif number == _LINE_NAME:
            line.name = text(data, low, min(high, low + _MAX_TEXT))
        elif number == _LINE_START:
            line.start_ns = signed(low, high)
    return line


class StatReader:
    """Statistics of a plane; equal bytes are decoded once."""

    def __init__(self, data: Buffer, plane: Plane) -> None:
        self._data = data
        self._names = plane.stat_names
        self._known: dict[bytes, tuple[str, Value] | None] = {}

    def read(self, start: int, end: int) -> tuple[str, Value] | None:
        """Name and value, None for raw bytes and for a statistic without a name."""
        key = self._data[start:end] if end - start <= 64 else None
        if key is not None and key in self._known:
            return self._known[key]
        found = self._decode(start, end)
        if key is not None:
            if len(self._known) >= _MAX_CACHE:
                self._known.clear()
            self._known[key] = found
        return found

    def _decode(self, start: int, end: int) -> tuple[str, Value] | None:
        data, name = self._data, ""
        value: Value | None = None
        for number, low, high in fields(data, start, end):
            if number == _STAT_META:
                name = self._names.get(signed(low, high), "")
            elif number == _STAT_DOUBLE:
                value = double(data, low, high)
            elif number == _STAT_UNSIGNED:
                value = low if high < 0 else 0
            elif number == _STAT_SIGNED:
                value = signed(low, high)
            elif number == _STAT_TEXT:
                value = text(data, low, min(high, low + _MAX_TEXT))
            elif number == _STAT_REF:
                value = self._names.get(signed(low, high), "")
        return None if value is None or not name else (name, value)

    def bytes_of(self, start: int, end: int) -> Span | None:
        """Where the HLO of a statistic that holds one stands."""
        name, span = "", None
        for number, low, high in fields(self._data, start, end):
            if number == _STAT_META:
                name = self._names.get(signed(low, high), "")
            elif number == _STAT_BYTES and high >= 0:
                span = (low, high)
        return span if _HLO_PROTO.fullmatch(name.replace(" ", "_")) else None


def read_events(
    data: Buffer, plane: Plane, line: Line, wanted: Callable[[int], bool] | None = None
) -> list[Event]:
    """Events of a line, in its order; of those kinds that are ``wanted``.

    Statistics of the kind of an event count for the event as well; its own win.
    Raises WireError.
    """
    reader = StatReader(data, plane)
    found: list[Event] = []
    for number, start, end in fields(data, *line.span):
        if number != _LINE_EVENT or end < 0:
            continue
        meta = offset = duration = 0
        stats: list[Span] = []
        for inner, low, high in fields(data, start, end):
            if inner == _EVENT_STAT:
                if high >= 0:
                    stats.append((low, high))
            elif inner == _EVENT_META:
                meta = signed(low, high)
            elif inner == _EVENT_OFFSET:
                offset = signed(low, high)
            elif inner == _EVENT_DURATION:
                duration = signed(low, high)
        if wanted is not None and not wanted(meta):
            continue
        if len(found) >= _MAX_EVENTS:
            raise WireError(start, f"over {_MAX_EVENTS} events on one line")
        shared = plane.event_stats.get(meta)
        own = dict(shared) if shared else {}
        for span in stats:
            if (stat := reader.read(*span)) is not None:
                own[stat[0]] = stat[1]
        found.append(Event(meta, offset, duration, own))
    return found
