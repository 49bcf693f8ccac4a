"""Interpolation in log space, with the evidence that each value deserves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """Time of one call, and where it comes from."""

    time_s: float
    evidence: str
    source: str


class OutOfRangeError(Exception):
    """A shape outside what was measured; carries what to say and the value if allowed."""

    def __init__(self, what: str, estimate_s: float) -> None:
        super().__init__(what)
        self.estimate_s = estimate_s


@dataclass(frozen=True)
class Curve:
    """Measured times over one size: ``x`` ascending and unique, ``time_s`` positive."""

    x: Floats
    time_s: Floats

    @classmethod
    def of(
        cls, x: Floats, time_s: Floats, repeats: Callable[[Floats], float | np.floating] = np.median
    ) -> Curve:
        """Sorted by ``x``; repeats of an ``x`` become one time: by default their median."""
        order = np.argsort(x, kind="stable")
        x, time_s = x[order], time_s[order]
        unique, start = np.unique(x, return_index=True)
        if len(unique) < len(x):
            time_s = np.array([repeats(part) for part in np.split(time_s, start[1:])])
        return cls(unique.astype(float), time_s.astype(float))

    def covers(self, x: float) -> bool:
        """Whether ``x`` lies between measured sizes, ends included."""
        return bool(self.x[0] <= x <= self.x[-1])

    def exact(self, x: float) -> bool:
        """Whether ``x`` itself was measured."""
        i = int(np.searchsorted(self.x, x))
        return i < len(self.x) and bool(self.x[i] == x)

    def at(self, x: float) -> float:
        """Time at ``x``, straight between neighbours in log-log; beyond an end, that end's."""
        i = int(np.searchsorted(self.x, x))
        if i < len(self.x) and self.x[i] == x:
            return float(self.time_s[i])
        if i in (0, len(self.x)):
            return float(self.time_s[min(i, len(self.x) - 1)])
        low, high = self.x[i - 1], self.x[i]
        weight = math.log(x / low) / math.log(high / low)
        return log_mix([(float(self.time_s[i - 1]), 1 - weight), (float(self.time_s[i]), weight)])

    def beyond(self, x: float, work: Callable[[float], float]) -> float:
        """Time outside the measured sizes if the nearest end's utilization stays as it is."""
        end = float(min(max(x, self.x[0]), self.x[-1]))
        return self.at(end) * work(x) / work(end)


def log_mix(parts: list[tuple[float, float]]) -> float:
    """Weighted geometric mean of (value, weight); weights need not add up to 1."""
    total = sum(weight for _, weight in parts)
    return math.exp(sum(math.log(value) * weight for value, weight in parts) / total)


def bracket(values: Floats, x: float) -> list[tuple[float, float]]:
    """Measured neighbours of ``x`` with their weights in log space; one if ``x`` is measured.

    Outside the range: the nearest end with weight 1.
    """
    i = int(np.searchsorted(values, x))
    if i < len(values) and values[i] == x:
        return [(float(x), 1.0)]
    if i == 0:
        return [(float(values[0]), 1.0)]
    if i == len(values):
        return [(float(values[-1]), 1.0)]
    low, high = float(values[i - 1]), float(values[i])
    weight = math.log(x / low) / math.log(high / low)
    return [(low, 1 - weight), (high, weight)]


def span(values: Floats) -> str:
    """Range in words: ``1..32768``."""
    return f"{values[0]:g}..{values[-1]:g}"
