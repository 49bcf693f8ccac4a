"""Chakra's execution trace: protocol buffers, each with its length before it.

Field numbers are those of ``et_def.proto`` of MLCommons' Chakra.
"""

from __future__ import annotations

from typing import Any

import msgspec

from codesign.sources._protobuf import NUMBER, WireError, fields, text, varint
from codesign.sources.execution_trace._node import Node, inputs_of

_NAME, _INPUTS, _ATTRIBUTE = 2, 8, 10
_IO_VALUES, _IO_SHAPES, _IO_TYPES = 1, 2, 3
_META_ATTRIBUTE = 2
_MAX_TEXT = 1 << 20
_MAX_NODES = 20_000_000
_WORDS = (("'", '"'), ("True", "true"), ("False", "false"), ("None", "null"))


def decode_chakra(data: bytes) -> tuple[str, int | None, dict[int, Node]]:
    """Schema, process id, and framework ops by their record function id. Raises WireError."""
    start, at = _message(data, 0)
    meta = dict(
        _attribute(data, low, high)
        for number, low, high in fields(data, start, at)
        if number == _META_ATTRIBUTE and high != NUMBER
    )
    found: dict[int, Node] = {}
    for _ in range(_MAX_NODES):
        if at >= len(data):
            break
        start, at = _message(data, at)
        _take(data, start, at, found)
    pid = meta.get("pid")
    return str(meta.get("schema", "chakra")), pid if isinstance(pid, int) else None, found


def _message(data: bytes, at: int) -> tuple[int, int]:
    size, start = varint(data, at, len(data))
    if size > len(data) - start:
        raise WireError(at, "the file ends within a node")
    return start, start + size


def _take(data: bytes, start: int, end: int, found: dict[int, Node]) -> None:
    name, inputs = "", (0, 0)
    attributes: dict[str, int | str] = {}
    for number, low, high in fields(data, start, end):
        if high == NUMBER:
            continue
        if number == _NAME:
            name = text(data, low, min(high, low + 4096))
        elif number == _INPUTS:
            inputs = (low, high)
        elif number == _ATTRIBUTE:
            key, value = _attribute(data, low, high)
            attributes[key] = value
    ident = attributes.get("rf_id")
    # Chakra's linker adds kernels, which are no ops of the framework.
    if isinstance(ident, int) and ident < 2**62 and attributes.get("is_cpu_op", 1):
        values, shapes, types = (
            _list(data, *inputs, f) for f in (_IO_VALUES, _IO_SHAPES, _IO_TYPES)
        )
        found.setdefault(ident, Node(name, inputs_of(values, shapes, types)))


def _attribute(data: bytes, start: int, end: int) -> tuple[str, int | str]:
    name: str = ""
    value: int | str = ""
    for number, low, high in fields(data, start, end):
        if number == 1:
            name = text(data, low, min(high, low + 100))
        elif high == NUMBER:
            value = low
        elif not value:
            value = text(data, low, min(high, low + 1000))
    return name, value


def _list(data: bytes, start: int, end: int, wanted: int) -> Any:
    """A list that the converter wrote as Python prints it."""
    for number, low, high in fields(data, start, end):
        if number == wanted and 0 <= high - low <= _MAX_TEXT:
            content = text(data, low, high)
            for python, json in _WORDS:
                content = content.replace(python, json)
            try:
                return msgspec.json.decode(content)
            except (msgspec.DecodeError, RecursionError):
                return None
    return None
