"""Laws that every op model keeps; each model's test file calls them on its own ops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from codesign.hardware.model import Gpu, System
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.op_model import OpModel

# Quantities of HardwareArrays whose growth must never slow an op.
CAPABILITIES = (
    "sm_count", "clock", "hbm_bandwidth_bytes_per_s", "l2_capacity_bytes", "peaks_flops_per_s",
    "nvlink_bandwidth_bytes_per_s", "scaleout_bandwidth_bytes_per_s", "nvlink_domain",
    "power_ratio", "launch_rate",
)  # fmt: skip


def example_gpu(name: str = "example", sm_count: int = 132) -> Gpu:
    """A GPU with Hopper's public rates."""
    per_sm = 4096 * 1.83e9
    bf16 = per_sm * sm_count
    return Gpu(
        name=name, vendor="nvidia", architecture="hopper", sm_count=sm_count,
        tensor_clock_hz=1.83e9, boost_clock_hz=1.98e9,
        peak_dense_flops_per_s={"bf16": bf16, "fp16": bf16, "fp8": 2 * bf16, "tf32": bf16 / 2,
                                "fp32": bf16 / 15},
        hbm_capacity_bytes=80e9, hbm_bandwidth_bytes_per_s=3.35e12, l2_capacity_bytes=50e6,
        nvlink_bandwidth_bytes_per_s=450e9, power_w=700.0,
    )  # fmt: skip


def example_system(gpu: Gpu | None = None) -> System:
    """Eight of them in one NVLink domain."""
    gpu = gpu or example_gpu()
    return System(
        name=f"hgx-{gpu.name}", gpu=gpu, nvlink_domain=8, nvlink_bandwidth_bytes_per_s=450e9,
        scaleout_bandwidth_bytes_per_s=50e9, launch_latency_s=2.4e-6, in_switch_reduction=True,
    )  # fmt: skip


def scaled(system: System, capability: str, factor: float) -> System:
    """``system`` with one capability multiplied, as the levers do it."""
    gpu = system.gpu
    peaks = dict(gpu.peak_dense_flops_per_s)
    if capability == "sm_count":
        count = max(1, round(gpu.sm_count * factor))
        real = count / gpu.sm_count
        gpu = replace(
            gpu, sm_count=count, peak_dense_flops_per_s={k: v * real for k, v in peaks.items()}
        )
    elif capability == "clock":
        gpu = replace(
            gpu, tensor_clock_hz=gpu.tensor_clock_hz * factor,
            boost_clock_hz=gpu.boost_clock_hz * factor,
            peak_dense_flops_per_s={k: v * factor for k, v in peaks.items()},
        )  # fmt: skip
    elif capability == "peaks_flops_per_s":
        gpu = replace(gpu, peak_dense_flops_per_s={k: v * factor for k, v in peaks.items()})
    elif capability in ("hbm_bandwidth_bytes_per_s", "l2_capacity_bytes"):
        gpu = replace(gpu, **{capability: getattr(gpu, capability) * factor})
    elif capability == "launch_rate":
        return replace(system, launch_latency_s=system.launch_latency_s / factor)
    elif capability == "power_ratio":
        return replace(system, levers=(*system.levers, ("power", factor)))
    elif capability == "nvlink_domain":
        return replace(system, nvlink_domain=max(1, round(system.nvlink_domain * factor)))
    else:
        return replace(system, **{capability: getattr(system, capability) * factor})
    return replace(system, gpu=gpu)


def assert_monotone(
    model: OpModel, ops: pd.DataFrame, system: System, capability: str, factors: list[float],
    theta: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Time of every op must not rise along increasing ``factors`` of a capability."""
    assert model.applies(ops).all()
    variant = str(model.variant(ops)[0])
    if theta is None:
        theta = np.array([p.initial for p in model.parameters(variant)])
    factors = sorted(factors)
    hw = hardware_arrays([scaled(system, capability, f) for f in factors])
    times = model.times(theta, model.features(ops), hw)
    assert times.shape == (len(factors), len(ops))
    assert np.isfinite(times).all()
    assert (times > 0).all()
    worst = (times[1:] / times[:-1]).max()
    assert worst <= 1 + 1e-9, f"{model.name}: {capability} up, time up by {worst - 1:.2%}"


def assert_terms_agree(model: OpModel, ops: pd.DataFrame, system: System) -> None:
    """The fast path and the combined terms are the same time."""
    variant = str(model.variant(ops)[0])
    theta = np.array([p.initial for p in model.parameters(variant)])
    hw = hardware_arrays([system])
    features = model.features(ops)
    combined = model.combine(theta, model.terms(theta, features, hw))
    np.testing.assert_allclose(combined, model.times(theta, features, hw), rtol=1e-9)
