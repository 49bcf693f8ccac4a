"""Projection with a model that can be worked out by hand (see fakes)."""

from __future__ import annotations

import numpy as np
import pytest

from codesign._common.errors import InsufficientDataError, UsageError
from codesign.projection import portfolio_gain, project
from codesign.projection.portfolio import interval
from tests.projection.fakes import FakeModel, characterization, collective, gemm, lever, system

BASE = system()
MODEL = FakeModel()
# 3 s tensor-bound, 1 s HBM-bound (both measured 10 % over the model), 0.5 s of links.
COMPUTE = gemm(3.3, 3e15, 1e12)
MEMORY = gemm(1.1, 1e14, 1e12)
COMM = collective(0.5, 5e10)
CHAR = characterization([COMPUTE, MEMORY, COMM])


def _gain(name: str, factor: float, char: object = CHAR) -> float:
    proj = project(char, MODEL, [lever(BASE, name, factor)], draws=0, base=BASE)  # type: ignore[arg-type]
    return proj.gain[0].value


def test_measured_time_scales_by_the_ratio_of_the_model() -> None:
    # Only the 1.1 s row is HBM-bound: 4.9 -> 4.9 - 0.55 (the launch microsecond aside).
    assert _gain("hbm_bandwidth", 2.0) == pytest.approx(4.9 / 4.35, rel=1e-5)
    # The 3.3 s row falls by the ratio until its own 1 s of HBM time binds: 3.3 -> 1.1.
    assert _gain("bf16_throughput", 100.0) == pytest.approx(4.9 / 2.7, rel=1e-4)
    assert _gain("nvlink_bandwidth", 2.0) == pytest.approx(4.9 / 4.65, rel=1e-5)


@pytest.mark.parametrize("name", ["hbm_bandwidth", "bf16_throughput", "nvlink_bandwidth"])
def test_no_change_gains_exactly_nothing_in_every_draw(name: str) -> None:
    proj = project(CHAR, MODEL, [lever(BASE, name, 1.0)], draws=50, base=BASE)
    assert proj.step_time_s.shape == (51, 1)
    assert (proj.gain_draws == 1.0).all()


def test_fp8_gains_exactly_nothing_on_a_bf16_workload() -> None:
    proj = project(CHAR, MODEL, [lever(BASE, "fp8_throughput", 2.0)], draws=50, base=BASE)
    assert (proj.gain_draws == 1.0).all()


def test_gains_are_monotone_in_every_draw() -> None:
    factors = [0.5, 0.8, 1.0, 1.1, 1.5, 2.0, 8.0]
    for name in ("hbm_bandwidth", "bf16_throughput", "nvlink_bandwidth"):
        systems = [lever(BASE, name, f) for f in factors]
        draws = project(CHAR, MODEL, systems, draws=40, base=BASE).gain_draws
        assert (np.diff(draws, axis=1) >= 0).all()


def test_draws_widen_what_is_uncertain_and_nothing_else() -> None:
    # Balanced between tensor and HBM: which one binds depends on the draw.
    char = characterization([gemm(1.0, 1e15, 1e12)])
    wide = project(char, MODEL, [lever(BASE, "hbm_bandwidth", 2.0)], draws=400, base=BASE).gain[0]
    assert wide.value == 1.0
    assert wide.lo == 1.0
    # The gain is the ratio of the two rates' draws; log sd 0.1 x sqrt 2, 95th percentile 1.26.
    assert wide.hi == pytest.approx(np.exp(1.645 * 0.1414), rel=0.08)
    sure = project(characterization([gemm(1.0, 1e12, 1e12)]), MODEL,
                   [lever(BASE, "hbm_bandwidth", 2.0)], draws=100, base=BASE).gain[0]  # fmt: skip
    assert sure.hi - sure.lo < 1e-5


def test_time_saved_adds_up() -> None:
    target = lever(BASE, "hbm_bandwidth", 2.0)
    char = characterization([COMPUTE, MEMORY, COMM], idle_s=0.1)
    proj = project(char, MODEL, [target], draws=0, base=BASE)
    assert proj.saved_s[0].sum() == pytest.approx(
        proj.base_step_time_s - proj.step_time_s[0, 0], rel=1e-9
    )


def test_chunks_of_systems_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    systems = [lever(BASE, "hbm_bandwidth", f) for f in (1.1, 1.2, 1.3)]
    whole = project(CHAR, MODEL, systems, draws=5, base=BASE).step_time_s
    monkeypatch.setattr("codesign.projection.projector._CHUNK_ELEMENTS", 1)
    np.testing.assert_array_equal(
        project(CHAR, MODEL, systems, draws=5, base=BASE).step_time_s, whole
    )


def test_a_row_that_the_model_does_not_know_keeps_its_time() -> None:
    class Ignorant(FakeModel):
        def times(self, ops: object, systems: object, draws: object = None) -> np.ndarray:
            result = super().times(ops, systems, draws)  # type: ignore[arg-type]
            result[..., 1] = np.nan
            return result

    proj = project(CHAR, Ignorant(), [lever(BASE, "hbm_bandwidth", 2.0)], draws=3, base=BASE)
    assert proj.held.tolist() == [False, True, False]
    assert proj.gain[0].value == pytest.approx(1.0, rel=1e-5)


def test_a_characterization_without_a_system_needs_one() -> None:
    with pytest.raises(UsageError, match="does not name its system"):
        project(characterization([COMPUTE], system=None), MODEL, [BASE])


def test_portfolio_gain_is_harmonic_in_gpu_hours() -> None:
    # Half the fleet twice as fast needs 0.25 + 0.5 of the hours: 1.33, not 1.5.
    assert portfolio_gain([0.5, 0.5], [np.array([2.0]), np.array([1.0])])[0] == pytest.approx(4 / 3)
    thirds = [np.array([1.0])] * 10
    assert portfolio_gain([0.1] * 10, thirds)[0] == 1.0


def test_interval_holds_its_point() -> None:
    assert interval(np.array([5.0, 1.0, 1.0, 1.0])).hi == 5.0
    assert interval(np.array([2.0])).lo == 2.0


@pytest.mark.parametrize("rows", [[], [gemm(0.0, 1, 1)]])
def test_nothing_known_to_take_time_is_not_projected(rows: list[dict[str, object]]) -> None:
    with pytest.raises(InsufficientDataError, match="nothing to project"):
        project(characterization(rows, idle_s=1.0), MODEL, [BASE], draws=0, base=BASE)
