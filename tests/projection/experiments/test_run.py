"""Experiments projected by a model whose data were made by the form that it fits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from codesign.projection.experiments.records import Experiment
from codesign.projection.experiments.run import (
    check_experiment,
    experiment_row,
    experiment_rows,
    training_gpus,
)
from codesign.sensitivity import LeakageError, SensitivityModel, fit
from codesign.sensitivity.gemm import GemmModel
from tests.sensitivity.test_backtest import WorkDB

MODELS = (GemmModel(),)


def experiment(**changes: Any) -> Experiment:
    record = {
        "name": "x", "title": "X", "lever": "hbm_bandwidth", "before": {"system": "hgx-h100"},
        "after": {"system": "hgx-b200"}, "measured": {"by": "kernels", "ratio": 1.0},
        "kernels": {"op_class": "gemm"}, "hold_out": ["b200-sxm"], "source": "s", **changes,
    }  # fmt: skip
    return msgspec.convert(record, Experiment)


@pytest.fixture(scope="module")
def model() -> SensitivityModel:
    return fit(WorkDB(), exclude=["b200-sxm"], models=MODELS, rows_per_gpu=150)


def row(e: Experiment, model: Any) -> Any:
    # Launches as on older parts: nobody knew those of a part before it was measured.
    db = WorkDB(launch_latency_s=2.5e-6)
    return experiment_row(e, db, model, model.draws(100, 0) if model else None)


def test_the_same_ops_on_a_gpu_not_seen(model: SensitivityModel) -> None:
    found = row(experiment(), model)
    assert found.projected is not None
    assert found.projected.value == pytest.approx(found.measured, rel=0.1)
    assert found.inside is True
    assert found.projected.lo < found.projected.value < found.projected.hi


def test_other_ops_on_one_gpu_are_the_models_own_times(model: SensitivityModel) -> None:
    side = {"system": "hgx-b200"}
    found = row(experiment(before={**side, "where": {"m": 8192}},
                           after={**side, "where": {"m": 4096}}), model)  # fmt: skip
    # Twice the rows take up to twice the time, less what floors keep.
    assert 1.2 < found.measured < 2.1
    assert found.projected is not None
    assert found.projected.value == pytest.approx(found.measured, rel=0.15)
    assert found.before == "hgx-b200 m=8192"


def test_a_model_that_has_seen_the_part_is_refused(model: SensitivityModel) -> None:
    seen = experiment(after={"system": "hgx-h200"}, hold_out=["h200-sxm"])
    with pytest.raises(LeakageError, match="x: the model was fitted on h200-sxm"):
        row(seen, model)


def test_what_cannot_be_measured_or_projected_says_why(model: SensitivityModel) -> None:
    published = experiment(kernels=None, measured={"by": "published", "ratio": 1.3, "n": 2})
    found = row(published, None)
    assert (found.measured, found.n, found.projected) == (1.3, 2, None)
    assert "neither kernels nor a recipe" in found.why_not
    absent = row(experiment(kernels={"op_class": "collective"}), model)
    assert "0 ops were measured on both sides" in absent.why_not
    assert absent.agrees is None


def test_the_stated_ratio_is_held_against_the_tables() -> None:
    wrong = experiment(after={"system": "hgx-h200"}, measured={"by": "kernels", "ratio": 3.0})
    assert check_experiment(wrong, WorkDB()).startswith("x: states x3, the kernel tables give x1")
    right = experiment(after={"system": "hgx-h200"},
                       measured={"by": "kernels", "ratio": 1.1, "tolerance": 0.2})  # fmt: skip
    assert check_experiment(right, WorkDB()) == ""
    assert check_experiment(experiment(kernels=None, measured={"by": "published", "ratio": 9.0}),
                            WorkDB()) == ""  # fmt: skip


def test_one_fit_serves_all_that_hold_out_the_same() -> None:
    fits: list[tuple[str, ...]] = []

    def fitter(db: Any, gpus: tuple[str, ...]) -> SensitivityModel:
        fits.append(gpus)
        return fit(db, gpus=gpus, models=MODELS, rows_per_gpu=60)

    several = [
        experiment(name="a"), experiment(name="b", kernels=None,
                                         measured={"by": "published", "ratio": 1.0}),
        experiment(name="c", hold_out=["b200-sxm", "h200-sxm"]), experiment(name="d"),
    ]  # fmt: skip
    rows = experiment_rows(WorkDB(), several, fitter=fitter, draws=20)
    assert [r.name for r in rows] == ["a", "b", "c", "d"]
    assert fits == [("a100-80gb-sxm", "h100-sxm", "h200-sxm"), ("a100-80gb-sxm", "h100-sxm")]
    assert training_gpus(WorkDB(), ["h100-sxm"]) == ("a100-80gb-sxm", "h200-sxm", "b200-sxm")
    assert rows[0].projected == rows[3].projected
