"""Lints: numbers of a spec that contradict each other, or the arithmetic of the part.

Each returns a list of one-line problems. A file silences one by naming the key
path under ``exceptions`` with the reason.
"""

from __future__ import annotations

from types import MappingProxyType

from codesign._common.errors import DataError
from codesign._common.text import quoted
from codesign._common.units import format_si
from codesign.hardware._section import Section
from codesign.hardware.model import Gpu, System

# Dense FLOP per clock and SM (CU on AMD). Tensor rates hold at the tensor clock, fp32
# (vector units) at the boost clock. Sources: the vendors' architecture papers; each
# closes against an independently published peak and clock of at least one part.
FLOP_PER_CLOCK_PER_SM = MappingProxyType({
    "volta": {"fp16": 1024, "fp32": 128},
    "ampere": {"bf16": 2048, "fp32": 128},
    "hopper": {"bf16": 4096, "fp8": 8192, "fp32": 256},
    "blackwell": {"bf16": 8192, "fp8": 16384, "fp4": 32768, "fp32": 256},
    "blackwell-ultra": {"bf16": 8192, "fp8": 16384, "fp4": 49152, "fp32": 256},
    "blackwell-pro": {"bf16": 1024, "fp8": 2048, "fp4": 4096, "fp32": 256},
    "ada": {"bf16": 1024, "fp8": 2048, "fp32": 256},
    "rubin": {"bf16": 8192},
    "cdna2": {"bf16": 1024},
    "cdna3": {"bf16": 2048, "fp8": 4096, "fp32": 256},
    "cdna4": {"bf16": 4096, "fp8": 8192, "fp4": 16384, "fp32": 256},
})  # fmt: skip
# Bytes per second and direction of one link, by NVLink generation.
_NVLINK_BYTES_PER_S = MappingProxyType({2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9, 6: 50e9})
_PEAK_TOLERANCE = 0.03
_RATIO_TOLERANCE = 0.05
# No part multiplies in these at a higher multiple of its BF16 rate (A100 to Rubin, MI250X to
# MI355X): what is above is a sparse figure, or was not scaled with the others.
_MOST_OF_BF16 = MappingProxyType({"fp16": 1.0, "tf32": 0.5, "int8": 2.0})
# Several times what any announced package has: above it, a prefix is wrong.
_MOST_CAPACITY_BYTES, _MOST_POWER_W = 4e12, 10e3
# The fastest NIC per GPU that any vendor has announced is 1.6 Tb/s.
_NIC_LIMIT_BYTES_PER_S = 1.6e12 / 8


def gpu_problems(gpu: Gpu, top: Section) -> list[str]:
    """What is wrong with a GPU file; empty if nothing."""
    excepted = _exceptions(top)
    found = [
        *_ratio_problems(gpu),
        *_multiple_problems(gpu),
        *_prefix_problems(gpu),
        *_peak_problems(gpu, _rates(gpu, top)),
        *_clock_problems(gpu),
        *_missing_peaks(gpu),
        *_link_problems(gpu, top),
    ]
    return [f"{top.place(path)}: {text}" for path, text in found if path not in excepted]


def system_problems(system: System, top: Section) -> list[str]:
    """What is wrong with a system file; empty if nothing."""
    excepted = _exceptions(top)
    found = []
    own, gpu = system.nvlink_bandwidth_bytes_per_s, system.gpu.nvlink_bandwidth_bytes_per_s
    if abs(own / gpu - 1) > _PEAK_TOLERANCE:
        found.append((
            "nvlink_bandwidth_per_direction",
            f"{format_si(own, 'B/s')}, but {system.gpu.name} has {format_si(gpu, 'B/s')} per "
            f"direction (ratio {own / gpu:.2f}); bandwidth is per direction, not both added",
        ))  # fmt: skip
    nic = system.scaleout_bandwidth_bytes_per_s
    if nic > _NIC_LIMIT_BYTES_PER_S:
        found.append((
            "scaleout_bandwidth_per_direction",
            f"{format_si(nic * 8, 'b/s')} per GPU is more than any NIC offers; "
            f"network rates are quoted in bits (400 Gb/s = 50 GB/s)",
        ))  # fmt: skip
    return [f"{top.place(path)}: {text}" for path, text in found if path not in excepted]


def _exceptions(top: Section) -> dict[str, str]:
    return top.texts("exceptions")


def _rates(gpu: Gpu, top: Section) -> dict[str, float]:
    """FLOP per clock and SM: the architecture's, with the file's own on top."""
    own = top.section("flop_per_clock_per_sm", required=False)
    rates: dict[str, float] = dict(FLOP_PER_CLOCK_PER_SM.get(gpu.architecture, {}))
    for key in own.values:
        if key not in gpu.peak_dense_flops_per_s:
            raise DataError(f"{own.place(key)}: there is no peak_dense.{key} to check with it")
        rates[key] = own.integer(key, 1, 10_000_000)
    if not rates:
        known = ", ".join(FLOP_PER_CLOCK_PER_SM)
        raise DataError(
            f"{top.place('architecture')}: {quoted(gpu.architecture)} is not known ({known}); give "
            f"its rates, such as flop_per_clock_per_sm: {{bf16: 4096}}, to check the peaks by"
        )
    return rates


