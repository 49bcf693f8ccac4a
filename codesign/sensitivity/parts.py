"""Rows of one parameter set: their times with a family's effects, and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.model import System
from codesign.sensitivity.draws import Draws
from codesign.sensitivity.effects import doubts_of, kin_shift, loadings
from codesign.sensitivity.estimate import natural
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays, Kin, hardware_arrays, kin
from codesign.sensitivity.modelfile import Unit
from codesign.sensitivity.op_model import Features, OpModel


@dataclass(frozen=True)
class Part:
    """Rows of an ops table that one unit covers."""

    rows: NDArray[np.intp]
    model: OpModel
    unit: Unit
    features: Features
    count: Array
    stand_in: bool
    """The unit is that of another precision: the own one was never measured."""
    strange: bool
    """The unit is that of another family of kernels, or was fitted on GDDR parts alone: no
    training GPU with HBM ran the own one."""
    lent: tuple[float, ...] = ()
    """Natural values of the variant that `OpModel.lender` names; empty where none is needed."""

    def theta(self, z: Array, effects: Array) -> Array:
        """Natural parameters at ``z`` with the (effects,) of a family."""
        moved = z + self.moves @ effects if effects.size else z
        own = natural(self.model.parameters(self.unit.variant), moved)
        return np.concatenate([own, self.lent]) if self.lent else own

    @cached_property
    def moves(self) -> Array:
        """(p, effects) shift of each parameter per unit of a family's effect."""
        return loadings(self.unit.between.effects)

    def shifts(self, hw: HardwareArrays) -> dict[Kin, Array]:
        """Point estimates of the effects of every family and host in ``hw``."""
        effects = self.unit.between.effects
        return {one: kin_shift(effects, one) for one in hw.kins}

    def times(self, z: Array, hw: HardwareArrays, shifts: Mapping[Kin, Array]) -> Array:
        """(systems, ops) seconds of one call, each system with its own effects and level."""
        kins = hw.kins
        levels = np.array([[self.unit.between.level(one.family)] for one in kins])
        if len(set(kins)) == 1 or not self.unit.between.effects:
            theta = self.theta(z, shifts[kins[0]])
            whole: Array = self.model.times(theta, self.features, hw) * np.exp(levels)
            return whole
        out = np.empty((len(kins), len(next(iter(self.features.values())))))
        for one in dict.fromkeys(kins):
            rows = [i for i, other in enumerate(kins) if other == one]
            theta = self.theta(z, shifts[one])
            own = self.model.times(theta, self.features, hw.rows(rows))
            out[rows] = own * np.exp(levels[rows])
        return out


@dataclass(frozen=True)
class Predicted:
    """Rows of a part on one system; all (ops,)."""

    log_time: Array
    """Of the seconds per step."""
    shared_sd: Array
    """What the GPU is unsure of, for all ops of the part alike."""
    region_sd: Array
    """What ops of neighbouring shapes share."""
    own_sd: Array
    """What is an op's own."""
    transferred: NDArray[np.bool_]

    @property
    def sd(self) -> Array:
        """Of all together."""
        return np.sqrt(self.shared_sd**2 + self.region_sd**2 + self.own_sd**2)


STAND_IN = 1.5
"""Assumed: how much wider an interval is where the precision has no fit of its own."""


