"""Rows of one parameter set: their times with a family's effects, and their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.model import System
from codesign.sensitivity.between import Between
from codesign.sensitivity.draws import Draws
from codesign.sensitivity.effects import family_sd, family_shift, loadings, student_factor
from codesign.sensitivity.estimate import natural
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays, family, hardware_arrays
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
    """The unit is that of another variant: the own one was never measured."""

    def theta(self, z: Array, effects: Array) -> Array:
        """Natural parameters at ``z`` with the (effects,) of a family."""
        moved = z + self.moves @ effects if effects.size else z
        return natural(self.model.parameters(self.unit.variant), moved)

    @cached_property
    def moves(self) -> Array:
        """(p, effects) shift of each parameter per unit of a family's effect."""
        return loadings(self.model, self.unit.variant, self.model.parameters(self.unit.variant))

    def shifts(self, hw: HardwareArrays) -> dict[str, Array]:
        """Point estimates of the effects of every family in ``hw``."""
        effects = self.unit.between.effects
        return {name: family_shift(effects, name) for name in families_of(hw)}

    def times(self, z: Array, hw: HardwareArrays, shifts: Mapping[str, Array]) -> Array:
        """(systems, ops) seconds of one call, each system with its family's effects."""
        families = families_of(hw)
        if len(set(families)) == 1 or not self.unit.between.effects:
            theta = self.theta(z, shifts[families[0]])
            return self.model.times(theta, self.features, hw)
        out = np.empty((len(families), len(next(iter(self.features.values())))))
        for name in dict.fromkeys(families):
            rows = [i for i, other in enumerate(families) if other == name]
            theta = self.theta(z, shifts[name])
            out[rows] = self.model.times(theta, self.features, hw.rows(rows))
        return out


def predict_part(
    part: Part, system: System, source: System | None, held: Array, draws: Draws
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """(log seconds per step, shared sd, own sd, transferred) of the rows of ``part``."""
    systems = [system] if source is None else [system, source]
    hw = hardware_arrays(systems)
    z, shifts = part.unit.z_array(), part.shifts(hw)
    log_model = np.log(part.times(z, hw, shifts) * part.count)
    spread = np.stack([
        np.log(part.times(v, hw, shifts)) for v in draws.z[part.unit.key]
    ])  # fmt: skip
    b = part.unit.between
    stand_in = 1.5 if part.stand_in else 1.0
    seen = system.gpu.name in part.unit.gpus
    shared = spread[:, 0].var(axis=0) + _effects_var(part, z, hw, 0.0)
    shared = shared + (0.0 if seen else _family_var(b) + b.gpu_sd**2)
    own = np.full(part.rows.size, b.residual_sd**2)
    none = np.zeros(part.rows.size, dtype=np.bool_)
    if source is None:
        return log_model[0], stand_in * np.sqrt(shared), stand_in * np.sqrt(own), none
    measured = held[part.rows]
    known = measured > 0
    doubt = spread[:, -1].var(axis=0) + _effects_var(part, z, hw.rows([1]), 0.0)
    carry = _carry_over(part.unit, system, source, doubt)
    residual = np.where(known, np.log(np.where(known, measured, 1.0)) - log_model[1], 0.0)
    if system.gpu.name == source.gpu.name:
        step_sd = b.gain_sd * np.abs(log_model[0] - log_model[1])
        moved, left = step_sd**2, np.zeros(part.rows.size)
    else:
        drawn = (spread[:, 0] - carry.exponent * spread[:, 1]).var(axis=0)
        drawn = drawn + _effects_var(part, z, hw, carry.exponent)
        moved = np.minimum(drawn, spread[:, 0].var(axis=0) + _effects_var(part, z, hw, 0.0))
        moved, left = moved + carry.shared_var, np.full(part.rows.size, carry.own_var)
    shared, own = np.where(known, moved, shared), np.where(known, left, own)
    log_time = log_model[0] + carry.exponent * residual
    return log_time, stand_in * np.sqrt(shared), stand_in * np.sqrt(own), known


@dataclass(frozen=True)
class _Carry:
    """How a residual gets from one GPU to another."""

    exponent: Array
    """(ops,)"""
    shared_var: float
    """Variance that all ops share, of the GPUs."""
    own_var: float
    """Variance of an op's own behaviour."""


def _carry_over(unit: Unit, system: System, source: System, doubt: Array) -> _Carry:
    """``doubt`` is the (ops,) variance of the source's modelled log time.

    Inside a family the part of a residual that belongs to the GPU carries over whole: all that
    a family never trained on has of its own. What is left is the op's.
    """
    b = unit.between
    one = np.ones_like(doubt)
    if system.gpu.name == source.gpu.name:
        return _Carry(one, 0.0, 0.0)
    if family(system.gpu.architecture) == family(source.gpu.architecture):
        common = doubt + (0.0 if source.gpu.name in unit.gpus else _family_var(b))
        share = common / (common + b.residual_sd**2)
        exponent = share + (1.0 - share) * b.carry_same
        return _Carry(exponent, b.gpu_sd**2 / 4, b.transfer_sd_same**2)
    exponent = b.carry_cross * one
    return _Carry(exponent, _family_var(b) + b.gpu_sd**2, b.transfer_sd_cross**2)


def _family_var(b: Between) -> float:
    """Variance of a new family's common factor, as wide as Student's t."""
    return (b.family_sd * student_factor(b.family_degrees)) ** 2


def families_of(hw: HardwareArrays) -> list[str]:
    """Silicon family of each system."""
    return [family(name) for name in hw.architectures]


def _effects_var(part: Part, z: Array, hw: HardwareArrays, carry: Array | float) -> Array:
    """(ops,) variance of log time on system 0, less ``carry`` x that on system 1, by effects.

    Each effect is moved by its standard deviation; on two systems of one family together.
    """
    effects = part.unit.between.effects
    total = np.zeros(part.rows.size)
    if not effects:
        return total
    families, base = families_of(hw), part.shifts(hw)
    before = np.log(part.times(z, hw, base))
    for name in dict.fromkeys(families):
        for index, sd in enumerate(family_sd(effects, name)):
            moved = base[name].copy()
            moved[index] += sd
            after = np.log(part.times(z, hw, base | {name: moved}))
            change = after - before
            total += (change[0] - (carry * change[1] if len(families) > 1 else 0.0)) ** 2
    return total
