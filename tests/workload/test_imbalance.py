from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.workload.imbalance import busiest_rank, exponent

SKEWED = ["power_law_1.01", "power_law_1.2"]


def test_the_exponent_is_read_from_the_name() -> None:
    assert exponent("power_law_1.2") == 1.2
    assert exponent("balanced") is None
    assert exponent("") is None


def test_balanced_rows_are_dealt_out_in_turn() -> None:
    assert busiest_rank("balanced", 4, 32, 256, 8).experts_hit == 4
    assert busiest_rank("balanced", 4096, 32, 256, 8).experts_hit == 32
    assert busiest_rank("balanced", 4096, 32, 256, 8).rows_ratio == 1.0


def test_rows_without_a_named_distribution_pick_their_experts_alone() -> None:
    # 8 rows over 8 experts: each is missed with probability (1 - 1/8)^8, about exp(-1).
    assert busiest_rank("", 8, 8, 64, 2).experts_hit == pytest.approx(8 * (1 - math.exp(-1)))


@settings(max_examples=60)
@given(st.sampled_from(SKEWED), st.integers(1, 4096), st.sampled_from([1, 2, 8, 32]),
       st.sampled_from([1, 2, 8, 16]), st.integers(1, 8))  # fmt: skip
def test_the_busiest_rank_has_between_the_mean_and_all_rows(law, rows, experts, ranks, topk):
    topk = min(topk, experts * ranks)
    load = busiest_rank(law, rows, experts, experts * ranks, topk)
    assert 1.0 - 1e-9 <= load.rows_ratio <= ranks + 1e-9
    assert 1.0 <= load.experts_hit <= min(experts, rows * ranks) + 1e-9
    # No expert takes a token twice, so a rank has at most tokens x its experts rows.
    tokens = max(rows * ranks / topk, 1.0)
    assert load.rows_ratio * rows <= tokens * experts * (1 + 1e-9) + experts


@pytest.mark.parametrize("law", SKEWED)
def test_one_rank_has_all_rows_whatever_the_skew(law: str) -> None:
    assert busiest_rank(law, 512, 64, 64, 4).rows_ratio == pytest.approx(1.0)


@pytest.mark.parametrize("law", SKEWED)
def test_one_token_reaches_as_many_experts_as_it_chooses(law: str) -> None:
    assert busiest_rank(law, 8, 256, 256, 8).experts_hit == 8


def test_skew_grows_with_the_exponent_and_falls_with_experts_a_rank() -> None:
    mild, strong = (busiest_rank(law, 4096, 1, 256, 8).rows_ratio for law in SKEWED)
    assert 1 < mild < strong
    ratios = [busiest_rank("power_law_1.2", 4096, e, 256, 8).rows_ratio for e in (1, 8, 64)]
    assert ratios == sorted(ratios, reverse=True)


def test_two_experts_under_a_flat_law_share_as_two_uniforms() -> None:
    """Exponent 0 draws popularities evenly from 1 to 0.8 T: E[log of the larger's share].

    For large T the larger of two uniforms has share 1 / (1 + r) with r even on [0, 1];
    the mean of -log(1 + r) is 1 - 2 log 2, so its rows are 2 exp(1 - 2 log 2) = e / 2 of
    the mean rank's.
    """
    ratio = busiest_rank("power_law_0.0", 100_000, 1, 2, 1).rows_ratio
    # 48 draws; log share has sd 0.2, so three standard errors are 0.09.
    assert np.log(ratio) == pytest.approx(np.log(math.e / 2), abs=0.09)
