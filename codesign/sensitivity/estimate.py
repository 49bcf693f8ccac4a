"""Robust estimation of one parameter set, with a covariance that knows about GPUs.

The residual is the log of measured over modelled time. Thousands of rows of one GPU share
its peculiarities, so a GPU counts as `ROWS_WORTH` independent rows, whatever its table
holds, and the covariance is the jackknife over GPUs: how far the estimate moves when
one is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import InsufficientDataError
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays, Kin
from codesign.sensitivity.op_model import Features, OpModel, Parameter

VAGUE_PRIOR_SD = 1.5
SOFT_L1_SCALE = 0.15
"""Log residual at which the loss turns from square to absolute."""
ROWS_WORTH = 200.0
"""Independent rows that a GPU's table is worth beside the priors."""
_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Near:
    """Measured rows that are nearest in shape to some rows of a block."""

    of: NDArray[np.intp]
    """(pairs,) row of the block."""
    features: Features
    time_s: Array
    """(pairs,) measured seconds of one call of the neighbour."""


@dataclass(frozen=True)
class Block:
    """Training rows of one GPU."""

    gpu: str
    architecture: str
    hw: HardwareArrays
    """Arrays of the one system, shape (1, 1)."""
    features: Features
    time_s: Array
    """(rows,) measured seconds of one call."""
    key: NDArray[np.uint64]
    """(rows,) hash of the op: equal on GPUs that measured the same op."""
    weight: float = 1.0
    """Of the GPU against others."""
    near: Near | None = None
    """Neighbours in shape, from the whole table; None where there are too few."""

    @property
    def kin(self) -> Kin:
        """Silicon family and host."""
        return Kin(self.architecture, self.hw.hosts[0])


@dataclass(frozen=True)
class Estimate:
    """A parameter set on the estimation scale, and how sure it is."""

    z: Array
    """(p,) parameters on the estimation scale."""
    covariance: Array
    """(p, p) on the estimation scale."""
    jacobian: Array
    """(rows, p) d log(time) / d z at ``z``."""
    residual: Array
    """(rows,) log(measured / modelled), blocks in order."""
    left_out: Array
    """(rows,) the same, predicted without the row's architecture (one Newton step)."""
    weight: Array
    """(rows,) robust weights x the GPU's weight."""
    cluster: NDArray[np.intp]
    """(rows,) index of the block of each row."""
    condition_number: float
    """Of the weighted Jacobian with unit columns: above 1e3 some directions are the prior's."""
    rank: int
    """Columns of the scaled Jacobian with a singular value above 1e-6 of the largest."""


@dataclass(frozen=True)
class _Problem:
    log_times: Callable[[Array], Array]
    measured: Array
    weight: Array
    centre: Array
    ridge: Array


def natural(parameters: Sequence[Parameter], z: Array) -> Array:
    """Parameters in natural units, inside their bounds."""
    pairs = zip(parameters, z, strict=True)
    return np.array([p.from_scale(float(v)) for p, v in pairs])


def initial(parameters: Sequence[Parameter]) -> Array:
    """Starting point on the estimation scale."""
    return np.array([p.to_scale(p.initial) for p in parameters])


def block_times(model: OpModel, theta: Array, blocks: Sequence[Block]) -> Array:
    """(rows,) modelled seconds of all blocks in order."""
    return np.concatenate([model.times(theta, b.features, b.hw)[0] for b in blocks])


def estimate(
    model: OpModel,
    parameters: Sequence[Parameter],
    blocks: Sequence[Block],
    *,
    prior: Array | None = None,
    max_nfev: int = 40,
) -> Estimate:
    """Fit ``model`` to ``blocks`` by soft-L1 least squares on log ratios.

    ``prior`` centres the ridge on the estimation scale; by default the parameters'
    ``initial``. Raises InsufficientDataError if there are fewer rows than parameters.
    """
    rows = sum(b.time_s.size for b in blocks)
    if rows < len(parameters):
        raise InsufficientDataError(f"{model.name}: {rows} rows for {len(parameters)} parameters")
    cluster = np.repeat(np.arange(len(blocks)), [b.time_s.size for b in blocks])
    per_row = np.array([ROWS_WORTH * b.weight / b.time_s.size for b in blocks])
    problem = _Problem(
        log_times=lambda z: np.asarray(
            np.log(block_times(model, natural(parameters, z), blocks)), dtype=np.float64
        ),
        measured=np.log(np.concatenate([b.time_s for b in blocks])),
        weight=per_row[cluster],
        centre=initial(parameters) if prior is None else prior,
        ridge=np.array([1.0 / (p.prior_sd or VAGUE_PRIOR_SD) for p in parameters]),
    )
    z = _solve(problem, parameters, max_nfev)
    return _finish(problem, z, cluster, blocks)


