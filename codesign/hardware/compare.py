"""Quantities of a GPU or a system as rows: for tables, for JSON, for differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign._common.units import format_si

if TYPE_CHECKING:
    from codesign.hardware.model import Gpu, System


@dataclass(frozen=True)
class Quantity:
    """One value of a specification."""

    path: str
    """Key path of the YAML; those of a system's GPU start with ``gpu.``."""
    value: float | str | bool
    """SI, or text."""
    unit: str
    text: str
    """The value as a person reads it."""
    label: str
    """``read``, or how far the value is to be trusted."""
    source: str
    note: str


@dataclass(frozen=True)
class Difference:
    """One quantity of two specifications. ``ratio`` is b / a for numbers."""

    path: str
    a: str
    b: str
    ratio: float | None
    moved: bool


def gpu_quantities(gpu: Gpu) -> list[Quantity]:
    """Every quantity of a GPU."""
    values: dict[str, tuple[float | str, str]] = {
        "architecture": (gpu.architecture, ""),
        "sm_count": (gpu.sm_count, ""),
        "clocks.tensor": (gpu.tensor_clock_hz, "Hz"),
        "clocks.boost": (gpu.boost_clock_hz, "Hz"),
    }
    if gpu.dies > 1:
        values["dies"] = (gpu.dies, "")
    values |= {
        f"peak_dense.{key}": (peak, "FLOP/s") for key, peak in gpu.peak_dense_flops_per_s.items()
    }
    values |= {
        "memory.capacity": (gpu.hbm_capacity_bytes, "B"),
        "memory.bandwidth": (gpu.hbm_bandwidth_bytes_per_s, "B/s"),
    }
    if gpu.hbm_stacks:
        values["memory.stacks"] = (gpu.hbm_stacks, "")
    values["l2.capacity"] = (gpu.l2_capacity_bytes, "B")
    if gpu.die_area_mm2:
        values |= {"die.area_mm2": (gpu.die_area_mm2, "mm2"), "die.count": (gpu.die_count, "")}
    if gpu.nvlink_links:
        values["nvlink.links"] = (gpu.nvlink_links, "")
    values["nvlink.bandwidth_per_direction"] = (gpu.nvlink_bandwidth_bytes_per_s, "B/s")
    values["power"] = (gpu.power_w, "W")
    return _rows(values, gpu.labels, gpu.sources, gpu.notes)


def system_quantities(system: System) -> list[Quantity]:
    """Every quantity of a system, without those of its GPU."""
    values: dict[str, tuple[float | str, str]] = {
        "gpu": (system.gpu.name, ""),
        "nvlink_domain": (system.nvlink_domain, "GPUs"),
        "nvlink_bandwidth_per_direction": (system.nvlink_bandwidth_bytes_per_s, "B/s"),
        "scaleout_bandwidth_per_direction": (system.scaleout_bandwidth_bytes_per_s, "B/s"),
        "launch_latency": (system.launch_latency_s, "s"),
        "in_switch_reduction": (system.in_switch_reduction, ""),
    }
    if system.host:
        values["host"] = (system.host, "")
    return _rows(values, system.labels, system.sources, system.notes)


def differences(a: list[Quantity], b: list[Quantity]) -> list[Difference]:
    """The quantities of ``a`` and ``b`` side by side, in the order of ``a``."""
    left, right = {q.path: q for q in a}, {q.path: q for q in b}
    return [_difference(path, left.get(path), right.get(path)) for path in {**left, **right}]


def _difference(path: str, a: Quantity | None, b: Quantity | None) -> Difference:
    ratio = None
    if a and b and _number(a.value) and _number(b.value) and a.value:
        ratio = float(b.value) / float(a.value)
    moved = a is None or b is None or a.value != b.value
    return Difference(path, a.text if a else "none", b.text if b else "none", ratio, moved)


def _number(value: float | str | bool) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rows(
    values: Mapping[str, tuple[float | str, str]],
    labels: Mapping[str, str],
    sources: Mapping[str, str],
    notes: Mapping[str, str],
) -> list[Quantity]:
    return [
        Quantity(
            path=path,
            value=value,
            unit=unit,
            text=_text(value, unit),
            label=labels.get(path, "read" if path in sources else "no source"),
            source=sources.get(path, ""),
            note=notes.get(path, notes.get(path.split(".")[0], "")),
        )
        for path, (value, unit) in values.items()
    ]


def _text(value: float | str, unit: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    # Four digits, so that 1830 MHz and 989.4 TFLOP/s stay themselves.
    plain = unit in ("", "GPUs", "mm2")
    return f"{value:g} {unit}".strip() if plain else format_si(value, unit, 4)
