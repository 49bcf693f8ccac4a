"""Systems as arrays: the only view of hardware that the op models have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.power import clock_headroom
from codesign.hardware.rates import rate_of
from codesign.workload.schema import PRECISIONS

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

CLOCK_SHARE = 0.5
"""Assumed: share of the log of a higher clock that tensor-bound kernels sustain. Under their
power limit they may sustain none of it, far from the limit all; draws take it evenly from 0
to 1. No shipped part tells: where the clock rose, the power limit rose with it."""

PRECISION_INDEX = {name: index for index, name in enumerate(PRECISIONS)}

# Architectures that are one silicon family as far as independence goes.
_FAMILIES = {"blackwell-ultra": "blackwell", "grace-hopper": "hopper"}


# Tensor instructions that read operands from shared memory on their own (wgmma, tcgen05).
# Ada and the professional Blackwell parts have those of Ampere (mma.sync).
_ASYNCHRONOUS_MMA = frozenset({"hopper", "grace-hopper", "blackwell", "blackwell-ultra", "rubin"})
# Tensor instructions that apply a scale to each block of inputs (tcgen05 and mma.sync
# block_scale, MFMA scale); elsewhere the SMs rescale partial sums in software.
_BLOCK_SCALED_MMA = frozenset({"blackwell", "blackwell-ultra", "blackwell-pro", "rubin", "cdna4"})


def scales_blocks(architecture: str) -> bool:
    """Whether tensor instructions apply a scale to each block of inputs."""
    return architecture in _BLOCK_SCALED_MMA


def family(architecture: str) -> str:
    """The silicon family: B200, GB200, B300 and GB300 are not four independent samples."""
    return _FAMILIES.get(architecture, architecture)


class Kin(NamedTuple):
    """What parts may have in common that no data sheet tells."""

    family: str
    host: str
    """CPU that they are attached to; empty where it is not said."""


def kin(system: System) -> Kin:
    """That of a system: B200 and GB200 are one family on two hosts."""
    return Kin(family(system.gpu.architecture), system.host)


@dataclass(frozen=True)
class HardwareArrays:
    """Quantities of ``systems`` as float arrays of shape (systems, 1), SI units.

    The trailing axis broadcasts against ops, so that a model writes
    ``features["bytes"] / hw.hbm_bandwidth_bytes_per_s`` and gets (systems, ops).
    """

    names: tuple[str, ...]
    gpus: tuple[str, ...]
    architectures: tuple[str, ...]
    hosts: tuple[str, ...]
    sm_count: Array
    tensor_clock_hz: Array
    boost_clock_hz: Array
    hbm_bandwidth_bytes_per_s: Array
    hbm_capacity_bytes: Array
    l2_capacity_bytes: Array
    nvlink_bandwidth_bytes_per_s: Array
    nvlink_domain: Array
    scaleout_bandwidth_bytes_per_s: Array
    launch_latency_s: Array
    in_switch_reduction: Array
    """1.0 where the switches reduce (NVLS), else 0.0."""
    boost_over_tensor_clock: Array
    """`hardware.model.Gpu.boost_over_tensor_clock`."""
    asynchronous_mma: Array
    """1.0 where the tensor cores run asynchronously of the warps (Hopper and later)."""
    block_scaled_mma: Array
    """1.0 where the tensor cores scale blocks of inputs themselves (Blackwell and later)."""
    power_ratio: Array
    """Product of the ``power`` levers applied; 1.0 for a shipped system."""
    clock_ratio: Array
    """Product of the ``sm_clock`` levers applied; 1.0 for a shipped system."""
    clock_headroom: Array
    """`hardware.power.clock_headroom`: watts over those at full rate and clock; H100 is 1."""
    peaks_flops_per_s: Array
    """(systems, len(PRECISIONS)) dense peak by `PRECISION_INDEX`, as `hardware.rates.rate_of` has
    it: that of a wider type where the part has none of its own; NaN if there is none."""

    @property
    def kins(self) -> list[Kin]:
        """Silicon family and host of each system."""
        pairs = zip(self.architectures, self.hosts, strict=True)
        return [Kin(family(name), host) for name, host in pairs]

    def sustaining(self, clock_share: float) -> HardwareArrays:
        """The same where tensor cores sustain ``clock_share`` of a lever's clock, not half."""
        peaks = self.peaks_flops_per_s * self.clock_ratio ** (clock_share - CLOCK_SHARE)
        return replace(self, peaks_flops_per_s=peaks)

    def peak_flops_per_s(self, precision_index: Array) -> Array:
        """Dense peak of each op on each system: (systems, ops)."""
        return self.peaks_flops_per_s[:, precision_index.astype(np.intp)]

    def rate_flops_per_s(self, precision_index: Array) -> Array:
        """Dense rate of each op on each system at the device's highest clock: (systems, ops).

        The clock of a data sheet's peak is nominal: B200 and GB200 are 11 % apart by peaks, but
        8 % by SMs x highest clocks, and their large bf16 multiplies are 6 to 7 %.
        """
        return self.peak_flops_per_s(precision_index) * self.boost_over_tensor_clock

    def take(self, index: int) -> HardwareArrays:
        """The single system ``index``, as arrays of shape (1, 1)."""
        return self.rows([index])

    def rows(self, indices: Sequence[int]) -> HardwareArrays:
        """The systems ``indices``, in that order."""
        picked = list(indices)
        taken: dict[str, Any] = {
            name: tuple(value[i] for i in picked) if isinstance(value, tuple) else value[picked]
            for name, value in vars(self).items()
        }
        return replace(self, **taken)


