"""What a part's tensor cores would take at full rate, against the watts that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign.hardware.model import System

ENERGY = {"ampere": 1 / 0.7, "hopper": 1.0, "ada": 1.0, "blackwell": 0.9, "blackwell-ultra": 0.9}
"""Energy of a FLOP over Hopper's, by process: N7, 4N (N5 takes 30 % less power than N7 at equal
speed, says TSMC), 4NP (assumed: N4P takes 22 % less than N5, of which 4N has a part)."""
_NEEDS_POWER = ("sm_count", "sm_clock", "bf16_throughput")
_H100_W_PER_NEED = 700.0 / (989.4e12 * 1.83e9**2)


def watts_needed(system: System) -> float:
    """Watts at full rate of the part as sold, levers divided out, on a scale of its own."""
    peak = system.gpu.peak_dense_flops_per_s.get("bf16", 0.0) or 1.0
    energy = ENERGY.get(system.gpu.architecture, 1.0)
    return peak / _factor(system, _NEEDS_POWER) * energy


def power_as_sold_w(system: System) -> float:
    """The part's power limit, ``power`` levers divided out."""
    return system.gpu.power_w / _factor(system, ("power",))


def clock_headroom(system: System) -> float:
    """Watts over those that multiplies take at the clock of the peak; H100 SXM is 1.

    Headroom = watts / (dense bf16 peak x energy of a FLOP x clock^2), of the part as it is sold:
    voltage goes with frequency, so energy with its square. A100 2.1, RTX PRO 6000 and H100 about 1,
    L40S 0.72, B200 0.68, GB300 0.73. Levers leave it: what more SMs or a higher clock would draw is
    not in it. Parts whose process has no entry in `ENERGY`, or no bf16, stand at 1 (assumed).
    """
    gpu = system.gpu
    if gpu.architecture not in ENERGY or "bf16" not in gpu.peak_dense_flops_per_s:
        return 1.0
    clock_hz = gpu.tensor_clock_hz / _factor(system, ("sm_clock",))
    return power_as_sold_w(system) / (watts_needed(system) * clock_hz**2) / _H100_W_PER_NEED


def _factor(system: System, names: Sequence[str]) -> float:
    factor = 1.0
    for lever, by in system.levers:
        factor *= by if lever in names else 1.0
    return factor
