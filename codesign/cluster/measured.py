"""A measured rank, placed anew: measured compute kept, its collectives modelled where they go.

A characterization of one rank and its parallelism is enough to ask what the same job costs
on a larger NVLink domain or over more replicas. Each collective's measured time is scaled by
the model's ratio (new group and placement / the measured ones), so that what the model misses
of this job's collectives stays in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError, UsageError
from codesign.cluster.grid import OpTimes, without_power

if TYPE_CHECKING:
    import pandas as pd

    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

DATA_KINDS = ("dp_gradients", "dp_parameters")
"""Kinds of collectives (names up to the first dot) whose groups grow with the replicas."""


@dataclass(frozen=True)
class Replaced:
    """The step in its new place, (systems,) each."""

    step_s: Array
    compute_s: float
    """Measured, kept."""
    exposed_s: Array
    """(systems, collectives)"""
    collectives: pd.DataFrame
    """The collectives with their new groups."""


def replace_collectives(
    char: Characterization, model: OpTimes, base: System, systems: Sequence[System], *,
    replicas: float = 1.0, groups: Mapping[int, int] | None = None,
) -> Replaced:  # fmt: skip
    """The measured step with its collectives on ``systems`` of the same GPU.

    ``replicas`` multiplies the groups of data parallelism: rows named ``dp_gradients.*`` or
    ``dp_parameters.*``, or, where a trace has no such names, groups of the header's dp size.
    ``groups`` gives new sizes by old ones instead. A collective hides behind the compute that
    hid it when measured, and no more. Raises UsageError for another GPU or a group that does
    not come out whole, InsufficientDataError if the step's time or its collectives' are unknown.
    """
    for system in systems:
        if system.gpu.name != base.gpu.name:
            raise UsageError(
                f"{system.name} has another GPU than the measured {base.name}: project the "
                "characterization there first; this keeps measured compute"
            )
    ops, measured = char.ops, char.header.step_time_s
    rows = ops[ops["op_class"].eq("collective").fillna(value=False)].copy()
    time = rows["time_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    if not measured or not len(rows) or np.isnan(time).all():
        raise InsufficientDataError(
            f"{char.header.workload}: no step time, or no collective with a time, to place anew"
        )
    known = ~np.isnan(time)
    rows, time = rows[known], time[known]
    sizes = rows["group_size"].to_numpy(dtype=np.float64, na_value=1.0)
    moved = rows.copy()
    moved["group_size"] = _new_sizes(char, rows, sizes, replicas, groups)
    there = model.times(moved.assign(time_s=time), [without_power(s) for s in systems])
    here = model.times(rows.assign(time_s=time), [without_power(base)])[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(here > 0, there / here, 1.0)
    exposed = rows["exposed_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    exposed = np.where(np.isnan(exposed), time, exposed)
    hidden = time - exposed
    window = rows["overlap_window_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    window = np.where(np.isnan(window), hidden, np.maximum(window, hidden))
    after = np.where(ratio >= 1.0, np.maximum(time * ratio - window, exposed),
                     np.clip(time * ratio - window, 0.0, exposed))  # fmt: skip
    after = np.where(ratio == 1.0, exposed, after)
    kept = float(measured) - float(exposed.sum())
    return Replaced(kept + after.sum(axis=1), kept, after, moved)


def _new_sizes(
    char: Characterization, rows: pd.DataFrame, sizes: Array, replicas: float,
    groups: Mapping[int, int] | None,
) -> NDArray[np.int64]:  # fmt: skip
    if groups:
        table = {float(a): float(b) for a, b in groups.items()}
        return np.array([table.get(s, s) for s in sizes.tolist()], dtype=np.int64)
    kind = rows["name"].astype(str).str.split(".").str[0]
    data = kind.isin(DATA_KINDS).to_numpy(dtype=bool)
    if not data.any() and replicas != 1.0:
        degree = (char.header.parallelism or {}).get("dp")
        if not degree:
            raise UsageError(
                f"{char.header.workload}: which collectives are data-parallel is not known; give "
                "groups={old size: new size}"
            )
        data = sizes == float(degree)
    new = np.where(data, sizes * replicas, sizes)
    if (np.abs(new - np.round(new)) > 1e-9).any() or (new < 1).any():
        raise UsageError(f"replicas = {replicas:g}: a group would not come out whole")
    return np.round(new).astype(np.int64)
