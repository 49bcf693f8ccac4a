"""Parameter draws that the training data would still allow.

The covariance says how far parameters may move where the model is linear in them. Far
out it is not: a launch overhead that the data put near zero, with a wide error on the log
scale, would grow a hundredfold in some draws and contradict every measured floor. So each
draw is drawn back along its own direction until it moves the training times no more
than the linear model says it should.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.sensitivity.estimate import Block, Estimate, natural
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.op_model import OpModel, Parameter

STORED_DRAWS = 96
"""Draws kept with a fitted parameter set: more do not change a 90 % interval visibly."""
TOLERANCE = 1.25
"""Root mean square change of log times that is let pass, over that of the linear model."""
_SLACK = 0.002
_ROWS_PER_FAMILY = 24
_HALVINGS = 10


def plausible_draws(
    model: OpModel,
    parameters: Sequence[Parameter],
    blocks: Sequence[Block],
    found: Estimate,
    seed: int,
    n: int = STORED_DRAWS,
) -> Array:
    """(n, p) draws on the estimation scale from the covariance, each held plausible."""
    values, vectors = np.linalg.eigh(found.covariance)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    steps = np.random.default_rng(seed).standard_normal((n, found.z.size)) @ root.T
    rows = _Rows(model, parameters, blocks, found)
    return found.z + np.stack([rows.shortened(step) for step in steps])


class _Rows:
    """A few training rows of each silicon family, where draws are held against the data."""

    def __init__(
        self,
        model: OpModel,
        parameters: Sequence[Parameter],
        blocks: Sequence[Block],
        found: Estimate,
    ) -> None:
        self.model, self.parameters, self.z = model, parameters, found.z
        self.parts: list[tuple[Block, dict[str, Array]]] = []
        picked, seen = [], set()
        start = 0
        for block in blocks:
            size = block.time_s.size
            if block.architecture not in seen:
                seen.add(block.architecture)
                take = np.unique(
                    np.linspace(0, size - 1, min(size, _ROWS_PER_FAMILY)).astype(np.intp)
                )
                self.parts.append((block, {k: v[take] for k, v in block.features.items()}))
                picked.append(start + take)
            start += size
        self.jacobian = found.jacobian[np.concatenate(picked)]
        self.base = self._log_times(found.z)

    def _log_times(self, z: Array) -> Array:
        theta = natural(self.parameters, z)
        times = [self.model.times(theta, part, block.hw)[0] for block, part in self.parts]
        return np.asarray(np.log(np.concatenate(times)))

    def shortened(self, step: Array) -> Array:
        """The step, halved until the rows move no more than the linear model allows."""
        allowed = TOLERANCE * _rms(self.jacobian @ step) + _SLACK
        for _ in range(_HALVINGS):
            if _rms(self._log_times(self.z + step) - self.base) <= allowed:
                break
            step = step / 2.0
        return step


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
