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

from codesign._common.scores import Z_90
from codesign.sensitivity.effects import Degrees, Effect, Sd, WithEffects, student_factor
from codesign.sensitivity.estimate import Block, families_worth, family_weights
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.kernels import Spread

PRIOR_GPU_SD = 0.08
"""Assumed spread of a GPU around the model, worth `PRIOR_GPUS` GPUs of evidence."""
PRIOR_GPUS = 3.0
ASSUMED_CARRY = {"same": 0.9, "cross": 0.2}
"""Residual carry-over where no pair of training GPUs shows it."""
ASSUMED_TRANSFER_SD = {"same": 0.08, "cross": 0.12}
"""What a residual that carried over leaves, where not even neighbours in shape are known."""
SAME_OVER_NUGGET = float(np.sqrt(2.0))
"""Of a residual that carries over inside a family: what it leaves, over the nugget of either
side. At most: as if nothing that neighbouring shapes do not share were the same on the other
part. H100 to H200 gives 0.5 to 1.2."""
PRIOR_GAIN_SD = 0.15
MIN_PAIR_ROWS = 30
_ROWS_OF_MIXED = 40


class Level(msgspec.Struct, frozen=True):
    """How much slower than modelled a silicon family's measured parts are, on the log scale."""

    value: float
    """Shrunk towards none, as far as what GPUs of one family differ by could be all of it."""
    sd: Sd
    """What is still unsure of it."""


class Between(msgspec.Struct, frozen=True):
    """Variance components on the log scale, of one op model and variant."""

    family_sd: Sd
    """Spread between silicon families; 0 where the model names ``effects`` that tell it."""
    family_degrees: Degrees
    """Degrees of freedom of ``family_sd``: families seen and the prior's worth."""
    gpu_sd: Sd
    """Spread between GPUs of one family."""
    residual_sd: Sd
    """Spread of ops around their GPU's mean (from the 5 and 95 % points), in a new family."""
    known_sd: Sd
    """The same in a family that was trained on."""
    nugget_sd: Sd
    """What of it not even the nearest shape shares: choice of kernels, noise."""
    kernel_sd: Sd
    """Spread between families of kernels, for one that no training GPU with HBM ran."""
    kernel_own_sd: Sd
    """Of an op around it, beyond ``residual_sd``."""
    method: str
    """``mixed model``, ``moments`` or ``assumed``."""
    carry_same: float
    """Exponent with which an op's residual carries over within a family."""
    carry_cross: float
    """The same across families."""
    transfer_sd_same: Sd
    """Residual spread that is left after carry-over within a family."""
    transfer_sd_cross: Sd
    carry_evidence: str
    """``estimated`` or ``assumed``, for same and cross, as ``same/cross``."""
    gain_sd: Sd
    """Spread of log(measured log ratio / modelled log ratio) over pairs of GPUs."""
    effects: tuple[Effect, ...]
    """What the families that were trained on have of their own."""
    levels: dict[str, Level] = {}
    """Beyond their effects; none where the model names ``effects``."""

    def knows(self, family: str) -> bool:
        """Whether the family was trained on."""
        return any(family in effect.families for effect in self.effects)

    def level(self, family: str) -> float:
        """Log factor on the times of a family; none for one that was not trained on."""
        return self.levels[family].value if family in self.levels else 0.0

    def level_sd(self, family: str) -> float:
        """What is unsure of it: for a new family as wide as Student's t."""
        if family in self.levels:
            return self.levels[family].sd
        return self.family_sd * student_factor(self.family_degrees)

    def op_sd(self, family: str) -> float:
        """Spread of ops around their GPU's mean."""
        return self.known_sd if self.knows(family) else self.residual_sd

    def alone_sd(self, family: str) -> float:
        """Part of `op_sd` that is an op's own."""
        return min(self.nugget_sd, self.op_sd(family))

    def region_sd(self, family: str) -> float:
        """Part of `op_sd` that ops of neighbouring shapes share."""
        return float(np.sqrt(self.op_sd(family) ** 2 - self.alone_sd(family) ** 2))

    @property
    def gpu_spread_sd(self) -> float:
        """Spread of a new GPU around the model, where it is largest."""
        families = max([self.family_sd, *(effect.sd for effect in self.effects)])
        return float(np.hypot(families, self.gpu_sd))


