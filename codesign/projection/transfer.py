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

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_Z_90 = 1.645


def is_same_silicon(base: System, target: System) -> bool:
    """Whether ``target`` is ``base``'s own GPU, with or without levers."""
    return base.gpu.name == target.gpu.name


def transfer_ratio(
    model: Any, char: Characterization, base: System, target: System, joint: Any, scoring: bool
) -> Array:  # fmt: skip
    """(ops,), or (draws, ops) with ``joint``: time on ``target`` / time on ``base``.

    What is uncertain about a target is shared by the ops of a class, since it is the
    GPU that is new, not the op: one normal a class and target, never averaged out.
    With ``scoring`` a target that the model has seen raises LeakageError.
    """
    p = model.predict(char.ops, target, source=base, in_sample=not scoring)
    measured = char.ops["time_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        point = p["time_s"].to_numpy(dtype=np.float64) / measured
        sd = np.log(p["time_hi_s"].to_numpy(dtype=np.float64)
                    / p["time_lo_s"].to_numpy(dtype=np.float64)) / (2 * _Z_90)  # fmt: skip
    point = np.where(np.isfinite(point) & (point > 0), point, 1.0)
    if joint is None:
        return point
    sd = np.where(np.isfinite(sd), sd, 0.0)
    shift = np.empty((joint.n, len(point)))
    for op_class in char.ops["op_class"].unique():
        rows = char.ops["op_class"].eq(op_class).to_numpy(dtype=bool)
        key = zlib.crc32(f"transfer/{op_class}/{target.gpu.name}".encode())
        normal = np.random.default_rng([joint.seed, key]).standard_normal(joint.n)
        shift[:, rows] = normal[:, None] * sd[rows]
    return np.asarray(point * np.exp(shift))
