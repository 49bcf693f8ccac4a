"""Ratios onto another GPU: what of an op's own behaviour carries over, and how surely.

    time on target = measured on source x model(target) / model(source) x residual^(rho - 1)
    residual       = measured on source / model(source)

With rho = 1 the whole residual carries over (the same silicon runs the same kernels),
with rho = 0 none of it does, and the result is the model's own time on the target. The
model's transfer tier knows rho, and the spread that is left, from pairs of GPUs.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign._common.scores import Z_90

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_SHAPE = ("op_class", "precision", "kv_precision", "m", "n", "k", "batch", "heads", "kv_heads",
          "q_len", "kv_len", "head_dim", "window", "experts", "topk", "collective",
          "message_bytes", "group_size")  # fmt: skip
"""Columns that make an op the same one wherever it runs."""


def is_same_silicon(base: System, target: System) -> bool:
    """Whether ``target`` is ``base``'s own GPU, with or without levers."""
    return base.gpu.name == target.gpu.name


def transfer_ratio(
    model: Any, char: Characterization, base: System, target: System, joint: Any, scoring: bool
) -> Array:  # fmt: skip
    """(ops,), or (draws, ops) with ``joint``: time on ``target`` / time on ``base``.

    What is uncertain about a target is shared by the ops of a class, since it is the
    GPU that is new, not the op: one normal a class and target, never averaged out, and so is
    what neighbouring shapes share, since a workload's are few and near. What the model calls
    an op's own (``own_sd``), not even the nearest shapes share: it is drawn once for every shape.
    With ``scoring`` a target that the model has seen raises LeakageError.
    """
    p = model.predict(char.ops, target, source=base, in_sample=not scoring)
    measured = char.ops["time_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        point = p["time_s"].to_numpy(dtype=np.float64) / measured
        sd = np.log(p["time_hi_s"].to_numpy(dtype=np.float64)
                    / p["time_lo_s"].to_numpy(dtype=np.float64)) / (2 * Z_90)  # fmt: skip
    point = np.where(np.isfinite(point) & (point > 0), point, 1.0)
    if joint is None:
        return point
    sd = np.where(np.isfinite(sd), sd, 0.0)
    single = p["own_sd"].to_numpy(dtype=np.float64) if "own_sd" in p else np.zeros_like(sd)
    common = np.sqrt(np.maximum(sd**2 - single**2, 0.0))
    shift = np.empty((joint.n, len(point)))
    for op_class in char.ops["op_class"].unique():
        rows = char.ops["op_class"].eq(op_class).to_numpy(dtype=bool)
        shift[:, rows] = _normals(joint, f"{op_class}/{target.gpu.name}")[:, None] * common[rows]
    shapes = char.ops[[c for c in _SHAPE if c in char.ops]].astype("string").fillna("")
    for shape, members in shapes.groupby(list(shapes), sort=False).indices.items():
        normal = _normals(joint, f"own/{target.gpu.name}/{shape}")
        shift[:, members] += normal[:, None] * single[members]
    return np.asarray(point * np.exp(shift))


def _normals(joint: Any, what: str) -> Array:
    """(draws,) standard normals of ``what``, the same in every workload."""
    key = zlib.crc32(f"transfer/{what}".encode())
    return np.asarray(np.random.default_rng([joint.seed, key]).standard_normal(joint.n))