def between_gpus(
    blocks: Sequence[Block],
    extra: WithEffects,
    nugget_sd: float | None = None,
    kernels: Spread = Spread(0.0, 0.0),  # noqa: B008  (frozen)
) -> Between:
    """Variance components, carry-over and lever trust.

    Spreads of a new family are those of left-out residuals, or, where the model names effects
    that tell how families differ, of the residuals adjusted for them. ``nugget_sd`` is None
    where no neighbours in shape were measured: all of an op's spread is then its own.
    """
    estimate, adjusted = extra.found, extra.adjusted
    if any(effect.sd for effect in extra.effects):
        residuals = fits = list(adjusted)
        family_sd, gpu_sd, method = 0.0, PRIOR_GPU_SD / 2, "family effects"
        levels: dict[str, Level] = {}
    else:
        residuals = [estimate.left_out[estimate.cluster == i] for i in range(len(blocks))]
        family_sd, gpu_sd, method = _components(blocks, residuals)
        fits = [estimate.residual[estimate.cluster == i] for i in range(len(blocks))]
        levels = _levels(blocks, adjusted, family_sd, gpu_sd)
        adjusted = [r - levels[b.architecture].value for r, b in zip(adjusted, blocks, strict=True)]
    pairs = list(_pairs(blocks, adjusted))
    assumed = dict(ASSUMED_TRANSFER_SD)
    if nugget_sd is not None:
        assumed["same"] = SAME_OVER_NUGGET * nugget_sd
    carry = {
        kind: _carry([p for p in pairs if p[0] == kind], kind, assumed[kind])
        for kind in ASSUMED_CARRY
    }
    residual_sd = _own_sd(blocks, residuals)
    known_sd = min(_own_sd(blocks, adjusted), residual_sd)
    return Between(
        family_sd=family_sd, family_degrees=families_worth(blocks) + PRIOR_GPUS, gpu_sd=gpu_sd,
        method=method, residual_sd=residual_sd, known_sd=known_sd,
        nugget_sd=min(residual_sd if nugget_sd is None else nugget_sd, residual_sd),
        kernel_sd=kernels.shared_sd, kernel_own_sd=kernels.own_sd,
        carry_same=carry["same"][0], carry_cross=carry["cross"][0],
        transfer_sd_same=carry["same"][1],
        # A source that says nothing is no worse than none.
        transfer_sd_cross=min(carry["cross"][1], residual_sd),
        carry_evidence=f"{carry['same'][2]}/{carry['cross'][2]}",
        # Of the law alone: a lever changes no family.
        gain_sd=_gain_sd(list(_pairs(blocks, fits))),
        effects=extra.effects, levels=levels,
    )  # fmt: skip


def _own_sd(blocks: Sequence[Block], residuals: Sequence[Array]) -> float:
    """Spread of ops around their GPU's median, as that of a normal with their 5 and 95 % points."""
    spread = np.concatenate([r - np.median(r) for r in residuals])
    weights = [np.full(r.size, b.weight) for r, b in zip(residuals, blocks, strict=True)]
    lo, hi = _weighted_quantiles(spread, np.concatenate(weights), (0.05, 0.95))
    return max((hi - lo) / (2 * Z_90), 0.01)


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
    count = families_worth(blocks)
    # A family left out is predicted from the others, one fewer than a new one will be; and
    # what the parameters themselves are unsure of is in their covariance already.
    family_var = _shrink(family_var * (count - 1.0) / count, count, PRIOR_GPU_SD)
    gpu_var = _shrink(gpu_var, within, PRIOR_GPU_SD / 2)
    return float(np.sqrt(family_var)), float(np.sqrt(gpu_var)), method


def _levels(
    blocks: Sequence[Block], adjusted: Sequence[Array], family_sd: float, gpu_sd: float
) -> dict[str, Level]:
    """Best linear unbiased prediction of each family's level from its GPUs' median residuals."""
    found = {}
    for name in sorted({b.architecture for b in blocks}):
        own = [r for r, b in zip(adjusted, blocks, strict=True) if b.architecture == name]
        medians = [np.median(r) for r in own]
        noise = gpu_sd**2 / len(medians)
        kept = family_sd**2 / (family_sd**2 + noise)
        found[name] = Level(float(kept * np.mean(medians)), float(np.sqrt(kept * noise)))
    return found


