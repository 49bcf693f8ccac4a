"""Formulas of the lever costs: what each moved quantity takes in area, power and money.

A formula returns a `Term`, or a string that says why there is no public figure.
Inputs are the named values of ``hwspecs/costs.yaml``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

_GB = 1e9
_PJ_PER_BIT = 8e-12
"""J per byte at 1 pJ/bit."""


class Values:
    """The cost values by name, or (draws,) of each, noting which were used."""

    def __init__(self, values: Mapping[str, float | Array]) -> None:
        self._values = values
        self.used: list[str] = []

    def __getitem__(self, name: str) -> Array:
        if name not in self.used:
            self.used.append(name)
        return np.asarray(self._values[name], dtype=np.float64)


@dataclass(frozen=True)
class Step:
    """The two systems of a step, and the values to cost it by."""

    before: System
    after: System
    values: Values

    def rate_ratio(self, key: str) -> float:
        """Growth of a dense peak that neither SM count nor clock explains."""
        old, new = self.before.gpu, self.after.gpu
        if key not in old.peak_dense_flops_per_s or key not in new.peak_dense_flops_per_s:
            return 1.0
        peak = new.peak_dense_flops_per_s[key] / old.peak_dense_flops_per_s[key]
        return peak / (new.sm_count / old.sm_count) / (new.tensor_clock_hz / old.tensor_clock_hz)


Term = float | Array | str
"""A cost, or (draws,) of it, or why there is none."""
Formula = Callable[[Step], Term]


def usd_per_good_mm2(values: Values) -> Array:
    """Cost of 1 mm2 of a die without defects, in USD.

    Gross dies = pi r^2 / A - 2 pi r / sqrt(2 A) with A the die and its scribe line and r
    the usable radius; negative binomial yield (both as in Chiplet Actuary).
    """
    area_mm2 = values["die_area"]
    cell_mm2 = (area_mm2**0.5 + values["scribe_width"]) ** 2
    radius_mm = values["wafer_diameter"] / 2 - values["wafer_edge"]
    gross = math.pi * radius_mm**2 / cell_mm2 - 2 * math.pi * radius_mm / (2 * cell_mm2) ** 0.5
    alpha = values["yield_alpha"]
    good = (1 + values["defect_density"] * area_mm2 / 100 / alpha) ** -alpha
    return np.asarray(values["wafer_price"] / (gross * good) / area_mm2)


def hbm_stacks(step: Step) -> Array:
    """Whole stacks of the part's own kind that a step adds, by bandwidth; below 0 if it drops some.

    ``hbm_stack_price_share`` says how much of the bandwidth comes as stacks.
    """
    old, new = step.before.gpu, step.after.gpu
    needed = (old.hbm_stacks or 0) * (
        new.hbm_bandwidth_bytes_per_s / old.hbm_bandwidth_bytes_per_s - 1
    )
    # Less the rounding of the factor: twice 5 stacks is 5 more, never 6.
    return np.asarray(np.ceil(needed * step.values["hbm_stack_price_share"] - 1e-9))


def _hbm_area(step: Step) -> Term:
    if not step.before.gpu.hbm_stacks:
        return "the part has no HBM stacks, and no area of a GDDR interface was found"
    v = step.values
    return hbm_stacks(step) * (v["hbm_phy_area_per_stack"] + v["hbm_controller_area_per_stack"])


def _hbm_power(step: Step) -> Term:
    moved = step.after.gpu.hbm_bandwidth_bytes_per_s - step.before.gpu.hbm_bandwidth_bytes_per_s
    return moved * step.values["hbm_energy"] * _PJ_PER_BIT


def _hbm_memory_money(step: Step) -> Array:
    """Memory bought: the larger of the added capacity and the capacity of added stacks."""
    old, new, v = step.before.gpu, step.after.gpu, step.values
    capacity_gb = (new.hbm_capacity_bytes - old.hbm_capacity_bytes) / _GB
    stacks_gb = np.zeros(())
    if old.hbm_stacks and new.hbm_bandwidth_bytes_per_s != old.hbm_bandwidth_bytes_per_s:
        stacks_gb = hbm_stacks(step) * (old.hbm_capacity_bytes / old.hbm_stacks / _GB)
    # One purchase brings both, so a step that moves both does not pay twice.
    bought_gb = np.where(np.abs(capacity_gb) >= np.abs(stacks_gb), capacity_gb, stacks_gb)
    return np.asarray(bought_gb * v["hbm_price"])


def _hbm_money(step: Step) -> Term:
    area = _hbm_area(step)
    if isinstance(area, str):
        return "no price of GDDR bandwidth was found"
    return area * usd_per_good_mm2(step.values) + _hbm_memory_money(step)


def _capacity_money(step: Step) -> Term:
    old, new = step.before.gpu, step.after.gpu
    if not old.hbm_stacks:
        return "no price of GDDR was found"
    if new.hbm_bandwidth_bytes_per_s != old.hbm_bandwidth_bytes_per_s:
        return 0.0  # counted once, with the stacks that bring the bandwidth
    return _hbm_memory_money(step)


def _sm_area(step: Step) -> Term:
    added = step.after.gpu.sm_count - step.before.gpu.sm_count
    return added * (step.values["sm_area"] + step.values["crossbar_area_per_sm"])


def _sm_power(step: Step) -> Term:
    old = step.before.gpu
    added = step.after.gpu.sm_count / old.sm_count - 1
    return added * old.power_w * step.values["sm_share_of_tdp"]


def _clock_power(step: Step) -> Term:
    old, new = step.before.gpu, step.after.gpu
    ratio = new.tensor_clock_hz / old.tensor_clock_hz
    share = step.values["sm_share_of_tdp"]
    return old.power_w * share * (ratio ** step.values["power_exponent_of_clock"] - 1)


def _l2_area(step: Step) -> Term:
    added = step.after.gpu.l2_capacity_bytes - step.before.gpu.l2_capacity_bytes
    return added / 1e6 * step.values["l2_area_per_mb"]


def _tensor_area(key: str, share: str | None) -> Formula:
    def area(step: Step) -> Term:
        part = step.values[share] if share else 1.0
        tensor_mm2 = step.before.gpu.sm_count * step.values["tensor_area_per_sm"]
        return tensor_mm2 * part * (step.rate_ratio(key) - 1)

    return area


def _tensor_power(key: str) -> Formula:
    def power(step: Step) -> Term:
        share = step.values["tensor_share_of_tdp"]
        return step.before.gpu.power_w * share * (step.rate_ratio(key) - 1)

    return power


def _nvlink_added(step: Step) -> float:
    return step.after.nvlink_bandwidth_bytes_per_s - step.before.nvlink_bandwidth_bytes_per_s


def _nvlink_area(step: Step) -> Term:
    if not step.before.gpu.nvlink_links:
        return "the part has no NVLink, and no area of another scale-up link was found"
    v = step.values
    links = _nvlink_added(step) / (v["nvlink_phy_rate"] * _GB)
    return links * (v["nvlink_phy_area_per_link"] + v["nvlink_controller_area_per_link"])


def _nvlink_power(step: Step) -> Term:
    v = step.values
    return _nvlink_added(step) * v["nvlink_energy"] * _PJ_PER_BIT * v["nvlink_ends"]


def _nvlink_money(step: Step) -> Term:
    area = _nvlink_area(step)
    if isinstance(area, str):
        return "no price of scale-up links was found"
    return area * step.values["nvlink_ends"] * usd_per_good_mm2(step.values)


def _scaleout_added(step: Step) -> float:
    return step.after.scaleout_bandwidth_bytes_per_s - step.before.scaleout_bandwidth_bytes_per_s


def _scaleout_area(step: Step) -> Term:
    lanes = _scaleout_added(step) / (step.values["pcie_rate_per_lane"] * _GB)
    return lanes * step.values["pcie_area_per_lane"]


def _scaleout_power(step: Step) -> Term:
    return _scaleout_added(step) * step.values["scaleout_energy"] * _PJ_PER_BIT


def _power_power(step: Step) -> Term:
    return step.after.gpu.power_w - step.before.gpu.power_w


def _silicon(area: Formula) -> Formula:
    """Money of an area at the cost of good silicon."""

    def money(step: Step) -> Term:
        term = area(step)
        return term if isinstance(term, str) else term * usd_per_good_mm2(step.values)

    return money


def _unknown(reason: str) -> Formula:
    return lambda _: reason


# FP16 moves with BF16 and, unlike it, exists on every part.
_BF16_AREA = _tensor_area("fp16", None)
_FP8_AREA = _tensor_area("fp8", "fp8_share_of_tensor_area")
_FP4_AREA = _tensor_area("fp4", "fp4_share_of_tensor_area")

# lever -> (area in mm2, power in W at full rate, money in USD)
FORMULAS: dict[str, tuple[Formula, Formula, Formula]] = {
    "hbm_bandwidth": (_hbm_area, _hbm_power, _hbm_money),
    "hbm_capacity": (
        _unknown("taller stacks take no area of the GPU in this model; package area was not found"),
        _unknown("no power of added DRAM capacity at equal bandwidth was found"),
        _capacity_money,
    ),
    "sm_count": (_sm_area, _sm_power, _silicon(_sm_area)),
    "sm_clock": (
        _unknown("no area of a faster clock was found"),
        _clock_power,
        _unknown("no price of a faster clock was found"),
    ),
    "l2_capacity": (
        _l2_area,
        _unknown("no power of added L2 was found"),
        _silicon(_l2_area),
    ),
    "bf16_throughput": (_BF16_AREA, _tensor_power("fp16"), _silicon(_BF16_AREA)),
    "fp8_throughput": (_FP8_AREA, _tensor_power("fp8"), _silicon(_FP8_AREA)),
    "fp4_throughput": (_FP4_AREA, _tensor_power("fp4"), _silicon(_FP4_AREA)),
    "nvlink_bandwidth": (_nvlink_area, _nvlink_power, _nvlink_money),
    "nvlink_domain": (
        _unknown("no area of the switches of a larger domain was found"),
        _unknown("no power of the switches and cables of a larger domain was found"),
        _unknown("no price of the switches and cables of a larger domain was found"),
    ),
    "scaleout_bandwidth": (
        _scaleout_area,
        _scaleout_power,
        _unknown("no price of NICs, optics and switches was found"),
    ),
    "launch_latency": (
        _unknown("launch latency is firmware and front end; no area was found"),
        _unknown("launch latency is firmware and front end; no power was found"),
        _unknown("launch latency is firmware and front end; no price was found"),
    ),
    "power": (
        _unknown("power delivery is not on the die; no area was found"),
        _power_power,
        _unknown("no price of power delivery and cooling per watt was found"),
    ),
}
