"""What an op model is: time of an op from its features and the hardware.

To add one: subclass `OpModel` in a module of its own and name it in `registry.MODELS`.
Rules that every model keeps, and that `tests/sensitivity/laws.py` checks:

- time never rises when a capability of the hardware grows (bandwidths, peaks, clocks,
  SMs, L2, power) or when ``launch_latency_s`` falls;
- parameters are never looked up by the GPU: hardware enters through `HardwareArrays` only;
- everything is vectorized over (systems, ops); there is no loop over ops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.hardware_arrays import Array, HardwareArrays

Features = dict[str, Array]
"""Name -> (ops,) numbers that a model needs of an op, for one call of it."""
Terms = dict[str, Array]
"""Resource -> (systems, ops) seconds that one call spends on that resource."""

POWER_CLOCK_EXPONENT = 1 / 3
"""Assumed: under a power cap the sustained clock goes as power^(1/3), since dynamic power
goes as frequency x voltage^2 and voltage as frequency. Acts on tensor-bound time alone:
memory-bound kernels stay under the cap."""

ALL_QUANTITIES = frozenset(f.name for f in fields(HardwareArrays)) - {"names", "gpus", "hosts"}
ON_CHIP = frozenset({
    "architectures", "sm_count", "tensor_clock_hz", "boost_clock_hz", "hbm_bandwidth_bytes_per_s",
    "l2_capacity_bytes", "launch_latency_s", "asynchronous_mma", "block_scaled_mma", "power_ratio",
    "peaks_flops_per_s", "clock_ratio", "clock_headroom", "boost_over_tensor_clock",
})  # fmt: skip
"""What an op that no link carries depends on."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an op model, in natural units."""

    name: str
    initial: float
    lower: float
    upper: float
    meaning: str
    log: bool = True
    """Estimated on the log scale: a positive quantity whose error is relative."""
    prior_sd: float | None = None
    """Ridge towards ``initial``, on the estimation scale; None means 1.5 (vague)."""

    def to_scale(self, value: float) -> float:
        """``value`` on the estimation scale."""
        return float(np.log(value)) if self.log else value

    def from_scale(self, value: float) -> float:
        """A value of the estimation scale in natural units, inside the bounds."""
        natural = float(np.exp(value)) if self.log else value
        return min(max(natural, self.lower), self.upper)


class OpModel(ABC):
    """Time of one kind of op as a function of the hardware."""

    name: ClassVar[str]
    op_classes: ClassVar[tuple[str, ...]]
    """Op classes whose rows the model can take."""
    reads: ClassVar[frozenset[str]] = ALL_QUANTITIES
    """Fields of `HardwareArrays` that its times depend on: systems alike in them are timed once."""

    @abstractmethod
    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """(ops,) rows of an ops table that the model covers: class right, dims known."""

    @abstractmethod
    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """(ops,) key of the parameter set of each row: a precision, prefill or decode."""

    def fallbacks(self, variant: str) -> tuple[str, ...]:  # noqa: ARG002
        """Variants whose parameters stand in, in order, where ``variant`` has no data."""
        return ()

    def lender(self, variant: str) -> str | None:  # noqa: ARG002
        """Variant that lends to ``variant`` what no GPU that it was fitted on could show.

        Its natural values follow the own ones in ``theta``; by default there is none.
        """
        return None

    @abstractmethod
    def parameters(self, variant: str) -> tuple[Parameter, ...]:
        """Parameters of a variant; all variants that stand in for each other agree."""

    def effects(self, variant: str) -> Mapping[str, Mapping[str, float]]:  # noqa: ARG002
        """Random effects of a silicon family: name -> parameter -> shift of its scale per unit.

        None by default: families then differ by one factor on the whole time. See
        `codesign.sensitivity.effects`.
        """
        return {}

    @abstractmethod
    def features(self, ops: pd.DataFrame) -> Features:
        """Numbers of rows that `applies` accepts, for ONE call (``count`` divided out)."""

    @abstractmethod
    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds by resource, each (systems, ops), before they are combined.

        ``theta`` holds natural values in the order of `parameters`.
        """

    @abstractmethod
    def combine(self, theta: Array, terms: Terms) -> Array:
        """(systems, ops) seconds of one call from the terms of `terms`."""

    def times(self, theta: Array, features: Features, hw: HardwareArrays) -> Array:
        """(systems, ops) seconds of one call. Override where a faster way exists."""
        return self.combine(theta, self.terms(theta, features, hw))


def p_norm(p: float, *times_s: Array) -> Array:
    """Smooth maximum: (sum t^p)^(1/p). Large p is the roofline, 1 is no overlap."""
    largest = times_s[0]
    for time_s in times_s[1:]:
        largest = np.maximum(largest, time_s)
    scale = np.maximum(largest, 1e-30)
    total = sum(((time_s / scale) ** p for time_s in times_s), np.zeros_like(scale))
    combined: Array = scale * total ** (1.0 / p)
    return combined


def numbers(ops: pd.DataFrame, column: str, default: float = float("nan")) -> Array:
    """(ops,) values of a nullable column as floats, ``default`` where null or absent."""
    if column not in ops:
        return np.full(len(ops), default)
    values = pd.to_numeric(ops[column], errors="coerce")
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=default))


def strings(ops: pd.DataFrame, column: str, default: str = "") -> NDArray[np.str_]:
    """(ops,) values of a text column as str, ``default`` where null or absent."""
    if column not in ops:
        return np.full(len(ops), default, dtype=np.str_)
    return np.asarray(ops[column].fillna(default).to_numpy(dtype=np.str_))


def mapped(values: NDArray[np.str_], table: Mapping[str, float]) -> Array:
    """(ops,) ``table`` entry of each value; KeyError for one that it does not know."""
    names, inverse = np.unique(values, return_inverse=True)
    return np.array([float(table[str(name)]) for name in names])[inverse.ravel()]