def _ratio_problems(gpu: Gpu) -> list[tuple[str, str]]:
    """FP8 runs at twice BF16 on every part with its own FP8 rate."""
    peaks = gpu.peak_dense_flops_per_s
    wide = next((key for key in ("bf16", "fp16") if key in peaks), None)
    if "fp8" not in peaks or wide is None:
        return []
    ratio = peaks["fp8"] / peaks[wide]
    if abs(ratio / 2 - 1) <= _RATIO_TOLERANCE:
        return []
    text = (
        f"fp8/{wide} = {ratio:.2f}, expected 2 within 5 %: peaks are dense, so is one of them the "
        f"2:4 sparse figure? If the part is like that, say why under exceptions: peak_dense.fp8"
    )
    return [("peak_dense.fp8", text)]


def _multiple_problems(gpu: Gpu) -> list[tuple[str, str]]:
    peaks = gpu.peak_dense_flops_per_s
    if "bf16" not in peaks:
        return []
    return [
        (
            f"peak_dense.{key}",
            f"{format_si(peaks[key], 'FLOP/s')} is {peaks[key] / peaks['bf16']:.2f} x bf16, no "
            f"part has more than {most:g} x: is it the 2:4 sparse figure, or of another SM count? "
            f"Else say why under exceptions: peak_dense.{key}",
        )
        for key, most in _MOST_OF_BF16.items()
        if key in peaks and peaks[key] / peaks["bf16"] > most * (1 + _RATIO_TOLERANCE)
    ]


def _prefix_problems(gpu: Gpu) -> list[tuple[str, str]]:
    return [
        (path, f"{format_si(value, unit)}, more than any package: is the prefix wrong?")
        for path, value, most, unit in (
            ("memory.capacity", gpu.hbm_capacity_bytes, _MOST_CAPACITY_BYTES, "B"),
            ("power", gpu.power_w, _MOST_POWER_W, "W"),
        )
        if value is not None and value > most
    ]


def _peak_problems(gpu: Gpu, rates: dict[str, float]) -> list[tuple[str, str]]:
    found = []
    for key, peak in gpu.peak_dense_flops_per_s.items():
        if key not in rates:
            continue
        clock_hz = gpu.boost_clock_hz if key == "fp32" else gpu.tensor_clock_hz
        expected = gpu.sm_count * rates[key] * clock_hz
        if abs(peak / expected - 1) > _PEAK_TOLERANCE:
            found.append((
                f"peak_dense.{key}",
                f"{format_si(peak, 'FLOP/s')}, but {gpu.sm_count} SMs x {rates[key]:.0f} "
                f"FLOP/clock/SM x {format_si(clock_hz, 'Hz', 4)} = {format_si(expected, 'FLOP/s')} "
                f"(ratio {peak / expected:.2f}, allowed 0.97 to 1.03); wrong clock, SM count or "
                f"sparse figure? Else say why under exceptions: peak_dense.{key}",
            ))  # fmt: skip
    return found


def _clock_problems(gpu: Gpu) -> list[tuple[str, str]]:
    if gpu.tensor_clock_hz <= gpu.boost_clock_hz * 1.001:
        return []
    text = (
        f"{format_si(gpu.tensor_clock_hz, 'Hz', 4)} is above clocks.boost "
        f"({format_si(gpu.boost_clock_hz, 'Hz', 4)}): clock above declared"
    )
    return [("clocks.tensor", text)]


def _missing_peaks(gpu: Gpu) -> list[tuple[str, str]]:
    """A rate that the architecture has but the file leaves out would fall back in silence."""
    rates = FLOP_PER_CLOCK_PER_SM.get(gpu.architecture, {})
    return [
        (
            f"peak_dense.{key}",
            f"missing, though {gpu.architecture} parts have it; give the dense peak",
        )
        for key in rates
        if key not in gpu.peak_dense_flops_per_s
    ]


def _link_problems(gpu: Gpu, top: Section) -> list[tuple[str, str]]:
    nvlink = top.section("nvlink")
    generation = nvlink.optional_integer("generation", 1, 20)
    rate = _NVLINK_BYTES_PER_S.get(generation or 0)
    if rate is None or not gpu.nvlink_links:
        return []
    expected = rate * gpu.nvlink_links
    ratio = gpu.nvlink_bandwidth_bytes_per_s / expected
    if abs(ratio - 1) <= _PEAK_TOLERANCE:
        return []
    text = (
        f"{format_si(gpu.nvlink_bandwidth_bytes_per_s, 'B/s')}, but {gpu.nvlink_links} links of "
        f"generation {generation} carry {format_si(expected, 'B/s')} per direction "
        f"(ratio {ratio:.2f}); a ratio of 2 is both directions added"
    )
    return [("nvlink.bandwidth_per_direction", text)]
