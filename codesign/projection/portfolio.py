"""From the gains of workloads to that of the fleet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from codesign._common.scores import Interval

Array = NDArray[np.float64]


def portfolio_gain(weights: Sequence[float], gains: Sequence[Array]) -> Array:
    """Gain of a fleet whose GPU-hours are shared out by ``weights`` (they sum to 1).

    Each of ``gains`` has the same shape, such as (draws + 1, systems); so has the result.
    A workload that holds the share w of GPU-hours needs w / g of them for the same
    work, hence 1 / sum(w / g): a harmonic mean, never an arithmetic one.
    """
    hours = sum((w / g for w, g in zip(weights, gains, strict=True)), np.zeros_like(gains[0]))
    # Weights add up to 1 only up to rounding; no change must still be exactly 1.
    total = sum((w / np.ones_like(g) for w, g in zip(weights, gains, strict=True)),
                np.zeros_like(gains[0]))  # fmt: skip
    return np.asarray(total / hours)


def interval(values: Array) -> Interval:
    """Point estimate (row 0 of ``values``) with the 90 % interval of the draws below it."""
    point, draws = float(values[0]), values[1:]
    if draws.size == 0:
        return Interval(point, point, point)
    lo, hi = np.quantile(draws, [0.05, 0.95])
    return Interval(point, min(float(lo), point), max(float(hi), point))
