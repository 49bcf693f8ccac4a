"""Records of the hardware library: a GPU, and the system it sits in. SI units."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from codesign._common.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The key of ``peak_dense`` that rates a multiply of each op precision.
PEAK_OF_PRECISION = MappingProxyType({
    "fp64": "fp64", "fp32": "fp32", "tf32": "tf32", "bf16": "bf16", "fp16": "fp16",
    "fp8": "fp8", "fp8_block": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "int8": "int8",
})  # fmt: skip
BYTES_PER_ELEMENT = MappingProxyType({
    "fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0,
    # Block formats carry their scales: one fp32 per 128, one byte per 32, one per 16.
    "fp8_block": 1.0 + 4 / 128, "mxfp8": 1.0 + 1 / 32, "nvfp4": 0.5 + 1 / 16, "int8": 1.0,
})  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """One GPU as sold: dense peaks at the tensor clock, one package."""

    name: str
    vendor: str
    architecture: str
    sm_count: int
    """SMs, or CUs on AMD parts."""
    tensor_clock_hz: float
    """Clock at which ``peak_dense`` holds; lower than boost on most parts."""
    boost_clock_hz: float
    peak_dense_flops_per_s: Mapping[str, float]
    hbm_capacity_bytes: float
    hbm_bandwidth_bytes_per_s: float
    l2_capacity_bytes: float
    nvlink_bandwidth_bytes_per_s: float
    """Scale-up bandwidth per GPU and direction (NVLink, Infinity Fabric, else PCIe)."""
    power_w: float
    hbm_stacks: int | None = None
    nvlink_links: int | None = None
    dies: int = 1
    """Devices that a package shows to software; a kernel runs on one (MI250X: 2)."""
    die_area_mm2: float | None = None
    """Of one compute die; None where it is not known."""
    die_count: int = 1
    """Compute dies of the package (B200: 2, one device)."""
    aliases: tuple[str, ...] = ()
    status: str = "shipping"
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By key path of the YAML, such as ``peak_dense.bf16``."""
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By key path: ``recalled``, ``disputed``, ``derived``, ``assumed`` or ``measured``; absent
    means read."""
    notes: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By key path: one sentence where sources disagree or the value needs one."""

    @property
    def boost_over_tensor_clock(self) -> float:
        """Highest clock of the device over that of its peaks: 1.03 of GB200, 1.08 of H100.

        What a kernel that no limit on power slows exceeds the data sheet's rate by. 1 for an
        announced part, whose clocks are read off its peaks.
        """
        if self.status == "announced":
            return 1.0
        return self.boost_clock_hz / self.tensor_clock_hz

    def peak_flops_per_s(self, precision: str) -> float:
        """Dense peak for an op precision.

        Raises UsageError naming the key if the part has no such rate.
        """
        key = PEAK_OF_PRECISION[precision]
        try:
            return self.peak_dense_flops_per_s[key]
        except KeyError:
            known = ", ".join(self.peak_dense_flops_per_s)
            raise UsageError(
                f"{self.name} has no peak_dense.{key} (needed for {precision}); it has: {known}"
            ) from None


@dataclass(frozen=True)
class System:
    """GPUs in NVLink domains on a scale-out network."""

    name: str
    gpu: Gpu
    nvlink_domain: int
    """GPUs in one scale-up domain."""
    nvlink_bandwidth_bytes_per_s: float
    """Per GPU and direction, inside the domain."""
    scaleout_bandwidth_bytes_per_s: float
    """Per GPU and direction, between domains."""
    launch_latency_s: float
    """Fixed time of the smallest kernel; scales the fitted overheads."""
    in_switch_reduction: bool = False
    host: str = ""
    """CPU that the GPUs are attached to: ``x86``, ``grace`` or ``vera``; empty if not said."""
    title: str = ""
    status: str = "shipping"
    levers: tuple[tuple[str, float], ...] = ()
    """(lever, factor) applied to the shipped system, in order; empty for a shipped one."""
    base: str = ""
    """Name of the shipped system that levers were applied to; else the own name."""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: Mapping[str, str] = field(default_factory=dict, repr=False)
