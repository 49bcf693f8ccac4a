"""Work of an op from its shape: FLOPs, HBM bytes, bytes on the wire.

Per call, as plain arithmetic that takes numbers or NumPy arrays alike. A multiply
and an add are two FLOPs. Bytes are the algorithmic minimum: every operand moves
between HBM and the chip once.

FLOPs are counted where matrices are multiplied and nowhere else, as model FLOPs
utilization does; norms, activations and optimizers have bytes and null FLOPs.
``accounting`` applies these to whole tables.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from codesign._common.errors import UsageError, one_of

Numbers: TypeAlias = npt.NDArray[np.float64]
N = TypeVar("N", float, Numbers)


def gemm_flops(m: N, n: N, k: N, batch: N | float = 1.0) -> N:
    """FLOPs of ``batch`` products of (m, k) by (k, n)."""
    return 2.0 * m * n * k * batch


def gemm_bytes(m: N, n: N, k: N, *, input_bytes: N, output_bytes: N, batch: N | float = 1.0) -> N:
    """Both operands read, the result written; bytes per element given."""
    return ((m + n) * k * input_bytes + m * n * output_bytes) * batch


def grouped_gemm_flops(rows: N, n: N, k: N, matrices: N | float = 1.0) -> N:
    """FLOPs of a grouped GEMM by its rows over *all* groups.

    ``matrices``: 3 for a gated MoE MLP (gate, up, down), 2 for an ungated one. Only
    the experts that a token was sent to compute it, so their number does not enter.
    """
    return 2.0 * rows * n * k * matrices


def expected_experts(rows: N, experts: N) -> N:
    """Distinct experts that ``rows`` token-expert pairs meet, drawn uniformly: an estimate.

    Each pair misses a given expert with probability 1 - 1/experts. A token picks
    distinct experts, so the true mean is higher, by 5 % at most for top-2 of 8.
    """
    missed: N = (1.0 - 1.0 / experts) ** rows
    return experts * (1.0 - missed)


def moe_bytes(
    rows: N, n: N, k: N, *, experts_hit: N, matrices: N | float, weight_bytes: N, io_bytes: N
) -> N:
    """HBM bytes of a fused MoE MLP: the weights of the experts hit, rows in and out.

    The intermediate activations are counted once each way, as a grouped GEMM per
    matrix writes and reads them.
    """
    weights = experts_hit * matrices * n * k * weight_bytes
    return weights + rows * (2.0 * k + matrices * n) * io_bytes


def attention_pairs(
    q_len: npt.ArrayLike, kv_len: npt.ArrayLike, causal: npt.ArrayLike = True,
    window: npt.ArrayLike = np.inf,
) -> Numbers:  # fmt: skip
    """Query-key pairs of one head of one sequence.

    Causal masks are aligned lower right: the last query sees every key, so query i
    (from 0) sees kv_len - q_len + i + 1 of them, and none if that is below 1.
    ``window`` keeps the last ``window`` of those, the query's own included. A window
    without a causal mask has no agreed meaning: NaN.
    """
    q, kv, w = (np.asarray(v, dtype=float) for v in (q_len, kv_len, window))
    seeing = np.minimum(q, kv)  # queries that see any key
    first = kv - seeing + 1.0  # keys that the first of them sees
    inside = np.clip(w - first + 1.0, 0.0, seeing)  # queries whose keys all fit the window
    ramp = inside * (2.0 * first + inside - 1.0) / 2.0
    cut = seeing - inside
    masked = ramp + np.where(cut > 0, cut * np.where(np.isfinite(w), w, 0.0), 0.0)
    full = np.where(np.isinf(w), q * kv, np.nan)
    return np.where(np.asarray(causal, dtype=bool), masked, full)


def attention_flops(pairs: N, heads: N, head_dim: N, head_dim_v: N, batch: N | float = 1.0) -> N:
    """FLOPs of QK^T and PV, by *query* heads: grouping key-value heads saves bytes only."""
    return 2.0 * pairs * heads * batch * (head_dim + head_dim_v)


def attention_backward_flops(
    pairs: N, heads: N, head_dim: N, head_dim_v: N, batch: N | float = 1.0
) -> N:
    """FLOPs of flash attention's backward pass: five products against the forward's two.

    QK^T again, dP = dO V^T, dV = P^T dO, dQ = dS K, dK = dS^T Q: 2.5 times the forward
    where head_dim_v = head_dim (Dao 2023, arXiv:2307.08691, section 3.1).
    """
    return 2.0 * pairs * heads * batch * (3.0 * head_dim + 2.0 * head_dim_v)


def attention_bytes(
    *, q_len: N, kv_read: N, heads: N, kv_heads: N, head_dim: N, head_dim_v: N,
    io_bytes: N, kv_bytes: N, batch: N | float = 1.0, shared_latent: N | float = 0.0,
) -> N:  # fmt: skip
    """Queries read, outputs written, keys and values read once per *key-value* head.

    ``kv_read``: keys a sequence that some query sees. ``shared_latent`` 1: values are
    the first part of the keys (MLA absorbed) and are not read a second time. The
    backward pass moves twice this: q, k, v, o, dO read and dQ, dK, dV written.
    """
    queries = heads * q_len * (head_dim + head_dim_v) * io_bytes
    key_and_value = head_dim + head_dim_v * (1.0 - shared_latent)
    return batch * (queries + kv_heads * kv_read * key_and_value * kv_bytes)


def rows_bytes(m: N, n: N, passes: N | float, element_bytes: N | float) -> N:
    """Memory-bound op: ``passes`` reads and writes of an (m, n) array."""
    return passes * m * n * element_bytes


def quantize_bytes(m: N, n: N, output_bytes: N | float, input_bytes: N | float = 2.0) -> N:
    """Read an (m, n) array, write it narrower."""
    return m * n * (input_bytes + output_bytes)


def adamw_bytes(
    parameters: N, moment_bytes: N | float = 4.0, gradient_bytes: N | float = 4.0,
    parameter_bytes: N | float = 2.0, master_bytes: N | float = 4.0,
) -> N:  # fmt: skip
    """HBM bytes of one AdamW update: 30 a parameter in the usual mixed precision.

    Two moments and the master weight read and written, the gradient read, the
    parameter of the forward pass written.
    """
    state = 2.0 * (2.0 * moment_bytes + master_bytes)
    return parameters * (state + gradient_bytes + parameter_bytes)


# Bytes that each rank sends, by message size as nccl-tests defines it (its
# doc/PERFORMANCE.md); the same factor turns its algorithm into its bus bandwidth.
# dispatch and combine are all-to-alls of a payload of which 1/n stays at home.
_SENDS_TWICE = frozenset({"all_reduce"})
_SENDS_ONCE = frozenset({"all_gather", "reduce_scatter", "all_to_all", "dispatch", "combine"})
_SENDS_WHOLE = frozenset({"broadcast", "send_recv"})


def wire_factor(collective: str, group_size: N) -> N:
    """Bytes each rank sends / message bytes. Raises UsageError for an unknown collective."""
    share = (group_size - 1.0) / group_size
    if collective in _SENDS_TWICE:
        return 2.0 * share
    if collective in _SENDS_ONCE:
        return share
    if collective in _SENDS_WHOLE:
        return share * 0.0 + 1.0
    known = sorted(_SENDS_TWICE | _SENDS_ONCE | _SENDS_WHOLE)
    raise UsageError(one_of("collective", collective, known))


def wire_bytes(collective: str, message_bytes: N, group_size: N) -> N:
    """Bytes that each rank sends in one call; all_gather and reduce_scatter by their total."""
    return wire_factor(collective, group_size) * message_bytes


def algorithm_bandwidth(message_bytes: N, time_s: N) -> N:
    """nccl-tests' algbw in bytes/s: message size / time of one call."""
    return message_bytes / time_s


def bus_bandwidth(collective: str, message_bytes: N, group_size: N, time_s: N) -> N:
    """nccl-tests' busbw in bytes/s, to be held against the link rate of *one* direction."""
    return wire_factor(collective, group_size) * message_bytes / time_s
