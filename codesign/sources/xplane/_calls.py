"""Which instruction a device event ran, and how the rows of its calls are named."""

from __future__ import annotations

import re
from dataclasses import dataclass

from codesign.sources._protobuf import Buffer
from codesign.sources.xplane._hlo import Instruction, Module, read_module
from codesign.sources.xplane._space import Space, Value
from codesign.sources.xplane._work import Work, collective_of, work_of

_PLACEHOLDER = "xla call {}"
# A counter in a name ("layers_12") would make each layer's op one of its own.
_COUNTER = re.compile(r"(?<![A-Za-z0-9:.])\d+(?![A-Za-z0-9])")
_NO_NAME = ("XlaModule:", "kernel", "x")
_PRODUCTS = ("gemm", "conv", "attention", "grouped_gemm")
# ``fusion.123``: the number tells instructions of a program apart, not ops.
_SUFFIX = re.compile(r"(\.\d+)+$")


@dataclass(frozen=True)
class Key:
    """What makes two calls one op."""

    label: str
    op_name: str
    """The framework's name with its counters, for the phase; one of those of the label."""
    hlo: str
    category: str
    work: Work


class Calls:
    """Distinct calls by number; programs are decoded when an event first needs them."""

    def __init__(self, data: Buffer, space: Space) -> None:
        self._data = data
        self._spans = {i: s for p in space.planes for i, s in p.hlo.items()}
        self._modules: dict[int, Module] = {}
        self._numbers: dict[tuple[str, str, str, Work], int] = {}
        self._by_event: dict[tuple[Value | None, ...], int] = {}
        self.keys: list[Key] = []
        self.count = 0

    def next_call(self) -> int:
        """Number of a call of any instruction."""
        self.count += 1
        return self.count - 1

    def placeholder(self, key: int) -> str:
        """Stands for a key's name until the rows exist."""
        return _PLACEHOLDER.format(key)

    def key(self, name: str, stats: dict[str, Value]) -> int:
        """Number of the op that an event belongs to, -1 if nothing says it."""
        hlo = stats.get("hlo_op") or (name if "hlo_category" in stats else "")
        told = (
            hlo, stats.get("program_id"), stats.get("tf_op"), stats.get("name"),
            stats.get("flops"), stats.get("bytes_accessed"), stats.get("hlo_category"),
        )  # fmt: skip
        known = self._by_event.get(told)
        if known is None:
            known = self._by_event[told] = self._new(str(hlo), stats)
        return known

    def _new(self, hlo: str, stats: dict[str, Value]) -> int:
        instruction, work = self._instruction(hlo, stats.get("program_id"))
        op_name = (instruction.op_name if instruction else "") or _framework_name(stats)
        if not (hlo or op_name):
            return -1
        label = _COUNTER.sub("#", op_name) or _SUFFIX.sub("", hlo)
        category = str(stats.get("hlo_category", ""))
        work = _stated(work, stats, hlo)
        identity = (label, _SUFFIX.sub("", hlo), category, work)
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = len(self.keys)
            self.keys.append(Key(label, op_name, identity[1], category, work))
        return number

    def _instruction(self, hlo: str, program: Value | None) -> tuple[Instruction | None, Work]:
        if not isinstance(program, int) or program not in self._spans:
            return None, Work()
        module = self._modules.get(program)
        if module is None:
            module = self._modules[program] = read_module(self._data, self._spans[program])
        found = module.by_name.get(hlo)
        return (None, Work()) if found is None else (found, work_of(module, found))

    def kernel_name(self, name: str, stats: dict[str, Value], plane: str) -> str:
        """Name under which an event is classified: the kernel's, on a TPU the instruction's."""
        if plane.startswith("/device:GPU"):
            return name.removesuffix(".kd")
        # HLO writes all-reduce, the tables of kernels all_reduce.
        return _SUFFIX.sub("", str(stats.get("hlo_op") or name)).replace("-", "_")


def _framework_name(stats: dict[str, Value]) -> str:
    for key in ("tf_op", "name"):
        text = str(stats.get(key, "")).rstrip(":")
        if text and f"{text}:" not in _NO_NAME and text not in _NO_NAME:
            return text.split(":", 1)[0] if "/" in text else text
    return ""


def _stated(work: Work, stats: dict[str, Value], hlo: str) -> Work:
    """The work with what the profile itself states where shapes do not tell it."""
    changes: dict[str, object] = {}
    category = str(stats.get("hlo_category", ""))
    kind = work.collective or collective_of(hlo) or collective_of(category.replace(" ", "-"))
    if kind is not None and work.op_class is None:
        changes.update(op_class="collective", collective=kind)
    flops, moved = _positive(stats.get("flops")), _positive(stats.get("bytes_accessed"))
    op_class = changes.get("op_class", work.op_class)
    if work.flops is None and flops is not None and _multiplies(op_class, category):
        changes["flops"] = flops
    if work.bytes is None and moved is not None and op_class != "collective":
        changes["bytes"] = moved
    return Work(**{**{f: getattr(work, f) for f in Work.__dataclass_fields__}, **changes})


def _multiplies(op_class: object, category: str) -> bool:
    """Whether its FLOPs are those of matrix products, which alone are counted."""
    return op_class in _PRODUCTS or "convolution" in category or "dot" in category


def _positive(value: Value | None) -> float | None:
    if isinstance(value, int | float) and 0 < value < 2.0**62:
        return float(value)
    return None
