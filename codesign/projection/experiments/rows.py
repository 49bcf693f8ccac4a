"""Rows of the kernel tables on both sides of an experiment, and the ratio that they measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError
from codesign.hardware import load_system
from codesign.projection.experiments.records import Condition, Experiment, Kernels, Range, Side
from codesign.sensitivity.op_model import numbers, strings
from codesign.sensitivity.training import measured_rows
from codesign.workload.accounting import add_work
from codesign.workload.schema import COLUMNS, ops_frame

Array = NDArray[np.float64]

MIN_ROWS = 3
_SHAPE = ("name", "kernel", "precision", "phase", "m", "n", "k", "batch", "heads", "kv_heads",
          "q_len", "kv_len", "head_dim", "head_dim_v", "window", "kv_precision", "experts",
          "experts_total", "topk", "fused", "distribution", "collective", "message_bytes",
          "group_size")  # fmt: skip
_NOT_SHAPE = {"comm_sms": ("kernel",), "expert_ranks": ("experts",), "name": ("kernel",),
              "precision": ("message_bytes",)}  # fmt: skip
"""Columns that differ by themselves where the two sides differ by the key."""


@dataclass(frozen=True)
class Pairs:
    """The same ops on both sides, row by row."""

    before: pd.DataFrame
    after: pd.DataFrame

    @property
    def ratios(self) -> Array:
        """(ops,) time before / time after."""
        return numbers(self.before, "time_s") / numbers(self.after, "time_s")

    def some(self, most: int, seed: int = 0) -> Pairs:
        """At most ``most`` of the pairs, drawn evenly."""
        if len(self.before) <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.before), most, replace=False))
        return self.rows(chosen)

    def rows(self, index: NDArray[Any]) -> Pairs:
        """The pairs at ``index``, or where it is true."""
        return Pairs(*(side[index] if index.dtype == bool else side.iloc[index]
                       for side in (self.before, self.after)))  # fmt: skip


@dataclass(frozen=True)
class Ratio:
    """What the tables say of an experiment today."""

    value: float
    lo: float
    hi: float
    """10th and 90th percentile over ops."""
    n: int


def pairs_of(experiment: Experiment, kernels: Kernels, db: Any) -> Pairs:
    """Every op that both sides measured. Repeats of an op count with the fastest.

    Raises InsufficientDataError if there are fewer than `MIN_ROWS`.
    """
    sides = [_side_rows(db, kernels, side) for side in (experiment.before, experiment.after)]
    differ = {c for key in experiment.where for c in (key, *_NOT_SHAPE.get(key, ()))}
    if kernels.op_class != "collective":
        differ.add("kernel")  # A GPU runs the kernels that it has.
    keyed = [_by_key(rows, differ) for rows in sides]
    common = keyed[0].index.intersection(keyed[1].index, sort=False)
    if len(common) < MIN_ROWS:
        raise InsufficientDataError(
            f"{experiment.name}: {len(common)} ops were measured on both sides, expected at least "
            f"{MIN_ROWS}"
        )
    return Pairs(*(rows.loc[common].reset_index(drop=True) for rows in keyed))


def ratio_of(ratios: Array, statistic: str) -> float:
    """The statistic of the ratios of single ops."""
    return float(np.quantile(ratios, {"median": 0.5, "p90": 0.9}[statistic]))


def measured_ratio(pairs: Pairs, statistic: str) -> Ratio:
    """The ratio of an experiment as the tables have it."""
    ratios = pairs.ratios
    lo, hi = np.quantile(ratios, [0.1, 0.9])
    return Ratio(ratio_of(ratios, statistic), float(lo), float(hi), int(ratios.size))


def _side_rows(db: Any, kernels: Kernels, side: Side) -> pd.DataFrame:
    gpu = load_system(side.system).gpu.name
    if kernels.table is None:
        ops = measured_rows(db, gpu, kernels.op_class, kernels.framework)
    else:
        ops = _one_table(db, gpu, kernels.table, kernels.framework)
    keep = np.ones(len(ops), dtype=np.bool_)
    for column, condition in {**kernels.where, **side.where}.items():
        keep &= _meets(ops, column, condition)
    return ops[keep]


def _one_table(db: Any, gpu: str, table: str, framework: str) -> pd.DataFrame:
    data = db.table(gpu, table, framework)
    if data is None:
        return pd.DataFrame()
    rows = data.rows.assign(source=data.source, count=1.0, evidence="measured")
    return add_work(ops_frame(rows.assign(exposed_s=rows["time_s"])))


def _meets(ops: pd.DataFrame, column: str, condition: Condition) -> NDArray[np.bool_]:
    if isinstance(condition, str):
        met: NDArray[np.bool_] = strings(ops, column) == condition
        return met
    values = _numbers(ops, column)
    if isinstance(condition, Range):
        low = -np.inf if condition.min is None else condition.min
        high = np.inf if condition.max is None else condition.max
        return np.asarray((values >= low) & (values <= high), dtype=np.bool_)
    return np.asarray(values == condition, dtype=np.bool_)


def _numbers(ops: pd.DataFrame, column: str) -> Array:
    if column == "weight_elements":
        return numbers(ops, "n") * numbers(ops, "k")
    if column == "expert_ranks":
        return numbers(ops, "experts_total") / numbers(ops, "experts")
    if column == "comm_sms":
        found = pd.Series(strings(ops, "kernel")).str.extract(r"sms=(\d+)", expand=False)
        return np.asarray(pd.to_numeric(found).to_numpy(dtype=np.float64))
    return numbers(ops, column)


def _by_key(rows: pd.DataFrame, differ: set[str]) -> pd.DataFrame:
    """The fastest row of every op, by a hash of what is the same on both sides."""
    if not len(rows):
        return rows
    shape = [c for c in _SHAPE if c in rows and c in COLUMNS and c not in differ]
    frame = pd.DataFrame({c: rows[c] for c in shape}).astype("string").fillna("")
    keyed = rows.set_index(pd.util.hash_pandas_object(frame, index=False).to_numpy())
    keyed = keyed.sort_values("time_s", kind="stable")
    first: pd.DataFrame = keyed[~keyed.index.duplicated()]
    return first
