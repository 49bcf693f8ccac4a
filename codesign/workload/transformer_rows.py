"""Rows of a transformer's op list, and what each becomes in the backward pass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.accounting import RECOMPUTE_SUFFIX

# Reads and writes of each element of the (m, n) array by memory-bound op, forward
# and backward, as fused kernels move them: a norm takes the residual addition in
# (two reads, two writes); SwiGLU reads gate and up and writes one, an activation without
# a gate reads one and writes one; the loss reads
# the logits once, and once more to write their gradient in place.
PASSES: dict[str, tuple[float, float]] = {
    "attention_norm": (4, 4), "mlp_norm": (4, 4), "final_norm": (4, 4),
    "q_norm": (2, 3), "kv_norm": (2, 3), "qk_norm": (2, 3),
    "rotary": (2, 2), "swiglu": (3, 5), "shared_swiglu": (3, 5),
    "activation": (2, 3), "shared_activation": (2, 3),
    "router_topk": (2, 2), "embedding": (2, 2), "cross_entropy": (1, 2), "sampling": (1, 0),
    "shared_add": (3, 2),
}  # fmt: skip
# Recomputed under selective recomputation, as DeepSeek-V3 does (arXiv:2412.19437,
# section 3.2.3): cheap to redo, large to keep.
SELECTIVE = frozenset({
    "attention_norm", "mlp_norm", "q_norm", "kv_norm", "qk_norm", "swiglu", "shared_swiglu",
    "activation", "shared_activation", "q_b_proj", "kv_b_proj",
})  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One op with its calls a step; ``dims`` are columns of the ops table."""

    op_class: str
    name: str
    count: float
    precision: str
    phase: str
    dims: dict[str, object] = field(default_factory=dict)

    def values(self) -> dict[str, object]:
        """The row as columns of the ops table."""
        return {
            "op_class": self.op_class, "name": self.name, "count": self.count,
            "precision": self.precision, "phase": self.phase, "evidence": "assumed", **self.dims,
        }  # fmt: skip


def gemm(name: str, m: int, n: int, k: int, *, count: float, precision: str, phase: str) -> Row:
    """A GEMM of an (m, k) activation by a (k, n) weight."""
    return Row("gemm", name, count, precision, phase, {"m": m, "n": n, "k": k})


def memory(
    op_class: str, name: str, m: int, n: int, *, count: float, precision: str, phase: str
) -> Row:
    """A memory-bound op over an (m, n) array; its passes are those of ``PASSES``."""
    size = m * n * BYTES_PER_ELEMENT[precision]
    dims: dict[str, object] = {"m": m, "n": n, "bytes": PASSES[name][0] * size * count}
    return Row(op_class, name, count, precision, phase, dims)


def backward(row: Row) -> list[Row]:
    """The rows that ``row`` needs in the backward pass.

    A GEMM Y = X W becomes dX = dY W^T (``.dgrad``) and dW = dY^T X (``.wgrad``), each
    with its own m, n, k. A fused MoE keeps its dims and gets a row of the forward's
    work for each of the two.
    """
    if row.op_class == "gemm":
        m, n, k = (row.dims[c] for c in "mnk")
        dgrad = {**row.dims, "m": m, "n": k, "k": n}
        # A weight gradient may be computed either way round; libraries and tables
        # alike reach further in n than in m.
        short, long = sorted((int(str(n)), int(str(k))))
        wgrad = {**row.dims, "m": short, "n": long, "k": m}
        return [_as(row, ".dgrad", dgrad), _as(row, ".wgrad", wgrad)]
    if row.op_class == "grouped_gemm":
        return [_as(row, ".dgrad", row.dims), _as(row, ".wgrad", row.dims)]
    if row.op_class == "attention":
        return [_as(row, ".backward", row.dims)]
    there, back = PASSES[row.name]
    if back == 0:
        return []
    scaled = float(str(row.dims["bytes"])) * back / there
    return [_as(row, ".backward", {**row.dims, "bytes": scaled})]


def recomputed(row: Row) -> Row:
    """``row`` done once more during the backward pass."""
    return _as(row, RECOMPUTE_SUFFIX, row.dims)


def _as(row: Row, suffix: str, dims: dict[str, object]) -> Row:
    return replace(row, name=row.name + suffix, phase="backward", dims=dims)
