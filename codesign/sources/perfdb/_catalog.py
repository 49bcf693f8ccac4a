"""Which table files exist, and the rule that picks one version of each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Folder -> (our GPU name, device names that its rows may carry).
FOLDERS = MappingProxyType({
    "a100_sxm": ("a100-80gb-sxm", ("NVIDIA A100-SXM4-80GB",)),
    "h100_sxm": ("h100-sxm", ("NVIDIA H100 80GB HBM3", "NVIDIA H100")),
    "h200_sxm": ("h200-sxm", ("NVIDIA H200",)),
    "b200_sxm": ("b200-sxm", ("NVIDIA B200",)),
    "b300_sxm": ("b300-sxm", ("NVIDIA B300 SXM6 AC",)),
    "gb200": ("gb200", ("NVIDIA GB200",)),
    "gb300": ("gb300", ("NVIDIA GB300",)),
    "l40s": ("l40s", ("NVIDIA L40S",)),
    "rtx_pro_6000_server": (
        "rtx-pro-6000-server", ("NVIDIA RTX PRO 6000 Blackwell Server Edition",),
    ),
})  # fmt: skip
GPUS = MappingProxyType({gpu: folder for folder, (gpu, _) in FOLDERS.items()})
# GPUs of one node in the multi-node tables: an NVL72 tray holds four.
NODE_GPUS = MappingProxyType({"gb200": 4, "gb300": 4})
DEFAULT_NODE_GPUS = 8


@dataclass(frozen=True)
class Table:
    """One table of the database: where it lies and what one row's shape is."""

    stem: str
    folder: str
    shape: tuple[str, ...]
    """Columns that say what was run; rows equal in all of them are repeats."""
    time: tuple[str, ...] = ("latency",)
    framework: str | None = None
    """Framework that it is read from; None means the caller's choice."""
    every_version: bool = False
    """Versions complement each other instead of repeating each other."""
    absent: tuple[tuple[str, int], ...] = ()
    """Shape columns that early layouts lack, and the one value that they then had."""


_ATTENTION = ("kernel_source", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim",
              "window_size", "attn_dtype", "kv_cache_dtype", "step")  # fmt: skip
# Before sliding windows were measured there was no column for them: every query saw all keys.
# The tables bear it out: from 16k to 128k keys, the time of a decode doubles with its cache.
_NO_WINDOW = (("window_size", 0),)
_MLA = ("kernel_source", "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl", "step")
_DEEPEP = ("node_num", "hidden_size", "num_token", "num_topk", "num_experts")
_TABLES = (
    Table("gemm_perf", "gemm", ("gemm_dtype", "m", "n", "k")),
    Table("context_attention_perf", "attention", _ATTENTION, absent=_NO_WINDOW),
    Table("generation_attention_perf", "attention", _ATTENTION, absent=_NO_WINDOW),
    Table("context_mla_perf", "mla", _MLA),
    Table("generation_mla_perf", "mla", _MLA),
    Table("moe_perf", "moe", ("kernel_source", "moe_dtype", "num_tokens", "hidden_size",
                              "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
                              "distribution")),
    Table("wideep_context_moe_perf", "moe", ("kernel_source", "moe_dtype", "num_tokens",
                                            "hidden_size", "inter_size", "topk", "num_experts",
                                            "moe_tp_size", "moe_ep_size", "distribution"),
          framework="sglang"),
    # These stand in for all memory-bound kernels. SGLang's cast takes ten times as long as the
    # memory would; vLLM's search for a scale takes no time at all, SGLang's has no rows.
    Table("scale_matrix_perf", "quantize", ("m", "k", "quant_dtype"), framework="trtllm"),
    Table("computescale_perf", "quantize", ("m", "k", "quant_dtype"), framework="trtllm"),
    Table("nccl_perf", "comm", ("op_name", "nccl_dtype", "num_gpus", "message_size"),
          framework="nccl"),
    Table("custom_allreduce_perf", "comm",
          ("allreduce_dtype", "num_gpus", "message_size", "kernel_source")),
    Table("trtllm_alltoall_perf", "comm",
          ("op_name", "kernel_source", "moe_dtype", "num_tokens", "hidden_size", "topk",
           "num_experts", "moe_ep_size", "distribution"), framework="trtllm"),
    Table("wideep_deepep_normal_perf", "comm", (*_DEEPEP, "dispatch_sms", "combine_sms"),
          ("dispatch_transmit_us", "dispatch_notify_us", "combine_transmit_us",
           "combine_notify_us"), "sglang", every_version=True),
    Table("wideep_deepep_ll_perf", "comm", _DEEPEP, ("dispatch_avg_t_us", "combine_avg_t_us"),
          "sglang", every_version=True),
    Table("moe_a2a_perf", "comm", ("comm_backend", "phase", "comm_dtype", "ep_size", "node_num",
                                   "hidden_size", "topk", "num_experts", "num_tokens"),
          framework="trtllm"),
)  # fmt: skip
TABLES = MappingProxyType({table.stem: table for table in _TABLES})
_HOST_BOUND = (("vllm", "gemm", "fp8_block"),)
"""(framework, op class, precision) whose times are those of the host: floors of 57 to 259 us."""


def of_the_host(ops: pd.DataFrame, framework: str) -> NDArray[np.bool_]:
    """(ops,) rows whose times, in a framework's tables, are largely the host's."""
    mask = np.zeros(len(ops), dtype=np.bool_)
    for whose, op_class, precision in _HOST_BOUND:
        if whose == framework:
            rows = ops["op_class"].eq(op_class) & ops["precision"].eq(precision)
            mask |= rows.fillna(False).to_numpy(dtype=np.bool_)
    return mask


def version_key(version: str) -> tuple[int, ...]:
    """Orders versions such as 1.3.0rc9 < 1.3.0rc20 < 1.3.0 < 1.3.0.post1."""
    ranks = {"rc": -1, "post": 1}
    parts = re.findall(r"rc|post|\d+", version)
    key = [ranks.get(part, 0) or int(part) for part in parts]
    # A release stands between its candidates and its post releases.
    return (*key, 0)


@lru_cache(maxsize=64)
def files(root: Path, folder: str, stem: str, framework: str) -> tuple[Path, ...]:
    """The files of a table on one GPU that the rule picks, oldest version first.

    Rule: the version of the framework that most GPUs have, the newest of equals;
    a GPU without it takes the newest that it has. Tables whose versions measured
    different things (DeepEP: one node, several nodes) are read in every version.
    """
    table = TABLES[stem]
    framework = table.framework or framework
    versions = _versions(root, table.folder, stem, framework)
    mine = sorted(versions.get(folder, ()), key=version_key)
    if table.every_version:
        chosen = mine
    else:
        spread = Counter(v for found in versions.values() for v in found)
        common = max(spread, key=lambda v: (spread[v], version_key(v)), default="")
        chosen = [common] if common in mine else mine[-1:]
    base = root / folder / table.folder / framework
    return tuple(base / v / f"{stem}.parquet" for v in chosen)


@lru_cache(maxsize=64)
def _versions(root: Path, kind: str, stem: str, framework: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for folder in FOLDERS:
        paths = sorted((root / folder / kind / framework).glob(f"*/{stem}.parquet"))
        found[folder] = tuple(path.parent.name for path in paths)
    return found
