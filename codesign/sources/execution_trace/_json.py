"""PyTorch's execution trace: JSON, schema 1.0.1 and the later ones."""

from __future__ import annotations

from typing import Any

import msgspec

from codesign.sources.execution_trace._node import Node, inputs_of
from codesign.sources.kineto._mend import sanitize


class _Attribute(msgspec.Struct):
    name: str = ""
    value: Any = None


class _Io(msgspec.Struct):
    values: Any = None
    shapes: Any = None
    types: Any = None


class _Node(msgspec.Struct):
    name: str = ""
    rf_id: int | str | None = None
    inputs: _Io | list[Any] | None = None
    input_shapes: Any = None
    input_types: Any = None
    attrs: list[_Attribute] = []


_NODE = msgspec.json.Decoder(_Node)


class _File(msgspec.Struct):
    nodes: list[msgspec.Raw]
    schema: str = ""
    pid: int | str | None = None


def decode_json(content: bytes) -> tuple[str, int | None, dict[int, Node]]:
    """Schema, process id, and ops by their record function id.

    Control bytes, bytes that are no UTF-8 and bare ``inf`` and ``nan``, which exporters write,
    are read around; a node of another form takes no other with it.

    Raises msgspec.DecodeError, msgspec.ValidationError or RecursionError.
    """
    try:
        file = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError):
        file = msgspec.json.decode(sanitize(content)[0], type=_File)
    found: dict[int, Node] = {}
    for raw in file.nodes:
        if (node := _node(raw)) is None:
            continue
        ident = node.rf_id
        if ident is None:
            ident = next((a.value for a in node.attrs if a.name == "rf_id"), None)
        if (number := _number(ident)) is None:
            continue
        if isinstance(node.inputs, _Io):
            inputs = inputs_of(node.inputs.values, node.inputs.shapes, node.inputs.types)
        else:
            inputs = inputs_of(node.inputs, node.input_shapes, node.input_types)
        found.setdefault(number, Node(node.name, inputs))
    return file.schema, _number(file.pid), found


def _node(raw: msgspec.Raw) -> _Node | None:
    text = bytes(raw)
    for _ in range(2):
        try:
            return _NODE.decode(text)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = sanitize(text)[0]
    return None


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**62 else None
