"""Draws stay where the training data allow them, and follow the covariance where they may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from codesign.hardware import load_system
from codesign.sensitivity.estimate import Block, Estimate
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.op_model import OpModel, Parameter
from codesign.sensitivity.plausible import plausible_draws

X = np.linspace(-1.0, 1.0, 20)


class _Toy(OpModel):
    """log time = a x + b (log-linear), or work + launch (launch near nothing)."""

    name = "toy"
    op_classes = ("gemm",)

    def __init__(self, linear: bool) -> None:
        self.linear = linear

    def applies(self, ops: pd.DataFrame) -> Any:
        return np.ones(len(ops), dtype=np.bool_)

    def variant(self, ops: pd.DataFrame) -> Any:
        return np.full(len(ops), "only")

    def parameters(self, variant: str) -> tuple[Parameter, ...]:
        if self.linear:
            return tuple(Parameter(n, 0.0, -1e9, 1e9, "", log=False) for n in "ab")
        return (
            Parameter("work_s", 1.0, 1e-9, 1e9, ""),
            Parameter("launch_s", 1e-3, 1e-9, 1e9, ""),
        )

    def features(self, ops: pd.DataFrame) -> Any:
        return {"x": X}

    def terms(self, theta: Any, features: Any, hw: Any) -> Any:
        if self.linear:
            return {"hbm": np.exp(theta[0] * features["x"] + theta[1])[None, :]}
        return {"hbm": theta[0] + 0.0 * features["x"][None, :], "launch": theta[1]}

    def combine(self, theta: Any, terms: Any) -> Any:
        return terms["hbm"] + terms.get("launch", 0.0)


def draws(toy: _Toy, z: np.ndarray, jacobian: np.ndarray, covariance: np.ndarray, n: int) -> Any:
    block = Block(
        gpu="h100-sxm", architecture="hopper", hw=hardware_arrays([load_system("hgx-h100")]),
        features={"x": X}, time_s=np.ones(X.size), key=np.arange(X.size, dtype=np.uint64),
    )  # fmt: skip
    rows = np.zeros(X.size)
    found = Estimate(
        z=z, covariance=covariance, jacobian=jacobian, residual=rows, left_out=rows,
        weight=rows + 1, cluster=rows.astype(np.intp), condition_number=1.0, rank=2,
    )  # fmt: skip
    return plausible_draws(toy, toy.parameters("only"), [block], found, seed=3, n=n)


def test_a_log_linear_model_keeps_the_whole_covariance() -> None:
    covariance = np.array([[0.04, 0.01], [0.01, 0.09]])
    z = np.array([0.3, -0.2])
    sample = draws(_Toy(linear=True), z, np.column_stack([X, np.ones(20)]), covariance, 4000)
    assert sample.mean(axis=0) == pytest.approx(z, abs=0.02)
    assert np.cov(sample.T) == pytest.approx(covariance, abs=0.01)


def test_an_overhead_near_nothing_never_takes_over() -> None:
    """Work of 1 s and a launch of 1 ms known to a factor e^4 or so.

    Linearly, one standard deviation of the launch moves the time by 4 x 0.001 / 1.001 =
    0.4 %; taken at its word on the log scale, e^4 ms would move it by 5 %, two of them by 300 %.
    """
    share = 1e-3 / 1.001
    jacobian = np.tile([1 - share, share], (20, 1))
    covariance = np.diag([1e-12, 16.0])
    z = np.log([1.0, 1e-3])
    sample = draws(_Toy(linear=False), z, jacobian, covariance, 300)
    time_s = np.exp(sample).sum(axis=1)
    assert np.abs(np.log(time_s / 1.001)).max() < 0.03
    # Draws that already lie inside stay as they are: the launch does vary.
    assert np.exp(sample[:, 1]).std() > 0.5e-3


def test_draws_repeat() -> None:
    toy, z, covariance = _Toy(linear=False), np.log([1.0, 0.1]), np.diag([0.01, 1.0])
    jacobian = np.tile([1 / 1.1, 0.1 / 1.1], (20, 1))
    one, two = (draws(toy, z, jacobian, covariance, 10) for _ in "ab")
    assert (one == two).all()
