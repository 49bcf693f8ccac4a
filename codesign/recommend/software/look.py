"""What a rule looks at: one workload's characterization, its step, the hardware, the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign.projection.step import Step, step_of

if TYPE_CHECKING:
    import pandas as pd

    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

COMPOSED = "composed"
"""``capture_method`` of what no capture stands behind: its overlap, gaps, ranks are assumed."""

_VENDORS = ("nvidia",)
"""Vendors whose kernels the measured tables hold; those of others reach other shares of peaks."""


@dataclass(frozen=True)
class Look:
    """One workload, ready to be looked at. All times are per step, in s."""

    char: Characterization
    base: System
    model: Any
    """A `sensitivity.SensitivityModel`, or None: rules then fall back to peers or stay silent."""

    @property
    def ops(self) -> pd.DataFrame:
        """The ops table."""
        return self.char.ops

    @cached_property
    def step(self) -> Step:
        """The measured step."""
        return step_of(self.char)

    @property
    def step_s(self) -> float:
        """Wall time of the step."""
        return self.step.step_time_s

    @property
    def composed(self) -> bool:
        """Whether it was composed from single kernels, so that no step was ever captured."""
        return self.char.header.capture_method == COMPOSED

    def number(self, column: str, default: float = float("nan")) -> Array:
        """(ops,) a column as floats."""
        return np.asarray(self.ops[column].to_numpy(dtype=np.float64, na_value=default))

    def text(self, column: str) -> NDArray[np.object_]:
        """(ops,) a column as strings, null as ''."""
        return np.asarray(self.ops[column].fillna("").to_numpy(dtype=object))

    def of_class(self, *classes: str) -> Mask:
        """(ops,) whether a row is of one of the op classes."""
        return np.asarray(self.ops["op_class"].isin(classes).to_numpy(dtype=bool))

    def named(self, pattern: str, column: str = "name") -> Mask:
        """(ops,) whether a pattern is found in the row's name, whatever its case."""
        wanted = re.compile(pattern, re.IGNORECASE)
        return np.array([wanted.search(str(n)) is not None for n in self.text(column)], dtype=bool)

    @property
    def compute(self) -> Mask:
        """(ops,) rows that run on the SMs and can hide others."""
        return ~self.of_class("collective", "copy")

    def mean_of_steps(self, field: str) -> float | None:
        """Mean of a field of the captured steps of the device that the ops are of."""
        steps = self.char.header.steps
        values = [getattr(s, field) for s in steps if s.device == steps[0].device]
        if not values or any(v is None for v in values):
            return None
        return float(np.mean(values))

    @cached_property
    def launch_gaps_s(self) -> float | None:
        """Idle time in which nothing was launched, less all in gaps of a millisecond or more.

        A lower bound of what waits for launches alone: the long gaps may lie outside of it.
        None where launches are unknown.
        """
        host, stalls = self.mean_of_steps("host_bound_s"), self.mean_of_steps("stall_s")
        return None if host is None or stalls is None else max(host - stalls, 0.0)

    @cached_property
    def stalls_s(self) -> float | None:
        """Least time in gaps of a millisecond or more while nothing was launched.

        Both are parts of the idle time, so they share at least their sum less all of it.
        """
        host, stalls = self.mean_of_steps("host_bound_s"), self.mean_of_steps("stall_s")
        idle = self.mean_of_steps("idle_s")
        if host is None or stalls is None or idle is None:
            return None
        return max(host + stalls - idle, 0.0)

    @property
    def launch_bound(self) -> bool:
        """Whether the device waits for launches half as long as it works, or longer.

        Shorter kernels then only wait longer: nothing on the GPU shortens the step.
        """
        gaps = self.launch_gaps_s
        return gaps is not None and gaps > 0.5 * self.step.busy_s

    def peak(self, precision: str) -> float | None:
        """Dense peak in FLOP/s, None if the part has none of its own."""
        from codesign._common.errors import UsageError

        try:
            return self.base.gpu.peak_flops_per_s(precision)
        except (UsageError, KeyError):
            return None

    def modelled(self, ops: pd.DataFrame) -> Array | None:
        """(ops,) seconds per step by the model on the base; NaN where it has no say.

        None without a model, and on parts of a vendor whose kernels it has not seen.
        """
        if self.model is None or not len(ops):
            return None
        gpu = self.base.gpu
        if gpu.vendor.lower() not in _VENDORS and gpu.name not in self.model.trained_on:
            return None
        times = np.asarray(self.model.times(ops, [self.base])[0], dtype=np.float64)
        return np.where(self.model.covered(ops), times, np.nan)

    def roofline_s(self) -> Array:
        """(ops,) seconds at the dense peak and the datasheet's HBM bandwidth; NaN if unknown."""
        peaks = np.array([self.peak(p) or np.nan for p in self.text("precision")])
        by_flops = self.number("flops") / peaks
        by_bytes = self.number("bytes") / self.base.gpu.hbm_bandwidth_bytes_per_s
        return np.asarray(np.fmax(by_flops, by_bytes))
