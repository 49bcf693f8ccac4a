"""Robust estimation of one parameter set, with a covariance that knows about GPUs.

The residual is the log of measured over modelled time. Rows of one GPU share its
peculiarities, so the covariance is the cluster sandwich with GPUs as clusters; with
three to nine clusters it is biased low, hence the small-sample factor G / (G - 1) and
a ridge prior that keeps unidentified directions at their stated width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.op_model import Features, OpModel, Parameter

VAGUE_PRIOR_SD = 1.5
SOFT_L1_SCALE = 0.15
"""Log residual at which the loss turns from square to absolute."""
_STEP = 1e-4


@dataclass(frozen=True)
class Block:
    """Training rows of one GPU: features, measured seconds of one call, weights."""

    gpu: str
    hw: HardwareArrays
    """Arrays of the one system, shape (1, 1)."""
    features: Features
    time_s: Array
    weight: Array
    """Relative weight of each row; the estimation scales them to mean 1."""


@dataclass(frozen=True)
class Estimate:
    """A parameter set on the estimation scale, and how sure it is."""

    z: Array
    """(p,) parameters on the estimation scale."""
    covariance: Array
    """(p, p) on the estimation scale."""
    jacobian: Array
    """(rows, p) d log(time) / d z at ``z``, unweighted."""
    residual: Array
    """(rows,) log(measured / modelled), blocks in order."""
    weight: Array
    """(rows,) weights, mean 1."""
    cluster: NDArray[np.intp]
    """(rows,) index of the block of each row."""
    condition_number: float
    """Of the weighted Jacobian with unit columns: above 1e3 some directions are the prior's."""
    rank: int
    """Columns of the scaled Jacobian with a singular value above 1e-6 of the largest."""


def natural(parameters: Sequence[Parameter], z: Array) -> Array:
    """Parameters in natural units, inside their bounds."""
    pairs = zip(parameters, z, strict=True)
    return np.array([p.from_scale(float(v)) for p, v in pairs])


def initial(parameters: Sequence[Parameter]) -> Array:
    """Starting point on the estimation scale."""
    return np.array([p.to_scale(p.initial) for p in parameters])


def estimate(
    model: OpModel,
    parameters: Sequence[Parameter],
    blocks: Sequence[Block],
    start: Array | None = None,
    max_nfev: int = 60,
    prior: Array | None = None,
) -> Estimate:
    """Fit ``model`` to ``blocks`` by soft-L1 least squares on log ratios.

    ``prior`` is the centre of the ridge on the estimation scale, by default the
    parameters' ``initial``. Raises InsufficientDataError if there are fewer rows than
    parameters.
    """
    from scipy.optimize import least_squares

    measured = np.log(np.concatenate([b.time_s for b in blocks])) if blocks else np.empty(0)
    if measured.size < len(parameters):
        raise InsufficientDataError(
            f"{model.name}: {measured.size} rows for {len(parameters)} parameters"
        )
    weight = np.concatenate([b.weight for b in blocks])
    weight = weight / weight.mean()
    # Soft-L1 on the pseudo-residual of the prior would turn it into a linear pull, so
    # the robust weights are found by hand (iterated reweighting), the prior stays square.
    root = np.sqrt(weight)
    centre = initial(parameters) if prior is None else prior
    ridge = np.array([1.0 / (p.prior_sd or VAGUE_PRIOR_SD) for p in parameters])

    def log_times(z: Array) -> Array:
        theta = natural(parameters, z)
        return np.log(np.concatenate([model.times(theta, b.features, b.hw)[0] for b in blocks]))

    lower = np.array([p.to_scale(p.lower) for p in parameters])
    upper = np.array([p.to_scale(p.upper) for p in parameters])
    z = np.clip(centre if start is None else start, lower + 1e-6, upper - 1e-6)
    robust = np.ones_like(measured)
    for budget in (max(max_nfev // 4, 6), max_nfev // 4, max_nfev // 2):

        def objective(z: Array, scale: Array = root * np.sqrt(robust)) -> Array:
            data = scale * (log_times(z) - measured) / SOFT_L1_SCALE
            return np.concatenate([data, ridge * (z - centre)])

        solution = least_squares(
            objective, z, bounds=(lower, upper), diff_step=_STEP, max_nfev=budget,
            x_scale=np.maximum(1.0 / ridge, 0.05), ftol=1e-5, xtol=1e-5,
        )  # fmt: skip
        z = solution.x
        scaled = (log_times(z) - measured) / SOFT_L1_SCALE
        robust = 1.0 / np.sqrt(1.0 + scaled**2)
    return _finish(z, log_times, measured, weight * robust, weight, blocks, ridge)


def _finish(
    z: Array,
    log_times: object,
    measured: Array,
    effective: Array,
    weight: Array,
    blocks: Sequence[Block],
    ridge: Array,
) -> Estimate:
    assert callable(log_times)
    at_z = log_times(z)
    columns = []
    for index in range(z.size):
        step = np.zeros_like(z)
        step[index] = 1e-3
        columns.append((log_times(z + step) - log_times(z - step)) / 2e-3)
    jacobian = np.column_stack(columns)
    residual = measured - at_z
    cluster = np.repeat(np.arange(len(blocks)), [b.time_s.size for b in blocks])
    covariance = cluster_covariance(jacobian, residual, effective, cluster, ridge)
    root = np.sqrt(effective)[:, None] * jacobian
    norms = np.linalg.norm(root, axis=0)
    singular = np.linalg.svd(root / np.where(norms > 0, norms, 1.0), compute_uv=False)
    smallest = max(float(singular[-1]), 1e-12)
    return Estimate(
        z=z,
        covariance=covariance,
        jacobian=jacobian,
        residual=residual,
        weight=weight,
        cluster=cluster,
        condition_number=float(singular[0]) / smallest,
        rank=int((singular > 1e-6 * singular[0]).sum()),
    )


def cluster_covariance(
    jacobian: Array, residual: Array, weight: Array, cluster: NDArray[np.intp], ridge: Array
) -> Array:
    """Sandwich covariance (p, p) with clusters, on a ridge-regularised bread.

    The meat sums the score over each cluster (Liang and Zeger 1986), times G / (G - 1).
    The variance of the prior is added in the directions that the data leave open.
    """
    weighted = jacobian * weight[:, None]
    variance = float(np.sum(weight * residual**2) / max(np.sum(weight), 1e-12))
    information = jacobian.T @ weighted + np.diag(ridge**2) * SOFT_L1_SCALE**2
    bread = np.linalg.inv(information)
    groups = np.unique(cluster)
    scores = np.stack([(weighted * residual[:, None])[cluster == g].sum(axis=0) for g in groups])
    scores = scores - scores.mean(axis=0)
    factor = groups.size / max(groups.size - 1, 1)
    meat = factor * scores.T @ scores + variance * (jacobian.T @ (weighted * weight[:, None]))
    prior_part = np.diag(ridge**2) * SOFT_L1_SCALE**4
    covariance: Array = bread @ (meat + prior_part) @ bread
    return (covariance + covariance.T) / 2
