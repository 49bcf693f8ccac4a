"""Measured rows for scoring: what belongs together, sampled, and matched between GPUs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.op_model import numbers, strings
from codesign.sensitivity.training import TrainingSource

SCORED_CLASSES = ("gemm", "grouped_gemm", "attention", "quantize", "collective")
_SHAPE = ("name", "precision", "phase", "m", "n", "k", "batch", "heads", "kv_heads", "q_len",
          "kv_len", "head_dim", "head_dim_v", "window", "kv_precision", "experts", "topk", "fused",
          "distribution", "collective", "message_bytes", "group_size")  # fmt: skip

CACHED_TABLES = 16
"""Tables kept between the fit and the scoring; each holds some 40 MB."""


class RowCache:
    """A kernel database that remembers its last tables: a fit and its score read the same."""

    def __init__(self, source: TrainingSource) -> None:
        self._source = source
        self._tables: OrderedDict[tuple[str, str, str], pd.DataFrame] = OrderedDict()

    def gpus(self) -> list[str]:
        """Names of GPUs that have tables."""
        return self._source.gpus()

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        """Every measured row of an op class on one GPU; not to be changed by the caller."""
        key = (gpu, op_class, framework)
        if key not in self._tables:
            self._tables[key] = self._source.training_ops(gpu, op_class, framework=framework)
        self._tables.move_to_end(key)
        while len(self._tables) > CACHED_TABLES:
            self._tables.popitem(last=False)
        return self._tables[key]


def groups(ops: pd.DataFrame) -> NDArray[np.str_]:
    """(ops,) what is scored together: the op class, attention and collectives by kind."""
    op_class, phase = strings(ops, "op_class"), strings(ops, "phase")
    latent = numbers(ops, "head_dim_v") > 0
    attention = np.char.add(np.where(latent, "attention mla ", "attention "), phase)
    collective = strings(ops, "collective")
    # The same exchange runs as several implementations, told apart by the table's name.
    name = strings(ops, "name")
    library = np.where(np.isin(collective, ["dispatch", "combine"]), name, "")
    library = np.where(name == "custom_allreduce", "custom", library)
    kind = np.char.strip(np.char.add(np.char.add(collective, " "), library))
    result: NDArray[np.str_] = np.select(
        [op_class == "attention", op_class == "collective"], [attention, kind], op_class
    )
    return result


def precisions(ops: pd.DataFrame) -> NDArray[np.str_]:
    """(ops,) precision that a score belongs to; empty for collectives, which only move bytes."""
    moved = strings(ops, "op_class") == "collective"
    cache = strings(ops, "kv_precision")
    own = strings(ops, "precision")
    mixed = np.char.add(np.char.add(own, "/"), cache)
    own = np.where((cache != "") & (cache != own), mixed, own)
    return np.where(moved, "", own)


def cells(ops: pd.DataFrame) -> Iterator[tuple[str, str, NDArray[np.intp]]]:
    """(group, precision, rows) of every pair that occurs, in order of name."""
    group, precision = groups(ops), precisions(ops)
    for one in np.unique(group):
        for own in np.unique(precision[group == one]):
            yield str(one), str(own), np.flatnonzero((group == one) & (precision == own))


def sample(rows: NDArray[np.intp], most: int | None, seed: int) -> NDArray[np.intp]:
    """At most ``most`` of ``rows``, drawn evenly: scores stay those of the whole table."""
    if most is None or rows.size <= most:
        return rows
    chosen = np.random.default_rng(seed).choice(rows, size=most, replace=False)
    return np.sort(chosen)


def fastest_by_op(source: pd.DataFrame) -> pd.Series:
    """Seconds of one call by op key: what `source_times` looks ops up in.

    Repeats of a shape by several kernels count as the fastest.
    """
    if not len(source):
        return pd.Series(dtype="float64")
    seconds = pd.Series(numbers(source, "time_s") / numbers(source, "count"))
    fastest: pd.Series = seconds.groupby(_keys(source)).min()
    return fastest


def source_times(ops: pd.DataFrame, fastest: pd.Series) -> NDArray[np.float64]:
    """(ops,) seconds that the source measured for the same op, NaN where it did not.

    Collectives match by kernel too: SMs given to communication are in its name.
    """
    if not len(fastest):
        return np.full(len(ops), np.nan)
    return np.asarray(fastest.reindex(_keys(ops)).to_numpy(dtype=np.float64))


def _keys(ops: pd.DataFrame) -> NDArray[np.uint64]:
    frame = pd.DataFrame({c: ops[c] for c in _SHAPE if c in ops}).astype("string").fillna("")
    collective = strings(ops, "op_class") == "collective"
    frame["kernel"] = np.where(collective, strings(ops, "kernel"), "")
    hashed = pd.util.hash_pandas_object(frame, index=False)
    return np.asarray(hashed.to_numpy(dtype=np.uint64))
