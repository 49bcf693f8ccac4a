"""What an op's time waits for, at the margin: how much a little more of each capability saves.

The largest term of an op hides the others: where HBM comes second everywhere it binds nothing,
though more of it would save much. A share here is d ln(time) / d ln(capability), by a small
step of one capability with all others held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

STEP = 0.01
"""Relative step of a capability."""
FIXED, HELD = "fixed", "held"
"""Time that no capability moves (latency of networks and hosts); ops without a model."""


class OpTimes(Protocol):
    """What the shares need of a model."""

    def times(self, ops: pd.DataFrame, systems: Sequence[System], draws: Any = None) -> Array:
        """(systems, ops) seconds per step."""

    def covered(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """(ops,) whether the model has a time for the row."""


def _tensor(s: System, by: float) -> System:
    peaks = {name: value * by for name, value in s.gpu.peak_dense_flops_per_s.items()}
    return replace(s, gpu=replace(s.gpu, peak_dense_flops_per_s=peaks))


def _hbm(s: System, by: float) -> System:
    bandwidth = s.gpu.hbm_bandwidth_bytes_per_s * by
    return replace(s, gpu=replace(s.gpu, hbm_bandwidth_bytes_per_s=bandwidth))


def _sm(s: System, by: float) -> System:
    gpu = replace(
        s.gpu, tensor_clock_hz=s.gpu.tensor_clock_hz * by, boost_clock_hz=s.gpu.boost_clock_hz * by
    )
    return replace(s, gpu=gpu)


def _nvlink(s: System, by: float) -> System:
    return replace(s, nvlink_bandwidth_bytes_per_s=s.nvlink_bandwidth_bytes_per_s * by)


def _scaleout(s: System, by: float) -> System:
    return replace(s, scaleout_bandwidth_bytes_per_s=s.scaleout_bandwidth_bytes_per_s * by)


def _launch(s: System, by: float) -> System:
    return replace(s, launch_latency_s=s.launch_latency_s / by)


CAPABILITIES: dict[str, Callable[[System, float], System]] = {
    "tensor": _tensor, "hbm": _hbm, "sm": _sm, "nvlink": _nvlink, "scaleout": _scaleout,
    "launch": _launch,
}  # fmt: skip
"""``sm`` is the clock of all that is on the chip but the tensor cores: L2 traffic, issue of
instructions, what a kernel spends before and after its work."""


def resource_shares(model: OpTimes, ops: pd.DataFrame, system: System) -> pd.DataFrame:
    """(ops, capabilities + fixed + held) share of each op's time; rows sum to 1.

    ``fixed`` is what the capabilities leave. Where they add up to more than 1 they are
    taken in proportion; one that slows an op has no share of it.
    """
    systems = [system, *(move(system, 1.0 + STEP) for move in CAPABILITIES.values())]
    out = pd.DataFrame(0.0, index=ops.index, columns=[*CAPABILITIES, FIXED, HELD])
    covered = np.asarray(model.covered(ops), dtype=bool)
    times = np.asarray(model.times(ops, systems), dtype=np.float64)
    known = covered & (times[0] > 0)
    if known.any():
        change = -np.log(times[1:, known] / times[0, known]) / np.log1p(STEP)
        shares = np.maximum(change, 0.0)
        shares /= np.maximum(shares.sum(axis=0), 1.0)
        fixed = 1.0 - shares.sum(axis=0)
        out.iloc[np.flatnonzero(known), :-1] = np.vstack([shares, fixed]).T
    out.loc[~known, HELD] = 1.0
    return out
