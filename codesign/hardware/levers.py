"""Hypothetical hardware: one lever of a system multiplied by a factor."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from codesign._common.errors import CodesignError, UsageError, one_of
from codesign._common.units import format_si, parse_quantity
from codesign.hardware.lever_specs import NAMES, Lever, shipped_levers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codesign.hardware.model import Gpu, System

LEVERS: Mapping[str, Lever]
"""Lever by name, read from the shipped file on first use."""

# Keys of ``peak_dense`` that each throughput lever moves; the first is the one it is named by.
_THROUGHPUT_KEYS = {
    "bf16_throughput": ("bf16", "fp16", "tf32"),
    "fp8_throughput": ("fp8", "fp6"),
    "fp4_throughput": ("fp4",),
}
_GPU_FIELDS = {
    "hbm_bandwidth": "hbm_bandwidth_bytes_per_s",
    "hbm_capacity": "hbm_capacity_bytes",
    "l2_capacity": "l2_capacity_bytes",
    "power": "power_w",
}
_SYSTEM_FIELDS = {
    "nvlink_bandwidth": "nvlink_bandwidth_bytes_per_s",
    "scaleout_bandwidth": "scaleout_bandwidth_bytes_per_s",
    "launch_latency": "launch_latency_s",
}
_DIRECTED = ("nvlink_bandwidth", "scaleout_bandwidth")
_SYMBOLS = {"byte": "B", "byte/s": "B/s", "flop/s": "FLOP/s", "hertz": "Hz", "second": "s",
            "watt": "W"}  # fmt: skip
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-3, 1e6
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?"
_PERCENT = re.compile(rf"([+-]{_NUMBER})\s*%")
_TIMES = re.compile(rf"[x×]\s*({_NUMBER})|({_NUMBER})\s*[x×]")
_WHOLE = re.compile(r"[+-]?\d{1,9}")


def __getattr__(name: str) -> Any:
    if name == "LEVERS":
        return shipped_levers()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def apply_lever(system: System, lever: str, factor: float) -> System:
    """``system`` with one lever multiplied by ``factor``.

    Whole quantities (SMs, GPUs per domain) are rounded, and ``System.levers``
    records the factor that the rounding left. A factor of exactly 1 changes nothing.

    Raises UsageError, saying why, for an unknown lever, a factor that is not a
    positive finite number, a rate that the part does not have, or a value beyond
    the lever's bound.
    """
    spec = _spec(lever)
    if not SMALLEST_FACTOR <= factor <= LARGEST_FACTOR:
        raise UsageError(
            f"{lever}: cannot multiply by {factor:g}; a factor is a finite number from "
            f"{SMALLEST_FACTOR:g} to {LARGEST_FACTOR:g}"
        )
    old = lever_value(system, lever)
    new = old * factor
    if spec.counts:
        # Half a unit rounds up, so that an equal step is never rounded to nothing.
        new = float(math.floor(new + 0.5))
        if new < 1:
            raise UsageError(f"{lever}: {old:g} x {factor:g} leaves no whole {spec.unit}")
        factor = new / old
    if new > spec.maximum and factor > 1:
        limit = format_value(spec, spec.maximum)
        raise UsageError(
            f"{lever}: {format_value(spec, new)} is beyond {limit}: {spec.maximum_reason}"
        )
    changed = _scaled(system, lever, factor, new)
    steps = (*system.levers, (lever, factor))
    base = system.base or system.name
    status = system.status if factor == 1 else "hypothetical"
    return replace(changed, levers=steps, base=base, name=_name(base, steps), status=status)


def apply_levers(system: System, steps: Mapping[str, float]) -> System:
    """``system`` with several levers moved, in their order."""
    for lever, factor in steps.items():
        system = apply_lever(system, lever, factor)
    return system


def lever_value(system: System, lever: str) -> float:
    """The quantity that a lever multiplies, in SI (FLOP/s, bytes, Hz, s, W, a count).

    Raises UsageError if the part has no such rate: FP4 on Hopper, FP8 on Ampere.
    """
    _spec(lever)
    gpu = system.gpu
    if lever in _GPU_FIELDS:
        return float(getattr(gpu, _GPU_FIELDS[lever]))
    if lever in _SYSTEM_FIELDS:
        return float(getattr(system, _SYSTEM_FIELDS[lever]))
    if lever in _THROUGHPUT_KEYS:
        return gpu.peak_dense_flops_per_s[_main_key(gpu, lever)]
    counts = {
        "sm_count": float(gpu.sm_count),
        "sm_clock": gpu.tensor_clock_hz,
        "nvlink_domain": float(system.nvlink_domain),
    }
    return counts[lever]


def parse_lever(text: str, system: System) -> tuple[str, float]:
    """(lever, factor) of ``hbm_bandwidth=+50%``, ``=x1.5``, ``=1.5x`` or ``=5 TB/s``.

    An absolute value needs its unit; SMs and GPUs per domain are whole numbers
    (``nvlink_domain=72``). Raises UsageError that says what was expected.
    """
    change = read_change(text)
    factor = change.number
    if change.absolute:
        factor /= lever_value(system, change.lever)
    # Applying it is the one place that knows what is impossible.
    apply_lever(system, change.lever, factor)
    return change.lever, factor


def changed_system(system: System, text: str) -> System:
    """``system`` with a comma-separated list of changes, each as `parse_lever` reads it."""
    for part in text.split(","):
        system = apply_lever(system, *parse_lever(part, system))
    return system


class Change(NamedTuple):
    """A change as it is written, before any system is known."""

    lever: str
    number: float
    """A factor, or the value itself in SI."""
    absolute: bool


def read_change(text: str) -> Change:
    """What ``parse_lever`` reads, without a system to apply it to. Raises as it does."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value or not name:
        raise UsageError(
            f"{text!r}: expected LEVER=CHANGE, such as hbm_bandwidth=+50%, hbm_bandwidth=x1.5 or "
            "'hbm_bandwidth=5 TB/s'"
        )
    spec = _spec(name)
    if match := _PERCENT.fullmatch(value):
        factor = 1 + float(match[1]) / 100
        if factor <= 0:
            raise UsageError(f"{text!r}: {value} leaves nothing of it")
        return Change(name, factor, absolute=False)
    if match := _TIMES.fullmatch(value):
        return Change(name, float(match[1] or match[2]), absolute=False)
    return Change(name, _absolute(spec, value, text), absolute=True)