def _solve(problem: _Problem, parameters: Sequence[Parameter], max_nfev: int) -> Array:
    from scipy.optimize import least_squares

    rows = problem.measured.size
    root = np.sqrt(problem.weight) / SOFT_L1_SCALE

    def residuals(z: Array) -> Array:
        data = root * (problem.log_times(z) - problem.measured)
        return np.concatenate([data, problem.ridge * (z - problem.centre)])

    def loss(squares: Array) -> Array:
        # Soft L1 turns at a log residual of SOFT_L1_SCALE, whatever the row's weight;
        # the prior stays square.
        rho = np.vstack([squares, np.ones_like(squares), np.zeros_like(squares)])
        w = problem.weight
        inside = 1.0 + squares[:rows] / w
        rho[0, :rows] = 2.0 * w * (np.sqrt(inside) - 1.0)
        rho[1, :rows] = inside**-0.5
        rho[2, :rows] = -0.5 / w * inside**-1.5
        return rho

    lower = np.array([p.to_scale(p.lower) for p in parameters])
    upper = np.array([p.to_scale(p.upper) for p in parameters])
    solution = least_squares(
        residuals, np.clip(problem.centre, lower + 1e-6, upper - 1e-6), bounds=(lower, upper),
        loss=loss,  # type: ignore[arg-type]  # the stubs know one calling form only
        diff_step=np.full(lower.size, _DIFFERENCE), max_nfev=max_nfev,
        x_scale=np.minimum(1.0 / problem.ridge, 0.5), ftol=5e-4, xtol=5e-4,
    )  # fmt: skip
    return np.asarray(solution.x, dtype=np.float64)


def family_weights(blocks: Sequence[Block]) -> dict[str, float]:
    """Weight of each silicon family: parts with GDDR memory say little about the others."""
    names = sorted({b.architecture for b in blocks})
    return {name: max(b.weight for b in blocks if b.architecture == name) for name in names}


def families_worth(blocks: Sequence[Block]) -> float:
    """How many families of equal weight the blocks are worth."""
    weight = np.array(list(family_weights(blocks).values()))
    return float(weight.sum() ** 2 / (weight**2).sum())


def _finish(
    problem: _Problem, z: Array, cluster: NDArray[np.intp], blocks: Sequence[Block]
) -> Estimate:
    residual = problem.measured - problem.log_times(z)
    columns = []
    for index in range(z.size):
        step = np.zeros_like(z)
        step[index] = 1e-3
        columns.append((problem.log_times(z + step) - problem.log_times(z - step)) / 2e-3)
    jacobian = np.column_stack(columns)
    robust = 1.0 / np.sqrt(1.0 + (residual / SOFT_L1_SCALE) ** 2)
    weight = problem.weight * robust / SOFT_L1_SCALE**2
    names = np.array([b.architecture for b in blocks])[cluster]
    moved, left_out = _jackknife(jacobian, residual, weight, names, problem.ridge)
    information = jacobian.T @ (jacobian * weight[:, None]) + np.diag(problem.ridge**2)
    # Where one family outweighs the others, what moves without it is not its sampling error.
    worth = families_worth(blocks)
    jackknife = moved.T @ moved * (worth - 1.0) / worth if len(moved) > 1 else 0.0
    covariance = np.linalg.inv(information) + jackknife
    root = np.sqrt(weight)[:, None] * jacobian
    norms = np.linalg.norm(root, axis=0)
    singular = np.linalg.svd(root / np.where(norms > 0, norms, 1.0), compute_uv=False)
    return Estimate(
        z=z, covariance=(covariance + covariance.T) / 2, jacobian=jacobian, residual=residual,
        left_out=left_out, weight=weight, cluster=cluster,
        condition_number=float(singular[0]) / max(float(singular[-1]), 1e-12),
        rank=int((singular > 1e-6 * singular[0]).sum()),
    )  # fmt: skip


def _jackknife(
    jacobian: Array, residual: Array, weight: Array, names: NDArray[np.str_], ridge: Array
) -> tuple[Array, Array]:
    """Moves of z, and residuals of the rows left out, for each architecture in turn.

    One Gauss-Newton step from the full estimate, whose gradient is zero: without the
    rows of group g the gradient is minus theirs. GPUs of one architecture go together,
    since each would give the others away.
    """
    moves, left_out = [], residual.copy()
    weighted = jacobian * weight[:, None]
    whole = jacobian.T @ weighted + np.diag(ridge**2)
    unique = np.unique(names)
    for name in unique if len(unique) > 1 else []:
        rows = names == name
        information = whole - jacobian[rows].T @ weighted[rows]
        move = -np.linalg.solve(information, weighted[rows].T @ residual[rows])
        # A step far past the prior's width is outside the linear range.
        move = move / max(1.0, float(np.abs(move * ridge).max()) / 2.0)
        moves.append(move)
        left_out[rows] = residual[rows] - jacobian[rows] @ move
    if not moves:
        return np.zeros((0, jacobian.shape[1])), left_out
    return np.stack(moves), left_out
