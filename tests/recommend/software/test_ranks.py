from __future__ import annotations

from typing import Any

import pytest

from codesign.workload.characterization import RankTimes
from tests.projection.fakes import collective
from tests.recommend.software.cases import compute, found, look, nothing, silence, unreliable


def rank(number: int, compute_s: float, last_share: float) -> RankTimes:
    return RankTimes(number, str(number), f"rank{number}", 1, 5.0, compute_s, 1.0, 1.0, 0.0, 0.0,
                     matched=10, collectives=10, last_share=last_share)  # fmt: skip


def test_waiting_for_the_last_rank_can_go_the_transfer_stays() -> None:
    rows = [compute(4.0), collective(1.0, 1e9, wait_s=0.5)]
    finding = found("stragglers", look(rows, rank_times=(rank(0, 3.6, 0.1), rank(1, 4.4, 0.9))))
    assert finding.at_stake_s == 0.5
    assert finding.gain.value == pytest.approx(5 / (5 - 0.3))
    assert "rank 1 arrives last in 90 % of the collectives" in finding.evidence
    assert "+10 % against the mean" in finding.evidence


def test_only_what_is_exposed_of_a_wait_counts() -> None:
    rows = [compute(4.0), collective(1.0, 1e9, wait_s=0.5, exposed_s=0.2)]
    assert found("stragglers", look(rows)).at_stake_s == pytest.approx(0.2)


def test_ranks_in_step_or_unknown_waits_are_no_finding() -> None:
    assert nothing("stragglers", look([compute(4.0), collective(1.0, 1e9, wait_s=0.001)]))
    assert nothing("stragglers", look([compute(4.0), collective(1.0, 1e9)]))


def test_waits_of_ranks_that_were_not_captured_are_no_evidence() -> None:
    at = look([compute(4.0), collective(1.0, 1e9, wait_s=0.5)], quality=unreliable("wait"))
    assert silence("stragglers", at) == "wait not reliable: clipped"


def experts(time_s: float, **more: Any) -> dict[str, Any]:
    return {"op_class": "grouped_gemm", "name": "experts", "precision": "bf16", "fused":
            "moe_gated", "m": 4096, "n": 2048, "k": 7168, "experts": 8, "experts_total": 64,
            "topk": 8, "time_s": time_s, **more}  # fmt: skip


def to_experts(time_s: float, **more: Any) -> dict[str, Any]:
    return {**collective(time_s, 1e9), "name": "ep.dispatch", "collective": "dispatch", **more}


def test_waits_around_the_experts_are_their_imbalance() -> None:
    rows = [compute(2.0), experts(2.0), to_experts(1.0, wait_s=0.5)]
    finding = found("moe_imbalance", look(rows))
    assert finding.gain.value == pytest.approx(5 / (5 - 0.3))
    # The same wait is not told twice.
    assert nothing("stragglers", look(rows))


def test_without_experts_a_wait_at_an_all_to_all_is_a_straggler() -> None:
    row = {**to_experts(1.0, wait_s=0.5), "collective": "all_to_all"}
    assert nothing("moe_imbalance", look([compute(4.0), row]))
    assert found("stragglers", look([compute(4.0), row]))


def test_a_measured_skew_gains_more_the_more_skewed_it_is() -> None:
    def gain(distribution: str) -> float:
        return found("moe_imbalance", look([experts(2.0, distribution=distribution)])).gain.value

    assert gain("power_law_1.2") > gain("power_law_1.01") > 1
    assert nothing("moe_imbalance", look([experts(2.0, distribution="balanced")]))


def test_a_skew_that_a_recipe_assumes_is_no_evidence() -> None:
    at = look([experts(2.0, distribution="power_law_1.2")], capture_method="composed")
    assert "composed" in silence("moe_imbalance", at)
