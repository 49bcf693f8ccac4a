"""Fitting: training tables -> `SensitivityModel`, for every op model that has rows."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
import numpy as np

from codesign._common.errors import InsufficientDataError, UsageError, one_of
from codesign.hardware import system_of_gpu
from codesign.sensitivity.between import PRIOR_GPUS, between_gpus, nugget
from codesign.sensitivity.effects import WithEffects, add_effects, kin_shift, loadings
from codesign.sensitivity.estimate import Block, Estimate, estimate, natural
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.identify import identify
from codesign.sensitivity.kernels import VENDOR, Spread, split_kernel, stranger_spread
from codesign.sensitivity.model import SensitivityModel
from codesign.sensitivity.modelfile import ModelFile, Score, Unit
from codesign.sensitivity.op_model import POWER_CLOCK_EXPONENT, OpModel
from codesign.sensitivity.plausible import plausible_draws
from codesign.sensitivity.principal import add_deviations
from codesign.sensitivity.registry import MODELS
from codesign.sensitivity.training import (
    ROWS_PER_GPU,
    Gathered,
    TrainingSource,
    UnitKey,
    gather,
)

ASSUMPTIONS = {
    "power": f"sustained clock ~ power^{POWER_CLOCK_EXPONENT:.3g}, on tensor-bound time only",
    "lasting_clock": f"multiplies of milliseconds hold a clock ~ (watts / (peak x energy of a FLOP "
    f"x clock^2))^{POWER_CLOCK_EXPONENT:.3g}; energies by process",
    "highest_clock": "multiplies that no limit on power slows run at the device's highest clock; "
    "an announced part's is that of its peaks",
    "block_scaling": "where instructions scale blocks and no GPU of the fit does, fp8_block "
    "multiplies at bf16's rates; its cast is as fitted",
    "mla_cache": "with tensor memory MLA over an fp8 cache multiplies in fp8",
    "sm_clock": "tensor-bound time follows a lever's clock by half, 0 to 1 drawn: power limits",
    "launch_latency": "fixed time of the smallest kernel; the fitted launches scale it",
    "hbm_efficiency": "prior 0.87 +- 5 %, from published STREAM triads on A100, H100, H200",
    "hbm_capacity": "no effect on the time of an op at a fixed configuration",
}


def fit(
    db: TrainingSource,
    exclude: Sequence[str] = (),
    seed: int = 0,
    *,
    gpus: Sequence[str] | None = None,
    framework: str = "trtllm",
    rows_per_gpu: int = ROWS_PER_GPU,
    models: Sequence[OpModel] = MODELS,
) -> SensitivityModel:
    """Fit every op model to the tables of ``db``, never reading an excluded GPU.

    ``gpus`` limits the training set, by default all GPUs with tables. ``seed`` is kept
    with the model for its draws; the fit itself is deterministic. Raises UsageError for
    a GPU without tables, InsufficientDataError if nothing is left to fit.
    """
    known = db.gpus()
    for name in [*exclude, *(gpus or [])]:
        if name not in known:
            raise UsageError(one_of("GPU with measured kernels", name, known))
    chosen = [g for g in (gpus or known) if g not in set(exclude)]
    if not chosen:
        raise InsufficientDataError("no GPU is left to fit on; exclude fewer")
    systems = [system_of_gpu(g) for g in chosen]
    gathered = gather(db, systems, models, framework, rows_per_gpu)
    units: list[Unit] = []
    evidence: dict[UnitKey, tuple[OpModel, Sequence[Block], Estimate]] = {}
    for model in models:
        fitted = _fit_model(model, gathered)
        spread = _kernel_spread(model, fitted, gathered)
        for variant, (blocks, extra) in fitted.items():
            evidence[model.name, variant] = (model, blocks, extra.found)
            units.append(_unit(model, variant, (blocks, extra), gathered, spread))
    units = pooled_spreads(units)
    if not units:
        raise InsufficientDataError(
            f"no op class has enough rows for {framework} on {', '.join(chosen)}"
        )
    return SensitivityModel(
        ModelFile(
            trained_on=tuple(sorted({g for u in units for g in u.gpus})),
            excluded=tuple(exclude),
            framework=framework,
            source=str(getattr(db, "name", type(db).__name__)),
            seed=seed,
            units=tuple(units),
            identifiability=identify(list(evidence.values())),
            assumptions=ASSUMPTIONS,
        ),
        models=models,
    )


Fitted = tuple[Sequence[Block], WithEffects]


def _fit_model(model: OpModel, gathered: Gathered) -> dict[str, Fitted]:
    """Every variant of ``model`` that has rows enough, with the effects of families."""
    variants = [v for (name, v) in gathered.blocks if name == model.name]
    estimates: dict[str, tuple[Sequence[Block], Estimate]] = {}
    # Stand-ins first: a variant starts from, and is held near, what it falls back to.
    for variant in sorted(variants, key=lambda v: _order(model, v)):
        blocks = gathered.blocks[model.name, variant]
        parameters = model.parameters(variant)
        if sum(b.time_s.size for b in blocks) < 2 * len(parameters):
            continue
        near = [estimates[v][1].z for v in model.fallbacks(variant) if v in estimates]
        prior = near[0] if near else None
        estimates[variant] = blocks, estimate(model, parameters, blocks, prior=prior)
    if not estimates:
        return {}
    named = any(model.effects(variant) for variant in estimates)
    added = (add_effects if named else add_deviations)(model, estimates)
    return {v: (estimates[v][0], extra) for v, extra in added.items()}


def _order(model: OpModel, variant: str) -> tuple[bool, int, str]:
    return split_kernel(variant)[1] != VENDOR, len(model.fallbacks(variant)), variant


def _kernel_spread(model: OpModel, fitted: dict[str, Fitted], gathered: Gathered) -> Spread:
    """How kernel families of ``model`` differ, from all rows that name theirs."""
    known = {v: (blocks, extra.found) for v, (blocks, extra) in fitted.items()}
    every = {v: list(blocks) for v, (blocks, _) in fitted.items()}
    for (name, variant), blocks in gathered.strangers.items():
        if name == model.name:
            every.setdefault(variant, []).extend(blocks)
    return stranger_spread(model, known, every)


def _nugget(
    model: OpModel, variant: str, blocks: Sequence[Block], extra: WithEffects
) -> float | None:
    """What not even the nearest shapes share, with the effects of each block's family and host."""
    parameters = model.parameters(variant)
    moves = loadings(extra.effects)
    modelled, beside = [], []
    for block in blocks:
        shift = kin_shift(extra.effects, block.kin)
        theta = natural(parameters, extra.found.z + moves @ shift)
        modelled.append(np.log(model.times(theta, block.features, block.hw)[0]))
        near = block.near.features if block.near else None
        beside.append(np.log(model.times(theta, near, block.hw)[0]) if near else np.zeros(0))
    return nugget(blocks, modelled, beside)


