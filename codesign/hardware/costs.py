"""Area, power and money of a lever step, per GPU, each with its source and evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign._common.files import data_dir
from codesign._common.text import quoted
from codesign._common.yamlfiles import load_yaml
from codesign.hardware._section import Section
from codesign.hardware.cost_models import FORMULAS, Step, Values
from codesign.hardware.lever_specs import NAMES
from codesign.hardware.levers import lever_value

if TYPE_CHECKING:
    from codesign.hardware.model import System

EVIDENCE = ("measured", "modelled", "assumed")
"""From the strongest to the weakest; a cost is as strong as its weakest input."""
UNITS = ("mm2", "W", "USD")
_KEYS = ("value", "unit", "evidence", "source", "note")
_THROUGHPUTS = {"bf16_throughput": "fp16", "fp8_throughput": "fp8", "fp4_throughput": "fp4"}


@dataclass(frozen=True)
class CostValue:
    """One named input of the cost formulas."""

    value: float
    unit: str
    evidence: str
    source: str
    note: str = ""


@dataclass(frozen=True)
class CostItem:
    """One kind of cost. ``value`` is None where no source gives it, and ``source`` says why."""

    value: float | None
    unit: str
    source: str
    evidence: str
    """``measured``, ``modelled``, ``assumed``; ``unknown`` where there is no value."""


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
    items = [_item(before, after, costs, levers, kind) for kind in range(3)]
    return Cost(*items)


def _item(before: System, after: System, costs: Costs, levers: list[str], kind: int) -> CostItem:
    unit = UNITS[kind]
    if not levers:
        return CostItem(0.0, unit, "nothing moved", "measured")
    total = 0.0
    used: list[str] = []
    for lever in levers:
        values = Values({name: entry.value for name, entry in costs.values.items()})
        term = FORMULAS[lever][kind](Step(before, after, values))
        if isinstance(term, str):
            return CostItem(None, unit, f"{lever}: {term}", "unknown")
        total += term
        used += [name for name in values.used if name not in used]
    if not used:
        return CostItem(total, unit, "difference of the two systems", "modelled")
    evidence = max((costs.values[name].evidence for name in used), key=EVIDENCE.index)
    sources = dict.fromkeys(f"{name}: {costs.values[name].source}" for name in used)
    return CostItem(total, unit, "; ".join(sources), evidence)


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
        values[name] = CostValue(
            value=_number(section),
            unit=unit,
            evidence=section.choice("evidence", EVIDENCE, ""),
            source=section.text("source"),
            note=section.text("note", ""),
        )
    return values


def _number(section: Section) -> float:
    value = section.get("value", "a number")
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value < 0:
        raise DataError(
            f"{section.place('value')}: expected a number of 0 or more, got {quoted(value)}"
        )
    return float(value)
