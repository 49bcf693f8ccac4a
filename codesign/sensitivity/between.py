"""How GPUs differ beyond the model, how residuals carry over, how far levers are trusted.

Everything here looks at residuals *left out*: each silicon family predicted without
its own rows. In-sample residuals would say that GPUs hardly differ, since the
parameters were bent to them.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd

from codesign.sensitivity.estimate import Block, Estimate
from codesign.sensitivity.hardware_arrays import Array

PRIOR_GPU_SD = 0.08
"""Assumed spread of a GPU around the model, worth `PRIOR_GPUS` GPUs of evidence."""
PRIOR_GPUS = 3.0
ASSUMED_CARRY = {"same": 0.95, "cross": 0.2}
"""Residual carry-over where no pair of training GPUs shows it."""
ASSUMED_TRANSFER_SD = {"same": 0.05, "cross": 0.12}
PRIOR_GAIN_SD = 0.15
MIN_PAIR_ROWS = 30
_ROWS_OF_MIXED = 40


class Between(msgspec.Struct, frozen=True):
    """Variance components on the log scale, of one op model and variant."""

    family_sd: float
    """Spread between silicon families."""
    gpu_sd: float
    """Spread between GPUs of one family."""
    residual_sd: float
    """Spread of ops around their GPU's mean (from the 5 and 95 % points)."""
    method: str
    """``mixed model``, ``moments`` or ``assumed``."""
    carry_same: float
    """Exponent with which an op's residual carries over within a family."""
    carry_cross: float
    """The same across families."""
    transfer_sd_same: float
    """Residual spread that is left after carry-over within a family."""
    transfer_sd_cross: float
    carry_evidence: str
    """``estimated`` or ``assumed``, for same and cross, as ``same/cross``."""
    gain_sd: float
    """Spread of log(measured log ratio / modelled log ratio) over pairs of GPUs."""


def between_gpus(blocks: Sequence[Block], estimate: Estimate) -> Between:
    """Variance components, carry-over and lever trust from left-out residuals."""
    residuals = [estimate.left_out[estimate.cluster == i] for i in range(len(blocks))]
    family_sd, gpu_sd, method = _components(blocks, residuals)
    spread = np.concatenate([r - np.median(r) for r in residuals])
    weights = np.concatenate([np.full(r.size, b.weight) for r, b in zip(residuals, blocks,
                                                                       strict=True)])  # fmt: skip
    lo, hi = _weighted_quantiles(spread, weights, (0.05, 0.95))
    fits = [estimate.residual[estimate.cluster == i] for i in range(len(blocks))]
    pairs = list(_pairs(blocks, fits))
    carry = {kind: _carry([p for p in pairs if p[0] == kind], kind) for kind in ASSUMED_CARRY}
    return Between(
        family_sd=family_sd, gpu_sd=gpu_sd, method=method,
        residual_sd=max((hi - lo) / (2 * 1.645), 0.01),
        carry_same=carry["same"][0], carry_cross=carry["cross"][0],
        transfer_sd_same=carry["same"][1], transfer_sd_cross=carry["cross"][1],
        carry_evidence=f"{carry['same'][2]}/{carry['cross'][2]}",
        gain_sd=_gain_sd(pairs),
    )  # fmt: skip


def _components(blocks: Sequence[Block], residuals: Sequence[Array]) -> tuple[float, float, str]:
    """(family sd, GPU sd, method), shrunk to `PRIOR_GPU_SD` since GPUs are few."""
    families = sorted({b.architecture for b in blocks})
    means = np.array([np.median(r) for r in residuals])
    if len(families) < 2:
        return PRIOR_GPU_SD, PRIOR_GPU_SD / 2, "assumed"
    found = _mixed(blocks, residuals)
    method = "mixed model"
    if found is None:
        found, method = _moments(blocks, means), "moments"
    family_var, gpu_var = found
    within = max(len(blocks) - len(families), 0)
    family_var = _shrink(family_var, len(families), PRIOR_GPU_SD)
    gpu_var = _shrink(gpu_var, within, PRIOR_GPU_SD / 2)
    return float(np.sqrt(family_var)), float(np.sqrt(gpu_var)), method


def _shrink(variance: float, count: int, prior_sd: float) -> float:
    return (count * variance + PRIOR_GPUS * prior_sd**2) / (count + PRIOR_GPUS)