def _unit(
    model: OpModel, variant: str, fitted: Fitted, gathered: Gathered, kernels: Spread
) -> Unit:
    blocks, extra = fitted
    found = extra.found
    parameters = model.parameters(variant)
    values = natural(parameters, found.z)
    at_bound = tuple(
        p.name for p, v in zip(parameters, values, strict=True)
        if v <= p.lower * (1 + 1e-3) or v >= p.upper * (1 - 1e-3)
    )  # fmt: skip
    seed = zlib.crc32(f"{model.name}/{variant}".encode())
    draws = plausible_draws(model, parameters, blocks, found, seed)
    lone = _nugget(model, variant, blocks, extra)
    between = between_gpus(blocks, extra, lone, kernels)
    residuals = [
        r - between.level(b.architecture) for r, b in zip(extra.adjusted, blocks, strict=True)
    ]
    rows_seen = gathered.rows_seen[model.name, variant]
    return Unit(
        model=model.name, variant=variant, form=(model.__doc__ or "").strip().split("\n")[0],
        parameters=tuple(p.name for p in parameters),
        values=tuple(float(v) for v in values), z=tuple(float(v) for v in found.z),
        covariance=tuple(tuple(float(v) for v in row) for row in found.covariance),
        draws=tuple(tuple(float(f"{v:.5g}") for v in row) for row in draws),
        between=between, gpus=tuple(b.gpu for b in blocks),
        rows_seen=rows_seen, condition_number=found.condition_number, rank=found.rank,
        score=_score(residuals, blocks), at_bound=at_bound,
        framework=gathered.framework[model.name, variant],
    )  # fmt: skip


SEVERAL_FAMILIES = 1.5
"""Families of equal weight from which one left out is still predicted from another."""


def pooled_spreads(units: Sequence[Unit]) -> list[Unit]:
    """``units``, whose own spread comes from the others where one family outweighs the rest.

    Left out, that family would be predicted from a GDDR part, or from nothing. Ops of the
    same model measured on several families say more about a new one; else all ops do.
    """

    def known(unit: Unit) -> bool:
        return unit.between.family_degrees - PRIOR_GPUS >= SEVERAL_FAMILIES

    def median(some: list[Unit]) -> float:
        return float(np.median([u.between.residual_sd for u in some]))

    several = [u for u in units if known(u) and u.between.family_sd]
    out = []
    for unit in units:
        near = [u for u in several if u.model == unit.model] or several
        b = unit.between
        if near and not known(unit) and b.family_sd:
            # A new family's ops spread no less than those of the one that was seen.
            own = max(median(near), b.known_sd)
            cross, alone = min(b.transfer_sd_cross, own), min(b.nugget_sd, own)
            b = msgspec.structs.replace(
                b, residual_sd=own, transfer_sd_cross=cross, nugget_sd=alone
            )
        out.append(msgspec.structs.replace(unit, between=b))
    return out


def _score(residuals: Sequence[Array], blocks: Sequence[Block]) -> Score:
    parts = {b.gpu: np.exp(-r) - 1.0 for b, r in zip(blocks, residuals, strict=True)}
    error = np.concatenate(list(parts.values()))
    return Score(
        n=error.size,
        median_ape=float(np.median(np.abs(error))),
        mape=float(np.mean(np.abs(error))),
        bias=float(np.median(error)),
        by_gpu={gpu: float(np.median(np.abs(e))) for gpu, e in parts.items()},
        bias_by_gpu={gpu: float(np.median(e)) for gpu, e in parts.items()},
    )
