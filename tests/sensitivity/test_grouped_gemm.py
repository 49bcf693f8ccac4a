from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.sensitivity.grouped_gemm import GroupedGemmModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.workload.schema import ops_frame
from tests.sensitivity.laws import (
    CAPABILITIES,
    assert_monotone,
    assert_terms_agree,
    example_system,
)


def moe(m: int = 4096, experts: int = 8, precision: str = "bf16", **more: object) -> pd.DataFrame:
    row = {"op_class": "grouped_gemm", "name": "moe", "precision": precision, "m": m, "n": 2048,
           "k": 7168, "experts": experts, "topk": 8, "fused": "moe_gated", "count": 1.0,
           "distribution": "balanced", "evidence": "assumed"}  # fmt: skip
    return ops_frame([row | more])


def time(ops: pd.DataFrame) -> float:
    model = GroupedGemmModel()
    theta = np.array([p.initial for p in model.parameters("bf16")])
    return float(model.times(theta, model.features(ops), hardware_arrays([example_system()]))[0, 0])


@settings(max_examples=40)
@given(st.integers(1, 50_000), st.integers(1, 256), st.sampled_from(["bf16", "fp8"]),
       st.sampled_from(["balanced", "power_law_1.2"]), st.sampled_from(CAPABILITIES),
       st.lists(st.floats(0.25, 4.0), min_size=2, max_size=4))  # fmt: skip
def test_time_never_rises_with_a_capability(m, experts, precision, kind, capability, steps) -> None:
    ops = moe(m, experts, precision, distribution=kind)
    assert_monotone(GroupedGemmModel(), ops, example_system(), capability, steps)


def test_fast_path_equals_the_combined_terms() -> None:
    assert_terms_agree(GroupedGemmModel(), pd.concat([moe(), moe(8), moe(99)]), example_system())


def test_few_tokens_read_few_experts() -> None:
    # 4 rows hit at most 4 of 64 experts: about 1/16 of the weights of all.
    all_weights_s = 64 * 3 * 7168 * 2048 * 2 / 3.35e12
    assert time(moe(4, 64)) < all_weights_s / 5
    assert time(moe(64 * 64, 64)) > all_weights_s


def test_gated_costs_more_than_ungated_by_its_third_matrix() -> None:
    ratio = time(moe(65536)) / time(moe(65536, fused="moe_ungated"))
    assert ratio == pytest.approx(1.5, abs=0.1)


def test_skew_slows_a_layer_that_is_spread_over_ranks_and_no_other() -> None:
    spread = {"experts": 4, "experts_total": 256, "distribution": "power_law_1.2"}
    even = spread | {"distribution": "balanced"}
    assert time(moe(32768, **spread)) > 1.5 * time(moe(32768, **even))
    whole = {"experts": 8, "experts_total": 8}
    ratio = time(moe(32768, **whole, distribution="power_law_1.2")) / time(moe(32768, **whole))
    assert ratio == pytest.approx(1.0, abs=0.02)


def test_tokens_that_no_expert_here_wants_still_pass_through() -> None:
    # One pass over 128 k tokens of 7168 bf16 values is 1.8 GB: 0.5 ms at 3.35 TB/s.
    few = moe(1024, tokens=1024)
    many = moe(1024, tokens=131_072)
    assert time(many) - time(few) == pytest.approx(130_048 * 7168 * 2 / 3.35e12, rel=0.35)