def _mixed(blocks: Sequence[Block], residuals: Sequence[Array]) -> tuple[float, float] | None:
    """(family, GPU) variances by REML; None where it has nothing to say or fails.

    The residuals of a GPU are thinned: the components of interest are those between
    GPUs, and the mean square about zero counts too, since a common bias is an error.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    parts = []
    for block, residual in zip(blocks, residuals, strict=True):
        picks = np.linspace(0, residual.size - 1, min(residual.size, _ROWS_OF_MIXED)).astype(int)
        values = np.clip(np.sort(residual)[picks], -1.0, 1.0)
        parts.append(pd.DataFrame({"y": values, "family": block.architecture, "gpu": block.gpu}))
    data = pd.concat(parts, ignore_index=True)
    if data["gpu"].nunique() <= data["family"].nunique():
        return None  # One GPU a family: the two components cannot be told apart.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = MixedLM.from_formula(
                "y ~ 1", data, groups="family", re_formula="1", vc_formula={"gpu": "0 + C(gpu)"}
            )
            result = model.fit(reml=True, method=["lbfgs"], maxiter=200)
        except (np.linalg.LinAlgError, ValueError):
            return None
    if not result.converged:
        return None
    family_var = float(np.asarray(result.cov_re)[0, 0]) + float(result.fe_params.iloc[0]) ** 2
    gpu_var = float(np.asarray(result.vcomp)[0])
    return (family_var, gpu_var) if np.isfinite([family_var, gpu_var]).all() else None


def _moments(blocks: Sequence[Block], means: Array) -> tuple[float, float]:
    """(family, GPU) variances: mean square of family means about zero, and within them."""
    data = pd.DataFrame({"family": [b.architecture for b in blocks], "mean": means})
    by_family = data.groupby("family")["mean"]
    within = by_family.var().mean()
    return float((by_family.mean() ** 2).mean()), 0.0 if np.isnan(within) else float(within)


def _weighted_quantiles(values: Array, weights: Array, at: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / weights.sum()
    return [float(values[order][np.searchsorted(cumulative, q)]) for q in at]


Pair = tuple[str, Array, Array, Array, Array]
"""(same or cross, residuals here, residuals there, measured and modelled log ratio)."""


def _pairs(blocks: Sequence[Block], residuals: Sequence[Array]) -> list[Pair]:
    pairs: list[Pair] = []
    for i, j in itertools.permutations(range(len(blocks)), 2):
        _, here, there = np.intersect1d(blocks[i].key, blocks[j].key, return_indices=True)
        if here.size < MIN_PAIR_ROWS:
            continue
        kind = "same" if blocks[i].architecture == blocks[j].architecture else "cross"
        r_i, r_j = residuals[i][here], residuals[j][there]
        measured = np.log(blocks[j].time_s[there] / blocks[i].time_s[here])
        pairs.append((kind, r_i, r_j, measured, measured - r_j + r_i))
    return pairs


def _carry(pairs: list[Pair], kind: str) -> tuple[float, float, str]:
    """(exponent, remaining sd, evidence): regression of one GPU's residuals on the other's."""
    if not pairs:
        return ASSUMED_CARRY[kind], ASSUMED_TRANSFER_SD[kind], "assumed"
    here = np.clip(np.concatenate([p[1] for p in pairs]), -1.0, 1.0)
    there = np.clip(np.concatenate([p[2] for p in pairs]), -1.0, 1.0)
    exponent = float(np.clip((here @ there) / max(float(here @ here), 1e-9), 0.0, 1.0))
    left = there - exponent * here
    lo, hi = np.quantile(left, [0.05, 0.95])
    return exponent, max(float(hi - lo) / (2 * 1.645), 0.01), "estimated"


def _gain_sd(pairs: list[Pair]) -> float:
    """How far the ratio of measured to modelled log ratio strays from 1 between pairs.

    Each pair gives one number, since its rows share the GPUs' peculiarities: the slope of
    measured on modelled log ratios. Shrunk towards `PRIOR_GAIN_SD` as pairs are few.
    """
    logs = []
    for _, _, _, measured, modelled in pairs:
        power = float(modelled @ modelled)
        if power / modelled.size < 0.05**2:
            continue  # The model says that nothing changes: no lever to be trusted.
        slope = float(measured @ modelled) / power
        logs.append(float(np.log(np.clip(slope, 0.2, 5.0))))
    # Each pair stands in the list in both directions.
    count = len(logs) / 2
    square = float(np.mean(np.square(logs))) if logs else 0.0
    variance = (count * square + PRIOR_GPUS * PRIOR_GAIN_SD**2) / (count + PRIOR_GPUS)
    return float(np.clip(np.sqrt(variance), 0.05, 0.5))
