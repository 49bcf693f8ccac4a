"""What a statistician asks of a fit: residuals, leverage, bounds, conditioning, coverage.

The training rows are gathered again, the same as in the fit, and every fitted unit is looked
at where it was fitted: its residuals are in-sample. What it does on a GPU that it has not seen
is a backtest's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from codesign._common.errors import UsageError
from codesign._common.scores import Z_90
from codesign.hardware import system_of_gpu
from codesign.sensitivity.effects import kin_shift, loadings
from codesign.sensitivity.estimate import ROWS_WORTH, SOFT_L1_SCALE, VAGUE_PRIOR_SD, Block, natural
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.model import SensitivityModel
from codesign.sensitivity.modelfile import Identification, Unit
from codesign.sensitivity.op_model import OpModel
from codesign.sensitivity.registry import MODELS
from codesign.sensitivity.training import ROWS_PER_GPU, TrainingSource, gather

POINTS = 160
"""Residuals kept of a unit for its plot."""
_STEP = 1e-3
_NOT_RESOURCES = frozenset({"time", "host"})


class ParameterRow(msgspec.Struct, frozen=True):
    """One parameter in natural units."""

    name: str
    meaning: str
    value: float
    lo: float
    """90 % interval from the parameter's standard error, inside its bounds."""
    hi: float
    standard_error: float
    """On the estimation scale: relative, where the parameter is positive."""
    prior_sd: float
    """Of the ridge, on the same scale: an error as large says that the prior decided."""
    at_bound: bool


class GroupRow(msgspec.Struct, frozen=True):
    """Residuals of rows that belong together: a GPU, a binding resource, a size."""

    name: str
    n: int
    median_ape: float
    p90_ape: float
    bias: float
    """Median of modelled / measured - 1."""
    coverage_90: float
    """Share of rows inside +-1.645 x the spread of ops in families that were trained on."""
    leverage: float
    """Sum of the rows' leverages: of how many parameters these rows decide."""


class Point(msgspec.Struct, frozen=True):
    """One training row."""

    gpu: str
    time_s: float
    error: float
    """modelled / measured - 1."""


class UnitDiagnostics(msgspec.Struct, frozen=True):
    """One fitted parameter set."""

    model: str
    variant: str
    form: str
    n: int
    rows_seen: int
    """Before sampling."""
    parameters: tuple[ParameterRow, ...]
    condition_number: float
    rank: int
    family_sd: float
    gpu_sd: float
    residual_sd: float
    known_sd: float
    method: str
    levels: dict[str, float]
    """Log factor of each family's effects and level on its own rows, in the middle; of each of
    its hosts where there are several."""
    by_gpu: tuple[GroupRow, ...]
    by_resource: tuple[GroupRow, ...]
    by_size: tuple[GroupRow, ...]
    points: tuple[Point, ...]

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Names of the parameters on a bound."""
        return tuple(p.name for p in self.parameters if p.at_bound)


class Diagnostics(msgspec.Struct, frozen=True):
    """Every unit of a model, and which levers its data tell apart."""

    trained_on: tuple[str, ...]
    excluded: tuple[str, ...]
    framework: str
    source: str
    units: tuple[UnitDiagnostics, ...]
    identifiability: dict[str, dict[str, Identification]]
    assumptions: dict[str, str]


def diagnose(
    model: SensitivityModel,
    db: TrainingSource,
    *,
    models: Sequence[OpModel] = MODELS,
    rows_per_gpu: int = ROWS_PER_GPU,
) -> Diagnostics:
    """Diagnostics of ``model`` on the rows of ``db`` that it was fitted to.

    ``models`` and ``rows_per_gpu`` are those of the fit. Raises UsageError if ``db`` lacks a
    GPU that the model was fitted on.
    """
    content = model.content
    absent = sorted(set(content.trained_on) - set(db.gpus()))
    if absent:
        raise UsageError(f"diagnostics: no tables of {', '.join(absent)}, which the fit had")
    systems = [system_of_gpu(g) for g in db.gpus() if g in content.trained_on]
    gathered = gather(db, systems, models, content.framework, rows_per_gpu)
    by_name = {m.name: m for m in models}
    units = []
    for unit in content.units:
        blocks = gathered.blocks.get(unit.key, [])
        if unit.model in by_name and blocks:
            units.append(_unit(by_name[unit.model], unit, blocks))
    return Diagnostics(
        content.trained_on, content.excluded, content.framework, content.source, tuple(units),
        content.identifiability, content.assumptions,
    )  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    """All rows of a unit, block after block."""

    gpu: Array
    """(rows,) name of the GPU."""
    time_s: Array
    residual: Array
    """log(measured / modelled)"""
    leverage: Array
    resource: Array
    """(rows,) name of the resource that takes most of the modelled time."""
    levels: dict[str, float]
    """Median log factor of each family's effects and level."""


