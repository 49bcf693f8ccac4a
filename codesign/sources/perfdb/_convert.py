"""Table rows in the words of the ops contract: shapes, precisions, seconds a call.

Conventions found in the data and checked in the tests:

- ``latency`` is milliseconds, except in ``moe_a2a_perf`` and the DeepEP tables (us);
- NCCL and custom all-reduce messages count elements, as nccl-tests (all_gather: total);
- attention: the query's tokens are ``isl``, the keys' ``isl + step``; heads are local;
- MoE: ``num_tokens`` are the tokens of the whole expert-parallel group;
- all-to-all: ``num_tokens`` are the tokens of one rank.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import pandas as pd

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sources.perfdb._catalog import DEFAULT_NODE_GPUS, NODE_GPUS

MS, US = 1e-3, 1e-6
# Weight-only forms (int8_wo, int4_wo, sq, w4a16_mxfp4) are absent: the contract's precision
# is that of the multiply inputs, which they do not name.
PRECISION = MappingProxyType({
    "bfloat16": "bf16", "float16": "fp16", "half": "bf16", "fp8": "fp8", "fp8_block": "fp8_block",
    "nvfp4": "nvfp4", "int8": "int8",
})  # fmt: skip
_NCCL_OPS = {"all_reduce": "all_reduce", "all_gather": "all_gather",
             "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all"}  # fmt: skip


def convert(stem: str, raw: pd.DataFrame, folder: str) -> pd.DataFrame:
    """Rows of table ``stem`` with columns of the ops contract; ``time_s`` is for one call."""
    frame = _CONVERT[stem](raw, folder)
    known = frame["precision"].notna()
    return frame[known].reset_index(drop=True) if not known.all() else frame


def _precision(values: pd.Series) -> pd.Series:
    return values.map(PRECISION)


def _gemm(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    return pd.DataFrame({
        "op_class": "gemm", "name": "gemm", "precision": _precision(raw["gemm_dtype"]),
        "m": raw["m"], "n": raw["n"], "k": raw["k"], "time_s": raw["latency"] * MS,
    })  # fmt: skip


def _attention(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    decode = raw["step"] > 0
    return pd.DataFrame({
        "op_class": "attention",
        "name": np.where(decode, "generation_attention", "context_attention"),
        "phase": np.where(decode, "decode", "prefill"), "kernel": raw["kernel_source"],
        "precision": _precision(raw["attn_dtype"]),
        "kv_precision": _precision(raw["kv_cache_dtype"]),
        "batch": raw["batch_size"], "heads": raw["num_heads"],
        "kv_heads": raw["num_key_value_heads"], "q_len": raw["isl"],
        "kv_len": raw["isl"] + raw["step"], "head_dim": raw["head_dim"], "causal": True,
        "window": raw["window_size"].where(raw["window_size"] > 0).astype("Int64"),
        "time_s": raw["latency"] * MS,
    })  # fmt: skip


def _mla(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    """Prefill runs full heads (192, 128); decode the absorbed form over one latent head.

    SGLang's ``flash_attention`` runs absorbed in prefill too: on H100 and H200 it takes 3.2 times
    as long as TensorRT-LLM's full heads, and (576 + 512) / (192 + 128) = 3.4; single tokens of
    128 heads take a twentieth, which only one key head shared by all of them allows.
    """
    decode = raw["step"] > 0
    absorbed = decode | (raw["kernel_source"] == "flash_attention")
    return pd.DataFrame({
        "op_class": "attention", "name": np.where(decode, "generation_mla", "context_mla"),
        "phase": np.where(decode, "decode", "prefill"), "kernel": raw["kernel_source"],
        "precision": _precision(raw["mla_dtype"]),
        "kv_precision": _precision(raw["kv_cache_dtype"]),
        "batch": raw["batch_size"], "heads": raw["num_heads"],
        "kv_heads": np.where(absorbed, 1, raw["num_heads"]), "q_len": raw["isl"],
        "kv_len": raw["isl"] + raw["step"], "head_dim": np.where(absorbed, 576, 192),
        "head_dim_v": np.where(absorbed, 512, 128), "causal": True,
        "time_s": raw["latency"] * MS,
    })  # fmt: skip


def _moe(raw: pd.DataFrame, _folder: str, dispatched: bool = False) -> pd.DataFrame:
    """One rank of an MoE layer: all tokens enter it, or those that were ``dispatched`` to it."""
    rows = raw["num_tokens"] * raw["topk"] / raw["moe_ep_size"]
    raw = raw[rows >= 1]  # Fewer rows than one a rank: which ranks work is not recorded.
    rows = rows[rows >= 1]
    tokens = raw["num_tokens"]
    if dispatched:
        met = -np.expm1(raw["topk"] * np.log1p(-1.0 / raw["moe_ep_size"].clip(lower=2)))
        tokens = (tokens * met.where(raw["moe_ep_size"] > 1, 1.0)).clip(lower=1.0)
    gated = ~raw["kernel_source"].str.contains("nongated")
    return pd.DataFrame({
        "op_class": "grouped_gemm", "name": "moe", "kernel": raw["kernel_source"],
        "precision": _precision(raw["moe_dtype"]),
        "m": rows.round().astype("int64"), "k": raw["hidden_size"],
        "n": raw["inter_size"] // raw["moe_tp_size"],
        "experts": raw["num_experts"] // raw["moe_ep_size"],
        "experts_total": raw["num_experts"], "topk": raw["topk"],
        "tokens": tokens.round().astype("int64"),
        "fused": np.where(gated, "moe_gated", "moe_ungated"),
        # The table of large batches calls it uniform; both deal rows out evenly.
        "distribution": raw["distribution"].replace("uniform", "balanced"),
        "time_s": raw["latency"] * MS,
    })  # fmt: skip


def _quantize(raw: pd.DataFrame, _folder: str, passes: int) -> pd.DataFrame:
    return pd.DataFrame({
        "op_class": "quantize", "name": "scale_matrix" if passes == 3 else "compute_scale",
        "precision": _precision(raw["quant_dtype"]), "m": raw["m"], "n": raw["k"],
        # bf16 in; scale_matrix also writes fp8, compute_scale writes one number.
        "bytes": (passes * raw["m"] * raw["k"]).astype(float), "time_s": raw["latency"] * MS,
    })  # fmt: skip


def _element_collective(raw: pd.DataFrame, kind: pd.Series, dtype: pd.Series) -> pd.DataFrame:
    width = np.where(dtype == "int8", 1, 2)
    return pd.DataFrame({
        "op_class": "collective", "precision": _precision(dtype), "collective": kind,
        "message_bytes": raw["message_size"] * width, "group_size": raw["num_gpus"],
        "domain_span": raw["num_gpus"], "time_s": raw["latency"] * MS,
    })  # fmt: skip


def _nccl(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    raw = raw[raw["op_name"].isin(_NCCL_OPS)]
    frame = _element_collective(raw, raw["op_name"].map(_NCCL_OPS), raw["nccl_dtype"])
    return frame.assign(name="nccl", kernel="NCCL")


def _custom_allreduce(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    kind = pd.Series("all_reduce", index=raw.index)
    frame = _element_collective(raw, kind, raw["allreduce_dtype"])
    return frame.assign(name="custom_allreduce", kernel=raw["kernel_source"])


def _expert_exchange(
    raw: pd.DataFrame, kind: object, precision: pd.Series, *, topk: str, tokens: str,
    group: object, span: object, time_s: pd.Series,
) -> pd.DataFrame:  # fmt: skip
    """Dispatch or combine: every rank sends ``tokens`` x ``topk`` copies of a hidden state."""
    width = precision.map(dict(BYTES_PER_ELEMENT))
    size = (raw[tokens] * raw[topk] * raw["hidden_size"] * width).round()
    return pd.DataFrame({
        "op_class": "collective", "precision": precision, "collective": kind, "topk": raw[topk],
        "m": raw[tokens], "k": raw["hidden_size"],
        "message_bytes": size.fillna(0).astype("int64"), "group_size": group,
        "domain_span": span, "time_s": time_s,
    })  # fmt: skip


def _trtllm_alltoall(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    """Dispatch includes the two-sided kernels' own ``prepare``, which runs before each."""
    raw = raw[raw["distribution"] == "balanced"]
    shape = [c for c in raw if c not in ("op_name", "latency")]
    prepare = raw[raw["op_name"] == "alltoall_prepare"].set_index(shape)["latency"]
    raw = raw[raw["op_name"].isin(["alltoall_dispatch", "alltoall_combine"])]
    before = prepare.reindex(pd.MultiIndex.from_frame(raw[shape])).fillna(0.0).to_numpy()
    first = (raw["op_name"] == "alltoall_dispatch").to_numpy()
    raw = raw.assign(latency=raw["latency"] + np.where(first, before, 0.0))
    kind = raw["op_name"].str.removeprefix("alltoall_")
    # Combine returns bf16 whatever the experts' precision: its times do not depend on it.
    precision = _precision(raw["moe_dtype"].where(kind == "dispatch", "bfloat16"))
    ranks = raw["moe_ep_size"]
    frame = _expert_exchange(raw, kind, precision, topk="topk", tokens="num_tokens",
                             group=ranks, span=ranks, time_s=raw["latency"] * MS)  # fmt: skip
    return frame.assign(name="trtllm_alltoall", kernel=raw["kernel_source"])


