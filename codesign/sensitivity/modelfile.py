"""The sensitivity model file: one JSON document, versioned."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from codesign._common.errors import DataError
from codesign._common.files import read_bytes, write_bytes
from codesign.sensitivity.between import Between
from codesign.sensitivity.hardware_arrays import Array

SCHEMA_VERSION = 7


class Identification(msgspec.Struct, frozen=True):
    """Whether the data of an op class tell what a lever does."""

    status: str
    """``identified``, ``alias``, ``assumed`` or ``no_effect``."""
    reason: str
    alias: str | None = None
    """Lever that it moves together with in the training data."""


class Score(msgspec.Struct, frozen=True):
    """In-sample fit over the sampled rows; held-out scores are a backtest's."""

    n: int
    median_ape: float
    mape: float
    bias: float
    """Median of modelled / measured - 1."""
    by_gpu: dict[str, float]
    """Median APE of each GPU."""
    bias_by_gpu: dict[str, float]


class Unit(msgspec.Struct, frozen=True):
    """One fitted parameter set: an op model in one variant."""

    model: str
    variant: str
    form: str
    """First line of the op model's description."""
    parameters: tuple[str, ...]
    values: tuple[float, ...]
    """Natural units."""
    z: tuple[float, ...]
    """Estimation scale; ``covariance`` is on it."""
    covariance: tuple[tuple[float, ...], ...]
    draws: tuple[tuple[float, ...], ...]
    """Parameter draws on the estimation scale that the training data allow."""
    between: Between
    gpus: tuple[str, ...]
    rows_seen: int
    condition_number: float
    rank: int
    score: Score
    at_bound: tuple[str, ...]
    """Parameters that ended on a bound: the data ask for more than physics allows."""
    framework: str = ""
    """Framework whose rows were fitted; the model's own, or that whose kernels they are."""

    @property
    def key(self) -> tuple[str, str]:
        """(op model, variant)."""
        return self.model, self.variant

    def z_array(self) -> Array:
        """(p,) parameters on the estimation scale."""
        return np.array(self.z)

    def draws_array(self) -> Array:
        """(draws, p) stored draws on the estimation scale."""
        return np.array(self.draws)

    def covariance_array(self) -> Array:
        """(p, p) covariance on the estimation scale."""
        return np.array(self.covariance)


class ModelFile(msgspec.Struct, frozen=True):
    """Everything that a fitted model knows."""

    trained_on: tuple[str, ...]
    excluded: tuple[str, ...]
    framework: str
    source: str
    seed: int
    units: tuple[Unit, ...]
    identifiability: dict[str, dict[str, Identification]]
    """Lever -> op model -> identification."""
    assumptions: dict[str, str]
    kind: str = "codesign sensitivity model"
    schema_version: int = SCHEMA_VERSION


def write_model(model: ModelFile, path: Path) -> None:
    """Write ``model`` as indented JSON, wholly or not at all."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(model), indent=1) + b"\n")


def read_model(path: Path) -> ModelFile:
    """Read a model file. Raises DataError naming the file and what is wrong with it."""
    try:
        model = msgspec.json.decode(read_bytes(path), type=ModelFile)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not a sensitivity model: {error}; make one: codesign fit") from (
            error
        )
    if model.schema_version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema version {model.schema_version}, expected {SCHEMA_VERSION}; "
            "fit it anew: codesign fit"
        )
    for unit in model.units:
        wrong = _disagreement(unit)
        if wrong:
            raise DataError(
                f"{path}: unit {unit.model}/{unit.variant}: {wrong}; fit it anew: codesign fit"
            )
    return model


def _disagreement(unit: Unit) -> str:
    """What of ``unit`` contradicts the rest of it; empty where nothing does."""
    size = len(unit.parameters)
    shapes = {len(unit.values), len(unit.z), len(unit.covariance)}
    effects = unit.between.effects
    rows = (*unit.covariance, *unit.draws, *(effect.moves for effect in effects))
    if not unit.draws or shapes | {len(row) for row in rows} != {size}:
        return "sizes disagree"
    if len({effect.name for effect in effects}) < len(effects):
        return "an effect stands twice"
    for effect in effects:
        known = effect.families.keys()
        if known != effect.family_sd.keys() or (effect.hosts and known != effect.hosts.keys()):
            return f"{effect.name}: families, family_sd and hosts are of different families"
    return ""
