"""Memory-bound kernels that a fusion would spare: pointwise chains, and attention in parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.recommend.software.draft import Draft, shrunk
from codesign.recommend.software.look import Look
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent
from codesign.workload.accounting import add_work
from codesign.workload.schema import ops_frame

Index = NDArray[np.intp]

LEAST_SHARE = 0.01
_FUSED = r"fused|triton|foreach|multi_tensor|_for_|nvfuser|swiglu|act_and_mul"
UNARY = (
    r"::(gelu|relu|silu|tanh|sigmoid|neg|exp|log|sqrt|rsqrt|abs|sin|cos|erf|clamp|clamp_min"
    r"|clamp_max|dropout|native_dropout|square|reciprocal)_?$"
)
"""One array read, one written: fused into what writes or reads it, nothing is left."""
BINARY = (
    r"::(add|sub|rsub|mul|div|where|maximum|minimum|threshold_backward|gelu_backward"
    r"|silu_backward|tanh_backward|sigmoid_backward|lerp)_?$"
)
"""Two read, one written: fused, the other operand is still read."""
_ONE_OPERAND = r"AUnaryFunctor|BUnaryFunctor"
LEFT_BINARY = 1 / 3


def unfused_pointwise(look: Look) -> Draft | str | None:
    """Pointwise kernels of their own between other ops, called more than once a step.

    Fused into the kernel before or after, an op saves the write and the read of the array
    between the two; the second operand of a binary op is still read.
    """
    point = look.of_class("elementwise") & ~look.named(_FUSED) & ~look.named(_FUSED, "kernel")
    point &= (look.number("count", 0.0) > 1) & (look.step.exposed_s > 0)
    one = look.named(UNARY) | (look.named(BINARY) & look.named(_ONE_OPERAND, "kernel"))
    two = look.named(BINARY) & ~one
    rows = np.flatnonzero(point & (one | two))
    at_stake = float(look.step.exposed_s[rows].sum())
    left = np.where(two[rows], LEFT_BINARY, 0.0)
    bound = float((look.step.exposed_s[rows] * left).sum())
    if at_stake - bound < LEAST_SHARE * look.step_s:
        return None
    norms = look.of_class("norm")
    beside = (
        f" beside {look.number('count', 0.0)[norms].sum():.4g} norms that could take an "
        "addition in" if norms.any() else ""
    )  # fmt: skip
    calls = look.number("count", 0.0)[rows].sum()
    return Draft(
        shrunk(look, rows, left), rows,
        f"{calls:.4g} pointwise kernels of their own take {seconds(at_stake)} "
        f"({percent(at_stake / look.step_s)} of the step){beside}: {ops_in_words(look, rows)}",
        at_stake, bound,
        "fused into a neighbour, an op with one input costs nothing more, one with two still "
        "reads the other: a third of its traffic",
    )  # fmt: skip


def unfused_attention(look: Look) -> Draft | str | None:
    """Attention as batched GEMM, softmax, batched GEMM, its scores written to memory.

    Found by dims: a softmax over rows of ``n`` scores, a batched GEMM that makes (m, n) of
    them and one that takes them in (k = n). The bound is one fused kernel of that shape.
    """
    chain = _score_chain(look)
    if chain is None:
        return None
    rows, attention = chain
    at_stake = float(look.step.exposed_s[rows].sum())
    modelled = look.modelled(attention)
    if modelled is None or not np.isfinite(modelled).all():
        return "no model tells what the fused attention of this shape takes"
    bound = float(modelled.sum())
    if at_stake - bound < LEAST_SHARE * look.step_s:
        return None
    shape = attention.iloc[0]
    ratio = np.full(len(rows), bound / at_stake)
    return Draft(
        shrunk(look, rows, ratio), rows,
        f"attention runs in parts that pass {shape['q_len']} x {shape['kv_len']} scores through "
        f"memory, {seconds(at_stake)} ({percent(at_stake / look.step_s)} of the step): "
        f"{ops_in_words(look, rows, 4)}",
        at_stake, bound,
        f"the fitted model's time of one fused attention kernel of this shape "
        f"({shape['heads']} heads of {shape['head_dim']} over the batch, no mask), forward",
    )  # fmt: skip


def _score_chain(look: Look) -> tuple[Index, pd.DataFrame] | None:
    """Rows of the largest chain and the attention op that they make up."""
    m, n, k, batch = (look.number(c) for c in ("m", "n", "k", "batch"))
    bmm = look.of_class("gemm") & (batch > 1)
    softmax = look.of_class("softmax")
    best: tuple[float, Index, pd.DataFrame] | None = None
    for s in np.flatnonzero(softmax & (n >= 256)):
        scores = np.flatnonzero(bmm & (n == n[s]) & (m * batch == m[s]) & (k < n))
        values = np.flatnonzero(bmm & (k == n[s]) & (m * batch == m[s]) & (n < k))
        if not (scores.size and values.size):
            continue
        first, second = int(scores[0]), int(values[0])
        elements = 2.0 * m[s] * n[s]
        # Scaling and masks of the scores: as many bytes as they have, read and written.
        width = 2.0 * elements * look.number("count")[s]
        scale = look.of_class("elementwise") & (
            np.abs(look.number("bytes", 0.0) / width - 1.0) < 0.01
        )
        rows = np.unique(np.r_[s, first, second, np.flatnonzero(scale)])
        total = float(look.step.exposed_s[rows].sum())
        if best is None or total > best[0]:
            best = (total, rows, _attention_op(look, int(s), first, second))
    return None if best is None else (best[1], best[2])


def _attention_op(look: Look, softmax: int, scores: int, values: int) -> pd.DataFrame:
    row = look.ops.iloc[scores]
    return add_work(ops_frame([{
        "op_class": "attention", "name": "fused attention", "precision": row["precision"],
        "count": float(look.number("count")[softmax]), "batch": 1,
        "heads": int(look.number("batch")[scores]), "kv_heads": int(look.number("batch")[scores]),
        "q_len": int(look.number("m")[scores]), "kv_len": int(look.number("n")[softmax]),
        "head_dim": int(look.number("k")[scores]), "head_dim_v": int(look.number("n")[values]),
        "causal": False, "phase": row["phase"], "evidence": "modelled",
    }]))  # fmt: skip
