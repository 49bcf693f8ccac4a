"""Area, power and money of a lever step, per GPU, each with its source and evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import DataError
from codesign._common.files import data_dir
from codesign._common.text import quoted
from codesign._common.yamlfiles import load_yaml
from codesign.hardware._section import Section
from codesign.hardware.cost_models import FORMULAS, Step, Values
from codesign.hardware.cost_ranges import RANGE_DRAWS, draw_inputs
from codesign.hardware.lever_specs import NAMES, shipped_levers
from codesign.hardware.levers import lever_value

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

EVIDENCE = ("measured", "modelled", "assumed")
"""From the strongest to the weakest; a cost is as strong as its weakest input."""
UNITS = {"area": "mm2", "power": "W", "money": "USD"}
COST_KINDS = tuple(UNITS)
"""In the order of a lever's formulas."""
BOUNDS = ("central", "lower", "upper")
_KEYS = ("value", "unit", "evidence", "source", "note", "bound", "low", "high", "range")
_THROUGHPUTS = {"bf16_throughput": "fp16", "fp8_throughput": "fp8", "fp4_throughput": "fp4"}


@dataclass(frozen=True)
class CostValue:
    """One named input of the cost formulas."""

    value: float
    unit: str
    evidence: str
    source: str
    note: str = ""
    bound: str = "central"
    """``lower`` or ``upper`` where the value is an end of what it can be."""
    low: float | None = None
    """With ``high`` the range that sources leave open; None where none of them gives it."""
    high: float | None = None
    range_source: str = ""


@dataclass(frozen=True)
class CostItem:
    """One kind of cost. ``value`` is None where no source gives it, and ``source`` says why."""

    value: float | None
    unit: str
    source: str
    evidence: str
    """``measured``, ``modelled``, ``assumed``; ``unknown`` where there is no value."""
    bound: str = "central"
    """``lower`` or ``upper`` where bounds among its inputs make it an end of its range."""
    lo: float | None = None
    """With ``hi`` the 90 % range over what its inputs leave open."""
    hi: float | None = None


@dataclass(frozen=True)
class Cost:
    """What a step costs per GPU; negative where the step saves."""

    area: CostItem
    """mm2 of silicon on the GPU."""
    power: CostItem
    """W at full rate."""
    money: CostItem
    """USD of components."""


@dataclass(frozen=True)
class Costs:
    """The values that the formulas take, by name."""

    values: Mapping[str, CostValue]


def load_costs(path: str | Path | None = None) -> Costs:
    """The shipped cost values, with those of the user's file at ``path`` over them.

    An overriding entry gives ``value``, ``source`` and ``evidence``; the unit must
    be that of the shipped one. Raises DataError naming file and key path.
    """
    shipped = _shipped()
    if path is None:
        return shipped
    merged = dict(shipped.values)
    merged.update(_read(Path(path), known=shipped.values))
    return Costs(MappingProxyType(merged))


def moved_levers(before: System, after: System) -> list[str]:
    """Levers whose quantity differs between two systems, in the order of the lever list.

    Throughput counts only as far as SM count and clock do not explain it.
    """
    step = Step(before, after, Values({}))
    moved = []
    for lever in NAMES:
        if lever in _THROUGHPUTS:
            ratio = step.rate_ratio(_THROUGHPUTS[lever])
        else:
            ratio = lever_value(after, lever) / lever_value(before, lever)
        if abs(ratio - 1) > 1e-9:
            moved.append(lever)
    return moved


def cost_of(before: System, after: System, costs: Costs) -> Cost:
    """What moving from ``before`` to ``after`` costs per GPU.

    Sums the moved levers. A kind of cost that one of them has no public figure for
    is None, since a sum that leaves it out would flatter the step.
    """
    levers = moved_levers(before, after)
    items = [_item(before, after, costs, levers, kind) for kind in COST_KINDS]
    return Cost(*items)


def cost_draws(
    before: System, after: System, kind: str, inputs: Mapping[str, Array]
) -> Array | None:
    """(draws,) one of `COST_KINDS` of a step over drawn ``inputs``.

    None where it has no public figure. Draws of `cost_ranges.draw_inputs` are shared by
    all levers, so that two which rest on one value are dear together.
    """
    total: Array | float = 0.0
    for lever in moved_levers(before, after):
        formula = FORMULAS[lever][COST_KINDS.index(kind)]
        term = formula(Step(before, after, Values(dict(inputs))))
        if isinstance(term, str):
            return None
        total = total + term
    size = max((np.size(v) for v in inputs.values()), default=1)
    return np.broadcast_to(np.asarray(total, dtype=np.float64), (size,))


def die_note(before: System, area: CostItem, costs: Costs) -> str:
    """What a step means for the die, where it outgrows one exposure; else empty.

    The area is added in equal parts to the compute dies of the package.
    """
    gpu, limit = before.gpu, costs.values["reticle_area"].value
    if gpu.die_area_mm2 is None or area.value is None or area.value <= 0:
        return ""
    grown = gpu.die_area_mm2 + area.value / gpu.die_count
    if grown <= limit:
        return ""
    each = f"{gpu.die_count} dies of " if gpu.die_count > 1 else "the die of "
    return (
        f"needs another die: {each}{gpu.die_area_mm2:,.0f} mm2 would grow to {grown:,.0f} mm2, and "
        f"one exposure ends at {limit:,.0f}; its package is not in the cost"
    )


