"""Scales from values to pixels, and ticks at round values."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """Maps ``lo..hi`` onto pixels ``start..end``; the axis may run either way."""

    lo: float
    hi: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Pixel of ``value``, to a tenth."""
        span = self.hi - self.lo
        part = 0.0 if span == 0 else (value - self.lo) / span
        return pixel(self.start + part * (self.end - self.start))

    def ticks(self, target: int = 5) -> list[float]:
        """About ``target`` round values inside the domain."""
        low, high = min(self.lo, self.hi), max(self.lo, self.hi)
        if low == high:
            return [low]
        step = _round_step((high - low) / max(1, target))
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


@dataclass(frozen=True)
class Log:
    """Maps positive ``lo..hi`` onto pixels by their logarithm."""

    lo: float
    hi: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Pixel of ``value``, to a tenth."""
        span = math.log(self.hi / self.lo)
        part = 0.0 if span == 0 else math.log(value / self.lo) / span
        return pixel(self.start + part * (self.end - self.start))

    def ticks(self) -> list[float]:
        """Powers of ten inside the domain; 1-2-5 steps where those are too few."""
        low, high = sorted((self.lo, self.hi))
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        tens = [10.0**d for d in decades if low * (1 - 1e-9) <= 10.0**d <= high * (1 + 1e-9)]
        if len(tens) >= 3:
            return tens
        fine = [m * 10.0**d for d in decades for m in (1, 2, 5)]
        return [v for v in fine if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]


def pixel(value: float) -> float:
    """A coordinate to a tenth of a pixel: enough for the eye, small in the file."""
    return round(value, 1) + 0.0


def _round_step(raw: float) -> float:
    """The smallest of 1, 2, 2.5, 5, 10 times a power of ten that is at least ``raw``."""
    power = 10.0 ** math.floor(math.log10(raw))
    for multiple in (1, 2, 2.5, 5, 10):
        if multiple * power >= raw * (1 - 1e-9):
            return multiple * power
    return 10 * power


def nice_domain(values: list[float], anchor: float, target: int = 5) -> tuple[float, float]:
    """A domain that holds all values and ``anchor`` and ends on round values."""
    finite = [v for v in values if math.isfinite(v)] + [anchor]
    low, high = min(finite), max(finite)
    if low == high:
        high = low + (abs(low) or 1.0) * 0.1
    step = _round_step((high - low) / target)
    return (
        round(math.floor(low / step + 1e-9) * step, 12),
        round(math.ceil(high / step - 1e-9) * step, 12),
    )


def log_domain(values: list[float]) -> tuple[float, float]:
    """A domain over the positive values with a third of a decade of room on either side."""
    positive = [v for v in values if v > 0 and math.isfinite(v)] or [1.0]
    return min(positive) / 2, max(positive) * 2
