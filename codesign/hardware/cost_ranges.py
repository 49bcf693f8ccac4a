"""What the sources of the cost values leave open, as draws of every value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign.hardware.costs import CostValue

Array = NDArray[np.float64]

ASSUMED_FACTOR = 1.5
"""Either way, for a value whose sources give no range. Assumed: published cost figures for
one and the same thing (wafers, defects, SerDes, DRAM) lie about as far apart."""
RANGE_DRAWS = 1000


def range_of(entry: CostValue) -> tuple[float, float, str]:
    """(low, high, where the range comes from) of a cost value.

    A measured value without a range is exact. Any other may be off by `ASSUMED_FACTOR`
    either way; one that is a bound, by its square to the open side.
    """
    if entry.low is not None and entry.high is not None:
        return entry.low, entry.high, entry.range_source
    if entry.evidence == "measured":
        return entry.value, entry.value, "measured: taken as exact"
    low, high = entry.value / ASSUMED_FACTOR, entry.value * ASSUMED_FACTOR
    if entry.bound == "lower":
        low, high = entry.value, entry.value * ASSUMED_FACTOR**2
    elif entry.bound == "upper":
        low, high = entry.value / ASSUMED_FACTOR**2, entry.value
    return low, high, f"assumed: a factor of {ASSUMED_FACTOR:g} either way"


def draw_inputs(values: Mapping[str, CostValue], n: int, seed: int) -> dict[str, Array]:
    """(n,) draws of every value: even in the logarithm over its range, independent.

    Same seed, same draws, and a value's draws do not depend on which others there are.
    """
    drawn = {}
    for name, entry in values.items():
        low, high, _ = range_of(entry)
        if low == high or low <= 0:
            drawn[name] = np.full(n, entry.value)
            continue
        rng = np.random.default_rng([seed, *name.encode()])
        drawn[name] = np.exp(rng.uniform(math.log(low), math.log(high), n))
    return drawn
