"""Costs of lever steps as an older file has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.levers import Pricer
    from codesign.recommend.ranked import Ranked
    from codesign.recommend.schema import Cost, Recommendations

_COSTS_SHOWN = 4
"""Steps of which the change is said; of the others, how many they are."""


def old_costs(old: Recommendations, now: Ranked, price: Pricer) -> tuple[Pricer, tuple[str, ...]]:
    """Costs of steps as the older file has them, and what differs of them, a line a step."""
    known = {
        (x.lever, round(math.log(p.factor), 9)): p.cost for x in old.levers for p in x.points
    }  # fmt: skip

    def old_price(system: System) -> Cost | None:
        lever, factor = system.levers[-1]
        key = (lever, round(math.log(factor), 9))
        return known[key] if key in known else price(system)

    lines = []
    for result in now.results:
        for point in result.points:
            key = (result.lever, round(math.log(point.factor), 9))
            if key in known and (said := _cost_change(known[key], point.cost)):
                lines.append(f"{result.title} {point.label.partition(':')[0]}: {said}")
    more = len(lines) - _COSTS_SHOWN
    shown = lines[:_COSTS_SHOWN] + ([f"{more} more steps"] if more > 0 else [])
    return old_price, tuple(shown)


def _cost_change(before: Cost | None, after: Cost | None) -> str:
    said = []
    for kind in ("area", "power", "money"):
        left, right = (None if c is None else getattr(c, kind) for c in (before, after))
        values = [None if item is None else item.value for item in (left, right)]
        unit = next((item.unit for item in (right, left) if item is not None), "")
        if not _same(*values):
            shown = ["none" if v is None else f"{v:.4g}" for v in values]
            said.append(f"{kind} {shown[0]} -> {shown[1]} {unit}")
    return ", ".join(said)


def _same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9)
