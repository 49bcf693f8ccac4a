"""Random effects of a silicon family on some parameters of an op model.

A generation may have slower links between its GPUs, or use its wires better, in ways that no
data sheet says. An op model names such effects and the parameters that they move together
(`OpModel.effects`); they are estimated for every family that was trained on, shrunk towards
none by their spread between families. A part of a family that was seen is predicted with
its family's effects; one of a new family with none, and an interval as wide as the spread.

The spread is pooled over the variants of an op model, since a latency between GPUs shows in
every collective, and over few families: so it is shrunk to a stated prior, and its draws are
Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec
import numpy as np

from codesign.sensitivity.estimate import SOFT_L1_SCALE, Block, Estimate, natural
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.op_model import OpModel, Parameter

PRIOR_EFFECT_SD = 0.2
"""Assumed spread of an effect between families (log), worth `PRIOR_FAMILIES` families."""
PRIOR_FAMILIES = 3.0
ROWS_OF_FAMILY = 40.0
"""Independent rows that a family's table is worth for its effects."""
_WIDE_SD = 0.5
"""Spread that lets the data speak before theirs is known."""
_STEP = 1e-3
_ROUNDS = 6


class Effect(msgspec.Struct, frozen=True):
    """One random effect of an op model's variant, on the log scale."""

    name: str
    sd: float
    """Spread between families; 0 where `Between.family_sd` says how a new one may differ."""
    degrees: float
    """Degrees of freedom of the spread: families seen and the prior's worth."""
    moves: tuple[float, ...]
    """(p,) shift of each parameter, on its estimation scale, per unit of the effect."""
    families: dict[str, float]
    """Estimate for every family that was trained on."""
    family_sd: dict[str, float]
    """What is still unsure of those estimates."""


class FamilyFit(msgspec.Struct, frozen=True):
    """Effects of one variant, family by family, before their spread is known."""

    names: tuple[str, ...]
    values: dict[str, tuple[float, ...]]
    sds: dict[str, tuple[float, ...]]
    weights: dict[str, float]
    """How far a family's deviation speaks for the spread: GDDR parts hardly do."""


def loadings(effects: Sequence[Effect]) -> Array:
    """(p, effects) how far each parameter moves, on its estimation scale, per unit of effect."""
    return np.array([effect.moves for effect in effects]).T


def named_moves(model: OpModel, variant: str) -> Array:
    """(p, effects) those of the effects that ``model`` names."""
    moved, parameters = model.effects(variant), model.parameters(variant)
    return np.array([[found.get(p.name, 0.0) for found in moved.values()] for p in parameters])


def fit_families(
    model: OpModel, variant: str, blocks: Sequence[Block], z: Array, names: tuple[str, ...],
    moves: Array, spread: Array,
) -> FamilyFit:  # fmt: skip
    """Effects of every family among ``blocks`` around ``z``, shrunk by ``spread`` (effects,).

    ``moves`` is (p, effects). Gauss-Newton on the log residuals with soft-L1 weights and a
    ridge 1 / spread.
    """
    parameters = model.parameters(variant)
    values: dict[str, tuple[float, ...]] = {}
    sds: dict[str, tuple[float, ...]] = {}
    weights: dict[str, float] = {}
    for family in sorted({b.architecture for b in blocks}):
        own = [b for b in blocks if b.architecture == family]
        found, sd = _one_family(model, parameters, moves, own, z, spread)
        values[family] = tuple(float(v) for v in found)
        sds[family] = tuple(float(v) for v in sd)
        weights[family] = max(b.weight for b in own)
    return FamilyFit(names, values, sds, weights)


def _one_family(
    model: OpModel, parameters: Sequence[Parameter], moves: Array, blocks: Sequence[Block],
    z: Array, spread: Array,
) -> tuple[Array, Array]:  # fmt: skip
    measured = np.log(np.concatenate([b.time_s for b in blocks]))

    def modelled(effect: Array) -> Array:
        theta = natural(parameters, z + moves @ effect)
        return np.concatenate([np.log(model.times(theta, b.features, b.hw)[0]) for b in blocks])

    per_row = ROWS_OF_FAMILY / measured.size / SOFT_L1_SCALE**2
    effect = np.zeros(moves.shape[1])
    information = np.eye(effect.size)
    for _ in range(_ROUNDS):
        base = modelled(effect)
        residual = measured - base
        jacobian = np.column_stack([
            (modelled(effect + step) - base) / _STEP for step in _STEP * np.eye(effect.size)
        ])  # fmt: skip
        weight = per_row / np.sqrt(1.0 + (residual / SOFT_L1_SCALE) ** 2)
        information = (jacobian * weight[:, None]).T @ jacobian + np.diag(spread**-2.0)
        gradient = jacobian.T @ (weight * residual) - effect / spread**2
        move = np.linalg.solve(information, gradient)
        effect = effect + np.clip(move, -0.5, 0.5)
    return effect, np.sqrt(np.diag(np.linalg.inv(information)))


