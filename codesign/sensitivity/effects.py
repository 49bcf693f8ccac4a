"""Random effects of a silicon family, and of its host, on some parameters of an op model.

A generation may have slower links between its GPUs, or use its wires better, in ways that no
data sheet says. An op model names such effects and the parameters that they move together
(`OpModel.effects`); they are estimated for every family that was trained on, shrunk towards
none by their spread between families. A part of a family that was seen is predicted with
its family's effects; one of a new family with none, and an interval as wide as the spread.

The spread is pooled over the variants of an op model, since a latency between GPUs shows in
every collective, and over few families: so it is shrunk to a stated prior, and its draws are
Student's t.

GPUs of one family are attached to different hosts, and what waits for the host takes another
time on each: effects of hosts are nested in those of the family, which are then their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from codesign.sensitivity.estimate import SOFT_L1_SCALE, Block, Estimate, natural
from codesign.sensitivity.hardware_arrays import Array, Kin
from codesign.sensitivity.op_model import OpModel, Parameter

PRIOR_EFFECT_SD = 0.2
"""Assumed spread of an effect between families (log), worth `PRIOR_FAMILIES` families."""
PRIOR_FAMILIES = 3.0
PRIOR_HOST_SD = 0.1
"""Assumed spread between hosts of one family, worth as much."""
ROWS_OF_FAMILY = 40.0
"""Independent rows that a family's table is worth for its effects."""
Sd = Annotated[float, msgspec.Meta(ge=0.0)]
Degrees = Annotated[float, msgspec.Meta(gt=0.0)]
_WIDE_SD = 0.5
"""Spread that lets the data speak before theirs is known."""
_STEP = 1e-3
_ROUNDS = 6


class Doubt(NamedTuple):
    """How unsure an effect is: a normal's spread, or that of Student's t."""

    sd: float
    degrees: float = math.inf

    @property
    def wide_sd(self) -> float:
        """Of the normal with the same 90 % interval."""
        return self.sd * student_factor(self.degrees)


class OfHost(msgspec.Struct, frozen=True):
    """Effect of a family's parts on one host."""

    value: float
    sd: Sd
    """What is still unsure of it."""


class Effect(msgspec.Struct, frozen=True):
    """One random effect of an op model's variant, on the log scale."""

    name: str
    sd: Sd
    """Spread between families; 0 where `Between.family_sd` says how a new one may differ."""
    degrees: Degrees
    """Degrees of freedom of the spread: families seen and the prior's worth."""
    moves: tuple[float, ...]
    """(p,) shift of each parameter, on its estimation scale, per unit of the effect."""
    families: dict[str, float]
    """Estimate for every family that was trained on."""
    family_sd: dict[str, Sd]
    """What is still unsure of those estimates."""
    hosts: dict[str, dict[str, OfHost]] = {}
    """By family and host, where the model names the effect: for `families` stands their mean."""
    host_spread_sd: Sd = 0.0
    """Spread between hosts of one family."""
    host_degrees: Degrees = PRIOR_FAMILIES
    """Degrees of freedom of that spread."""

    def value(self, kin: Kin) -> float:
        """Of its family on its host, else of its family, else none."""
        known = self.hosts.get(kin.family, {}).get(kin.host)
        return known.value if known else self.families.get(kin.family, 0.0)

    def doubts(self, kin: Kin) -> tuple[Doubt, Doubt]:
        """What is unsure of `value`: for all hosts of the family alike, and of the host.

        A new family on a host that others were seen on is no less sure for its host: the spread
        between families is that of parts on hosts.
        """
        known = self.hosts.get(kin.family, {}).get(kin.host)
        if known:
            return Doubt(0.0), Doubt(known.sd)
        of_host = Doubt(self.host_spread_sd, self.host_degrees)
        if kin.family in self.families:
            return Doubt(self.family_sd[kin.family]), of_host
        seen = any(kin.host in hosts for hosts in self.hosts.values())
        return Doubt(self.sd, self.degrees), Doubt(0.0) if seen else of_host


