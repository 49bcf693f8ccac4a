"""Random effects of silicon families: found again where they were put, none where nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from codesign.hardware import load_system
from codesign.sensitivity.collective import CollectiveModel
from codesign.sensitivity.effects import (
    FamilyFit,
    add_effects,
    fit_families,
    named_moves,
    spread_between,
    student_factor,
)
from codesign.sensitivity.estimate import Block, estimate, initial, natural
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.training import feature_key
from codesign.workload.schema import ops_frame

MODEL = CollectiveModel()
NAMES = tuple(MODEL.effects(""))


def rows(kind: str) -> pd.DataFrame:
    return ops_frame([
        {"op_class": "collective", "name": "nccl", "collective": kind, "message_bytes": 2**power,
         "group_size": ranks, "count": 1.0, "evidence": "measured"}
        for power in range(9, 30) for ranks in (2, 4, 8)
    ])  # fmt: skip


def block(system: str, family: str, latency: float, bandwidth: float, kind: str) -> Block:
    """Times of the model's own law, latencies and link rates of the family changed by hand."""
    hw = hardware_arrays([load_system(system)])
    theta = np.array([p.initial for p in MODEL.parameters(kind)])
    names = [p.name for p in MODEL.parameters(kind)]
    for name in ("overhead_s", "step_s"):
        theta[names.index(name)] *= latency
    theta[names.index("pipeline_s")] *= latency / bandwidth
    for name in ("efficiency", "switch_efficiency", "bridge_efficiency"):
        theta[names.index(name)] *= bandwidth
    features = MODEL.features(rows(kind))
    return Block(
        gpu=system, architecture=family, hw=hw, features=features,
        time_s=MODEL.times(theta, features, hw)[0], key=feature_key(features),
    )  # fmt: skip


def test_effects_of_a_family_are_found_again() -> None:
    """Latencies x1.5 and 0.8 of the wire around the initial parameters."""
    kind = "all_gather"
    z = initial(MODEL.parameters(kind))
    blocks = [block("hgx-h100", "hopper", 1.5, 0.8, kind), block("hgx-a100", "ampere", 1, 1, kind)]
    found = fit_families(MODEL, kind, blocks, z, NAMES, named_moves(MODEL, kind), np.full(2, 10.0))
    assert found.names == ("latency", "bandwidth")
    assert found.values["hopper"] == pytest.approx([np.log(1.5), -np.log(0.8)], abs=0.01)
    assert found.values["ampere"] == pytest.approx([0.0, 0.0], abs=0.01)


def test_a_prior_of_no_spread_shrinks_effects_away() -> None:
    kind = "all_gather"
    blocks = [block("hgx-h100", "hopper", 1.5, 0.8, kind)]
    z, moves = initial(MODEL.parameters(kind)), named_moves(MODEL, kind)
    found = fit_families(MODEL, kind, blocks, z, NAMES, moves, np.full(2, 1e-3))
    assert np.abs(found.values["hopper"]).max() < 0.01


def fit_of(values: dict[str, float], weights: dict[str, float] | None = None) -> FamilyFit:
    return FamilyFit(
        names=("only",), values={k: (v,) for k, v in values.items()},
        sds=dict.fromkeys(values, (0.0,)), weights=weights or dict.fromkeys(values, 1.0),
    )  # fmt: skip


def test_spread_of_two_families_by_hand() -> None:
    """Effects of +0.5 and -0.5 have a variance of 0.5 on one degree of freedom.

    With the prior's 0.2 on three: (0.5 + 3 x 0.04) / 4 = 0.155.
    """
    spread, degrees = spread_between([fit_of({"a": 0.5, "b": -0.5})])
    assert spread[0] ** 2 == pytest.approx(0.155)
    assert degrees == 4.0


def test_a_common_shift_is_no_spread_and_one_family_says_nothing() -> None:
    shifted, _ = spread_between([fit_of({"a": 1.5, "b": 0.5})])
    centred, _ = spread_between([fit_of({"a": 0.5, "b": -0.5})])
    assert shifted == pytest.approx(centred)
    alone, degrees = spread_between([fit_of({"a": 3.0})])
    assert alone[0] == pytest.approx(0.2)
    assert degrees == 3.0


def test_a_light_family_hardly_counts() -> None:
    heavy = {"a": 1.0, "b": 1.0, "gddr": 0.01}
    with_it, _ = spread_between([fit_of({"a": 0.1, "b": -0.1, "gddr": 2.0}, heavy)])
    without, _ = spread_between([fit_of({"a": 0.1, "b": -0.1})])
    assert with_it[0] == pytest.approx(without[0], abs=0.03)


def test_what_only_one_family_measured_takes_its_effects_from_the_rest() -> None:
    """Hopper's latencies are x0.6 of Ampere's; only Hopper measured all_to_all.

    A new family is expected between the two, above Hopper's own times.
    """
    both = [block("hgx-h100", "hopper", 0.6, 1, "all_gather"),
            block("hgx-a100", "ampere", 1.0, 1, "all_gather")]  # fmt: skip
    alone = [block("hgx-h100", "hopper", 0.6, 1, "all_to_all")]
    parameters = MODEL.parameters("")
    fitted = add_effects(MODEL, {
        "all_gather": (both, estimate(MODEL, parameters, both)),
        "all_to_all": (alone, estimate(MODEL, parameters, alone)),
    })  # fmt: skip
    own = fitted["all_to_all"]
    new = MODEL.times(natural(parameters, own.found.z), alone[0].features, alone[0].hw)[0]
    small = alone[0].features["bytes"] < 2**14
    ratio = np.median((new / alone[0].time_s)[small])
    assert 1.1 < ratio < 1 / 0.6
    assert np.abs(np.median(own.adjusted[0][small])) < 0.06
    names = [e.name for e in own.effects]
    assert own.effects[names.index("latency")].families["hopper"] < -0.1


def test_the_factor_of_students_t_is_that_of_the_tables() -> None:
    # 95 % points: t of 4 degrees 2.132, of 5 2.015, normal 1.645.
    assert student_factor(4.0) == pytest.approx(2.132 / 1.645, rel=1e-3)
    assert student_factor(5.0) == pytest.approx(2.015 / 1.645, rel=1e-3)
    assert student_factor(1e6) == pytest.approx(1.0, rel=1e-4)


def test_rows_of_hardware_arrays_keep_their_system() -> None:
    both = hardware_arrays([load_system("hgx-a100"), load_system("hgx-b200")])
    swapped = both.rows([1, 0])
    assert swapped.names == ("hgx-b200", "hgx-a100")
    assert swapped.sm_count[0, 0] == load_system("hgx-b200").gpu.sm_count
    alone = hardware_arrays([replace(load_system("hgx-b200"))])
    assert (both.rows([1]).peaks_flops_per_s[0] == alone.peaks_flops_per_s[0])[
        np.isfinite(alone.peaks_flops_per_s[0])
    ].all()