def spread_between(fits: Sequence[FamilyFit]) -> tuple[Array, float]:
    """((effects,) spread between families, degrees of freedom), pooled over variants.

    Deviations are from the weighted mean, with what that mean costs given back; families
    count with their weight. A variant with one family says nothing.
    """
    squares: list[Array] = []
    counts: list[float] = []
    for found in fits:
        weight = np.array([found.weights[f] for f in found.values])
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        if effective < 1.5:
            continue
        effects = np.array(list(found.values.values()))
        share = (weight / weight.sum())[:, None]
        deviation = effects - (share * effects).sum(axis=0)
        squares.append((share * deviation**2).sum(axis=0) * effective / (effective - 1.0))
        counts.append(effective)
    width = len(fits[0].names)
    prior = PRIOR_FAMILIES * np.full(width, PRIOR_EFFECT_SD**2)
    if not squares:
        return np.sqrt(prior / PRIOR_FAMILIES), PRIOR_FAMILIES
    families = float(np.mean(counts)) - 1.0
    pooled = families * np.mean(squares, axis=0)
    return np.sqrt((pooled + prior) / (families + PRIOR_FAMILIES)), families + PRIOR_FAMILIES


def as_effects(fit: FamilyFit, spread: Array, degrees: float, moves: Array) -> tuple[Effect, ...]:
    """The effects as they are kept with a fitted variant."""
    return tuple(
        Effect(
            name=name, sd=float(spread[i]), degrees=degrees,
            moves=tuple(float(v) for v in moves[:, i]),
            families={f: v[i] for f, v in fit.values.items()},
            family_sd={f: v[i] for f, v in fit.sds.items()},
        )
        for i, name in enumerate(fit.names)
    )  # fmt: skip


def family_shift(effects: Sequence[Effect], family: str) -> Array:
    """(effects,) of a family; zeros for one that was not trained on."""
    return np.array([e.families.get(family, 0.0) for e in effects])


def family_sd(effects: Sequence[Effect], family: str) -> Array:
    """(effects,) how unsure a family's effects are; as wide as Student's t for a new one."""
    return np.array([
        e.family_sd[family] if family in e.families else e.sd * student_factor(e.degrees)
        for e in effects
    ])  # fmt: skip


@lru_cache(maxsize=64)
def student_factor(degrees: float) -> float:
    """Half-width of the 90 % interval of Student's t over that of a normal."""
    from scipy.stats import norm, t

    return float(t.ppf(0.95, degrees) / norm.ppf(0.95))


@dataclass(frozen=True)
class WithEffects:
    """One variant: its estimate for a family yet unknown, and what is known of families."""

    found: Estimate
    effects: tuple[Effect, ...]
    adjusted: list[Array]
    """Log residuals of each block once its family's effects are allowed for."""


def add_effects(
    model: OpModel, variants: dict[str, tuple[Sequence[Block], Estimate]]
) -> dict[str, WithEffects]:
    """Effects of every variant of ``model``, their spread pooled over the variants.

    A variant that one family alone measured cannot tell that family from a new one. Its
    family's effects are then those of the other variants, and its parameters move the other
    way: what is exceptional about a family's links is so in all of its libraries.
    """
    moves = {v: named_moves(model, v) for v in variants}
    names = tuple(model.effects(next(iter(variants))))
    wide = np.full(len(names), _WIDE_SD)
    first = {v: fit_families(model, v, blocks, found.z, names, moves[v], wide)
             for v, (blocks, found) in variants.items()}  # fmt: skip
    spread, degrees = spread_between(list(first.values()))
    common = _common([f for f in first.values() if len(f.values) > 1])
    result = {}
    for variant, (blocks, found) in variants.items():
        z = found.z
        families = list(first[variant].values)
        if len(families) == 1 and families[0] in common:
            z = z - moves[variant] @ common[families[0]]
        fit = fit_families(model, variant, blocks, z, names, moves[variant], spread)
        left = residuals_with(model, variant, blocks, z, moves[variant], fit)
        effects = as_effects(fit, spread, degrees, moves[variant])
        result[variant] = WithEffects(replace(found, z=z), effects, left)
    return result


def _common(fits: Sequence[FamilyFit]) -> dict[str, Array]:
    """Median effects of each family over the variants that several families measured."""
    names = {family for fit in fits for family in fit.values}
    return {
        name: np.median([fit.values[name] for fit in fits if name in fit.values], axis=0)
        for name in names
    }


def residuals_with(
    model: OpModel, variant: str, blocks: Sequence[Block], z: Array, moves: Array, fit: FamilyFit
) -> list[Array]:
    """Log residuals of each block with its family's effects."""
    parameters = model.parameters(variant)
    out = []
    for block in blocks:
        theta = natural(parameters, z + moves @ np.array(fit.values[block.architecture]))
        out.append(np.log(block.time_s / model.times(theta, block.features, block.hw)[0]))
    return out
