"""The clock that large multiplies hold for as long as a step, by the power that a part has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.efficiency import Efficiency
from codesign.hardware.power import ENERGY, power_as_sold_w, watts_needed

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

_REFERENCE = 1000.0 / (2250e12 * 0.9)
"""B200, whose steps the factor of bf16 is from: watts / (dense bf16 peak x energy)."""


def sustained(systems: Sequence[System], efficiency: Efficiency) -> Array:
    """(systems, 1) time of large multiplies over that on B200's watts a FLOP.

    Headroom = watts / (dense bf16 peak as sold x energy of a FLOP): B200 1, GB200 1.08, GB300
    1.26, H100 1.43, A100 1.82; the clock goes with its `power_exponent`, and no part runs faster
    than its microbenchmarks do. Of the levers only ``power`` moves it; that more SMs or a higher
    clock would take more power is left out. Other architectures stand at 1 as they are sold.
    """
    ratio = []
    for system in systems:
        power_w = power_as_sold_w(system)
        known = system.gpu.architecture in ENERGY
        sold = power_w / watts_needed(system) / _REFERENCE if known else 1.0
        ratio.append(sold * system.gpu.power_w / power_w)
    fastest = 1.0 / max(efficiency.gemm, 1.0)
    result: Array = np.array(ratio)[:, None] ** -efficiency.power_exponent
    return np.maximum(result, fastest)
