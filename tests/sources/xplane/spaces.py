"""XSpaces made in tests: an encoder of the wire format, written apart from the reader."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def real(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def blob(field: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(raw)) + raw


class Plane:
    """Collects the kinds of event and statistic as they are used."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[bytes] = []
        self.stat_ids: dict[str, int] = {}
        self.event_ids: dict[str, int] = {}
        self.event_stats: dict[str, dict[str, object]] = {}

    def stat(self, name: str, value: object) -> bytes:
        ident = self.stat_ids.setdefault(name, len(self.stat_ids) + 1)
        head = number(1, ident)
        if isinstance(value, bytes):
            return head + blob(6, value)
        if isinstance(value, str):
            return head + blob(5, value)
        if isinstance(value, float):
            return head + real(2, value)
        return head + number(4, int(value))  # type: ignore[call-overload]

    def line(self, name: str, events: list[tuple[str, float, float, dict[str, object]]],
             origin_ns: int = 0) -> None:  # fmt: skip
        """``events``: (name, start in us, duration in us, statistics)."""
        parts = [number(1, len(self.lines) + 1), blob(2, name), number(3, origin_ns)]
        for kind, start_us, duration_us, stats in events:
            ident = self.event_ids.setdefault(kind, len(self.event_ids) + 1)
            event = number(1, ident) + number(2, round(start_us * 1e6))
            event += number(3, round(duration_us * 1e6))
            for key, value in stats.items():
                event += blob(4, self.stat(key, value))
            parts.append(blob(4, event))
        self.lines.append(b"".join(parts))

    def encode(self) -> bytes:
        body = blob(2, self.name) + b"".join(blob(3, line) for line in self.lines)
        for name, ident in self.event_ids.items():
            meta = number(1, ident) + blob(2, name)
            for key, value in self.event_stats.get(name, {}).items():
                meta += blob(5, self.stat(key, value))
            body += blob(4, number(1, ident) + blob(2, meta))
        for name, ident in self.stat_ids.items():
            meta = number(1, ident) + blob(2, name)
            body += blob(5, number(1, ident) + blob(2, meta))
        return body


def space(*planes: Plane) -> bytes:
    return b"".join(blob(1, plane.encode()) for plane in planes) + blob(4, "worker-0")


def shape(element: int, *dims: int) -> bytes:
    return number(2, element) + blob(3, b"".join(map(varint, dims)))


def pair(*shapes: bytes) -> bytes:
    return number(2, 13) + b"".join(blob(4, s) for s in shapes)


def instruction(ident: int, name: str, opcode: str, result: bytes, operands: tuple[int, ...] = (),
                more: bytes = b"", op_name: str = "") -> bytes:  # fmt: skip
    body = blob(1, name) + blob(2, opcode) + blob(3, result) + number(35, ident)
    if op_name:
        body += blob(7, blob(2, op_name))
    if operands:
        body += blob(36, b"".join(map(varint, operands)))
    return body + more


def hlo_plane(program: int, *computations: tuple[int, list[bytes]]) -> Plane:
    """``/host:metadata`` with one program."""
    module = blob(1, "jit_step") + number(5, program)
    for ident, instructions in computations:
        module += blob(3, number(5, ident) + b"".join(blob(2, i) for i in instructions))
    plane = Plane("/host:metadata")
    plane.event_ids[f"jit_step({program})"] = program
    plane.event_stats[f"jit_step({program})"] = {"Hlo Proto": blob(1, module)}
    return plane
