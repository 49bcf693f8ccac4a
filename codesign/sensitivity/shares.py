"""Capabilities of a system, each by itself: what time waits for is what a little more saves.

The largest term of an op hides the others: where HBM comes second everywhere it binds nothing,
though more of it would save much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign.hardware.model import System

STEP = 1e-4
"""Relative step of a capability: small, for the share is a slope."""


def _tensor(s: System, by: float) -> System:
    peaks = {name: value * by for name, value in s.gpu.peak_dense_flops_per_s.items()}
    return replace(s, gpu=replace(s.gpu, peak_dense_flops_per_s=peaks))


def _hbm(s: System, by: float) -> System:
    bandwidth = s.gpu.hbm_bandwidth_bytes_per_s * by
    return replace(s, gpu=replace(s.gpu, hbm_bandwidth_bytes_per_s=bandwidth))


def _sm(s: System, by: float) -> System:
    gpu = replace(
        s.gpu, tensor_clock_hz=s.gpu.tensor_clock_hz * by, boost_clock_hz=s.gpu.boost_clock_hz * by
    )
    return replace(s, gpu=gpu)


def _nvlink(s: System, by: float) -> System:
    return replace(s, nvlink_bandwidth_bytes_per_s=s.nvlink_bandwidth_bytes_per_s * by)


def _scaleout(s: System, by: float) -> System:
    return replace(s, scaleout_bandwidth_bytes_per_s=s.scaleout_bandwidth_bytes_per_s * by)


def _launch(s: System, by: float) -> System:
    return replace(s, launch_latency_s=s.launch_latency_s / by)


CAPABILITIES: dict[str, Callable[[System, float], System]] = {
    "tensor": _tensor, "hbm": _hbm, "sm": _sm, "nvlink": _nvlink, "scaleout": _scaleout,
    "launch": _launch,
}  # fmt: skip
"""``sm`` is the clock of all that is on the chip but the tensor cores: L2 traffic, issue of
instructions, what a kernel spends before and after its work."""


def moved(system: System, step: float = STEP) -> list[System]:
    """``system`` with each capability ``step`` better and all others held, in their order."""
    return [move(system, 1.0 + step) for move in CAPABILITIES.values()]
