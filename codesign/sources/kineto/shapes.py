"""Dims of an op call from the shapes, types and concrete inputs that the profiler recorded.

Readers return columns of the ops table for one call, plus ``flops`` and ``bytes`` of
one call where no dims of the contract express them. What cannot be read is left
out, never guessed. Argument positions are those of PyTorch's native functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from codesign.sources.kineto.classification import TYPE_BYTES

_MAX_VALUE = 2**62
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
Dims = dict[str, Any]
# Their first input is the output or a bias, which may be of another type.
_ADDED_FIRST = ("addmm", "out_mm", "addmv")


class Call:
    """Recorded inputs of an op call: ``dims[i]`` is the shape of input i (empty: a scalar)."""

    def __init__(self, op: str, dims: bytes, types: bytes, concrete: bytes) -> None:
        self.op = op
        self.dims = _list(dims)
        self.types = [t if isinstance(t, str) else "" for t in _list(types)]
        self.concrete = [c if isinstance(c, str) else "" for c in _list(concrete)]

    def shape(self, index: int, rank: int | None = None) -> list[int] | None:
        """Shape of a tensor input, if it is one (of that rank)."""
        if index >= len(self.dims):
            return None
        shape = self.dims[index]
        if not isinstance(shape, list) or not shape:
            return None
        if not all(type(d) is int and 0 <= d < _MAX_VALUE for d in shape):
            return None
        return shape if rank is None or len(shape) == rank else None

    def element_bytes(self, index: int) -> float | None:
        """Bytes of an element of input ``index``."""
        return TYPE_BYTES.get(self.types[index].lower()) if index < len(self.types) else None

    def size_bytes(self, index: int) -> float | None:
        """Bytes of input ``index``, or None if it is no tensor or its type is unknown."""
        shape, element = self.shape(index), self.element_bytes(index)
        return None if shape is None or element is None else math.prod(shape) * element

    def integers(self, index: int) -> list[int] | None:
        """A concrete list of integers such as ``"[1, 1]"``."""
        text = self.concrete[index] if index < len(self.concrete) else ""
        value = _list(text.encode())
        return value if value and all(type(v) is int for v in value) else None

    def integer(self, index: int) -> int | None:
        """A concrete integer, None if it was not recorded."""
        text = self.concrete[index] if index < len(self.concrete) else ""
        return int(text) if _INTEGER.fullmatch(text) else None

    def flag(self, index: int) -> bool | None:
        """A concrete boolean, None if it was not recorded."""
        text = self.concrete[index] if index < len(self.concrete) else ""
        return {"true": True, "1": True, "2": True, "false": False, "0": False}.get(text.lower())

    def packed(self, index: int) -> int:
        """Numbers in an element of input ``index``: types such as ``float4_e2m1fn_x2`` hold two."""
        return 2 if index < len(self.types) and self.types[index].endswith("_x2") else 1

    def tensor_types(self, reader: str = "") -> list[str]:
        """Types of the inputs that are tensors; of a product those that it multiplies first."""
        pairs = list(zip(self.types, self.dims, strict=False))
        if reader in _ADDED_FIRST or (reader == "bmm" and self.op.endswith("baddbmm")):
            pairs = [*pairs[1:], *pairs[:1]]
        return [t for t, d in pairs if isinstance(d, list) and d]


def _list(text: bytes) -> list[Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _gemm(call: Call, first: int) -> Dims:
    a, b = call.shape(first, 2), call.shape(first + 1, 2)
    if a is None or b is None or a[1] != b[0]:
        return {}
    return {"m": a[0], "n": b[1], "k": a[1] * call.packed(first)}


def _mm(call: Call) -> Dims:
    return _gemm(call, 0)


def _addmm(call: Call) -> Dims:
    return _gemm(call, 1)


def _mv(call: Call) -> Dims:
    """A matrix times a vector, to which ``addmv`` adds one."""
    first = 1 if "addmv" in call.op else 0
    a, x = call.shape(first, 2), call.shape(first + 1, 1)
    return {"m": a[0], "n": 1, "k": a[1]} if a and x and a[1] == x[0] else {}


def _out_mm(call: Call) -> Dims:
    out, a = call.shape(0, 2), call.shape(1, 2)
    return {"m": out[0], "n": out[1], "k": a[1]} if out and a else {}


def _bmm(call: Call) -> Dims:
    first = 1 if call.op.endswith("baddbmm") else 0
    a, b = call.shape(first, 3), call.shape(first + 1, 3)
    if a is None or b is None or a[2] != b[1]:
        return {}
    return {"m": a[1], "n": b[2], "k": a[2], "batch": a[0]}


def _linear(call: Call) -> Dims:
    x, w = call.shape(0), call.shape(1, 2)
    if x is None or w is None:
        return {}
    # A linear layer's weight is (n, k); a matrix product's second operand is (k, n).
    k, n = (w[0], w[1]) if call.op.endswith("matmul") else (w[1], w[0])
    return {"m": math.prod(x[:-1]), "n": n, "k": k} if x[-1] == k else {}


def _grouped(call: Call) -> Dims:
    a, b = call.shape(0), call.shape(1)
    if a is None or b is None:
        return {}
    if len(a) == 2 and len(b) == 3 and a[1] == b[1]:
        return {"m": a[0], "n": b[2], "k": a[1] * call.packed(0), "experts": b[0]}
    if len(a) == 3 and len(b) == 3 and a[2] == b[1] and a[0] == b[0]:
        return {"m": a[0] * a[1], "n": b[2], "k": a[2] * call.packed(0), "experts": a[0]}
    offsets = next((s for i in range(2, len(call.dims)) if (s := call.shape(i, 1))), None)
    if len(a) == 2 and len(b) == 2 and a[1] == b[0] and offsets:
        # Weight gradient: the tokens are the inner size, split over the groups.
        return {"m": a[1], "n": b[1], "k": a[0], "experts": offsets[0]}
    return {}


def _conv_work(call: Call, rows: int, weight: list[int], passes: int, tensors: int) -> Dims:
    flops = 2.0 * rows * math.prod(weight) * passes
    sizes = [call.size_bytes(i) for i in range(tensors)]
    element = call.element_bytes(0)
    if element is None or None in sizes:
        return {"flops": flops}
    moved = sum(s for s in sizes if s is not None) * passes + rows * weight[0] * element
    return {"flops": flops, "bytes": float(moved)}


def _conv(call: Call) -> Dims:
    x, w = call.shape(0), call.shape(1)
    # cudnn: padding, stride, dilation from 2; miopen: the same from 3, after a bias;
    # conv2d and convolution: stride, padding, dilation from 3.
    first = 2 if "cudnn" in call.op else 3
    three = [call.integers(first + i) for i in range(3)]
    stride, padding = (
        (three[1], three[0]) if "cudnn" in call.op or "miopen" in call.op else three[:2]
    )
    dilation = three[2]
    if x is None or w is None or not (stride and padding and dilation) or len(x) != len(w):
        return {}
    if call.op == "aten::convolution" and call.flag(6) is not False:
        return {}  # transposed
    space = len(x) - 2
    if space < 1:
        return {}
    rows = x[0]
    for i in range(space):
        s, p, d = (v[i] if len(v) == space else v[0] for v in (stride, padding, dilation))
        if s < 1:
            return {}
        rows *= max(0, (x[2 + i] + 2 * p - d * (w[2 + i] - 1) - 1) // s + 1)
    return _conv_work(call, rows, w, 1, 2)


def _conv_grad(call: Call) -> Dims:
    """Old PyTorch: one op for the input gradient (sizes, grad, weight), one for the weight."""
    if call.op.endswith("_input"):
        grad, weight = call.shape(1), call.shape(2)
        if grad is None or weight is None or len(grad) < 3:
            return {}
        return {"flops": 2.0 * grad[0] * math.prod(grad[2:]) * math.prod(weight)}
    return {}  # the weight's size is a value, which was not recorded


def _conv_backward(call: Call) -> Dims:
    grad, weight = call.shape(0), call.shape(2)
    mask = call.concrete[10] if len(call.concrete) > 10 else ""
    if grad is None or weight is None or len(grad) < 3 or not mask.startswith("["):
        return {}
    passes = [m.strip().lower() in ("true", "1") for m in mask.strip("[]").split(",")][:2].count(
        True
    )
    return _conv_work(call, grad[0] * math.prod(grad[2:]), weight, passes, 3)


# Op -> positions of the query, of the causal flag and of the window to the left (None: it
# takes none), and whether heads stand before tokens.
_ATTENTION: dict[str, tuple[int, int, int | None, bool]] = {
    "aten::_flash_attention_forward": (0, 8, 11, False),
    "aten::_flash_attention_backward": (1, 11, 15, False),
    "aten::_efficient_attention_forward": (0, 9, 13, False),
    "aten::_efficient_attention_backward": (1, 14, 17, False),
    "aten::_scaled_dot_product_flash_attention": (0, 4, None, True),
    "aten::_scaled_dot_product_flash_attention_backward": (1, 11, None, True),
    "aten::_scaled_dot_product_efficient_attention": (0, 6, None, True),
    "aten::_scaled_dot_product_efficient_attention_backward": (1, 11, None, True),
    "aten::_scaled_dot_product_cudnn_attention": (0, 6, None, True),
    "aten::_scaled_dot_product_cudnn_attention_backward": (1, 14, None, True),
    "flash_attn::_flash_attn_forward": (0, 5, 6, False),
    "flash_attn::_flash_attn_backward": (1, 11, 12, False),
}


def _attention(call: Call) -> Dims:
    place = _ATTENTION.get(call.op)
    if place is None:
        return {}
    first, flag, window, heads_first = place
    q, k, v = (call.shape(first + i, 4) for i in range(3))
    if q is None or k is None or v is None:
        return {}
    tokens, heads = (2, 1) if heads_first else (1, 2)
    dims: Dims = {
        "batch": q[0], "heads": q[heads], "kv_heads": k[heads], "q_len": q[tokens],
        "kv_len": k[tokens], "head_dim": q[3], "head_dim_v": v[3],
    }  # fmt: skip
    causal = call.flag(flag)
    if causal is not None:
        dims["causal"] = causal
    left = None if window is None else call.integer(window)
    if left is None or left < 0:
        return dims
    right = call.integer(window + 1) if window is not None else None
    if "efficient" in call.op:
        # Counts the token itself; 0 is none.
        return dims | {"window": left} if left and causal else ({} if left else dims)
    if not causal and right != 0:
        return {}  # a band to both sides, which no column describes
    # So many tokens to the left, and the token itself.
    return dims | {"window": left + 1, "causal": True}


def _rows(call: Call) -> Dims:
    """Norms and softmax: the array as rows x columns."""
    first = 1 if call.op.startswith("_C::") and call.op.endswith("norm") else 0
    x = call.shape(first)
    if x is None or "batch_norm" in call.op or "group_norm" in call.op:
        return {} if x is None else {"m": math.prod(x[:1] + x[2:]), "n": x[1] if x[1:] else 1}
    return {"m": math.prod(x[:-1]), "n": x[-1]}


def _lookup(call: Call) -> Dims:
    table, index = call.shape(0, 2), call.shape(2 if call.op.endswith("select") else 1)
    if table is None or index is None:
        return {}
    return {"m": math.prod(index), "n": table[1]}


def _parameters(call: Call) -> Dims:
    """Fused optimizers: the elements of the first list of tensors."""
    if not call.dims or not isinstance(call.dims[0], list):
        return {}
    shapes = [s for s in call.dims[0] if isinstance(s, list)]
    if not shapes or len(shapes) != len(call.dims[0]):
        return {}
    if not all(type(d) is int and 0 <= d < _MAX_VALUE for s in shapes for d in s):
        return {}
    return {"m": sum(math.prod(s) for s in shapes)}


def _tensor_bytes(call: Call) -> list[tuple[int, float]]:
    """(elements, bytes of an element) of the tensor inputs; empty if a type is unknown."""
    found = []
    for i in range(len(call.dims)):
        shape = call.shape(i)
        if shape is not None:
            element = call.element_bytes(i)
            if element is None:
                return []
            found.append((math.prod(shape), element))
    return found


def _copy(call: Call) -> Dims:
    sizes = _tensor_bytes(call)
    if not sizes:
        return {}
    if call.op.endswith("copy_") and len(sizes) > 1:
        # The source may be broadcast; what is written is the destination.
        return {"bytes": sizes[0][0] * sizes[0][1] + sizes[1][0] * sizes[1][1]}
    return {"bytes": 2.0 * sizes[0][0] * sizes[0][1]}


def _read(call: Call) -> Dims:
    sizes = _tensor_bytes(call)
    return {"bytes": float(sizes[0][0] * sizes[0][1])} if sizes else {}


def _written(call: Call) -> Dims:
    return _read(call)


# Of truth values a byte each is written, whatever is compared; in place they keep the type.
_COMPARED = re.compile(r"::(eq|ne|lt|gt|le|ge|logical_and|logical_not)$")


def _pointwise(call: Call) -> Dims:
    """Read every input, write one array as large as their broadcast."""
    sizes = _tensor_bytes(call)
    if not sizes:
        return {}
    shapes = [s for i in range(len(call.dims)) if (s := call.shape(i)) is not None]
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(s)) + s for s in shapes]
    written = math.prod(max(column) for column in zip(*padded, strict=True))
    answer = 1 if _COMPARED.search(call.op) else max(b for _, b in sizes)
    moved = sum(n * b for n, b in sizes) + written * answer
    return {"bytes": float(moved)}


READERS: dict[str, Callable[[Call], Dims]] = {
    "mm": _mm, "addmm": _addmm, "bmm": _bmm, "linear": _linear, "out_mm": _out_mm,
    "mv": _mv, "addmv": _mv,
    "grouped": _grouped, "conv": _conv, "conv_grad": _conv_grad, "conv_backward": _conv_backward,
    "attention": _attention, "rows": _rows, "lookup": _lookup, "parameters": _parameters,
    "copy": _copy, "read": _read, "written": _written, "pointwise": _pointwise,
}  # fmt: skip


def read_dims(reader: str, call: Call) -> Dims:
    """Columns of one call; empty where the recorded inputs do not tell them."""
    if not reader or not call.dims:
        return {}
    dims = READERS[reader](call)
    numbers = [v for v in dims.values() if not isinstance(v, bool)]
    return dims if all(0 <= v < _MAX_VALUE for v in numbers) else {}