def title_of(name: str) -> str:
    """A cost value's name for a reader: ``HBM PHY area per stack``."""
    return " ".join(_ACRONYMS.get(word, word) for word in name.split("_"))


_ACRONYMS = {
    "hbm": "HBM", "phy": "PHY", "sm": "SM", "tdp": "TDP", "l2": "L2", "nvlink": "NVLink",
    "pcie": "PCIe", "fp8": "FP8", "fp4": "FP4", "mb": "MB", "scaleout": "scale-out",
}  # fmt: skip


def _item(before: System, after: System, costs: Costs, levers: list[str], kind: str) -> CostItem:
    unit = UNITS[kind]
    if not levers:
        return CostItem(0.0, unit, "nothing moved", "measured", lo=0.0, hi=0.0)
    total = 0.0
    used: list[str] = []
    for lever in levers:
        values = Values({name: entry.value for name, entry in costs.values.items()})
        term = FORMULAS[lever][COST_KINDS.index(kind)](Step(before, after, values))
        if isinstance(term, str):
            # One lever speaks for itself; of several, say which.
            which = f"{shipped_levers()[lever].title}: " if len(levers) > 1 else ""
            return CostItem(None, unit, which + term, "unknown")
        total += float(term)
        used += [name for name in values.used if name not in used]
    if not used:
        return CostItem(
            total, unit, "difference of the two systems", "modelled", lo=total, hi=total
        )
    evidence = max((costs.values[name].evidence for name in used), key=EVIDENCE.index)
    sources = dict.fromkeys(f"{title_of(name)}: {costs.values[name].source}" for name in used)
    drawn = cost_draws(before, after, kind, draw_inputs(costs.values, RANGE_DRAWS, 0))
    assert drawn is not None  # every term above is a number
    lo, hi = np.quantile(drawn, [0.05, 0.95])
    return CostItem(
        total, unit, "; ".join(sources), evidence,
        _bound({costs.values[name].bound for name in used}, total, float(lo), float(hi)),
        min(float(lo), total), max(float(hi), total),
    )  # fmt: skip


def _bound(kinds: set[str], total: float, lo: float, hi: float) -> str:
    """An end of the range, if an input is a bound and the others do not undo it."""
    if kinds == {"central"}:
        return "central"
    slack = 0.01 * abs(total)
    if lo >= total - slack:
        return "lower"
    return "upper" if hi <= total + slack else "central"


@cache
def _shipped() -> Costs:
    return Costs(MappingProxyType(_read(data_dir("hwspecs") / "costs.yaml", known=None)))


def _read(path: Path, known: Mapping[str, CostValue] | None) -> dict[str, CostValue]:
    top = Section(str(path), load_yaml(path))
    if known is not None:
        top.allow(sorted(known))
    values = {}
    for name in top.values:
        section = top.section(name)
        section.allow(_KEYS)
        unit = section.text("unit", known[name].unit if known else "")
        if known and unit != known[name].unit:
            raise DataError(
                f"{section.place('unit')}: {quoted(unit)}; expected {known[name].unit!r}"
            )
        low, high = _range(section)
        values[name] = CostValue(
            value=_number(section, "value"),
            unit=unit,
            evidence=section.choice("evidence", EVIDENCE, ""),
            source=section.text("source"),
            note=section.text("note", ""),
            bound=section.choice("bound", BOUNDS, "central"),
            low=low,
            high=high,
            range_source=section.text("range", ""),
        )
        _check_range(values[name], section)
    return values


def _range(section: Section) -> tuple[float | None, float | None]:
    given = [key for key in ("low", "high") if section.values.get(key) is not None]
    if not given:
        return None, None
    if len(given) == 1 or not section.text("range", ""):
        raise DataError(f"{section.place('low')}: low, high and range (its source) go together")
    return _number(section, "low"), _number(section, "high")


def _check_range(entry: CostValue, section: Section) -> None:
    if entry.low is None or entry.high is None:
        return
    ends = {"lower": entry.low, "upper": entry.high}
    if not entry.low <= entry.value <= entry.high:
        raise DataError(
            f"{section.place('low')}: the value {entry.value:g} is not in its range, "
            f"{entry.low:g} to {entry.high:g}"
        )
    if entry.value != ends.get(entry.bound, entry.value):
        raise DataError(
            f"{section.place('bound')}: a value that is the {entry.bound} bound is that end of "
            f"its range, {entry.low:g} to {entry.high:g}"
        )


def _number(section: Section, key: str) -> float:
    value = section.get(key, "a number")
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value < 0:
        raise DataError(
            f"{section.place(key)}: expected a number of 0 or more, got {quoted(value)}"
        )
    return float(value)
