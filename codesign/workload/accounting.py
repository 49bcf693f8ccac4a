"""Work of every row of an ops table, from its dims; the formulas themselves are re-exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload import formulas as work
from codesign.workload.formulas import (
    Numbers,
    adamw_bytes,
    algorithm_bandwidth,
    attention_backward_flops,
    attention_bytes,
    attention_flops,
    attention_pairs,
    bus_bandwidth,
    expected_experts,
    gemm_bytes,
    gemm_flops,
    grouped_gemm_flops,
    moe_bytes,
    quantize_bytes,
    rows_bytes,
    wire_bytes,
    wire_factor,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

__all__ = [
    "RECOMPUTE_SUFFIX", "adamw_bytes", "add_work", "algorithm_bandwidth",
    "attention_backward_flops", "attention_bytes", "attention_flops", "attention_pairs",
    "bus_bandwidth", "busbw", "expected_experts", "gemm_bytes", "gemm_flops",
    "grouped_gemm_flops", "hardware_flops", "is_backward", "model_flops", "moe_bytes",
    "quantize_bytes", "routing_assumption", "rows_bytes", "wire_bytes", "wire_factor",
]  # fmt: skip

# Reads and writes of an (m, n) array: forward, backward.
_PASSES = {
    "norm": (2.0, 3.0),
    "softmax": (2.0, 3.0),
    "copy": (2.0, 2.0),
    "embedding": (2.0, 2.0),
    "reduction": (1.0, 1.0),
}
_MATRICES = {"moe_gated": 3.0, "moe_ungated": 2.0}
RECOMPUTE_SUFFIX = ".recompute"


def add_work(ops: pd.DataFrame) -> pd.DataFrame:
    """The ops with ``flops``, ``bytes`` and ``wire_bytes`` filled in, per step.

    Only nulls are filled, and only where the row has the dims (and for bytes the
    precision) that it takes; the rest stay null, which means unknown and never 0.
    """
    out = ops.copy()
    count = _numbers(ops, "count")
    unknown = np.full(len(ops), np.nan)
    results = {"flops": unknown.copy(), "bytes": unknown.copy(), "wire_bytes": unknown.copy()}
    op_class = ops["op_class"].to_numpy(dtype=object)
    for name, function in _BY_CLASS.items():
        mask = op_class == name
        if mask.any():
            for column, values in function(ops[mask]).items():
                results[column][mask] = values
    for column, values in results.items():
        per_step = out[column].astype("Float64")
        filled = values * count
        known = np.isfinite(filled) & per_step.isna().to_numpy(dtype=bool)
        per_step[known] = filled[known]
        out[column] = per_step
    return out


def routing_assumption(ops: pd.DataFrame) -> dict[str, str]:
    """For a header's assumptions: what bytes of experts rest on where nobody recorded the routing.

    Empty where no grouped GEMM has bytes, or where all say how their tokens are distributed.
    """
    grouped = ops["op_class"].eq("grouped_gemm") & ops["experts"].gt(1) & ops["bytes"].notna()
    guessed = (grouped & ops["distribution"].isna()).fillna(False)
    if not guessed.any():
        return {}
    return {
        "expert routing": "not recorded: of the experts' weights those are charged that as many "
        "rows, drawn evenly, would meet; an estimate of the bytes of grouped GEMMs"
    }


def is_backward(ops: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Rows that are a backward op, by their name or else their phase.

    A forward op runs in the backward phase too, where activations are recomputed.
    """
    name = ops["name"].astype("string").str.lower()
    says_backward = name.str.contains("backward|bwd", regex=True).fillna(False)
    says_forward = name.str.contains(r"forward|fwd|\.recompute$", regex=True).fillna(False)
    in_phase = ops["phase"].eq("backward").fillna(False)
    result: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        says_backward | (in_phase & ~says_forward)
    ).to_numpy(dtype=bool)
    return result


def model_flops(ops: pd.DataFrame) -> float:
    """FLOPs a step that the model needs: for MFU. Recomputation is left out, also that
    inside flash attention's backward pass (one of its five products).
    """
    flops = _numbers(ops, "flops")
    needed = np.ones(len(ops))
    recomputed = ops["name"].astype("string").str.endswith(RECOMPUTE_SUFFIX).fillna(False)
    needed[recomputed.to_numpy(dtype=bool)] = 0.0
    attention = ops["op_class"].eq("attention").fillna(False).to_numpy(dtype=bool)
    d = _numbers(ops, "head_dim")
    v = _numbers(ops, "head_dim_v", d)
    backward = attention & is_backward(ops)
    needed[backward] = ((2 * d + 2 * v) / (3 * d + 2 * v))[backward]
    return float(np.nansum(flops * needed))


def hardware_flops(ops: pd.DataFrame) -> float:
    """FLOPs a step that the GPU executes, recomputation included: for HFU."""
    return float(np.nansum(_numbers(ops, "flops")))


def busbw(ops: pd.DataFrame) -> pd.Series[float]:
    """nccl-tests' bus bandwidth of every row in bytes/s; null where it is not a collective
    or its time is unknown.
    """
    import pandas as pd

    time = _numbers(ops, "time_s") / _numbers(ops, "count")
    wire = np.full(len(ops), np.nan)
    mask = ops["op_class"].eq("collective").fillna(False).to_numpy(dtype=bool)
    wire[mask] = _collective(ops[mask])["wire_bytes"]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = wire / time
    return pd.Series(rate, index=ops.index).where(np.isfinite(rate)).astype("Float64")


