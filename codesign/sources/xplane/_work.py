"""Op class, dims and work of an HLO instruction, from its shapes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from codesign.sources.xplane._hlo import PRECISIONS, Instruction, Module, Shape

_MAX_WORK = 2.0**62
_GEMM_TARGETS = ("__cublas$", "__triton_gemm", "__onednn$matmul", "__cutlass$")
_CONV_TARGETS = "__cudnn$conv"
_ATTENTION_TARGETS = ("__cudnn$fmha", "__cudnn$f8_fmha", "__cudnn$fhma")
# What reads a part of an operand only: the operand's size does not tell the bytes.
_PARTIAL = frozenset({
    "dynamic-slice", "dynamic-update-slice", "gather", "scatter", "slice", "while", "conditional",
    "call", "custom-call",
})  # fmt: skip
COLLECTIVES: tuple[tuple[str, str], ...] = (
    (r"ragged-all-to-all|all-to-all", "all_to_all"),
    (r"all-reduce", "all_reduce"),
    (r"all-gather", "all_gather"),
    (r"reduce-scatter", "reduce_scatter"),
    (r"collective-permute|send|recv", "send_recv"),
    (r"collective-broadcast", "broadcast"),
)
"""Opcode, or name of an instruction -> kind of collective."""
_COLLECTIVES = [(re.compile(f"^(async-)?({p})(-start|-done)?"), kind) for p, kind in COLLECTIVES]


@dataclass(frozen=True)
class Work:
    """What one call of an instruction does; None where its shapes do not tell."""

    op_class: str | None = None
    precision: str | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    flops: float | None = None
    bytes: float | None = None
    collective: str | None = None
    message_bytes: int | None = None
    group_size: int | None = None


def collective_of(name: str) -> str | None:
    """Kind of collective that an opcode or the name of an instruction says."""
    return next((kind for pattern, kind in _COLLECTIVES if pattern.match(name)), None)


def work_of(module: Module, instruction: Instruction) -> Work:
    """Work of one call.

    FLOPs are those of the dots and convolutions inside, 2 per multiply-add; bytes are the
    operands and results, each once. A collective's message is as nccl-tests count it.
    """
    if kind := collective_of(instruction.opcode):
        return _collective(module, instruction, kind)
    if instruction.target.startswith(_ATTENTION_TARGETS):
        return Work(op_class="attention", precision=_precision(module, instruction))
    products = [
        (i, w) for i in module.inside(instruction) if (w := _product(module, i)) is not None
    ]
    moved = _bytes(module, instruction)
    if not products:
        return Work(bytes=moved)
    flops = math.fsum(w.flops or 0.0 for _, w in products)
    if any(w.flops is None for _, w in products) or flops > _MAX_WORK:
        return Work(op_class=products[0][1].op_class, bytes=moved)
    if len(products) == 1:
        lead, work = products[0]
        return Work(
            op_class=work.op_class, precision=_precision(module, lead), m=work.m, n=work.n,
            k=work.k, batch=work.batch, flops=flops, bytes=moved,
        )  # fmt: skip
    largest, work = max(products, key=lambda p: p[1].flops or 0.0)
    return Work(
        op_class=work.op_class, precision=_precision(module, largest), flops=flops, bytes=moved
    )


def _product(module: Module, i: Instruction) -> Work | None:
    """Dims and FLOPs of a dot or convolution, None if it is neither."""
    shapes = module.operand_shapes(i)
    result = i.shape.parts[0] if i.shape.parts else i.shape
    if i.opcode == "dot":
        return _dot(result, shapes, i.contracting, i.batching)
    if i.opcode == "custom-call" and i.target.startswith(_GEMM_TARGETS):
        return _dot(result, shapes, *_gemm_config(i.config))
    if i.opcode == "convolution" or i.target.startswith(_CONV_TARGETS):
        # Which of the arrays is the output of the forward convolution, which its kernel.
        first, second = (*shapes[:2], Shape(), Shape())[:2]
        out, kernel = result, second
        if "BackwardInput" in i.target:
            out = first
        elif "BackwardFilter" in i.target:
            out, kernel = second, result
        return _convolution(out, kernel, i.kernel_output)
    return None


def _dot(
    out: Shape, operands: list[Shape], contracting: tuple[int, ...], batching: tuple[int, ...]
) -> Work:
    if not operands or not contracting:
        return Work(op_class="gemm")
    left = operands[0].dims
    if not all(0 <= d < len(left) for d in (*contracting, *batching)):
        return Work(op_class="gemm")
    k = math.prod(left[d] for d in contracting)
    batch = math.prod(left[d] for d in batching)
    m = math.prod(s for d, s in enumerate(left) if d not in contracting and d not in batching)
    if not m or not batch or out.size % (m * batch):
        return Work(op_class="gemm")
    n = out.size // (m * batch)
    return Work(
        op_class="gemm", m=m, n=n, k=k, batch=batch if batching else None, flops=2.0 * out.size * k
    )


def _convolution(out: Shape, kernel: Shape, output_dim: int) -> Work:
    """Every output element is the sum over the kernel's other dimensions."""
    if not 0 <= output_dim < len(kernel.dims) or not kernel.dims[output_dim]:
        return Work(op_class="conv")
    depth = kernel.size // kernel.dims[output_dim]
    return Work(op_class="conv", flops=2.0 * out.size * depth)


def _gemm_config(config: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Contracted and batch dimensions of the left operand of a library's GEMM."""
    try:
        content: Any = msgspec.json.decode(config)
    except (msgspec.DecodeError, RecursionError):
        return (), ()
    content = content if isinstance(content, dict) else {}
    inner = content.get("gemm_backend_config")
    inner = inner if isinstance(inner, dict) else content
    dims = inner.get("dot_dimension_numbers")
    dims = dims if isinstance(dims, dict) else {}
    return _integers(dims.get("lhs_contracting_dimensions")), _integers(
        dims.get("lhs_batch_dimensions")
    )


def _integers(values: Any) -> tuple[int, ...]:
    """Numbers of a list; protocol buffers write 64-bit ones as text in JSON."""
    try:
        return tuple(int(str(v)[:12]) for v in values) if isinstance(values, list) else ()
    except ValueError:
        return ()


def _precision(module: Module, i: Instruction) -> str | None:
    shapes = module.operand_shapes(i)
    return PRECISIONS.get(shapes[0].element) if shapes else None


def _bytes(module: Module, i: Instruction) -> float | None:
    inside = module.inside(i)
    known = i.target.startswith((*_GEMM_TARGETS, _CONV_TARGETS))
    if not known and any(x.opcode in _PARTIAL for x in inside):
        return None
    if len(module.operand_shapes(i)) != len(i.operands):
        return None
    # The second result of a library call is its workspace.
    result = i.shape.parts[0] if known and i.shape.parts else i.shape
    each = [s.bytes for s in (*module.operand_shapes(i), result)]
    total = math.fsum(b for b in each if b is not None)
    return None if None in each or not 0 < total < _MAX_WORK else total


def _collective(module: Module, i: Instruction, kind: str) -> Work:
    sent = [s.bytes for s in module.operand_shapes(i)]
    size = None if None in sent or not sent else math.fsum(b for b in sent if b is not None)
    group = i.group_size or None
    if size is not None and kind == "all_gather":
        size = size * group if group else None  # the total over ranks
    message = None if size is None or not 0 < size < _MAX_WORK else int(size)
    return Work(op_class="collective", collective=kind, message_bytes=message, group_size=group)
