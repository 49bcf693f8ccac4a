"""An op of an execution trace, in the texts that a Kineto trace has for the same op."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

_TENSOR = re.compile(r"Tensor\((?:nested_tensor\()?([^()]{1,60})\)+")
_SCALARS = ("Int", "Double", "Bool", "SymInt", "Float", "ComplexDouble")
_MAX_LIST = 10_000


@dataclass(frozen=True, slots=True)
class Node:
    """One framework op."""

    name: str
    inputs: tuple[bytes, bytes, bytes]
    """JSON of shapes, types and concrete values, as ``Input Dims``, ``Input type`` and
    ``Concrete Inputs`` hold them."""


def inputs_of(values: Any, shapes: Any, types: Any) -> tuple[bytes, bytes, bytes]:
    """The inputs of a node in Kineto's form; empty where the node has them in none."""
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        return b"", b"", b""
    if len(shapes) > _MAX_LIST:
        return b"", b"", b""
    values = (
        values if isinstance(values, list) and len(values) == len(types) else [None] * len(types)
    )
    encode = msgspec.json.encode
    dims = [_dims(s, str(t)) for s, t in zip(shapes, types, strict=True)]
    concrete = [_concrete(v, str(t)) for v, t in zip(values, types, strict=True)]
    return encode(dims), encode([_type(str(t)) for t in types]), encode(concrete)


def _dims(shape: Any, kind: str) -> Any:
    # Of a list of numbers each element has a shape, an empty one.
    return shape if "Tensor" in kind else []


def _type(kind: str) -> str:
    if kind.startswith("GenericList"):
        return "TensorList" if "Tensor" in kind else "ScalarList"
    if match := _TENSOR.fullmatch(kind):
        return match[1]
    return "Scalar" if kind in _SCALARS else ""


def _concrete(value: Any, kind: str) -> str:
    if "Tensor" in kind or value is None or value == "<None>":
        return ""
    if isinstance(value, list):
        return str(value[:_MAX_LIST])
    return str(value)[:200]
