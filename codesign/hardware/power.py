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
_H100_W_PER_NEED = 700.0 / (989.4e12 * 1.98 / 1.83 * 1.98e9**2)


def watts_needed(system: System) -> float:
    """Watts at full rate of the part as sold, levers divided out, on a scale of its own."""
    peak = system.gpu.peak_dense_flops_per_s.get("bf16", 0.0) or 1.0
    energy = ENERGY.get(system.gpu.architecture, 1.0)
    return peak / _factor(system, _NEEDS_POWER) * energy


def power_as_sold_w(system: System) -> float:
    """The part's power limit, ``power`` levers divided out."""
    return system.gpu.power_w / _factor(system, ("power",))


def clock_headroom(system: System) -> float:
    """Watts over those that multiplies take at the highest clock; H100 SXM is 1.

    Headroom = watts / (bf16 rate at that clock x energy of a FLOP x clock^2), as the part is sold:
    voltage goes with frequency, so energy with its square. A100 2.7, RTX PRO 6000 and H100 1, L40S
    0.91, GB300 0.85, B200 0.72. Levers leave it: what more SMs or a higher clock would draw is
    not in it. Parts whose process has no entry in `ENERGY`, or no bf16, stand at 1 (assumed).
    """
    gpu = system.gpu
    if gpu.architecture not in ENERGY or "bf16" not in gpu.peak_dense_flops_per_s:
        return 1.0
    boost = gpu.boost_over_tensor_clock
    clock_hz = gpu.tensor_clock_hz * boost / _factor(system, ("sm_clock",))
    needed = watts_needed(system) * boost * clock_hz**2
    return power_as_sold_w(system) / needed / _H100_W_PER_NEED


def _factor(system: System, names: Sequence[str]) -> float:
    factor = 1.0
    for lever, by in system.levers:
        factor *= by if lever in names else 1.0
    return factor
