"""Families that differ in any parameter: known after one of their parts, unknown before."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from codesign.hardware import system_of_gpu
from codesign.sensitivity import SensitivityModel, fit
from codesign.sensitivity.effects import FamilyFit
from codesign.sensitivity.estimate import Estimate
from codesign.sensitivity.gemm import TILE_PARAMETERS, GemmModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.principal import WIDTH, directions, spread_of
from tests.sensitivity.fakes import FakeDB, gemm_ops

OLDER = ["a100-80gb-sxm", "h100-sxm"]


class TwoFamilies(FakeDB):
    """Hopper reaches other shares of its peaks than the rest."""

    hopper: ClassVar = {"tensor_efficiency": 0.6, "launches": 1.2, "ceil_share": 0.8}

    def times(self, ops: pd.DataFrame, gpu: str) -> np.ndarray:
        kept = dict(self.truth)
        if gpu in ("h100-sxm", "h200-sxm"):
            self.truth |= self.hopper
        try:
            return super().times(ops, gpu)
        finally:
            self.truth = kept


def fitted(db: FakeDB) -> SensitivityModel:
    return fit(db, gpus=OLDER, models=(GemmModel(),), rows_per_gpu=200)


def off(model: SensitivityModel, db: FakeDB, gpu: str) -> np.ndarray:
    """Log errors of predictions for a GPU that was not trained on."""
    ops = gemm_ops(seed=9)
    found = model.predict(ops, system_of_gpu(gpu))["time_s"].to_numpy(float)
    return np.log(found / db.times(ops, gpu))


def test_the_next_part_of_a_family_has_its_parameters_and_a_new_family_the_law() -> None:
    db = TwoFamilies(noise=0.0)
    model = fitted(db)
    seen = off(model, db, "h200-sxm")
    assert np.quantile(np.abs(seen), 0.9) < 0.05
    assert np.median(np.abs(seen)) < 0.02
    # The law lies between the two families, and Blackwell, which is like Ampere here, gets it.
    assert np.median(np.abs(off(model, db, "b200-sxm"))) > 0.03
    (unit,) = model.content.units
    ops, hw = gemm_ops(seed=9), hardware_arrays([system_of_gpu("b200-sxm")])
    law = GemmModel().times(np.array(unit.values), GemmModel().features(ops), hw)
    assert model.times(ops, [system_of_gpu("b200-sxm")]) == pytest.approx(law, rel=1e-9)


def test_families_that_are_alike_deviate_in_nothing() -> None:
    (unit,) = fitted(FakeDB(noise=0.0)).content.units
    found = [v for effect in unit.between.effects for v in effect.families.values()]
    assert len(found) >= 4
    assert np.abs(found).max() < 0.1


def test_what_is_known_of_a_family_narrows_the_intervals_of_its_parts() -> None:
    db = TwoFamilies(noise=0.05)
    model, ops = fitted(db), gemm_ops(seed=9)
    found = {gpu: model.predict(ops, system_of_gpu(gpu)) for gpu in ("h200-sxm", "b200-sxm")}
    seen, truth = found["h200-sxm"], db.times(ops, "h200-sxm")
    assert ((seen["time_lo_s"] <= truth) & (truth <= seen["time_hi_s"])).mean() > 0.85
    widths = {
        gpu: np.median(np.log((f["time_hi_s"] / f["time_lo_s"]).to_numpy(float)))
        for gpu, f in found.items()
    }
    assert widths["h200-sxm"] < 0.8 * widths["b200-sxm"]


def test_draws_of_a_known_family_stay_about_its_own_times() -> None:
    db = TwoFamilies(noise=0.0)
    model, ops, system = fitted(db), gemm_ops(seed=9), system_of_gpu("h200-sxm")
    drawn = model.times(ops, [system], model.draws(60))[:, 0]
    middle = np.log(np.median(drawn, axis=0) / db.times(ops, "h200-sxm"))
    assert abs(np.median(middle)) < 0.05


def test_directions_are_what_the_rows_feel_in_units_of_the_priors() -> None:
    """Rows that feel the tensor efficiency alone: one direction, its prior's width long."""
    jacobian = np.zeros((50, len(TILE_PARAMETERS)))
    place = [p.name for p in TILE_PARAMETERS].index("tensor_efficiency")
    jacobian[:, place] = -1.0
    found = Estimate(
        z=np.zeros(len(TILE_PARAMETERS)), covariance=np.eye(len(TILE_PARAMETERS)),
        jacobian=jacobian, residual=np.zeros(50), left_out=np.zeros(50), weight=np.ones(50),
        cluster=np.zeros(50, dtype=np.intp), condition_number=1.0, rank=1,
    )  # fmt: skip
    moves = directions(TILE_PARAMETERS, found)
    assert moves.shape == (len(TILE_PARAMETERS), 1)
    # A lower efficiency is slower.
    assert moves[place, 0] == pytest.approx(-0.2)
    assert np.abs(np.delete(moves[:, 0], place)).max() < 1e-9


def fit_of(values: dict[str, float], sd: float = 0.0) -> FamilyFit:
    return FamilyFit(
        names=("only",), values={k: (v,) for k, v in values.items()},
        sds=dict.fromkeys(values, (sd,)), weights=dict.fromkeys(values, 1.0),
    )  # fmt: skip


def test_the_spread_of_deviations_by_hand() -> None:
    """Two of one width each: (1 + 1 + 6 x 0.25) / (2 + 6); with 0.5 unsure of both, 0.5 more."""
    assert spread_of([fit_of({"a": 1.0, "b": -1.0})]) ** 2 == pytest.approx(3.5 / 8)
    assert spread_of([fit_of({"a": 1.0, "b": -1.0}, 0.5)]) ** 2 == pytest.approx(4.0 / 8)


def test_one_family_says_nothing_of_how_families_differ() -> None:
    assert spread_of([fit_of({"a": 3.0})]) == pytest.approx(WIDTH)