def format_value(lever: Lever, value: float) -> str:
    """A value with its unit: ``5.03 TB/s``, ``72 GPUs``, ``450 GB/s per direction``."""
    if lever.counts:
        return f"{value:.0f} {lever.unit}"
    text = format_si(value, _SYMBOLS[lever.unit])
    # Vendors quote NVLink both ways added up: 450 GB/s is what is sold as 900.
    return f"{text} per direction" if lever.name in _DIRECTED else text


def step_label(system: System, lever: str, factor: float) -> str:
    """A step as an architect says it: ``+50 %: 5.03 TB/s``. Raises as `apply_lever`."""
    after = apply_lever(system, lever, factor)
    spec = _spec(lever)
    change = (after.levers[-1][1] - 1) * 100
    amount = f"{change:+.0f} %" if abs(change) < 300 else f"x{change / 100 + 1:.3g}"
    return f"{amount}: {format_value(spec, lever_value(after, lever))}"


def system_title(system: System) -> str:
    """``HGX H100, 8 GPUs``, and what levers made of it: ``, with HBM bandwidth of 5.03 TB/s``."""
    title = system.title or system.base or system.name
    changed = [
        f"{_spec(name).title} of {format_value(_spec(name), lever_value(system, name))}"
        for name in dict.fromkeys(name for name, _ in system.levers)
    ]
    return f"{title}, with {' and '.join(changed)}" if changed else title


def _spec(lever: str) -> Lever:
    levers = shipped_levers()
    if lever not in levers:
        raise UsageError(one_of("lever", lever, NAMES))
    return levers[lever]


def _main_key(gpu: Gpu, lever: str) -> str:
    # V100 has no BF16: its tensor rate is FP16.
    keys = (
        _THROUGHPUT_KEYS[lever][:2] if lever == "bf16_throughput" else _THROUGHPUT_KEYS[lever][:1]
    )
    for key in keys:
        if key in gpu.peak_dense_flops_per_s:
            return key
    known = ", ".join(gpu.peak_dense_flops_per_s)
    raise UsageError(
        f"{lever}: {gpu.name} has no peak_dense.{keys[0]} to multiply (it has: {known}); "
        f"a rate that is not there cannot be scaled"
    )


def _absolute(spec: Lever, value: str, text: str) -> float:
    if spec.counts:
        number = value.removesuffix(spec.unit).strip()
        if not _WHOLE.fullmatch(number):
            raise UsageError(
                f"{text!r}: {spec.name} is a whole number of {spec.unit}, such as "
                f"{spec.name}=72, or a change, such as {spec.name}=x2"
            )
        absolute = float(number)
    else:
        try:
            absolute = parse_quantity(value, spec.unit, repr(text))
        except CodesignError as error:
            raise UsageError(f"{error}; or a change, such as +50% or x1.5") from error
    if absolute <= 0:
        raise UsageError(f"{text!r}: {spec.title} must be positive")
    return absolute


def _scaled(system: System, lever: str, factor: float, new: float) -> System:
    gpu = system.gpu
    if factor == 1:
        return system
    if lever == "nvlink_domain":
        return replace(system, nvlink_domain=int(new))
    if lever in _SYSTEM_FIELDS:
        changes: dict[str, Any] = {_SYSTEM_FIELDS[lever]: new}
        return replace(system, **changes)
    return replace(system, gpu=_scaled_gpu(gpu, lever, factor, new))


def _scaled_gpu(gpu: Gpu, lever: str, factor: float, new: float) -> Gpu:
    changes: dict[str, Any] = {}
    moved: tuple[str, ...] = _THROUGHPUT_KEYS.get(lever, ())
    if lever in _GPU_FIELDS:
        changes[_GPU_FIELDS[lever]] = new
    elif lever == "sm_count":
        changes["sm_count"] = int(new)
        moved = tuple(gpu.peak_dense_flops_per_s)
    elif lever == "sm_clock":
        changes["tensor_clock_hz"] = gpu.tensor_clock_hz * factor
        changes["boost_clock_hz"] = gpu.boost_clock_hz * factor
        moved = tuple(gpu.peak_dense_flops_per_s)
    if moved:
        changes["peak_dense_flops_per_s"] = {
            key: peak * factor if key in moved else peak
            for key, peak in gpu.peak_dense_flops_per_s.items()
        }
    return replace(gpu, **changes)


def _name(base: str, steps: tuple[tuple[str, float], ...]) -> str:
    moved = [f"{lever}=x{factor:.4g}" for lever, factor in steps if factor != 1]
    return f"{base}[{','.join(moved)}]" if moved else base
