"""Compiled programs (HLO) that a profile carries: instructions with their shapes.

Field numbers are those of ``hlo.proto`` and ``xla_data.proto`` of the OpenXLA project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice

from codesign.sources._protobuf import Buffer, fields, numbers, signed, text

_PROTO_MODULE = 1
_MODULE_COMPUTATION = 3
_COMPUTATION_INSTRUCTION, _COMPUTATION_ID = 2, 5
_NAME, _OPCODE, _SHAPE, _METADATA, _CONV, _TARGET, _DOT = 1, 2, 3, 7, 16, 28, 30
_ID, _OPERANDS, _CALLED, _CONFIG, _GROUPS = 35, 36, 38, 43, 49
_ELEMENT, _DIMENSIONS, _PARTS = 2, 3, 4
_OP_NAME = 2
_GROUP_RANKS = 1
_KERNEL_OUTPUT = 4
_MAX_DEPTH = 8
_MAX_TEXT = 2048
_MAX_CONFIG = 1 << 16
_MAX_INSIDE = 10_000

# PrimitiveType -> bytes an element; sub-byte types as they are packed.
_BYTES: dict[int, float] = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 15: 8, 16: 2,
    18: 16, 19: 1, 20: 1, 21: 0.5, 22: 0.5, 23: 1, 24: 1, 25: 1, 28: 1, 29: 1, 32: 0.5, 33: 1,
}  # fmt: skip
PRECISIONS: dict[int, str] = {
    2: "int8", 6: "int8", 10: "fp16", 11: "fp32", 12: "fp64", 16: "bf16", 19: "fp8", 20: "fp8",
    23: "fp8", 24: "fp8", 25: "fp8", 28: "fp8", 29: "fp8",
}  # fmt: skip
"""PrimitiveType -> precision of the ops table."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An array, or the parts of a tuple."""

    element: int = 0
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()

    @property
    def size(self) -> int:
        """Elements of an array."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> float | None:
        """Bytes over all parts; None if a type has no size."""
        if self.parts:
            each = [p.bytes for p in self.parts]
            return None if None in each else math.fsum(b for b in each if b is not None)
        element = _BYTES.get(self.element)
        return None if element is None else self.size * element


@dataclass(slots=True)
class Instruction:
    """One instruction; ``operands`` and ``called`` are ids."""

    name: str = ""
    opcode: str = ""
    op_name: str = ""
    """What the framework calls it: ``jit(step)/jvp(Model)/dot_general``."""
    shape: Shape = field(default_factory=Shape)
    operands: list[int] = field(default_factory=list)
    called: list[int] = field(default_factory=list)
    target: str = ""
    config: str = ""
    contracting: tuple[int, ...] = ()
    """Of a dot: the left operand's contracted dimensions."""
    batching: tuple[int, ...] = ()
    kernel_output: int = 0
    """Of a convolution: the kernel's dimension of output features."""
    group_size: int = 0


@dataclass
class Module:
    """A compiled program."""

    by_name: dict[str, Instruction] = field(default_factory=dict)
    by_id: dict[int, Instruction] = field(default_factory=dict)
    computations: dict[int, list[Instruction]] = field(default_factory=dict)

    def operand_shapes(self, instruction: Instruction) -> list[Shape]:
        """Shapes of the operands that are known."""
        found = [self.by_id.get(i) for i in instruction.operands]
        return [i.shape for i in found if i is not None]

    def inside(self, instruction: Instruction) -> list[Instruction]:
        """The instructions that a fusion is made of; of any other, itself."""
        if instruction.opcode != "fusion":
            return [instruction]
        called = (i for c in instruction.called for i in self.computations.get(c, []))
        return list(islice(called, _MAX_INSIDE))


def read_module(data: Buffer, span: tuple[int, int]) -> Module:
    """The module of an HloProto. Raises WireError."""
    module = Module()
    for number, start, end in fields(data, *span):
        if number == _PROTO_MODULE:
            for inner, low, high in fields(data, start, end):
                if inner == _MODULE_COMPUTATION:
                    _computation(data, low, high, module)
    return module


def _computation(data: Buffer, start: int, end: int, module: Module) -> None:
    ident, found = 0, []
    for number, low, high in fields(data, start, end):
        if number == _COMPUTATION_ID:
            ident = signed(low, high)
        elif number == _COMPUTATION_INSTRUCTION:
            key, instruction = _instruction(data, low, high)
            found.append(instruction)
            module.by_name[instruction.name] = instruction
            module.by_id[key] = instruction
    module.computations[ident] = found


_TEXTS = {_NAME: "name", _OPCODE: "opcode", _TARGET: "target", _CONFIG: "config"}
_LISTS = {_OPERANDS: "operands", _CALLED: "called"}


def _instruction(data: Buffer, start: int, end: int) -> tuple[int, Instruction]:
    ident, made = 0, Instruction()
    for number, low, high in fields(data, start, end):
        if number in _TEXTS:
            limit = _MAX_CONFIG if number == _CONFIG else _MAX_TEXT
            setattr(made, _TEXTS[number], text(data, low, min(high, low + limit)))
        elif number in _LISTS:
            getattr(made, _LISTS[number]).extend(numbers(data, low, high))
        elif number == _SHAPE:
            made.shape = _shape(data, low, high, 0)
        elif number == _METADATA:
            made.op_name = _field_text(data, low, high, _OP_NAME)
        elif number == _ID:
            ident = signed(low, high)
        elif number == _DOT:
            made.contracting, made.batching = _dot(data, low, high)
        elif number == _CONV:
            made.kernel_output = next(
                (signed(a, b) for n, a, b in fields(data, low, high) if n == _KERNEL_OUTPUT), 0
            )
        elif number == _GROUPS and not made.group_size:
            ranks = [
                numbers(data, a, b) for n, a, b in fields(data, low, high) if n == _GROUP_RANKS
            ]
            made.group_size = sum(map(len, ranks))
    return ident, made


def _field_text(data: Buffer, start: int, end: int, wanted: int) -> str:
    for number, low, high in fields(data, start, end):
        if number == wanted:
            return text(data, low, min(high, low + _MAX_TEXT))
    return ""


def _dot(data: Buffer, start: int, end: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    lists: dict[int, list[int]] = {1: [], 3: []}
    for number, low, high in fields(data, start, end):
        if number in lists:
            lists[number] += numbers(data, low, high)
    return tuple(lists[1]), tuple(lists[3])


def _shape(data: Buffer, start: int, end: int, depth: int) -> Shape:
    element, dims, parts = 0, [], []
    for number, low, high in fields(data, start, end):
        if number == _ELEMENT:
            element = signed(low, high)
        elif number == _DIMENSIONS:
            dims += numbers(data, low, high)
        elif number == _PARTS and depth < _MAX_DEPTH:
            parts.append(_shape(data, low, high, depth + 1))
    if any(not 0 <= d < 2**40 for d in dims) or len(dims) > 32:
        return Shape()
    return Shape(element, tuple(dims), tuple(parts))