class FamilyFit(msgspec.Struct, frozen=True):
    """Effects of one variant, family by family, before their spread is known."""

    names: tuple[str, ...]
    values: dict[str, tuple[float, ...]]
    sds: dict[str, tuple[float, ...]]
    weights: dict[str, float]
    """How far a family's deviation speaks for the spread: GDDR parts hardly do."""
    hosts: dict[str, dict[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {}
    """(values, sds) of each family's hosts."""

    def of(self, kin: Kin) -> Array:
        """(effects,) of a family on a host that were fitted."""
        hosts = self.hosts.get(kin.family, {})
        return np.array(hosts[kin.host][0] if kin.host in hosts else self.values[kin.family])


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


def fit_hosts(
    model: OpModel, variant: str, blocks: Sequence[Block], z: Array, moves: Array, spread: Array,
    fit: FamilyFit,
) -> FamilyFit:  # fmt: skip
    """``fit`` with the effects of every host, shrunk by ``spread`` to their family's."""
    parameters = model.parameters(variant)
    values, hosts = dict(fit.values), {}
    for family, effect in fit.values.items():
        start, found = z + moves @ np.array(effect), {}
        for host in sorted({b.kin.host for b in blocks if b.architecture == family}):
            own = [b for b in blocks if b.kin == (family, host)]
            found[host] = _one_family(model, parameters, moves, own, start, spread)
        if len(found) == 1:
            hosts[family] = {next(iter(found)): (effect, fit.sds[family])}
            continue
        hosts[family] = {
            host: (tuple(map(float, effect + moved)), tuple(map(float, sd)))
            for host, (moved, sd) in found.items()
        }
        mean = np.mean([moved for moved, _ in found.values()], axis=0)
        values[family] = tuple(map(float, effect + mean))
    return msgspec.structs.replace(fit, values=values, hosts=hosts)


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


def spread_of_hosts(fit: FamilyFit) -> tuple[Array, float]:
    """((effects,) spread between hosts of one family, degrees of freedom) of one variant.

    Not pooled: one library waits for the host and another does not.
    """
    square, degrees = np.zeros(len(fit.names)), 0.0
    for hosts in fit.hosts.values():
        values = np.array([value for value, _ in hosts.values()])
        square += np.square(values - values.mean(axis=0)).sum(axis=0)
        degrees += len(values) - 1
    prior = PRIOR_FAMILIES * PRIOR_HOST_SD**2
    return np.sqrt((square + prior) / (degrees + PRIOR_FAMILIES)), degrees + PRIOR_FAMILIES


def as_effects(
    fit: FamilyFit, spread: Array, degrees: float, moves: Array,
    of_hosts: tuple[Array, float] | None = None,
) -> tuple[Effect, ...]:  # fmt: skip
    """The effects as they are kept with a fitted variant; ``of_hosts`` as `spread_of_hosts`."""
    between, host_degrees = of_hosts or (np.zeros(len(fit.names)), PRIOR_FAMILIES)
    return tuple(
        Effect(
            name=name, sd=float(spread[i]), degrees=degrees,
            moves=tuple(float(v) for v in moves[:, i]),
            families={f: v[i] for f, v in fit.values.items()},
            family_sd={f: v[i] for f, v in fit.sds.items()},
            hosts={
                family: {host: OfHost(v[i], sd[i]) for host, (v, sd) in hosts.items()}
                for family, hosts in fit.hosts.items()
            },
            host_spread_sd=float(between[i]), host_degrees=host_degrees,
        )
        for i, name in enumerate(fit.names)
    )  # fmt: skip


def kin_shift(effects: Sequence[Effect], kin: Kin) -> Array:
    """(effects,) of a family on a host; zeros for a family that was not trained on."""
    return np.array([e.value(kin) for e in effects])


def doubts_of(effects: Sequence[Effect], kins: Sequence[Kin]) -> list[dict[Kin, Array]]:
    """Independent doubts about the effects of ``kins``: the (effects,) sd of those that each moves.

    What is unsure of a family moves its parts on every host together. As wide as Student's t.
    """
    found: dict[tuple[str, ...], dict[Kin, Array]] = {}
    for kin in dict.fromkeys(kins):
        pairs = [effect.doubts(kin) for effect in effects]
        found.setdefault((kin.family,), {})[kin] = np.array([f.wide_sd for f, _ in pairs])
        found[kin] = {kin: np.array([h.wide_sd for _, h in pairs])}
    return [moved for moved in found.values() if any(sd.any() for sd in moved.values())]


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

    def fitted(variant: str, z: Array, spread: Array, of_hosts: Array) -> FamilyFit:
        blocks, moved = variants[variant][0], moves[variant]
        fit = fit_families(model, variant, blocks, z, names, moved, spread)
        return fit_hosts(model, variant, blocks, z, moved, of_hosts, fit)

    first = {v: fitted(v, found.z, wide, wide) for v, (_, found) in variants.items()}
    spread, degrees = spread_between(list(first.values()))
    of_hosts = {v: spread_of_hosts(fit) for v, fit in first.items()}
    common = _common([f for f in first.values() if len(f.values) > 1])
    result = {}
    for variant, (blocks, found) in variants.items():
        z = found.z
        kins = {b.kin for b in blocks}
        alone = next(iter(kins)) if len(kins) == 1 else Kin(blocks[0].architecture, "")
        if len(first[variant].values) == 1 and alone in common:
            z = z - moves[variant] @ common[alone]
        fit = fitted(variant, z, spread, of_hosts[variant][0])
        left = residuals_with(model, variant, blocks, z, moves[variant], fit)
        effects = as_effects(fit, spread, degrees, moves[variant], of_hosts[variant])
        result[variant] = WithEffects(replace(found, z=z), effects, left)
    return result


def _common(fits: Sequence[FamilyFit]) -> dict[Kin, Array]:
    """Median effects of each family, and of each of its hosts, over the variants of several."""
    found: dict[Kin, list[Array]] = {}
    for fit in fits:
        for family in fit.values:
            for host in ("", *fit.hosts[family]):
                kin = Kin(family, host)
                found.setdefault(kin, []).append(fit.of(kin))
    return {kin: np.median(values, axis=0) for kin, values in found.items()}


def residuals_with(
    model: OpModel, variant: str, blocks: Sequence[Block], z: Array, moves: Array, fit: FamilyFit
) -> list[Array]:
    """Log residuals of each block with the effects of its family and host."""
    parameters = model.parameters(variant)
    out = []
    for block in blocks:
        theta = natural(parameters, z + moves @ fit.of(block.kin))
        out.append(np.log(block.time_s / model.times(theta, block.features, block.hw)[0]))
    return out
