"""The clock that large multiplies hold for as long as a step, by the power that a part has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.efficiency import Efficiency

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

ENERGY = {"ampere": 1 / 0.7, "hopper": 1.0, "ada": 1.0, "blackwell": 0.9, "blackwell-ultra": 0.9}
"""Energy of a FLOP over Hopper's, by process: N7, 4N (N5 takes 30 % less power than N7 at equal
speed, says TSMC), 4NP (assumed: N4P takes 22 % less than N5, of which 4N has a part)."""
_REFERENCE = 1000.0 / (2250e12 * 0.9)
"""B200, whose steps the factor of bf16 is from: watts / (dense bf16 peak x energy)."""
_NEEDS_POWER = ("sm_count", "sm_clock", "bf16_throughput")


def sustained(systems: Sequence[System], efficiency: Efficiency) -> Array:
    """(systems, 1) time of large multiplies over that on B200's watts a FLOP.

    Headroom = watts / (dense bf16 peak as sold x energy of a FLOP): B200 1, GB200 1.08, GB300
    1.26, H100 1.43, A100 1.82; the clock goes with its `power_exponent`, and no part runs faster
    than its microbenchmarks do. Of the levers only ``power`` moves it; that more SMs or a higher
    clock would take more power is left out. Other architectures stand at 1 as they are sold.
    """
    ratio = []
    for system in systems:
        power_w = system.gpu.power_w / _factor(system, ("power",))
        known = system.gpu.architecture in ENERGY
        sold = power_w / watts_needed(system) / _REFERENCE if known else 1.0
        ratio.append(sold * system.gpu.power_w / power_w)
    fastest = 1.0 / max(efficiency.gemm, 1.0)
    result: Array = np.array(ratio)[:, None] ** -efficiency.power_exponent
    return np.maximum(result, fastest)


def watts_needed(system: System) -> float:
    """Watts at full rate of the part as sold, levers divided out, on a scale of its own."""
    peak = system.gpu.peak_dense_flops_per_s.get("bf16", 0.0) or 1.0
    energy = ENERGY.get(system.gpu.architecture, 1.0)
    return peak / _factor(system, _NEEDS_POWER) * energy


def _factor(system: System, names: Sequence[str]) -> float:
    factor = 1.0
    for lever, by in system.levers:
        factor *= by if lever in names else 1.0
    return factor
