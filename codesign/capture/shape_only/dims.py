"""What an op call is, by its name and its tensors: class, dims, bytes. Knows no values.

FLOPs and the bytes of multiplies come from `workload.accounting`, as for a trace; bytes of
memory-bound ops are those of the tensors themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
PRECISIONS = {
    "float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8", "float4_e2m1fn_x2": "nvfp4", "int8": "int8",
}  # fmt: skip
_CLASSES = (
    (r"_?(log_)?softmax(_backward_data)?|_safe_softmax", "softmax"),
    (r"(native_|_fused_)?(layer|rms|batch|group)_norm(_backward)?", "norm"),
    (r"embedding(_dense_backward)?|_embedding_bag\w*|index_select", "embedding"),
    (r"copy_?|clone|_to_copy|cat|stack|index|index_put_?|gather|scatter_?|masked_fill_?"
     r"|scatter_add_?|scatter_reduce_?|_index_put_impl_|index_add_?|index_copy_?|index_fill_?|slice_backward|select_backward|slice_scatter|constant_pad_nd"
     r"|repeat|roll|flip|tril|triu", "copy"),
    (r"sum|mean|max|min|amax|amin|argmax|argmin|prod|var|std|var_mean|norm|linalg_vector_norm|all"
     r"|any|cumsum|logsumexp|topk|sort|argsort|nll_loss_(forward|backward)", "reduction"),
    (r"fill_|zero_|arange|full|zeros|ones|normal_|uniform_|randn|rand|randint|bernoulli_?"
     r"|zeros_like|ones_like|full_like|rand_like|randn_like|random_", "elementwise"),
)  # fmt: skip
_COMPILED = [(re.compile(pattern), op_class) for pattern, op_class in _CLASSES]
_LOOKUPS = frozenset({"embedding", "index_select", "index", "gather"})
_BAGS = frozenset({"_embedding_bag", "_embedding_bag_forward_only"})
_SCATTERS = re.compile(r"(scatter|scatter_add|scatter_reduce|index_put|index_add|index_copy"
                       r"|index_fill|_index_put_impl)_")  # fmt: skip
NO_WORK = re.compile(
    r"empty\w*|new_empty\w*|detach_?|alias|lift_fresh|_unsafe_view|_reshape_alias|set_|resize_"
    r"|unsafe_(split\w*|chunk)|(t|transpose|squeeze|unsqueeze|as_strided|swapdims|swapaxes)_"
    r"|sym_\w+|_local_scalar_dense|prim\w*"
)


def precision(tensor: Any) -> str | None:
    """Precision of a tensor in the words of the contract, None for what it has no word for."""
    return PRECISIONS.get(str(tensor.dtype).removeprefix("torch."))


def size_bytes(tensors: Sequence[Any]) -> float:
    """Bytes of tensors; one that expands another counts only what it holds."""
    total = 0.0
    for t in tensors:
        held = [n for n, stride in zip(t.shape, t.stride(), strict=True) if stride or n == 1]
        total += math.prod(held) * t.dtype.itemsize
    return total


def _multiply(name: str, inputs: Sequence[Any]) -> Row | None:
    """Dims of a GEMM or grouped GEMM, None if it is none, or one of complex numbers."""
    if inputs and inputs[0].dtype.is_complex:
        return None
    first = 1 if name in ("addmm", "baddbmm", "addbmm", "_addmm_activation") else 0
    if name in ("mm", "addmm", "_addmm_activation", "_scaled_mm", "_scaled_mm_v2", "_int_mm"):
        a, b = inputs[first : first + 2]
        return {"op_class": "gemm", "m": a.shape[0], "k": a.shape[1], "n": b.shape[1],
                "precision": precision(a)}  # fmt: skip
    if name in ("mv", "addmv", "dot", "vdot"):
        a, b = inputs[1 if name == "addmv" else 0 :][:2]
        return {"op_class": "gemm", "m": a.shape[0] if a.dim() == 2 else 1, "k": b.shape[0],
                "n": 1, "precision": precision(a)}  # fmt: skip
    if name in ("bmm", "baddbmm", "addbmm"):
        a, b = inputs[first : first + 2]
        return {"op_class": "gemm", "batch": a.shape[0], "m": a.shape[1], "k": a.shape[2],
                "n": b.shape[2], "precision": precision(a)}  # fmt: skip
    if name in ("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2"):
        return _grouped(inputs)
    return None


def _grouped(inputs: Sequence[Any]) -> Row:
    """A grouped GEMM by its rows over all groups. A weight gradient keeps the forward's dims: its
    tokens, which are the inner size, are read once and not by every group.
    """
    a, b = inputs[:2]
    row: Row = {"op_class": "grouped_gemm", "precision": precision(a)}
    if a.dim() == 2 and b.dim() == 3:
        return row | {"m": a.shape[0], "k": a.shape[1], "n": b.shape[2], "experts": b.shape[0]}
    if a.dim() == 3 and b.dim() == 3:
        rows = a.shape[0] * a.shape[1]
        return row | {"m": rows, "k": a.shape[2], "n": b.shape[2], "experts": a.shape[0]}
    groups = [t.shape[0] for t in inputs[2:] if t.dim() == 1 and "int" in str(t.dtype)]
    row |= {"m": a.shape[-1], "k": a.shape[0], "n": b.shape[-1]}
    return row | ({"experts": groups[0]} if groups else {})


def _convolution(name: str, inputs: Sequence[Any], output: Sequence[Any],
                 arguments: Sequence[Any]) -> Row | None:  # fmt: skip
    """FLOPs of a convolution: every weight meets every place of the output, or of the gradient."""
    if name == "convolution":
        weight, whole = inputs[1], output[0]
        if len(arguments) > 6 and arguments[6]:  # transposed: places of the input
            whole = inputs[0]
        passes = 1
    elif name == "convolution_backward":
        whole, weight = inputs[0], inputs[2]
        passes = sum(bool(wanted) for wanted in arguments[10][:2])
    else:
        return None
    places = whole.shape[0] * math.prod(whole.shape[2:])
    return {"op_class": "conv", "precision": precision(inputs[0]),
            "flops": 2.0 * places * math.prod(weight.shape) * passes}  # fmt: skip


def row_of(
    name: str, inputs: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Any],
    pointwise: bool,
) -> Row | None:  # fmt: skip
    """One call as a row of the ops table, None if it moves and computes nothing.

    ``name`` is the op's without namespace and overload, ``inputs`` and ``outputs`` its
    tensors, ``arguments`` all positional ones, ``pointwise`` what PyTorch says of it.
    """
    if NO_WORK.fullmatch(name):
        return None
    found = _multiply(name, inputs)
    if found is not None:
        return found
    found = _convolution(name, inputs, outputs, arguments)
    moved = size_bytes(inputs) + size_bytes([o for o in outputs if not _among(o, inputs)])
    if found is not None:
        return found | {"bytes": moved}
    touched = _touched(name, inputs, outputs, arguments)
    if touched is not None:
        moved = touched
    elif name.endswith("_") and outputs and _among(outputs[0], inputs):
        # In place: read and written, but for what is only written.
        written = name in ("copy_", "fill_", "zero_", "normal_", "uniform_", "random_")
        moved += 0.0 if written else size_bytes(outputs)
    if not moved:
        return None
    op_class = "elementwise" if pointwise else "other"
    for pattern, known in _COMPILED:
        if pattern.fullmatch(name):
            op_class = known
            break
    first = next((p for t in (*inputs, *outputs) if (p := precision(t))), None)
    return {"op_class": op_class, "precision": first, "bytes": moved}


def _touched(name: str, inputs: Sequence[Any], outputs: Sequence[Any],
             arguments: Sequence[Any]) -> float | None:  # fmt: skip
    """Bytes of an op that reads or writes only a part of its first tensor, None for others."""
    if not inputs or not outputs:
        return None
    part, whole = 0.0, size_bytes(outputs)
    element = float(inputs[0].dtype.itemsize)
    if name in _LOOKUPS:
        part = whole
    elif name in _BAGS:
        part = inputs[1].numel() * inputs[0].shape[1] * element
    elif name in ("nll_loss_forward", "nll_loss2d_forward"):
        part = inputs[1].numel() * element
    elif name in ("nll_loss_backward", "nll_loss2d_backward"):  # of the second only the shape
        part = size_bytes(inputs[:1]) - size_bytes(inputs[1:2])
    elif _SCATTERS.fullmatch(name):
        adds = "add" in name or "reduce" in name or any(a is True for a in arguments[3:])
        whole = max((t.numel() for t in inputs[1:]), default=0) * element
        part = whole if adds else 0.0
    else:
        return None
    return part + whole + size_bytes(inputs[1:])


def _among(tensor: Any, others: Sequence[Any]) -> bool:
    return any(tensor is other for other in others)