def _unit(model: OpModel, unit: Unit, blocks: Sequence[Block]) -> UnitDiagnostics:
    rows = _rows(model, unit, blocks)
    size = np.floor(np.log10(rows.time_s)).astype(int)
    names = np.array([_decade(d) for d in size])
    order = [_decade(d) for d in sorted(set(size.tolist()))]
    sd = unit.between.known_sd
    return UnitDiagnostics(
        model=unit.model, variant=unit.variant, form=unit.form, n=int(rows.time_s.size),
        rows_seen=unit.rows_seen, parameters=_parameters(model, unit),
        condition_number=unit.condition_number, rank=unit.rank,
        family_sd=unit.between.family_sd, gpu_sd=unit.between.gpu_sd,
        residual_sd=unit.between.residual_sd, known_sd=sd, method=unit.between.method,
        levels=rows.levels,
        by_gpu=_groups(rows, rows.gpu, [b.gpu for b in blocks], sd),
        by_resource=_groups(rows, rows.resource, sorted(set(rows.resource.tolist())), sd),
        by_size=_groups(rows, names, order, sd), points=_points(rows),
    )  # fmt: skip


def _rows(model: OpModel, unit: Unit, blocks: Sequence[Block]) -> _Rows:
    """Residuals with each family's effects and level, and leverages in the weighted, ridged fit."""
    parameters = model.parameters(unit.variant)
    moves = loadings(unit.between.effects)
    z = unit.z_array()
    ridge = np.array([1.0 / (p.prior_sd or VAGUE_PRIOR_SD) for p in parameters])
    residuals, jacobians, weights, resources = [], [], [], []
    moved: dict[str, list[Array]] = {}
    for block in blocks:
        effects = kin_shift(unit.between.effects, block.kin)
        shift = moves @ effects if effects.size else np.zeros_like(z)

        level = unit.between.level(block.architecture)

        def log_times(
            at: Array, block: Block = block, shift: Array = shift, level: float = level
        ) -> Array:
            theta = natural(parameters, at + shift)
            return np.asarray(level + np.log(model.times(theta, block.features, block.hw)[0]))

        base = log_times(z)
        kin = _kin(unit, block)
        moved.setdefault(kin, []).append(base - log_times(z - shift) + level)
        residual = np.log(block.time_s) - base
        steps = _STEP * np.eye(z.size)
        jacobians.append(np.column_stack([(log_times(z + s) - base) / _STEP for s in steps]))
        worth = ROWS_WORTH * block.weight / block.time_s.size / SOFT_L1_SCALE**2
        weights.append(worth / np.sqrt(1.0 + (residual / SOFT_L1_SCALE) ** 2))
        residuals.append(residual)
        terms = model.terms(natural(parameters, z + shift), block.features, block.hw)
        names = np.array([name for name in terms if name not in _NOT_RESOURCES])
        stacked = np.stack([np.broadcast_to(terms[n], (1, base.size))[0] for n in names])
        resources.append(names[stacked.argmax(axis=0)])
    jacobian, weight = np.concatenate(jacobians), np.concatenate(weights)
    information = jacobian.T @ (jacobian * weight[:, None]) + np.diag(ridge**2)
    leverage = weight * np.einsum("ij,ij->i", jacobian @ np.linalg.inv(information), jacobian)
    return _Rows(
        gpu=np.concatenate([np.full(b.time_s.size, b.gpu) for b in blocks]),
        time_s=np.concatenate([b.time_s for b in blocks]),
        residual=np.concatenate(residuals), leverage=leverage, resource=np.concatenate(resources),
        levels={name: float(np.median(np.concatenate(m))) for name, m in sorted(moved.items())},
    )  # fmt: skip


def _kin(unit: Unit, block: Block) -> str:
    """The family of a block, and its host where others of the family are on another."""
    family, host = block.kin
    several = any(len(effect.hosts.get(family, {})) > 1 for effect in unit.between.effects)
    return f"{family} on {host or 'a host not said'}" if several else family


def _parameters(model: OpModel, unit: Unit) -> tuple[ParameterRow, ...]:
    errors = np.sqrt(np.diag(unit.covariance_array()))
    return tuple(
        ParameterRow(
            p.name, p.meaning, value, float(p.from_scale(z - Z_90 * sd)),
            float(p.from_scale(z + Z_90 * sd)),
            float(sd), p.prior_sd or VAGUE_PRIOR_SD, p.name in unit.at_bound,
        )
        for p, value, z, sd in zip(
            model.parameters(unit.variant), unit.values, unit.z, errors, strict=True
        )
    )  # fmt: skip


def _groups(rows: _Rows, names: Array, order: Sequence[str], sd: float) -> tuple[GroupRow, ...]:
    found = []
    for name in order:
        mine = names == name
        error = np.exp(-rows.residual[mine]) - 1.0
        found.append(GroupRow(
            str(name), int(mine.sum()), float(np.median(np.abs(error))),
            float(np.quantile(np.abs(error), 0.9)), float(np.median(error)),
            float(np.mean(np.abs(rows.residual[mine]) <= Z_90 * sd)),
            float(rows.leverage[mine].sum()),
        ))  # fmt: skip
    return tuple(found)


def _points(rows: _Rows) -> tuple[Point, ...]:
    """An even sample of the rows, the same every time."""
    some = np.unique(np.linspace(0, rows.time_s.size - 1, POINTS).astype(int))
    return tuple(
        Point(str(rows.gpu[i]), float(rows.time_s[i]), float(np.expm1(-rows.residual[i])))
        for i in some
    )


def _decade(power: int) -> str:
    """``10 us to 100 us`` of -5."""
    return f"{_seconds(power)} to {_seconds(power + 1)}"


def _seconds(power: int) -> str:
    scale = {0: "s", -3: "ms", -6: "us", -9: "ns"}
    unit = max(u for u in scale if u <= min(power, 0)) if power >= -9 else -9
    return f"{10 ** (power - unit):g} {scale[unit]}"
