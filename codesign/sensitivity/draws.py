"""Joint draws of everything that a fitted model is unsure of."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

from codesign.sensitivity.effects import Doubt
from codesign.sensitivity.hardware_arrays import Array, Kin, family
from codesign.sensitivity.modelfile import Unit
from codesign.sensitivity.training import UnitKey


@dataclass(frozen=True)
class Draws:
    """``n`` joint draws, shared by all ops, so that errors of one kind do not average out."""

    n: int
    seed: int
    z: dict[UnitKey, Array]
    """(n, p) parameters on the estimation scale, by unit."""
    gain: dict[UnitKey, Array]
    """(n,) factor on the log gain of a lever step, by unit; one normal per op model."""
    clock_share: Array
    """(n,) share of a lever's clock that tensor-bound kernels sustain, the same for all ops."""

    def gpu_effect(self, unit: Unit, gpu: str, architecture: str) -> Array:
        """(n,) log effect of a GPU on a unit's times: its family's, beyond its level, and its own.

        The normals belong to the op model, so that all precisions of a GPU move together.
        """
        name, own, b = unit.model, family(architecture), unit.between
        by_family = self._normal(f"family/{name}/{own}")
        by_gpu = self._normal(f"gpu/{name}/{gpu}")
        if own in b.levels:
            by_family = b.levels[own].sd * by_family
        else:
            chi = self._chi(f"family/{name}/{own}", b.family_degrees)
            by_family = b.family_sd * by_family / chi
        result: Array = by_family + b.gpu_sd * by_gpu
        return result

    def effects(self, unit: Unit, kin: Kin) -> Array:
        """(n, effects) of a silicon family on a host: its own, or Student's t if it is new."""
        columns = []
        for effect in unit.between.effects:
            what = f"effect/{unit.model}/{effect.name}/{kin.family}"
            of_family, of_host = effect.doubts(kin)
            drawn = self._drawn(what, of_family) + self._drawn(f"{what}/{kin.host}", of_host)
            columns.append(effect.value(kin) + drawn)
        return np.column_stack(columns) if columns else np.zeros((self.n, 0))

    def _drawn(self, what: str, doubt: Doubt) -> Array:
        if not doubt.sd:
            return np.zeros(self.n)
        normal = doubt.sd * self._normal(what)
        return normal if math.isinf(doubt.degrees) else normal / self._chi(what, doubt.degrees)

    def _chi(self, what: str, degrees: float) -> Array:
        """(n,) divisor that makes a normal Student's t."""
        rng = np.random.default_rng([self.seed, zlib.crc32(f"chi/{what}".encode())])
        return np.sqrt(rng.chisquare(degrees, self.n) / degrees)

    def _normal(self, what: str) -> Array:
        return _normal(self.seed, what, self.n)


def draw(units: tuple[Unit, ...], n: int, seed: int) -> Draws:
    """``n`` draws from the fitted distribution of ``units``."""
    z, gain = {}, {}
    for unit in units:
        rng = np.random.default_rng([seed, zlib.crc32(f"{unit.model}/{unit.variant}".encode())])
        stored = unit.draws_array()
        # Every stored draw before any comes twice.
        order = np.concatenate([rng.permutation(len(stored)) for _ in range(n // len(stored) + 1)])
        z[unit.key] = stored[order[:n]]
        gain[unit.key] = np.exp(unit.between.gain_sd * _normal(seed, f"gain/{unit.model}", n))
    share = np.random.default_rng([seed, zlib.crc32(b"clock_share")]).random(n)
    return Draws(n, seed, z, gain, share)


def _normal(seed: int, what: str, n: int) -> Array:
    return np.random.default_rng([seed, zlib.crc32(what.encode())]).standard_normal(n)
