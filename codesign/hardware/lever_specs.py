"""Titles, units, step sizes and bounds of the levers, from ``hwspecs/levers.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign._common.files import data_dir
from codesign._common.units import parse_quantity
from codesign._common.yamlfiles import load_yaml
from codesign.hardware._section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = (
    "hbm_bandwidth", "hbm_capacity", "sm_count", "sm_clock", "l2_capacity", "bf16_throughput",
    "fp8_throughput", "fp4_throughput", "nvlink_bandwidth", "nvlink_domain",
    "scaleout_bandwidth", "launch_latency", "power",
)  # fmt: skip
UNITS = ("byte", "byte/s", "flop/s", "hertz", "second", "watt", "SMs", "GPUs")
_KEYS = ("title", "unit", "better", "steps", "maximum", "maximum_reason", "description")


@dataclass(frozen=True)
class Lever:
    """One hardware quantity that an architect can change."""

    name: str
    title: str
    unit: str
    """As ``parse_quantity`` takes it; ``SMs`` and ``GPUs`` are whole numbers."""
    better: str
    """``up``, or ``down`` where a factor below 1 is the improvement."""
    steps: tuple[float, ...]
    """Default factors of a study, from the smallest change to the largest."""
    maximum: float
    """Bound of the value itself, in SI; beyond it the lever is refused."""
    maximum_reason: str
    description: str

    @property
    def counts(self) -> bool:
        """Whether the value is a whole number."""
        return self.unit in ("SMs", "GPUs")


def read_levers(path: Path) -> Mapping[str, Lever]:
    """Levers of a file. Raises DataError naming file and key path."""
    top = Section(str(path), load_yaml(path))
    top.allow(NAMES)
    return MappingProxyType({name: _lever(top.section(name), name) for name in NAMES})


@cache
def shipped_levers() -> Mapping[str, Lever]:
    """The levers that the package ships."""
    return read_levers(data_dir("hwspecs") / "levers.yaml")


def _lever(section: Section, name: str) -> Lever:
    section.allow(_KEYS)
    unit = section.choice("unit", UNITS, "")
    better = section.choice("better", ("up", "down"), "")
    if unit in ("SMs", "GPUs"):
        maximum = float(section.integer("maximum", 1, 1_000_000))
    else:
        maximum = parse_quantity(section.get("maximum", unit), unit, section.place("maximum"))
    return Lever(
        name=name,
        title=section.text("title"),
        unit=unit,
        better=better,
        steps=_steps(section, better),
        maximum=maximum,
        maximum_reason=section.text("maximum_reason"),
        description=section.text("description"),
    )


def _steps(section: Section, better: str) -> tuple[float, ...]:
    steps = section.get("steps", "a list of factors")
    good = isinstance(steps, list) and all(
        isinstance(s, float | int) and not isinstance(s, bool) for s in steps
    )
    if not good or not steps or sorted(steps, reverse=better == "down") != steps:
        raise DataError(f"{section.place('steps')}: expected factors, smallest change first")
    if any(not (s > 1 if better == "up" else 0 < s < 1) for s in steps):
        side = "above 1" if better == "up" else "between 0 and 1"
        raise DataError(f"{section.place('steps')}: better is {better}, so factors are {side}")
    return tuple(float(s) for s in steps)
