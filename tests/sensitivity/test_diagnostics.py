"""Diagnostics of a fit against what is known of the data that it was fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from codesign._common.errors import UsageError
from codesign.sensitivity import SensitivityModel, fit
from codesign.sensitivity.diagnostics import Diagnostics, UnitDiagnostics, _decade, diagnose
from codesign.sensitivity.gemm import GemmModel
from tests.sensitivity.fakes import FakeDB

ROWS = 150
MODELS = (GemmModel(),)


def diagnosed(db: FakeDB) -> tuple[SensitivityModel, Diagnostics]:
    model = fit(db, exclude=["b200-sxm"], models=MODELS, rows_per_gpu=ROWS)
    return model, diagnose(model, db, models=MODELS, rows_per_gpu=ROWS)


@pytest.fixture(scope="module")
def sound() -> tuple[SensitivityModel, UnitDiagnostics]:
    """Times with 3 % of noise, made by the form that is fitted."""
    model, found = diagnosed(FakeDB(noise=0.03))
    (unit,) = found.units
    return model, unit


def test_every_row_of_the_fit_is_there_and_no_other(
    sound: tuple[SensitivityModel, UnitDiagnostics],
) -> None:
    model, unit = sound
    assert unit.n == 3 * ROWS == model.content.units[0].score.n
    for groups in (unit.by_gpu, unit.by_resource, unit.by_size):
        assert sum(g.n for g in groups) == unit.n
    assert [g.name for g in unit.by_gpu] == ["a100-80gb-sxm", "h100-sxm", "h200-sxm"]


def test_residuals_are_the_noise_that_was_put_in(
    sound: tuple[SensitivityModel, UnitDiagnostics],
) -> None:
    _, unit = sound
    # The median of |N(0, 0.03)| is 0.674 x 0.03 = 0.0202; the fit takes a little off.
    for group in unit.by_gpu:
        assert group.median_ape == pytest.approx(0.0202, rel=0.5)
        assert abs(group.bias) < 0.02
        assert 0.8 < group.coverage_90 <= 1.0
    assert np.median([abs(p.error) for p in unit.points]) == pytest.approx(0.0202, rel=0.5)


def test_residuals_are_those_that_the_fit_scored(
    sound: tuple[SensitivityModel, UnitDiagnostics],
) -> None:
    model, unit = sound
    scored = model.content.units[0].score
    for group in unit.by_gpu:
        assert group.median_ape == pytest.approx(scored.by_gpu[group.name], rel=1e-6)
        assert group.bias == pytest.approx(scored.bias_by_gpu[group.name], rel=1e-6)


def test_leverages_add_up_to_no_more_than_the_parameters(
    sound: tuple[SensitivityModel, UnitDiagnostics],
) -> None:
    _, unit = sound
    total = sum(g.leverage for g in unit.by_gpu)
    # A ridge takes part of every parameter away from the data.
    assert 0 < total < len(unit.parameters)
    assert sum(g.leverage for g in unit.by_size) == pytest.approx(total)
    assert all(g.leverage > 0 for g in unit.by_gpu)


def test_intervals_hold_their_value_and_keep_to_the_bounds(
    sound: tuple[SensitivityModel, UnitDiagnostics],
) -> None:
    _, unit = sound
    bounds = {p.name: (p.lower, p.upper) for p in GemmModel().parameters(unit.variant)}
    for p in unit.parameters:
        lower, upper = bounds[p.name]
        assert lower <= p.lo <= p.value <= p.hi <= upper
        assert p.standard_error > 0
    assert unit.at_bound == tuple(p.name for p in unit.parameters if p.at_bound)


def test_a_gpu_that_differs_stands_out() -> None:
    _, found = diagnosed(FakeDB(noise=0.01, bias={"h200-sxm": 0.25}))
    bias = {g.name: g.bias for g in found.units[0].by_gpu}
    # Its measured times are longer than the model's, which has H100's silicon for both.
    assert bias["h200-sxm"] < bias["h100-sxm"] - 0.1


def test_tables_of_a_gpu_that_the_fit_had_must_be_there(
    sound: tuple[SensitivityModel, UnitDiagnostics],
) -> None:
    class Fewer(FakeDB):
        def gpus(self) -> list[str]:
            return ["h100-sxm", "h200-sxm"]

    with pytest.raises(UsageError, match="no tables of a100-80gb-sxm"):
        diagnose(sound[0], Fewer(), models=MODELS)


@pytest.mark.parametrize(
    ("power", "text"),
    [(-6, "1 us to 10 us"), (-4, "100 us to 1 ms"), (-1, "100 ms to 1 s"), (0, "1 s to 10 s"),
     (1, "10 s to 100 s")],
)  # fmt: skip
def test_decades_of_time(power: int, text: str) -> None:
    assert _decade(power) == text
