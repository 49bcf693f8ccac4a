"""What a GPU costs as it is: what a step's cost is to be held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codesign.hardware.cost_models import Values, usd_per_good_mm2

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.hardware.model import System

_GB = 1e9


class BaselineCost(NamedTuple):
    """One kind of cost of a GPU; ``value`` is None where it is not known."""

    value: float | None
    source: str


def baseline_cost(system: System, costs: Costs, kind: str) -> BaselineCost:
    """Cost of the GPU of ``system``: area in mm2, power in W, money in USD of components.

    Money is what the step costs price as well: good silicon at its cost for each mm2, and HBM.
    Neither package nor board nor margin is in it.
    """
    gpu = system.gpu
    if kind == "power":
        return BaselineCost(gpu.power_w, "power limit of the GPU")
    if gpu.die_area_mm2 is None:
        return BaselineCost(None, "the area of the die is not known")
    area_mm2 = gpu.die_area_mm2 * gpu.die_count
    if kind == "area":
        return BaselineCost(area_mm2, "area of the compute dies")
    values = Values({name: entry.value for name, entry in costs.values.items()})
    if not gpu.hbm_stacks:
        return BaselineCost(None, "no price of GDDR was found")
    silicon = float(area_mm2 * usd_per_good_mm2(values))
    memory = gpu.hbm_capacity_bytes / _GB * float(values["hbm_price"])
    return BaselineCost(silicon + memory, "silicon of the compute dies and HBM at the same prices")