def hardware_arrays(systems: Sequence[System]) -> HardwareArrays:
    """Arrays of ``systems``, in their order."""

    def column(values: Sequence[float]) -> Array:
        return np.asarray(values, dtype=np.float64).reshape(-1, 1)

    peaks = np.array([[rate_of(s.gpu, p)[1] for p in PRECISIONS] for s in systems],
                     dtype=np.float64)  # fmt: skip
    clock_ratio = column([_ratio(s, "sm_clock") for s in systems])
    return HardwareArrays(
        names=tuple(s.name for s in systems),
        gpus=tuple(s.gpu.name for s in systems),
        architectures=tuple(s.gpu.architecture for s in systems),
        hosts=tuple(s.host for s in systems),
        sm_count=column([s.gpu.sm_count for s in systems]),
        tensor_clock_hz=column([s.gpu.tensor_clock_hz for s in systems]),
        boost_clock_hz=column([s.gpu.boost_clock_hz for s in systems]),
        hbm_bandwidth_bytes_per_s=column([s.gpu.hbm_bandwidth_bytes_per_s for s in systems]),
        hbm_capacity_bytes=column([s.gpu.hbm_capacity_bytes for s in systems]),
        l2_capacity_bytes=column([s.gpu.l2_capacity_bytes for s in systems]),
        nvlink_bandwidth_bytes_per_s=column([s.nvlink_bandwidth_bytes_per_s for s in systems]),
        nvlink_domain=column([s.nvlink_domain for s in systems]),
        scaleout_bandwidth_bytes_per_s=column([s.scaleout_bandwidth_bytes_per_s for s in systems]),
        launch_latency_s=column([s.launch_latency_s for s in systems]),
        in_switch_reduction=column([float(s.in_switch_reduction) for s in systems]),
        boost_over_tensor_clock=column([s.gpu.boost_over_tensor_clock for s in systems]),
        asynchronous_mma=column([float(s.gpu.architecture in _ASYNCHRONOUS_MMA) for s in systems]),
        block_scaled_mma=column([float(scales_blocks(s.gpu.architecture)) for s in systems]),
        power_ratio=column([_ratio(s, "power") for s in systems]),
        clock_ratio=clock_ratio,
        clock_headroom=column([clock_headroom(s) for s in systems]),
        peaks_flops_per_s=peaks * clock_ratio ** (CLOCK_SHARE - 1.0),
    )


def _ratio(system: System, lever: str) -> float:
    return math.prod(factor for name, factor in system.levers if name == lever)
