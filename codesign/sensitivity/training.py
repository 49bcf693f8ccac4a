"""Training rows: gathered per op model and variant, balanced, hashed, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.hardware.model import System
from codesign.sensitivity.estimate import Block
from codesign.sensitivity.hardware_arrays import family, hardware_arrays
from codesign.sensitivity.op_model import Features, OpModel

ROWS_PER_GPU = 400
"""Rows kept of each GPU, op model and variant: the fit is no better with more."""
GDDR_WEIGHT = 0.1
"""Parts with GDDR memory throttle in long multiplies and hold most problems in L2; they
inform the fit, but do not bend it for the HBM parts that are to be projected."""
HOST_BOUND = frozenset({("vllm", "gemm", "fp8_block")})
"""(framework, precision) whose GEMM times are those of the host: floors of 57 to 259 us."""
MIN_ROWS = 40

UnitKey = tuple[str, str]
"""(op model, variant)."""


class TrainingSource(Protocol):
    """What a fit needs of a kernel database."""

    def gpus(self) -> list[str]:
        """Names of GPUs that have tables."""

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        """Every measured row of an op class on one GPU."""


@dataclass(frozen=True)
class Gathered:
    """Blocks by unit, and how many rows there were before sampling."""

    blocks: dict[UnitKey, list[Block]]
    rows_seen: dict[UnitKey, int]


def gather(
    source: TrainingSource,
    systems: Sequence[System],
    models: Sequence[OpModel],
    framework: str,
    rows_per_gpu: int = ROWS_PER_GPU,
) -> Gathered:
    """Sampled training rows of ``systems``, one GPU and class at a time."""
    blocks: dict[UnitKey, list[Block]] = defaultdict(list)
    seen: Counter[UnitKey] = Counter()
    siblings = Counter(family(s.gpu.architecture) for s in systems)
    for op_class in dict.fromkeys(c for model in models for c in model.op_classes):
        for system in systems:
            rows = _rows(source, system.gpu.name, op_class, framework)
            weight = 1.0 / math.sqrt(siblings[family(system.gpu.architecture)])
            if not system.gpu.hbm_stacks:
                weight *= GDDR_WEIGHT
            for model in models:
                ops = rows[model.applies(rows)] if len(rows) else rows
                if op_class not in model.op_classes or not len(ops):
                    continue
                variants = model.variant(ops)
                for variant in np.unique(variants):
                    key = (model.name, str(variant))
                    part = ops[variants == variant]
                    if (framework, model.name, str(variant)) in HOST_BOUND or len(part) < MIN_ROWS:
                        continue
                    seen[key] += len(part)
                    blocks[key].append(_block(model, part, system, rows_per_gpu, weight))
    return Gathered(dict(blocks), dict(seen))


def _rows(source: TrainingSource, gpu: str, op_class: str, framework: str) -> pd.DataFrame:
    try:
        ops = source.training_ops(gpu, op_class, framework=framework)
    except UsageError:  # The database has no tables of this class.
        return pd.DataFrame()
    return ops[ops["time_s"].fillna(0.0).gt(0.0)] if len(ops) else ops


def _block(model: OpModel, ops: pd.DataFrame, system: System, rows: int, weight: float) -> Block:
    features = model.features(ops)
    time_s = ops["time_s"].to_numpy(dtype=np.float64) / ops["count"].to_numpy(dtype=np.float64)
    key = feature_key(features)
    keep = balanced(features, time_s, key, rows)
    return Block(
        gpu=system.gpu.name, architecture=family(system.gpu.architecture),
        hw=hardware_arrays([system]),
        features=take(features, keep), time_s=time_s[keep], key=key[keep], weight=weight,
    )  # fmt: skip


def take(features: Features, rows: NDArray[np.intp]) -> Features:
    """The features of ``rows`` only."""
    return {name: values[rows] for name, values in features.items()}


def feature_key(features: Features) -> NDArray[np.uint64]:
    """(rows,) hash of the features: the same op has the same key on every GPU."""
    frame = pd.DataFrame({name: features[name] for name in sorted(features)})
    hashed: NDArray[np.uint64] = np.asarray(
        pd.util.hash_pandas_object(frame, index=False), dtype=np.uint64
    )
    return hashed


def balanced(
    features: Features, time_s: NDArray[np.float64], key: NDArray[np.uint64], rows: int
) -> NDArray[np.intp]:
    """Up to ``rows`` indices, evened out over time and size, the same ops on every GPU.

    A row's priority is the hash of its op, stretched by the root of how crowded its
    cell (octave of time x two octaves of the first feature) is.
    """
    first = next(iter(features.values()))
    cell = np.floor(np.log2(time_s * 1e9)) * 1000 + np.floor(np.log2(np.maximum(first, 1)) / 2)
    _, inverse, counts = np.unique(cell, return_inverse=True, return_counts=True)
    uniform = key.astype(np.float64) / 2.0**64
    priority = uniform * np.sqrt(counts[inverse.ravel()])
    return np.sort(np.argsort(priority, kind="stable")[:rows])
