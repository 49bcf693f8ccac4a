"""Which ops a calibration measures, as rows of the ops table without times. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from codesign._common.errors import UsageError, one_of

Point = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rows: tuple[int, ...]
    """Rows of a GEMM: tokens."""
    weights: tuple[tuple[int, int], ...]
    """(n, k) of a GEMM."""
    sequences: tuple[int, ...]
    batches: tuple[int, ...]
    heads: tuple[tuple[int, int], ...]
    """(query, key-value) heads of 128."""
    arrays: tuple[tuple[int, int], ...]
    """(rows, columns) of memory-bound ops."""
    messages: tuple[int, ...]
    """Bytes of collectives."""
    experts: tuple[int, ...]
    head_dim: int = 128


def _powers(low: int, high: int) -> tuple[int, ...]:
    return tuple(1 << i for i in range(low, high + 1))


EFFORTS: dict[str, Effort] = {
    "tiny": Effort((1, 64), ((64, 128), (128, 64)), (32,), (1, 2), ((4, 2),), ((64, 128),),
                   (4096, 65536), (4,), head_dim=16),
    "standard": Effort(
        _powers(0, 14), ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (1024, 8192),
                         (8192, 8192), (8192, 28672), (512, 7168)),
        _powers(9, 14), _powers(0, 7)[::2], ((32, 8), (8, 1), (32, 32)),
        tuple((m, n) for m in _powers(0, 15)[::3] for n in (1024, 4096, 14336)),
        _powers(10, 29), (8, 32),
    ),
    "full": Effort(
        _powers(0, 15), tuple((n, k) for n in (256, 512, 1024, 2048, 4096, 6144, 8192, 14336, 28672)
                              for k in (512, 1024, 2048, 4096, 8192, 14336, 28672)),
        _powers(7, 16), _powers(0, 8), ((32, 8), (64, 8), (8, 1), (16, 2), (32, 32), (128, 128)),
        tuple((m, n) for m in _powers(0, 16)[::2] for n in (512, 1024, 4096, 8192, 14336, 28672)),
        _powers(9, 32), (8, 16, 32, 64, 128),
    ),
}  # fmt: skip
_LARGEST_ELEMENTS = 1 << 31
_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def effort_of(name: str) -> Effort:
    """A named effort. Raises UsageError that lists them."""
    if name not in EFFORTS:
        raise UsageError(one_of("preset of a calibration", name, list(EFFORTS)))
    return EFFORTS[name]


def points(effort: Effort, precisions: Sequence[str], ranks: int = 1) -> list[Point]:
    """Every op to measure, small ones first within a class, in an order that does not change."""
    found = [*_gemms(effort, precisions), *_attention(effort, precisions[0]),
             *_memory_bound(effort, precisions), *_grouped(effort, precisions)]  # fmt: skip
    return found + list(_collectives(effort, precisions[0], ranks))


def _gemms(effort: Effort, precisions: Sequence[str]) -> Iterator[Point]:
    for precision in precisions:
        for n, k in effort.weights:
            for m in effort.rows:
                if m * max(n, k) <= _LARGEST_ELEMENTS:
                    yield {"op_class": "gemm", "name": "gemm", "precision": precision,
                           "m": m, "n": n, "k": k}  # fmt: skip


def _attention(effort: Effort, precision: str) -> Iterator[Point]:
    both = {"op_class": "attention", "precision": precision, "kv_precision": precision,
            "head_dim": effort.head_dim, "causal": True}  # fmt: skip
    for heads, kv_heads in effort.heads:
        for batch in effort.batches:
            for tokens in effort.sequences:
                shape = {"heads": heads, "kv_heads": kv_heads, "batch": batch, "kv_len": tokens}
                elements = batch * heads * tokens * effort.head_dim
                if elements <= _LARGEST_ELEMENTS // 4:
                    yield {**both, "name": "context_attention", "phase": "prefill",
                           **shape, "q_len": tokens}  # fmt: skip
                yield {**both, "name": "generation_attention", "phase": "decode", **shape,
                       "q_len": 1}  # fmt: skip


def _memory_bound(effort: Effort, precisions: Sequence[str]) -> Iterator[Point]:
    wide = precisions[0]
    for m, n in effort.arrays:
        for name, op_class in (("rms_norm", "norm"), ("softmax", "softmax"), ("copy", "copy"),
                               ("add", "elementwise"), ("sum", "reduction")):  # fmt: skip
            yield {"op_class": op_class, "name": name, "precision": wide, "m": m, "n": n}
        if "fp8" in precisions:
            yield {"op_class": "quantize", "name": "quantize", "precision": "fp8", "m": m, "n": n}


def _grouped(effort: Effort, precisions: Sequence[str]) -> Iterator[Point]:
    if precisions[0] != "bf16":  # the only inputs that PyTorch's grouped GEMM takes
        return
    for experts in effort.experts:
        for n, k in effort.weights[:4]:
            for m in effort.rows:
                if m >= experts and experts * n * k <= _LARGEST_ELEMENTS:
                    yield {"op_class": "grouped_gemm", "name": "grouped_gemm", "precision": "bf16",
                           "m": m, "n": n, "k": k, "experts": experts,
                           "distribution": "balanced"}  # fmt: skip


def _collectives(effort: Effort, precision: str, ranks: int) -> Iterator[Point]:
    group = 2
    while group <= ranks:
        for kind in _KINDS:
            for size in effort.messages:
                yield {"op_class": "collective", "name": kind, "collective": kind,
                       "precision": precision, "message_bytes": size, "group_size": group,
                       "domain_span": group}  # fmt: skip
        group *= 2