def _shrink(
    variance: float, count: float, prior_sd: float, prior_count: float = PRIOR_GPUS
) -> float:
    return (count * variance + prior_count * prior_sd**2) / (count + prior_count)


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
    """(family, GPU) variances: weighted mean square of family means, and within them."""
    data = pd.DataFrame({"family": [b.architecture for b in blocks], "mean": means})
    by_family = data.groupby("family")["mean"]
    within = by_family.var().mean()
    weights = family_weights(blocks)
    squares = by_family.mean() ** 2
    between = np.average(squares, weights=[weights[str(f)] for f in squares.index])
    return float(between), 0.0 if np.isnan(within) else float(within)


def _weighted_quantiles(values: Array, weights: Array, at: tuple[float, ...]) -> list[float]:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order]) / weights.sum()
    return [float(values[order][np.searchsorted(cumulative, q)]) for q in at]


Pair = tuple[str, Array, Array, Array, Array, float]
"""(same or cross, residuals here, residuals there, measured and modelled log ratio, weight)."""


def _pairs(blocks: Sequence[Block], residuals: Sequence[Array]) -> list[Pair]:
    pairs: list[Pair] = []
    for i, j in itertools.permutations(range(len(blocks)), 2):
        _, here, there = np.intersect1d(blocks[i].key, blocks[j].key, return_indices=True)
        if here.size < MIN_PAIR_ROWS:
            continue
        kind = "same" if blocks[i].architecture == blocks[j].architecture else "cross"
        r_i, r_j = residuals[i][here], residuals[j][there]
        measured = np.log(blocks[j].time_s[there] / blocks[i].time_s[here])
        weight = blocks[i].weight * blocks[j].weight
        pairs.append((kind, r_i, r_j, measured, measured - r_j + r_i, weight))
    return pairs


def nugget(
    blocks: Sequence[Block], log_times: Sequence[Array], near: Sequence[Array]
) -> float | None:
    """Spread of residuals between nearest shapes, over sqrt(2); None where none are near.

    ``log_times`` are the modelled log seconds of each block's rows, ``near`` those of its
    neighbours (empty without any).
    """
    parts, weights = [], []
    for block, modelled, beside in zip(blocks, log_times, near, strict=True):
        if block.near is None:
            continue
        here = (np.log(block.time_s) - modelled)[block.near.of]
        parts.append(here - (np.log(block.near.time_s) - beside))
        weights.append(np.full(here.size, block.weight))
    if not parts:
        return None
    both = np.concatenate(parts)
    # Either of two neighbours may be the first: the spread is symmetric.
    lo, hi = _weighted_quantiles(
        np.concatenate([both, -both]), np.concatenate(weights * 2), (0.05, 0.95)
    )
    return float((hi - lo) / (2 * Z_90) / np.sqrt(2.0))


def _carry(pairs: list[Pair], kind: str, assumed: float) -> tuple[float, float, str]:
    """(exponent, remaining sd, evidence): regression of one GPU's residuals on the other's.

    The sd is that of a normal with the residuals' 5 and 95 % points, whose tails are heavier,
    shrunk towards what is assumed: the next pair of GPUs may differ more.
    """
    if not pairs:
        return ASSUMED_CARRY[kind], assumed, "assumed"
    here = np.clip(np.concatenate([p[1] for p in pairs]), -1.0, 1.0)
    there = np.clip(np.concatenate([p[2] for p in pairs]), -1.0, 1.0)
    weight = np.concatenate([np.full(p[1].size, p[5]) for p in pairs])
    power = max(float(weight @ here**2), 1e-9)
    exponent = float(np.clip((weight @ (here * there)) / power, 0.0, 1.0))
    lo, hi = _weighted_quantiles(there - exponent * here, weight, (0.05, 0.95))
    # Each pair stands in the list in both directions.
    found = _shrink(((hi - lo) / (2 * Z_90)) ** 2, len(pairs) / 2, assumed, 1.0)
    return exponent, float(np.sqrt(found)), "estimated"


def _gain_sd(pairs: list[Pair]) -> float:
    """How far the ratio of measured to modelled log ratio strays from 1 between pairs.

    Each pair gives one number, since its rows share the GPUs' peculiarities: the slope of
    measured on modelled log ratios. Shrunk towards `PRIOR_GAIN_SD` as pairs are few.
    """
    logs = []
    for _, _, _, measured, modelled, _ in pairs:
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
