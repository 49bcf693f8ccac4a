"""Events in the types of their category: arguments of interest are decoded in the same pass.

The parser picks the record by the event's ``cat``; events of categories that nobody
asks for become empty records, at the speed of skipping text. What does not fit (an
event without category, arguments of odd types) is decoded event by event instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from codesign.sources.kineto._scan import EXACT_LIST, LIST, OBJECT, REFUSED
from codesign.sources.kineto.categories import (
    ANNOTATION,
    CATEGORIES,
    IGNORED,
    LAUNCH,
    OP,
)

Id = int | float | str | None
Time = int | float | str | msgspec.Raw | None
_NO_TEXT = msgspec.Raw(b"")
_MAX_CATEGORIES = 200


class DeviceArgs(msgspec.Struct, gc=False):
    """Arguments of a kernel, copy or memset."""

    device: Id = None
    stream: Id = None
    correlation: Id = None
    external: Id = msgspec.field(default=None, name="External id")
    external_old: Id = msgspec.field(default=None, name="external id")
    size: Id = msgspec.field(default=None, name="bytes")
    collective: str | None = msgspec.field(default=None, name="Collective name")
    in_elements: Id = msgspec.field(default=None, name="In msg nelems")
    out_elements: Id = msgspec.field(default=None, name="Out msg nelems")
    dtype: str | None = None
    group: Id = msgspec.field(default=None, name="Process Group Name")
    group_size: Id = msgspec.field(default=None, name="Group size")
    group_ranks: Id = msgspec.field(default=None, name="Process Group Ranks")


class LaunchArgs(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: Id = None
    external: Id = msgspec.field(default=None, name="External id")
    external_old: Id = msgspec.field(default=None, name="external id")


class OpArgs(msgspec.Struct, gc=False):
    """Arguments of an operator or annotation; shapes stay text until needed."""

    external: Id = msgspec.field(default=None, name="External id")
    external_old: Id = msgspec.field(default=None, name="external id")
    dims: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input type")
    types_old: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Input Type")
    concrete: msgspec.Raw = msgspec.field(default=_NO_TEXT, name="Concrete Inputs")
    record: Id = msgspec.field(default=None, name="Record function id")


class Typed(msgspec.Struct, gc=False):
    """What is common to the events that are kept."""

    ph: str | None = None
    name: str | None = None
    pid: Id = None
    tid: Id = None
    ts: Time = None
    dur: Time = None


class DeviceEvent(Typed, gc=False):
    """A kernel, copy or memset."""

    args: DeviceArgs | None = None


class LaunchEvent(Typed, gc=False):
    """A runtime or driver call."""

    args: LaunchArgs | None = None


class OpEvent(Typed, gc=False):
    """An operator or annotation."""

    args: OpArgs | None = None


class Skipped(msgspec.Struct, gc=False):
    """An event that is only counted."""


AnyEvent = DeviceEvent | LaunchEvent | OpEvent | Skipped
Groups = dict[str, list[Any]]
"""Events by category as written; of skipped ones the list holds only empty records."""
_ARGS: dict[type[Typed], msgspec.json.Decoder[Any]] = {
    DeviceEvent: msgspec.json.Decoder(DeviceArgs | None),
    LaunchEvent: msgspec.json.Decoder(LaunchArgs | None),
    OpEvent: msgspec.json.Decoder(OpArgs | None),
}


def record_of(category: str) -> type[AnyEvent]:
    """Record that events of a category are decoded to, whatever their case."""
    kind = CATEGORIES.get(category.lower(), IGNORED)
    if kind == IGNORED:
        return Skipped
    if kind == LAUNCH:
        return LaunchEvent
    return OpEvent if kind in (OP, ANNOTATION) else DeviceEvent


def _fits(base: type[Typed], key: str, value: msgspec.Raw) -> bool:
    try:
        _ARGS[base].decode(msgspec.json.encode({key: value}))
    except REFUSED:
        return False
    return True


class EventDecoder:
    """Decodes lists of events; learns categories that the tables do not have."""

    def __init__(self) -> None:
        self._records: dict[str, type[AnyEvent]] = {}
        self._exact = False
        self.odd_args = 0
        self.learn(CATEGORIES)

    def use_exact_times(self) -> None:
        """From now on, times are text (``msgspec.Raw``): floats would round them."""
        self._exact = True
        self._build()

    @property
    def exact(self) -> bool:
        """Whether times are decoded as text."""
        return self._exact

    def learn(self, categories: Iterable[str]) -> None:
        """Know these categories, too."""
        known = len(self._records)
        for category in categories:
            if category not in self._records and len(self._records) < _MAX_CATEGORIES:
                self._records[category] = record_of(category)
        if len(self._records) > known:
            self._build()

    def _build(self) -> None:
        time = msgspec.Raw if self._exact else int | float | str | None
        default: object = _NO_TEXT if self._exact else None
        kinds = []
        for i, (category, base) in enumerate(self._records.items()):
            fields = [] if base is Skipped else [("ts", time, default), ("dur", time, default)]
            kinds.append(msgspec.defstruct(
                f"Event{i}", fields, bases=(base,), tag_field="cat", tag=category, gc=False
            ))  # fmt: skip
        union: Any = kinds[0]
        for kind in kinds[1:]:
            union |= kind
        self._categories = dict(zip(kinds, self._records, strict=True))
        self._decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[union])

    def groups(self, text: bytes) -> Groups:
        """Events of a JSON list by category. Raises msgspec.DecodeError if it is malformed."""
        try:
            events = self._decoder.decode(text)
        except msgspec.ValidationError:
            return self._one_by_one(text)
        by_type: dict[type, list[Any]] = {}
        for event in events:
            kind = type(event)
            if kind in by_type:
                by_type[kind].append(event)
            else:
                by_type[kind] = [event]
        return {self._categories[kind]: found for kind, found in by_type.items()}

    def _one_by_one(self, text: bytes) -> Groups:
        """The same for a list with events that do not fit their record."""
        events = EXACT_LIST.decode(text) if self._exact else LIST.decode(text)
        self.learn(e.cat for e in events if e.cat is not None)
        found: Groups = {}
        for event in events:
            category = event.cat or ""
            base = record_of(category)
            record: AnyEvent
            if issubclass(base, Typed):
                record = base(
                    event.ph, event.name, event.pid, event.tid, event.ts, event.dur,
                    self._args(base, event.args),
                )  # fmt: skip
            else:
                record = Skipped()
            found.setdefault(category, []).append(record)
        return found

    def _args(self, base: type[Typed], args: msgspec.Raw) -> Any:
        try:
            return _ARGS[base].decode(args)
        except REFUSED:
            self.odd_args += 1
        try:
            fields = OBJECT.decode(args)
        except REFUSED:
            return None
        # One by one: an odd argument takes no other with it.
        kept = {key: value for key, value in fields.items() if _fits(base, key, value)}
        return _ARGS[base].decode(msgspec.json.encode(kept))