def predict_part(
    part: Part, system: System, source: System | None, held: Array, draws: Draws
) -> Predicted:
    """The rows of ``part`` on ``system``, carried over from ``source`` where it measured them."""
    systems = [system] if source is None else [system, source]
    hw = hardware_arrays(systems)
    z, shifts = part.unit.z_array(), part.shifts(hw)
    log_model = np.log(part.times(z, hw, shifts) * part.count)
    spread = np.stack([
        np.log(part.times(v, hw, shifts)) for v in draws.z[part.unit.key]
    ])  # fmt: skip
    b = part.unit.between
    wide = STAND_IN if part.stand_in else 1.0
    strange, strange_own = (b.kernel_sd, b.kernel_own_sd) if part.strange else (0.0, 0.0)
    seen = system.gpu.name in part.unit.gpus
    shared = spread[:, 0].var(axis=0) + _effects_var(part, z, hw, 0.0) + strange**2
    family = kin(system).family
    shared = shared + (0.0 if seen else b.level_sd(family) ** 2 + b.gpu_sd**2)
    size = part.rows.size
    region = np.full(size, b.region_sd(family) ** 2 + strange_own**2)
    own = np.full(size, b.alone_sd(family) ** 2)
    if source is None:
        none = np.zeros(size, dtype=np.bool_)
        return Predicted(
            log_model[0], wide * np.sqrt(shared), wide * np.sqrt(region), wide * np.sqrt(own), none
        )
    measured = held[part.rows]
    known = measured > 0
    doubt = spread[:, -1].var(axis=0) + _effects_var(part, z, hw.rows([1]), 0.0)
    doubt = doubt + strange**2 + strange_own**2
    carry = _carry_over(part, system, source, doubt)
    residual = np.where(known, np.log(np.where(known, measured, 1.0)) - log_model[1], 0.0)
    if system.gpu.name == source.gpu.name:
        step_sd = b.gain_sd * np.abs(log_model[0] - log_model[1])
        moved = step_sd**2
    else:
        drawn = (spread[:, 0] - carry.exponent * spread[:, 1]).var(axis=0)
        drawn = drawn + _effects_var(part, z, hw, carry.exponent)
        moved = np.minimum(drawn, spread[:, 0].var(axis=0) + _effects_var(part, z, hw, 0.0))
        moved = moved + carry.shared_var
    shared, region, own = (
        np.where(known, carried, spec_only) for carried, spec_only in
        ((moved, shared), (carry.region_var, region), (carry.own_var, own))
    )  # fmt: skip
    log_time = log_model[0] + carry.exponent * residual
    return Predicted(
        log_time, wide * np.sqrt(shared), wide * np.sqrt(region), wide * np.sqrt(own), known
    )


@dataclass(frozen=True)
class _Carry:
    """How a residual gets from one GPU to another."""

    exponent: Array
    """(ops,)"""
    shared_var: float
    """Variance that all ops share, of the GPUs."""
    region_var: float
    """Variance that neighbouring shapes share."""
    own_var: float
    """Variance of an op's own behaviour."""


def _carry_over(part: Part, system: System, source: System, doubt: Array) -> _Carry:
    """``doubt`` is the (ops,) variance of the source's modelled log time.

    Inside a family the part of a residual that belongs to the GPU carries over whole: all that
    a family never trained on has of its own, and what its own kernels do. What is left is the
    op's, as neighbouring shapes carry over alike.
    """
    unit, b = part.unit, part.unit.between
    one = np.ones_like(doubt)
    if system.gpu.name == source.gpu.name:
        return _Carry(one, 0.0, 0.0, 0.0)
    family = kin(system).family
    if family == kin(source).family:
        common = doubt + (0.0 if source.gpu.name in unit.gpus else b.level_sd(family) ** 2)
        share = common / (common + b.op_sd(family) ** 2)
        exponent = share + (1.0 - share) * b.carry_same
        return _Carry(exponent, b.gpu_sd**2 / 4.0, 0.0, b.transfer_sd_same**2)
    exponent = b.carry_cross * one
    region = max(b.transfer_sd_cross**2 - b.nugget_sd**2, 0.0)
    own = min(b.nugget_sd, b.transfer_sd_cross) ** 2
    shared, more = b.level_sd(family) ** 2 + b.gpu_sd**2, 0.0
    if part.strange:
        shared, more = shared + b.kernel_sd**2, b.kernel_own_sd**2
    return _Carry(exponent, shared, region + more, own)


def _effects_var(part: Part, z: Array, hw: HardwareArrays, carry: Array | float) -> Array:
    """(ops,) variance of log time on system 0, less ``carry`` x that on system 1, by effects.

    Each effect is moved by its standard deviation; on systems that share the doubt together.
    """
    effects = part.unit.between.effects
    total = np.zeros(part.rows.size)
    if not effects:
        return total
    base = part.shifts(hw)
    before = np.log(part.times(z, hw, base))
    for doubt in doubts_of(effects, hw.kins):
        for index in range(len(effects)):
            moved = {one: values.copy() for one, values in base.items()}
            for one, sd in doubt.items():
                moved[one][index] += sd[index]
            after = np.log(part.times(z, hw, moved))
            change = after - before
            total += (change[0] - (carry * change[1] if len(hw.kins) > 1 else 0.0)) ** 2
    return total
