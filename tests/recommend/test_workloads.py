"""A workload on the baseline: bounds, slices, and what is said of its quality."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codesign.recommend.speed_of_light import op_bounds, speed_of_light
from codesign.workload.characterization import Quality, Reliability
from tests.projection.fakes import characterization, collective, gemm, system
from tests.recommend.cases import run

BASE = system()


def test_bounds_take_the_binding_peak_of_the_op_precision() -> None:
    char = characterization(
        [
            gemm(9.0, 2e15, 1e11),  # 2 s at 1 PFLOP/s
            gemm(9.0, 2e15, 1e11, precision="fp8"),  # 1 s at 2 PFLOP/s
            gemm(9.0, 1e12, 5e12),  # 5 s at 1 TB/s
            collective(9.0, 2e11),  # 2 s at 100 GB/s, inside the domain
            collective(9.0, 2e11, group_stride=8),  # one rank a domain: 20 s at 10 GB/s
            {"op_class": "other", "name": "custom", "time_s": 7.0},
        ]
    )
    bounds = op_bounds(char, BASE)
    assert bounds[:5] == pytest.approx([2.0, 1.0, 5.0, 2.0, 20.0])
    assert np.isnan(bounds[5])


def test_a_switch_that_reduces_halves_the_bound_of_an_all_reduce() -> None:
    # nccl-tests: a ring of 8 sends 1.75 messages a rank, a reducing switch takes one.
    char = characterization([collective(9.0, 1.75e11, message_bytes=int(1e11))])
    assert op_bounds(char, BASE)[0] == pytest.approx(1.75)
    assert op_bounds(char, replace(BASE, in_switch_reduction=True))[0] == pytest.approx(1.0)


def test_speed_of_light_keeps_overlap_and_claims_nothing_of_unknown_work() -> None:
    char = characterization(
        [
            gemm(4.0, 2e15, 1e11),
            collective(8.0, 4e11, exposed_s=4.0, overlap_window_s=4.0),
            {"op_class": "other", "name": "custom", "time_s": 1.0, "phase": "backward"},
        ],
        idle_s=5.0,
    )
    # 2 s of compute hide 2 of the 4 s of links; 1 s is unknown; idle time is no light.
    assert speed_of_light(char, BASE) == pytest.approx(2 + 2 + 1)


def test_what_the_quality_block_doubts_is_handed_on() -> None:
    from codesign.recommend.build import recommend
    from tests.recommend.cases import IdentifiedModel, chars, portfolio

    doubt = Quality(
        warnings=("2 events repaired",), complete=False,
        reliability={"idle": Reliability(False, ("graph launches",))},
    )  # fmt: skip
    given: dict[str, Any] = chars()
    given["train"] = given["train"].with_header(quality=doubt)
    recs = recommend(portfolio(), given, IdentifiedModel(), base=BASE)
    said = recs.workloads[0].quality_warnings
    assert said[0] == "2 events repaired"
    assert "idle: graph launches" in said
    assert any("cut short" in text for text in said)


def test_a_model_that_misses_the_measured_step_is_warned_of() -> None:
    from codesign.recommend.build import recommend
    from tests.recommend.cases import IdentifiedModel, chars, portfolio

    slow = characterization([gemm(40.0, 1e14, 3.6e12, phase="decode")], workload="serve")
    recs = recommend(portfolio(), {**chars(), "serve": slow}, IdentifiedModel(), base=BASE)
    assert any("serve: the fitted model puts the step of 40 s at" in w for w in recs.warnings)


def test_slices_name_exposed_communication_and_idle_time() -> None:
    train = run().workloads[0]
    assert [(r.label, r.time_s) for r in train.breakdown] == [
        ("GEMM bf16", 3.0), ("exposed all-reduce", 1.0),
    ]  # fmt: skip