def _deepep(raw: pd.DataFrame, folder: str, name: str, times: dict[str, list[str]]) -> pd.DataFrame:
    span = NODE_GPUS.get(folder, DEFAULT_NODE_GPUS)
    ranks = raw["node_num"] * span
    parts = []
    for kind, columns in times.items():
        # DeepEP dispatches fp8 and combines bf16 (bytes over time admit nothing wider).
        dtype = pd.Series("fp8" if kind == "dispatch" else "bf16", index=raw.index)
        part = _expert_exchange(raw, kind, dtype, topk="num_topk", tokens="num_token", group=ranks,
                                span=span, time_s=raw[columns].sum(axis=1) * US)  # fmt: skip
        sms = f"{kind}_sms"
        kernel = "deepep" if sms not in raw else "deepep sms=" + raw[sms].astype(str)
        parts.append(part.assign(name=name, kernel=kernel))
    return pd.concat(parts, ignore_index=True)


def _deepep_normal(raw: pd.DataFrame, folder: str) -> pd.DataFrame:
    times = {k: [f"{k}_transmit_us", f"{k}_notify_us"] for k in ("dispatch", "combine")}
    return _deepep(raw, folder, "deepep_normal", times)


def _deepep_ll(raw: pd.DataFrame, folder: str) -> pd.DataFrame:
    times = {k: [f"{k}_avg_t_us"] for k in ("dispatch", "combine")}
    return _deepep(raw, folder, "deepep_ll", times)


