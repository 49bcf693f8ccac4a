"""Token imbalance of a mixture of experts: what the busiest rank has to compute.

A step waits for the rank with the most rows, and skewed tables time that rank. Routing
under ``power_law_a`` is drawn as the measured tables draw it (aiconfigurator's collectors,
Apache-2.0): each expert's popularity comes from a density ~ x^-a between 1 and 0.8 x the
tokens (0.01 and 2 where there are fewer rows than experts), no expert takes a token twice,
and ranks hold runs of neighbouring experts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BALANCED = "balanced"
_DRAWS = 48
_POWER_LAW = re.compile(r"power_law_(\d{1,2}(?:\.\d{1,6})?)")


@dataclass(frozen=True)
class RankLoad:
    """Rows of the busiest rank against the mean of all, and the experts that it hits."""

    rows_ratio: float
    """Typical (geometric mean over draws) rows of the busiest rank / rows of the mean rank."""
    experts_hit: float
    """Mean number of that rank's experts with at least one row."""


def exponent(distribution: str) -> float | None:
    """Exponent of a power-law token distribution; None for a balanced or unnamed one."""
    match = _POWER_LAW.match(distribution)
    return float(match[1]) if match else None


@lru_cache(maxsize=65536)
def busiest_rank(
    distribution: str, rows: int, experts: int, experts_total: int, topk: int
) -> RankLoad:
    """Load of the busiest of ``experts_total / experts`` ranks at ``rows`` rows a rank.

    ``rows`` is the mean of token-expert rows over ranks, ``experts`` are held by each of
    them. Monte Carlo with a fixed seed: equal arguments give equal loads.
    """
    ranks = max(experts_total // max(experts, 1), 1)
    power = exponent(distribution)
    if distribution == BALANCED:
        return RankLoad(1.0, float(min(rows, experts)))
    if power is None:  # Unnamed: every row picks its expert evenly and on its own.
        return RankLoad(1.0, float(experts) * -np.expm1(-rows / experts))
    total = rows * ranks
    tokens = max(total / max(topk, 1), 1.0)
    low, high = (1.0, max(0.8 * tokens, 1.001)) if total > ranks * experts else (0.01, 2.0)
    draws = _power_law(power, low, high, (_DRAWS, ranks * experts))
    share = draws / draws.sum(axis=1, keepdims=True)
    # An expert takes a token once; what it cannot take goes to the least popular ones.
    cap = tokens / total
    over = np.maximum(share - cap, 0.0).sum(axis=1, keepdims=True)
    room = np.maximum(cap - share, 0.0)
    room_total = np.maximum(room.sum(axis=1, keepdims=True), 1e-12)
    share = np.minimum(share, cap) + over * room / room_total
    counts = _whole(share * total, round(total)).reshape(_DRAWS, ranks, experts)
    load = counts.sum(axis=2)
    busiest = load.argmax(axis=1)
    ratio = load[np.arange(_DRAWS), busiest] / rows
    hit = (counts[np.arange(_DRAWS), busiest] > 0).sum(axis=1)
    return RankLoad(float(np.exp(np.log(ratio).mean())), float(hit.mean()))


def _whole(rows: Floats, total: int) -> Floats:
    """Rows of each expert rounded, their sum kept.

    Rows that rounding lost go to the least popular; those that it made are the most popular's.
    """
    counts = np.rint(rows)
    lost = total - counts.sum(axis=1, keepdims=True)
    place = rows.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    made = place >= rows.shape[1] + lost
    whole: Floats = np.maximum(counts + (place < lost) - made, 0.0)
    return whole


def _power_law(power: float, low: float, high: float, shape: tuple[int, int]) -> Floats:
    """Draws of a density ~ x^-power on [low, high], by the inverse of its distribution."""
    uniform = np.random.default_rng(0).random(shape)
    if abs(power - 1.0) < 1e-9:
        return low * (high / low) ** uniform
    a = 1.0 - power
    drawn: Floats = ((high**a - low**a) * uniform + low**a) ** (1.0 / a)
    return drawn