def _numbers(ops: pd.DataFrame, column: str, default: float | Numbers = np.nan) -> Numbers:
    values: Numbers = ops[column].to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isnan(values), default, values)


def _element_bytes(ops: pd.DataFrame, column: str = "precision") -> Numbers:
    return _mapped(ops[column], BYTES_PER_ELEMENT)


def _mapped(column: pd.Series[str], values: Mapping[str, float]) -> Numbers:
    """The value of each entry; NaN for null and for what ``values`` does not know."""
    return np.array([values.get(cast("str", key), np.nan) for key in column.astype(object)])


def _gemm(ops: pd.DataFrame) -> dict[str, Numbers]:
    m, n, k = (_numbers(ops, c) for c in "mnk")
    batch = _numbers(ops, "batch", 1.0)
    element = _element_bytes(ops)
    # Narrow inputs accumulate in fp32 and leave as bf16.
    output = np.maximum(element, 2.0)
    moved = work.gemm_bytes(m, n, k, input_bytes=element, output_bytes=output, batch=batch)
    return {"flops": work.gemm_flops(m, n, k, batch), "bytes": moved}


def _grouped_gemm(ops: pd.DataFrame) -> dict[str, Numbers]:
    m, n, k = (_numbers(ops, c) for c in "mnk")
    experts = _numbers(ops, "experts")
    matrices = _mapped(ops["fused"], _MATRICES)
    fused = ~np.isnan(matrices)
    # Balanced tables deal rows out in turn; else a uniform draw is the estimate.
    balanced = ops["distribution"].eq("balanced").fillna(False).to_numpy(dtype=bool)
    hit = np.where(balanced, np.minimum(m, experts), work.expected_experts(m, experts))
    element = _element_bytes(ops)
    io = np.maximum(element, 2.0)
    one = np.where(fused, matrices, 1.0)
    plain = hit * n * k * element + m * (k * element + n * io)
    moved = np.where(
        fused,
        work.moe_bytes(m, n, k, experts_hit=hit, matrices=one, weight_bytes=element, io_bytes=io),
        plain,
    )
    return {"flops": work.grouped_gemm_flops(m, n, k, one), "bytes": moved}


def _attention(ops: pd.DataFrame) -> dict[str, Numbers]:
    q, kv, heads, kv_heads = (_numbers(ops, c) for c in ("q_len", "kv_len", "heads", "kv_heads"))
    d = _numbers(ops, "head_dim")
    v = _numbers(ops, "head_dim_v", d)
    batch = _numbers(ops, "batch", 1.0)
    window = _numbers(ops, "window", np.inf)
    causal = ops["causal"].fillna(False).to_numpy(dtype=bool) | (q == 1)
    pairs = work.attention_pairs(q, kv, causal, window)
    # A mask that nobody recorded is unknown work, except where one query sees all.
    pairs[ops["causal"].isna().to_numpy(dtype=bool) & (q != 1)] = np.nan
    backward = is_backward(ops)
    flops = np.where(
        backward,
        work.attention_backward_flops(pairs, heads, d, v, batch),
        work.attention_flops(pairs, heads, d, v, batch),
    )
    io = np.maximum(_element_bytes(ops), 2.0)
    kv_element = _element_bytes(ops, "kv_precision")
    kv_element = np.where(np.isnan(kv_element), _element_bytes(ops), kv_element)
    latent = ((kv_heads == 1) & (v < d) & (q == 1)).astype(float)
    read = np.where(causal, np.minimum(kv, window + q - 1), kv)
    moved = work.attention_bytes(
        q_len=q, kv_read=read, heads=heads, kv_heads=kv_heads, head_dim=d, head_dim_v=v,
        io_bytes=io, kv_bytes=kv_element, batch=batch, shared_latent=latent,
    )  # fmt: skip
    return {"flops": flops, "bytes": np.where(backward, 2.0, 1.0) * moved}


def _memory_bound(ops: pd.DataFrame) -> dict[str, Numbers]:
    passes = np.array([_PASSES[c] for c in ops["op_class"]])
    used = np.where(is_backward(ops), passes[:, 1], passes[:, 0])
    m, n = _numbers(ops, "m"), _numbers(ops, "n")
    return {"bytes": work.rows_bytes(m, n, used, _element_bytes(ops))}


def _quantize(ops: pd.DataFrame) -> dict[str, Numbers]:
    m, n = _numbers(ops, "m"), _numbers(ops, "n")
    return {"bytes": work.quantize_bytes(m, n, _element_bytes(ops))}


def _optimizer(ops: pd.DataFrame) -> dict[str, Numbers]:
    return {"bytes": work.adamw_bytes(_numbers(ops, "m"), _element_bytes(ops))}


def _collective(ops: pd.DataFrame) -> dict[str, Numbers]:
    message, group = _numbers(ops, "message_bytes"), _numbers(ops, "group_size")
    sent = np.full(len(ops), np.nan)
    for kind in ops["collective"].dropna().unique():
        mask = ops["collective"].eq(kind).fillna(False).to_numpy(dtype=bool)
        sent[mask] = work.wire_bytes(kind, message[mask], group[mask])
    return {"wire_bytes": sent}


_BY_CLASS = {
    "gemm": _gemm,
    "grouped_gemm": _grouped_gemm,
    "attention": _attention,
    "quantize": _quantize,
    "optimizer": _optimizer,
    "collective": _collective,
    **dict.fromkeys(_PASSES, _memory_bound),
}