def _moe_a2a(raw: pd.DataFrame, _folder: str) -> pd.DataFrame:
    precision = _precision(raw["comm_dtype"].where(raw["phase"] == "dispatch", "bfloat16"))
    frame = _expert_exchange(raw, raw["phase"], precision, topk="topk", tokens="num_tokens",
                             group=raw["ep_size"], span=raw["ep_size"] // raw["node_num"],
                             time_s=raw["latency"] * US)  # fmt: skip
    return frame.assign(name="moe_a2a", kernel=raw["comm_backend"])


_CONVERT: dict[str, Callable[[pd.DataFrame, str], pd.DataFrame]] = {
    "gemm_perf": _gemm,
    "context_attention_perf": _attention,
    "generation_attention_perf": _attention,
    "context_mla_perf": _mla,
    "generation_mla_perf": _mla,
    "moe_perf": _moe,
    "wideep_context_moe_perf": lambda raw, folder: _moe(raw, folder, dispatched=True),
    "scale_matrix_perf": lambda raw, folder: _quantize(raw, folder, 3),
    "computescale_perf": lambda raw, folder: _quantize(raw, folder, 2),
    "nccl_perf": _nccl,
    "custom_allreduce_perf": _custom_allreduce,
    "trtllm_alltoall_perf": _trtllm_alltoall,
    "wideep_deepep_normal_perf": _deepep_normal,
    "wideep_deepep_ll_perf": _deepep_ll,
    "moe_a2a_perf": _moe_a2a,
}
