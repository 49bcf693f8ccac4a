"""Rows of the ops table under the names and with the work of their instructions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.sources.kineto import classify
from codesign.sources.kineto.rows import clean
from codesign.sources.xplane._calls import Key
from codesign.sources.xplane._classes import phase_of, xla_class
from codesign.sources.xplane._trace import Columns
from codesign.workload.accounting import add_work
from codesign.workload.schema import MEMORY_BOUND_CLASSES, ops_frame

if TYPE_CHECKING:
    import pandas as pd

_PLACEHOLDER = re.compile(r"xla call (\d{1,9})")
_DIMS = ("m", "n", "k", "batch")
_PRODUCTS = ("gemm", "grouped_gemm", "conv", "attention")
_CLEAR = ("flops", "bytes", "wire_bytes")


def named_rows(ops: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """``ops`` with placeholders replaced by names, classes, phases, dims and work.

    An instruction of several kernels does its work once: the kernel that takes most of its
    time carries it, for each of its calls.
    """
    calls_per_kernel = _kernels_per_call(columns)
    rows: list[dict[str, Any]] = []
    carriers: dict[int, int] = {}
    for position, record in enumerate(ops.to_dict("records")):
        row: dict[str, Any] = {str(k): v for k, v in record.items() if not _absent(v)}
        match = _PLACEHOLDER.fullmatch(str(row["name"]))
        key = int(match[1]) if match else -1
        if 0 <= key < len(columns.calls.keys):
            # Rows come by time, so the first of a key is its longest kernel.
            lead = carriers.setdefault(key, position) == position
            row = _named(row, columns.calls.keys[key], lead, calls_per_kernel.get(key, {}))
        elif row["op_class"] == "other":
            row["op_class"] = xla_class(str(row.get("kernel", "")), "", "") or "other"
        rows.append(row)
    return add_work(ops_frame(rows, "rows of the profile"))


def _absent(value: Any) -> bool:
    return value is None or value != value or str(value) == "<NA>"  # noqa: PLR0124 - NaN


def _kernels_per_call(columns: Columns) -> dict[int, dict[str, float]]:
    """Per key and kernel: how many times a call runs that kernel."""
    keys, calls = columns.ordered
    trace = columns.trace
    known = np.flatnonzero(keys >= 0)
    found: dict[int, dict[str, float]] = {}
    if not known.size:
        return found
    triples = np.stack([keys[known], trace.device["name"][known]], axis=1)
    distinct, inverse, counts = np.unique(triples, axis=0, return_inverse=True, return_counts=True)
    pairs = np.unique(np.stack([inverse.reshape(-1), calls[known]], axis=1), axis=0)
    per_kernel = np.bincount(pairs[:, 0], minlength=len(distinct))
    for (key, name), count, in_calls in zip(
        distinct.tolist(), counts.tolist(), per_kernel.tolist(), strict=True
    ):
        found.setdefault(key, {})[clean(trace.names[name])] = count / in_calls
    return found


def _named(
    row: dict[str, Any], key: Key, lead: bool, per_call: dict[str, float]
) -> dict[str, Any]:  # fmt: skip
    work, kernel = key.work, str(row.get("kernel", ""))
    told = work.op_class
    by_name = str(row["op_class"])
    if told is None and by_name in ("other", "elementwise", "copy", "reduction"):
        told = xla_class(kernel, key.op_name, key.category)
    # A kernel that packs operands for the product beside it is not the product.
    helper = not lead and by_name not in (*_PRODUCTS, "other", "collective")
    op_class = by_name if helper else told or by_name
    row.update(op_class=op_class, name=clean(key.label)[:300] or "unnamed")
    if (phase := phase_of(key.op_name)) is not None:
        row["phase"] = phase
    for column in _CLEAR:
        row.pop(column, None)
    if op_class in _PRODUCTS:
        row["precision"] = classify.kernel_precision(kernel) if work.precision in (
            None, "fp32") else work.precision  # fmt: skip
        if row["precision"] is None:
            row["precision"] = work.precision
    elif op_class in MEMORY_BOUND_CLASSES and "precision" in row and work.precision is None:
        row.pop("precision")
    if not lead:
        return row
    count = float(row["count"]) / max(per_call.get(kernel, 1.0), 1.0)
    row.update({c: v for c in _DIMS if (v := getattr(work, c)) is not None})
    if op_class != "collective":
        row.pop("collective", None)
        if work.flops is not None and op_class in _PRODUCTS:
            row["flops"] = work.flops * count
        if work.bytes is not None:
            row["bytes"] = work.bytes * count
    row["count"] = count
    return row
