"""Sanity against silicon: what is known of real GPUs must come out of the whole chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codesign.hardware import load_system
from codesign.hardware.levers import LEVERS, apply_lever
from codesign.projection import Projection, project
from codesign.projection.shares import step_shares
from codesign.projection.step import step_of
from codesign.workload.characterization import Characterization
from codesign.workload.recipe import load_recipe

pytest.importorskip("aiconfigurator_core")
pytestmark = pytest.mark.perfdb

DRAWS = 40


@pytest.fixture(scope="module")
def db() -> Any:
    from codesign.sources.perfdb import PerfDB

    return PerfDB()


@pytest.fixture(scope="module")
def model(db: Any) -> Any:
    """Fitted without H200; on a part of the rows and GPUs, so that the test stays short."""
    from codesign.sensitivity import fit

    gpus = ("a100-80gb-sxm", "h100-sxm", "l40s", "b200-sxm")
    found = fit(db, gpus=gpus, rows_per_gpu=150)
    assert "h200-sxm" not in found.trained_on
    return found


@pytest.fixture(scope="module")
def composed(db: Any) -> Any:
    from functools import cache

    from codesign.sources.compose import compose

    @cache
    def on(recipe: str, system: str) -> Characterization:
        return compose(load_recipe(recipe), db, system)

    return on


def _levers(char: Characterization, model: Any, steps: list[tuple[str, float]]) -> Projection:
    base = load_system(char.header.system or "")
    return project(char, model, [apply_lever(base, *s) for s in steps], DRAWS)


def test_decode_from_h100_lands_on_what_h200_measured(composed: Any, model: Any) -> None:
    """HBM x1.43 and nothing else; published decode GEMMs gain 1.36 to 1.42."""
    here = composed("llama-3.1-70b-decode-b16", "hgx-h100")
    there = composed("llama-3.1-70b-decode-b16", "hgx-h200")
    measured = step_of(there).step_time_s
    onto_h200 = project(here, model, [load_system("hgx-h200")], DRAWS, scoring=True)
    assert onto_h200.step_time_s[0, 0] == pytest.approx(measured, rel=0.08)
    # The same by the lever alone: H200 is H100 with faster memory.
    by_lever = _levers(here, model, [("hbm_bandwidth", 4.8 / 3.35)])
    assert by_lever.step_time_s[0, 0] == pytest.approx(measured, rel=0.08)
    assert by_lever.gain[0].lo > 1.1


def test_compute_bound_pretraining_gains_little_from_hbm(composed: Any, model: Any) -> None:
    char = composed("llama-3.1-70b-pretrain-bf16", "hgx-h100")
    gain = _levers(char, model, [("hbm_bandwidth", 4.8 / 3.35)]).gain[0].value
    assert 1.0 <= gain < 1.05


def test_fp8_throughput_gains_exactly_nothing_on_a_bf16_workload(composed: Any, model: Any) -> None:
    char = composed("llama-3.1-70b-pretrain-bf16", "hgx-h100")
    assert (_levers(char, model, [("fp8_throughput", 2.0)]).gain_draws == 1.0).all()
    fp8 = composed("llama-3.1-70b-pretrain-fp8", "hgx-h100")
    gain = _levers(fp8, model, [("fp8_throughput", 2.0)]).gain[0].value
    # FP8 GEMMs gain, yet less than the ratio: quantize, attention and links stay.
    assert 1.02 < gain < 1.6


@pytest.mark.parametrize("recipe", ["llama-3.1-70b-decode-b16", "deepseek-v3-pretrain-fp8"])
def test_no_change_gains_exactly_nothing(recipe: str, composed: Any, model: Any) -> None:
    char = composed(recipe, "hgx-h100")
    steps = [(lever, 1.0) for lever in LEVERS if lever != "fp4_throughput"]
    assert (_levers(char, model, steps).gain_draws == 1.0).all()


@pytest.mark.parametrize("recipe", ["llama-3.1-70b-rollout-decode", "deepseek-v3-pretrain-fp8"])
def test_gains_are_monotone_in_every_lever_and_draw(recipe: str, composed: Any, model: Any) -> None:
    char = composed(recipe, "hgx-h100")
    for lever, spec in LEVERS.items():
        if lever == "fp4_throughput":
            continue
        gains = _levers(char, model, [(lever, f) for f in spec.steps]).gain_draws
        assert (gains >= 1.0 - 1e-12).all(), lever
        assert (np.diff(gains, axis=1) >= -1e-9).all(), lever


def test_time_shares_add_up_to_the_step(composed: Any, model: Any) -> None:
    char = composed("deepseek-v3-pretrain-fp8", "hgx-h100")
    proj = _levers(char, model, [("hbm_bandwidth", 2.0), ("scaleout_bandwidth", 2.0)])
    assert proj.base_step_time_s == pytest.approx(char.header.step_time_s, rel=1e-9)
    for index in range(2):
        parts = proj.exposed_s[index].sum() + proj.bubble_s[index] + proj.fixed_idle_s
        assert parts == pytest.approx(proj.step_time_s[0, index], rel=1e-9)
    for shares in step_shares(char, model, [proj.base, *proj.systems]):
        assert sum(shares.values()) == pytest.approx(1.0)
