"""Training rows: gathered per op model and variant, balanced, hashed, in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.hardware.model import System
from codesign.sensitivity.estimate import Block, Near
from codesign.sensitivity.hardware_arrays import family, hardware_arrays
from codesign.sensitivity.kernels import VENDOR, split_kernel
from codesign.sensitivity.op_model import Features, OpModel, numbers
from codesign.sources.perfdb import of_the_host

ROWS_PER_GPU = 400
"""Rows kept of each GPU, op model and variant: the fit is no better with more."""
GDDR_WEIGHT = 0.1
"""Parts with GDDR memory throttle in long multiplies and hold most problems in L2; they
inform the fit, but do not bend it for the HBM parts that are to be projected."""
MIN_ROWS = 40
KERNEL_CLASSES = {"grouped_gemm": True, "attention": False}
"""Classes whose rows name their kernels, and whether what is timed is the same in every
framework: only then can another's rows be fitted."""
KERNELS_FROM = {"trtllm": "vllm", "vllm": "trtllm", "sglang": "trtllm"}
"""Framework that is looked at beside the asked one, for kernels that it did not run."""
NEAR_ROWS, MIN_NEAR = 160, 20
"""Rows of a block whose neighbours are looked up, and how many must have one."""
NEAR_LOG = 1.0
"""Distance in log features up to which a row is a neighbour: one step of a table's grid."""

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
    framework: dict[UnitKey, str]
    """Framework whose tables a unit's rows are from."""
    strangers: dict[UnitKey, list[Block]]
    """Rows of kernel families that only another framework ran: not fitted, but scored."""


def gather(
    source: TrainingSource,
    systems: Sequence[System],
    models: Sequence[OpModel],
    framework: str,
    rows_per_gpu: int = ROWS_PER_GPU,
) -> Gathered:
    """Sampled training rows of ``systems``, one GPU and class at a time.

    Where rows name their kernels, those of the library's vendor come from `KERNELS_FROM` if
    ``framework`` did not run them: new parts may.
    """
    found = Gathered({}, {}, {}, {})
    siblings = Counter(family(s.gpu.architecture) for s in systems)
    for op_class in dict.fromkeys(c for model in models for c in model.op_classes):
        for system in systems:
            weight = 1.0 / math.sqrt(siblings[family(system.gpu.architecture)])
            weight *= 1.0 if system.gpu.hbm_stacks else GDDR_WEIGHT
            for name in (framework, KERNELS_FROM.get(framework, framework)):
                if name != framework and op_class not in KERNEL_CLASSES:
                    continue
                rows = measured_rows(source, system.gpu.name, op_class, name)
                for model in models:
                    if op_class in model.op_classes and len(rows):
                        taking = _Taking(model, system, name, rows_per_gpu, weight)
                        taking.into(found, rows, own=name == framework)
    return found


@dataclass(frozen=True)
class _Taking:
    """One op model's rows of one table, on their way into `Gathered`."""

    model: OpModel
    system: System
    framework: str
    rows_per_gpu: int
    weight: float

    def into(self, found: Gathered, rows: pd.DataFrame, own: bool) -> None:
        """Adds a block a variant; another framework's only where it knows more of kernels."""
        ops = rows[self.model.applies(rows)]
        variants = self.model.variant(ops) if len(ops) else np.array([])
        for variant in map(str, np.unique(variants)):
            key = (self.model.name, variant)
            mine = found.framework.get(key, self.framework) == self.framework
            part = ops[variants == variant]
            if not mine or len(part) < MIN_ROWS:
                continue
            block = _block(self.model, part, self.system, self.rows_per_gpu, self.weight)
            if not own and not (KERNEL_CLASSES[ops["op_class"].iloc[0]]
                                and split_kernel(variant)[1] == VENDOR):  # fmt: skip
                found.strangers.setdefault(key, []).append(block)
                continue
            found.framework[key] = self.framework
            found.rows_seen[key] = found.rows_seen.get(key, 0) + len(part)
            found.blocks.setdefault(key, []).append(block)


def measured_rows(source: TrainingSource, gpu: str, op_class: str, framework: str) -> pd.DataFrame:
    """Every row that ``gpu`` measured of a class: positive times, not the host's; else empty."""
    try:
        ops = source.training_ops(gpu, op_class, framework=framework)
    except UsageError:  # The database has no tables of this class.
        return pd.DataFrame()
    if not len(ops):
        return ops
    keep = (numbers(ops, "time_s", 0.0) > 0) & ~of_the_host(ops, framework)
    return ops[keep].reset_index(drop=True)


def _block(model: OpModel, ops: pd.DataFrame, system: System, rows: int, weight: float) -> Block:
    features = model.features(ops)
    time_s = ops["time_s"].to_numpy(dtype=np.float64) / ops["count"].to_numpy(dtype=np.float64)
    key = feature_key(features)
    keep = balanced(features, time_s, key, rows)
    return Block(
        gpu=system.gpu.name, architecture=family(system.gpu.architecture),
        hw=hardware_arrays([system]),
        features=take(features, keep), time_s=time_s[keep], key=key[keep], weight=weight,
        near=neighbours(features, time_s, keep),
    )  # fmt: skip


def neighbours(
    features: Features, time_s: NDArray[np.float64], rows: NDArray[np.intp]
) -> Near | None:
    """The row nearest in shape (log features) to some of ``rows``; None if too few are near."""
    from scipy.spatial import cKDTree

    columns = [np.log(np.clip(np.nan_to_num(v), 1e-3, 1e12)) for v in features.values()]
    varied = [c for c in columns if c.max() > c.min()]
    if not varied:
        return None
    place = np.stack(varied, axis=1)
    asked = rows[np.unique(np.linspace(0, rows.size - 1, NEAR_ROWS).astype(np.intp))]
    # The nearest other shape: repeats of one shape by other kernels say nothing of it.
    found, which = cKDTree(place).query(place[asked], k=4)
    apart, index = np.asarray(found), np.asarray(which, dtype=np.intp)
    apart = np.where(apart > 0.0, apart, np.inf)
    best = apart.argmin(axis=1)
    pick = np.arange(asked.size)
    near = apart[pick, best] <= NEAR_LOG
    if near.sum() < MIN_NEAR:
        return None
    other = index[pick, best][near]
    return Near(np.searchsorted(rows, asked[near]), take(features, other), time_s[other])


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
