"""Op class, precision and kind of collective from names, by the tables of ``classification``."""

from __future__ import annotations

import re
from functools import lru_cache

from codesign.sources.kineto import classification as tables

# Longer than any kernel name that carries information; bounds the work of a hostile one.
_MAX_NAME = 1000
_CACHE = 1 << 15
COMMUNICATION = ("nccl:", "gloo:", "xccl:")
"""Annotations that c10d puts around its calls; they carry the shapes of the message."""


_MANGLED = re.compile(r"_ZN?(?=\d)")
_LENGTH = re.compile(r"\d{1,3}")
_CLOSED_BY = {"<": ">", "(": ")", "{": "}", "[": "]"}


def _pattern(text: str) -> re.Pattern[str]:
    # Names are searched in lower case: several times as fast as a search that ignores case.
    return re.compile(text.lower())


def _compiled(rows: tuple[tuple[str, str], ...]) -> list[tuple[re.Pattern[str], str]]:
    return [(_pattern(pattern), value) for pattern, value in rows]


_KERNELS = _compiled(tables.KERNEL_CLASSES)
_PRECISIONS = _compiled(tables.KERNEL_PRECISIONS)
_COLLECTIVES = _compiled(tables.COLLECTIVE_NAMES)
_OPS = [(_pattern(p), c, reader) for p, c, reader in tables.OP_CLASSES]


def _first(rows: list[tuple[re.Pattern[str], str]], name: str) -> str | None:
    name = name[:_MAX_NAME].lower()
    return next((value for pattern, value in rows if pattern.search(name)), None)


@lru_cache(_CACHE)
def kernel_class(kernel: str) -> str:
    """Op class by the kernel's name; ``other`` if nothing matches."""
    return _first(_KERNELS, kernel) or "other"


@lru_cache(_CACHE)
def op_rule(op: str) -> tuple[str, str] | None:
    """(op class, reader of dims) of a framework op that is one unit of work, else None."""
    name = op[:_MAX_NAME].lower()
    return next(((c, reader) for pattern, c, reader in _OPS if pattern.search(name)), None)


@lru_cache(_CACHE)
def inputs_read(op: str) -> int:
    """What of an op's recorded inputs is read: 0 nothing, 1 shapes and types, 2 values too."""
    if op.startswith(COMMUNICATION):
        return 1
    rule = op_rule(op)
    if rule is None:
        return 0
    return 2 if rule[0] in ("attention", "conv") else 1


@lru_cache(_CACHE)
def kernel_precision(kernel: str) -> str | None:
    """Precision of the multiply inputs by the kernel's name, or None."""
    return _first(_PRECISIONS, kernel)


def precision(op_class: str, types: list[str], kernel: str) -> str | None:
    """Precision of an op: its widest-known input types first, then its kernel's name."""
    told = [p for t in types if (p := tables.TYPE_PRECISIONS.get(t.lower())) is not None]
    if not told:
        return kernel_precision(kernel)
    if told[0] == "fp32" and op_class in ("gemm", "conv", "grouped_gemm"):
        # fp32 tensors multiplied in TF32: only the kernel tells.
        return "tf32" if kernel_precision(kernel) == "tf32" else "fp32"
    if told[0] == "fp8" and any(t.lower().endswith("float8_e8m0fnu") for t in types):
        return "mxfp8"  # the scales of its blocks are powers of two
    return told[0]


@lru_cache(_CACHE)
def collective_kind(*names: str) -> str | None:
    """Kind of a collective from its names, the most telling first; None if none tells."""
    for name in names:
        kind = _first(_COLLECTIVES, name) if name else None
        if kind is not None:
            return kind
    return None


def short_name(kernel: str) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    if mangled := _MANGLED.match(kernel):
        return _nested_name(kernel, mangled.end())[:120] or kernel[:120]
    name = kernel[:_MAX_NAME].replace("(anonymous namespace)", "_").removesuffix(".kd")
    name = name.replace(" [clone .kd]", "").replace("operator()", "operator_call")
    text, parameters = _outside_brackets(name)
    words = text.split()
    if not parameters and "<" not in name:
        return name.strip()[:120] or kernel[:120]  # not C++: blanks are part of the name
    # Before the name stand return type and qualifiers: "std::enable_if<...>::type ns::name".
    return (words[-1][:120] if words else "") or kernel[:120]


def _nested_name(mangled: str, place: int) -> str:
    """The qualified name of an Itanium-mangled function: each part has its length before it."""
    parts: list[str] = []
    while (length := _LENGTH.match(mangled, place)) is not None:
        place = length.end() + int(length[0])
        part = mangled[length.end() : place]
        parts.append("_" if part.startswith("_GLOBAL__N_") else part)
    return "::".join(parts)


def _outside_brackets(name: str) -> tuple[str, bool]:
    """The name up to its parameters, without what stands in <> or {}; whether it has some.

    The parameters open with the last parenthesis at the outermost level; earlier ones
    belong to a return type such as ``decltype(...)``.
    """
    parts: list[str] = []
    opened: list[str] = []
    before: str | None = None
    for character in name:
        if character in "<({[":
            if character == "(" and not opened:
                before = "".join(parts)
            opened.append(character)
        elif character == ">":
            # Anywhere else than in a template's list it compares or points.
            if opened and opened[-1] == "<":
                opened.pop()
        elif character in ")}]":
            while opened and _CLOSED_BY[opened.pop()] != character:
                pass
        elif not opened:
            parts.append(character)
    return ("".join(parts), False) if before is None else (before, True)
