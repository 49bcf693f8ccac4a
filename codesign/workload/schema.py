"""The ops table: its columns, their types and units, and the check of the contract."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import pandas_dtype

from codesign._common.errors import DataError
from codesign._common.text import quoted

OP_CLASSES = (
    "gemm", "grouped_gemm", "attention", "conv", "norm", "softmax", "elementwise", "reduction",
    "embedding", "optimizer", "quantize", "copy", "collective", "other",
)  # fmt: skip
PRECISIONS = (
    "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4", "int8",
)  # fmt: skip
EVIDENCE = ("measured", "interpolated", "extrapolated", "modelled", "assumed")
PHASES = ("forward", "backward", "optimizer", "prefill", "decode", "rollout", "sync")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv",
               "dispatch", "combine")  # fmt: skip
FUSED = ("moe_gated", "moe_ungated")

MEMORY_BOUND_CLASSES = (
    "norm", "softmax", "elementwise", "reduction", "embedding", "optimizer", "quantize", "copy",
)  # fmt: skip


class Column(NamedTuple):
    """One column of the ops table."""

    dtype: str
    unit: str
    meaning: str
    allowed: tuple[str, ...] = ()


COLUMNS: dict[str, Column] = {
    "op_class": Column("string", "", "class of the op", OP_CLASSES),
    "name": Column("string", "", "name of the op, as the framework or recipe calls it"),
    "kernel": Column("string", "", "kernel that ran, where known"),
    "precision": Column("string", "", "precision of the multiply inputs", PRECISIONS),
    "phase": Column("string", "", "phase of the step, or null", PHASES),
    "m": Column("Int64", "", "GEMM rows; grouped GEMM: token-expert rows on this GPU; else rows"),
    "n": Column("Int64", "", "GEMM columns; MoE: expert intermediate size on this GPU"),
    "k": Column("Int64", "", "GEMM inner size; MoE: hidden size"),
    "batch": Column("Int64", "", "batch of a batched GEMM; sequences of an attention op"),
    "heads": Column("Int64", "", "query heads on this GPU"),
    "kv_heads": Column("Int64", "", "key-value heads on this GPU"),
    "q_len": Column("Int64", "", "query tokens a sequence"),
    "kv_len": Column("Int64", "", "key tokens a sequence, the query's own included"),
    "head_dim": Column("Int64", "", "size of a query and key head"),
    "head_dim_v": Column("Int64", "", "size of a value head; null means head_dim"),
    "causal": Column("boolean", "", "lower-right aligned causal mask"),
    "window": Column("Int64", "tokens", "sliding window; null means none"),
    "kv_precision": Column("string", "", "precision of cached keys and values", PRECISIONS),
    "experts": Column("Int64", "", "experts held by this GPU"),
    "experts_total": Column("Int64", "", "experts over all ranks; null means those of this GPU"),
    "topk": Column("Int64", "", "experts a token is sent to"),
    "tokens": Column("Int64", "", "MoE: distinct tokens that the op takes in on this GPU"),
    "fused": Column("string", "", "MoE op that spans several grouped GEMMs", FUSED),
    "distribution": Column("string", "", "token imbalance over experts, such as power_law_1.2"),
    "collective": Column("string", "", "kind of collective", COLLECTIVES),
    "message_bytes": Column("Int64", "B a call", "as nccl-tests (all_gather: total)"),
    "group_size": Column("Int64", "", "ranks of the collective"),
    "group_stride": Column("Int64", "", "global ranks between neighbours; null means 1"),
    "domain_span": Column("Int64", "", "ranks of the group inside one NVLink domain"),
    "count": Column("Float64", "calls a step", "calls per step"),
    "time_s": Column("Float64", "s a step", "sum over count, mean over steps"),
    "time_sd_s": Column("Float64", "s a step", "standard deviation over steps"),
    "exposed_s": Column("Float64", "s a step", "part of the step's wall time that is this row's"),
    "overlap_window_s": Column("Float64", "s a step", "compute that a collective can hide behind"),
    "wait_s": Column("Float64", "s a step", "collectives: waiting for the last rank"),
    "flops": Column("Float64", "FLOP a step", "algorithmic minimum; null if unknown"),
    "bytes": Column("Float64", "B a step", "HBM traffic, algorithmic minimum; null if unknown"),
    "wire_bytes": Column("Float64", "B a step", "sent by each rank; null if unknown"),
    "dram_bytes": Column("Float64", "B a step", "DRAM traffic of the kernel, by its counters"),
    "sm_percent": Column("Float64", "%", "SM throughput of its peak, by the kernel's counters"),
    "dram_percent": Column("Float64", "%", "DRAM throughput of its peak, by those counters"),
    "evidence": Column("string", "", "where time_s comes from", EVIDENCE),
    "source": Column("string", "", "table, file or formula behind time_s"),
}  # fmt: skip

# Rows with the same key are one op: times add, counts add.
KEY_COLUMNS = [
    c for c in COLUMNS
    if c not in ("count", "time_s", "time_sd_s", "exposed_s", "overlap_window_s", "wait_s",
                 "flops", "bytes", "wire_bytes", "dram_bytes", "sm_percent", "dram_percent")
]  # fmt: skip


def ops_frame(
    rows: list[dict[str, object]] | pd.DataFrame, where: str = "ops table"
) -> pd.DataFrame:
    """The rows as an ops table: every column present, in order, in its type.

    Raises DataError if a row has a column that the contract does not know.
    """
    frame = pd.DataFrame(rows)
    unknown = [c for c in frame.columns if c not in COLUMNS]
    if unknown:
        known = ", ".join(COLUMNS)
        raise DataError(f"{where}: unknown column {quoted(unknown[0])}; known: {known}")
    columns = {}
    for name, column in COLUMNS.items():
        values = frame[name] if name in frame else pd.Series(pd.NA, index=frame.index)
        try:
            columns[name] = values.astype(pandas_dtype(column.dtype))
        except (TypeError, ValueError) as error:
            raise DataError(f"{where}: column {name!r} is not {column.dtype}: {error}") from error
    return pd.DataFrame(columns).reset_index(drop=True)


def validate_ops(ops: pd.DataFrame, where: str = "ops table") -> None:
    """Raise DataError if ``ops`` breaks the contract: columns, choices, signs."""
    if list(ops.columns) != list(COLUMNS):
        missing = [c for c in COLUMNS if c not in ops.columns]
        raise DataError(f"{where}: columns differ from the contract; missing: {missing or 'none'}")
    for name, column in COLUMNS.items():
        if column.allowed:
            bad = ops[name].dropna()
            bad = bad[~bad.isin(column.allowed)]
            if len(bad):
                allowed = ", ".join(column.allowed)
                got = quoted(bad.iloc[0])
                raise DataError(f"{where}: row {bad.index[0]}, {name} = {got}; allowed: {allowed}")
        elif column.dtype in ("Int64", "Float64"):
            values = ops[name].to_numpy(dtype=float, na_value=0.0)
            for wrong, what in ((values < 0, "negative"), (np.isinf(values), "not finite")):
                if wrong.any():
                    row = int(wrong.argmax())
                    raise DataError(f"{where}: row {row}, {name} = {ops[name].iloc[row]} is {what}")
    for name in ("op_class", "name", "count", "evidence"):
        if ops[name].isna().any():
            row = int(ops[name].isna().to_numpy(dtype=bool).argmax())
            raise DataError(f"{where}: row {row}, {name} is missing")
