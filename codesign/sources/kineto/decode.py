"""From a trace file to chunks of typed events, in bounded memory.

The array ``traceEvents`` is decoded in windows of a few megabytes. A window is cut
after something that looks like the end of an event; that the cut was right is
proven by the parser, which accepts the window as a list only if the cut stood at
the list's own depth. The end of the list is found the same way, so keys may
follow it, and text that merely looks like JSON inside a name misleads nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

import msgspec

from codesign._common.errors import DataError
from codesign.sources.kineto._bytestream import ByteStream, located_error
from codesign.sources.kineto._chunk import Chunk, Findings
from codesign.sources.kineto._mend import EVENT_BOUNDARY, mend_name, mend_quotes, sanitize
from codesign.sources.kineto._scan import (
    BYTE,
    OBJECT,
    ONE,
    REFUSED,
    Event,
    cuts,
    decoded,
    ends_early,
    error_at,
    event_follows,
    object_end,
    skip,
)
from codesign.sources.kineto._typed import EventDecoder

# Large enough for the parser to run long, small enough to stay in the processor's cache.
WINDOW_BYTES = 1 << 19
MAX_EVENT_BYTES = 32 << 20
MAX_METADATA_BYTES = 64 << 20
_LAST = re.compile(rb"\}\s*\]\s*(?:,\s*\"|\}|$)")
_ARRAY_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
# What stands in the list and is no object, up to the comma or bracket after it.
_NO_OBJECT = re.compile(rb'(null|true|false|-?[0-9][0-9.eE+-]{0,400}|"[^"\\]{0,4096}")\s*[,\]]')
_KEY_TRIES = 64
_RESYNC_TRIES = 32
_LOST_CAUSES = 50
_RESYNC_BYTES = 1 << 20
_MEND_BYTES = 1 << 16


@dataclass
class _Taken:
    """Outcome of one window: bytes used up, whether the array closed, its events."""

    used: int
    closed: bool
    chunk: Chunk | None


class EventReader:
    """Reads one trace; ``metadata`` is complete only after the last chunk.

    Raises DataError, naming file, byte and line, for malformed input (unless
    ``repair``, which mends or drops the event and counts it) and for input that
    ends early (unless ``allow_truncated``).
    """

    def __init__(self, stream: ByteStream, *, allow_truncated: bool, repair: bool) -> None:
        self._stream = stream
        self._allow_truncated = allow_truncated
        self._repair = repair
        self._offset = 0
        self._bare = False
        self._lost = 0
        """Malformed events in a row that could not be mended."""
        self._decoder = EventDecoder()
        self.metadata: dict[str, msgspec.Raw] = {}
        self.findings = Findings()

    @property
    def odd_args(self) -> int:
        """Events whose arguments had unexpected types."""
        return self._decoder.odd_args

    def exact(self, chunk: Chunk) -> Chunk:
        """The chunk with its times as text, as all further ones will be."""
        self._decoder.use_exact_times()
        return Chunk(self._decoder.groups(chunk.text), chunk.text, chunk.offset)

    def chunks(self) -> Iterator[Chunk]:
        """Chunks of events in file order."""
        data = self._open_array()
        size = WINDOW_BYTES
        while True:
            more = self._stream.read(size)
            at_end = len(more) < size
            data = data + more if data else more
            taken = self._take(data, at_end)
            if taken.chunk is not None and taken.chunk.groups:
                self.findings.events += sum(map(len, taken.chunk.groups.values()))
                yield taken.chunk
            data = data[taken.used :]
            self._offset += taken.used
            # An event larger than the window: look at it a few times, not at every window.
            size = WINDOW_BYTES if taken.used else 2 * size
            if taken.closed:
                self._close(data)
                return
            if at_end:
                self._truncated()
                return

    # -- the array ---------------------------------------------------------------

    def _take(self, data: bytes, at_end: bool) -> _Taken:
        taken = self._take_fast(data, at_end)
        if taken is None:
            clean, lapses = sanitize(data)
            if lapses:
                self.findings.lapses.update(lapses)
                taken = self._take_fast(clean, at_end)
            if taken is None:
                taken = self._take_careful(clean, at_end)
        return taken

    def _take_fast(self, data: bytes, at_end: bool) -> _Taken | None:
        if at_end:
            taken = self._attempt(b"[" + data, len(data), ends_here=True)
            return taken if isinstance(taken, _Taken) else None
        for cut, resume in cuts(data):
            text = b"".join((b"[", memoryview(data)[:cut], b"]"))
            taken = self._attempt(text, resume, ends_here=False)
            if isinstance(taken, _Taken):
                return taken
            if not taken:
                return None
        return None

    def _attempt(self, text: bytes, used: int, *, ends_here: bool) -> _Taken | bool:
        """A success, or whether an earlier cut may help."""
        try:
            return _Taken(used, ends_here, self._chunk(text))
        except REFUSED as error:
            message = str(error)
            byte = BYTE.search(message)
            if "trailing characters" not in message or byte is None:
                return "truncated" in message
            end = text.rfind(b"]", 0, int(byte[1]) - 1)
            text = text[: end + 1]
            # The bracket that opens ``text`` is ours, so ``end`` counts what was used.
            return _Taken(end, True, self._chunk(text))

    def _chunk(self, text: bytes) -> Chunk:
        return Chunk(self._decoder.groups(text), text, self._offset - 1)

    def _take_careful(self, data: bytes, at_end: bool) -> _Taken:
        """Event by event, each found by the parser: locates or mends what is malformed."""
        pieces: list[bytes] = []
        position = 0
        closed = False
        while True:
            before, position = position, skip(data, position)
            commas = data.count(b",", before, position)
            if position >= len(data):
                break
            # Where the window begins, the comma may have gone with what stood before it.
            if commas > 1 or (pieces and commas != (data[position : position + 1] != b"]")):
                self.findings.lapses.add("missing or doubled commas between events")
            if data[position : position + 1] == b"]":
                closed, position = True, position + 1
                break
            end, event = object_end(data, position)
            if event is None and end < 0 and not self._swallowed(data, position, at_end):
                break
            if event is None:
                found = self._mend(data, position, at_end)
                if found is None:
                    break
                end, event, piece = found
            else:
                piece = data[position:end]
            if event is not None:
                pieces.append(piece)
            position = end
        return _Taken(position, closed, self._chunk(b"[" + b",".join(pieces) + b"]"))

    def _swallowed(self, data: bytes, position: int, at_end: bool) -> bool:
        """Whether an event without an end is malformed, rather than cut off."""
        if not at_end:
            return len(data) - position > MAX_EVENT_BYTES
        return EVENT_BOUNDARY.search(data, position) is not None

    def _mend(
        self, data: bytes, position: int, at_end: bool
    ) -> tuple[int, Event | None, bytes] | None:
        """End of the malformed event and, if it could be mended, the event.

        None if more data are needed to see where it ends.
        """
        if not self._repair:
            self._malformed(data, position)
        if other := _NO_OBJECT.match(data, position):
            self.findings.dropped += 1
            return other.end(1), None, b""
        # What looks like the end of the event may stand inside of it, so further ones are tried,
        # but not at each of many events that nothing mends.
        tries = 1 if self._lost > _LOST_CAUSES else _RESYNC_TRIES
        ends: list[int] = []
        for match in islice(EVENT_BOUNDARY.finditer(data, position), tries):
            ends.append(match.start() + 1)
            if mended := self._mended(data, position, ends[-1]):
                return mended
        if not ends:
            return self._mend_last(data, position, at_end)
        few = len(ends) < tries and len(data) - position < _RESYNC_BYTES
        if few and not at_end:
            return None
        self._lost += 1
        self.findings.dropped += 1
        return next((e for e in ends if event_follows(data, e)), ends[0]), None, b""

    def _mend_last(
        self, data: bytes, position: int, at_end: bool
    ) -> tuple[int, Event | None, bytes] | None:
        """As ``_mend``, where no other event follows."""
        if not at_end and len(data) - position <= MAX_EVENT_BYTES:
            return None
        last = _LAST.search(data, position)
        end = len(data) if last is None else last.start() + 1
        mended = None if last is None else self._mended(data, position, end)
        if mended is None:
            self.findings.dropped += 1
        return mended or (end, None, b"")

    def _mended(self, data: bytes, position: int, end: int) -> tuple[int, Event, bytes] | None:
        """The event if its text up to ``end`` can be mended."""
        mended = mend_name(data[position:end])
        event = decoded(mended) if mended is not None else None
        if event is None and end - position <= _MEND_BYTES:
            mended = mend_quotes(data[position:end], error_at)
            event = decoded(mended) if mended is not None else None
        if event is None or event.ph is None or mended is None:
            return None
        self.findings.repaired += 1
        self._lost = 0
        return end, event, mended

    # -- what stands around the array ----------------------------------------------

    def _open_array(self) -> bytes:
        """Read up to the bracket that opens the events; returns what follows it."""
        data = self._stream.read(1 << 16)
        if data.startswith(b"\xef\xbb\xbf"):
            data, self._offset = data[3:], 3
        start = len(data) - len(data.lstrip())
        opening = data[start : start + 1]
        if not opening:
            if self._stream.cut:
                self._truncated()
            raise DataError(f"{self._stream.path}: the file is empty; expected a Kineto trace")
        if opening == b"[":
            self._bare = True
            self._offset += start + 1
            return data[start + 1 :]
        if opening != b"{":
            raise DataError(
                f"{self._stream.path}: not JSON (starts with {data[start : start + 12]!r}); "
                "expected a Kineto trace, an object or a list"
            )
        return self._find_array(data)

    def _find_array(self, data: bytes) -> bytes:
        """What follows ``"traceEvents": [``: the one at the top level, as the parser proves."""
        searched = 0
        broken: tuple[int, str] | None = None
        at_end = False
        for _ in range(_KEY_TRIES):
            match = _ARRAY_KEY.search(data, searched)
            if match is not None:
                searched = match.end()
                head = sanitize(data[: match.start()])[0] + b'"":0}'
                try:
                    self.metadata.update(OBJECT.decode(head))
                except REFUSED as error:
                    if broken is None and "truncated" not in str(error):
                        broken = searched, str(error)
                    continue
                self._offset += searched
                return data[searched:]
            more = self._stream.read(max(len(data), 1 << 20))
            searched = max(0, len(data) - 64)
            data += more
            at_end = not more
            if at_end or len(data) > MAX_METADATA_BYTES:
                break
        if broken is not None:
            after, reason = broken
            if not self._repair:
                raise DataError(
                    f"{self._stream.path}: malformed before the events: {reason}; "
                    "--repair leaves that part out"
                )
            self.findings.repaired += 1
            self.findings.lapses.add("malformed metadata before the events, left out")
            self._offset += after
            return data[after:]
        if self._stream.cut or (at_end and self._unfinished(data)):
            self._truncated()
        raise DataError(
            f"{self._stream.path}: no `traceEvents` list at the top level; expected a Kineto trace"
        )

    @staticmethod
    def _unfinished(data: bytes) -> bool:
        """Whether the object that the file is ends with the file, before it is whole."""
        clean = sanitize(data)[0]
        try:
            OBJECT.decode(clean)
        except REFUSED as error:
            return ends_early(error, len(clean))
        return False

    def _close(self, rest: bytes) -> None:
        """Read the keys that follow the events, if any."""
        rest += self._stream.read(MAX_METADATA_BYTES)
        if len(rest) >= MAX_METADATA_BYTES:
            self.findings.lapses.add("very long metadata after the events, left out")
            return
        if self._bare:
            if rest.strip(b" \t\r\n\0"):
                self._trailing("text after the end of the list")
        else:
            text = b'{"":0' + sanitize(rest)[0].rstrip()
            try:
                metadata = OBJECT.decode(text)
            except REFUSED as error:
                if ends_early(error, len(text)):
                    self._truncated()
                    return
                self._trailing(f"after the events: {error}")
            else:
                if "traceEvents" in metadata:
                    self._trailing("a second list of traceEvents")
                    del metadata["traceEvents"]
                # An exporter that writes a key twice meant the later one.
                self.metadata.update(metadata)
        if self._stream.damaged:
            self._truncated()  # what was unpacked is not what was packed
        elif self._stream.cut:
            self.findings.lapses.add(f"{self._stream.cut}, after the last event")

    # -- complaints ------------------------------------------------------------------

    def _trailing(self, what: str) -> None:
        if not self._repair:
            raise DataError(
                f"{self._stream.path}: byte {self._offset}: malformed JSON, {what}; "
                "--repair ignores it"
            )
        self.findings.repaired += 1
        self.findings.lapses.add(what)

    def _truncated(self) -> None:
        reason = f" ({self._stream.cut})" if self._stream.cut else ""
        complete = self.findings.events
        if not self._allow_truncated:
            raise DataError(
                f"{self._stream.path}: truncated after {complete} complete events{reason}; "
                "--allow-truncated reads what is there"
            )
        if not complete:
            raise DataError(
                f"{self._stream.path}: truncated before the first complete event{reason}"
            )
        self.findings.complete = False

    def _malformed(self, data: bytes, position: int) -> NoReturn:
        try:
            ONE.decode(data[position : position + MAX_EVENT_BYTES])
            reason, byte = "malformed event", None
        except REFUSED as error:
            reason = str(error)
            byte = BYTE.search(reason)
        at = position + (max(0, int(byte[1]) - 1) if byte else 0)
        if "trailing characters" in reason or "truncated" in reason:
            reason, at = "an event that does not end", position
        raise located_error(
            self._stream, self._offset + at, BYTE.sub("", reason).strip(),
            "--repair mends or drops such events",
        )  # fmt: skip
