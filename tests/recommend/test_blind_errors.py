"""Which backtest groups stand beside a lever, and what the head of the report says of them."""

from __future__ import annotations

from typing import Any

from codesign._common.scores import Backtest, BacktestRow
from codesign.recommend.blind_errors import groups_of
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio


def _row(op_class: str, target: str, error: float, bias: float, **changes: Any) -> BacktestRow:
    values: dict[str, Any] = {
        "op_class": op_class, "precision": "", "target": target, "tier": "transfer",
        "source": "h100-sxm", "trained_on": (), "n": 50, "median_ape": error, "mape": error,
        "p90_ape": error, "bias": bias, "coverage_90": 0.9, "roofline_median_ape": 0.5,
        "ratio_median_ape": None,
    }  # fmt: skip
    return BacktestRow(**(values | changes))


ROWS = (
    _row("all_reduce", "b200-sxm", 0.20, -0.2), _row("all_gather", "b200-sxm", 0.29, -0.3),
    _row("all_gather", "h200-sxm", 0.60, 0.6), _row("gemm", "b200-sxm", 0.05, 0.01),
    _row("all_gather", "b200-sxm", 0.90, 0.9, tier="spec-only"),
    _row("grouped_gemm", "b200-sxm", 0.5, 0.5),
)  # fmt: skip


def test_newest_silicon_and_the_tier_of_the_projection_count() -> None:
    assert [r.median_ape for r in groups_of(ROWS, "collective")] == [0.20, 0.29]
    assert [r.median_ape for r in groups_of(ROWS, "gemm")] == [0.05]
    assert groups_of(ROWS, "norm") == []


def test_a_lever_tells_the_errors_of_what_carries_it_and_the_head_warns_of_large_ones() -> None:
    from codesign.recommend.build import recommend

    recs = recommend(portfolio(), chars(), IdentifiedModel(), Backtest(ops=ROWS), base=BASE)
    by_lever = {r.lever: " ".join(r.caveats) for r in recs.recommendations}
    said = "Collectives: blind projections onto b200-sxm err by 20 % to 29 %"
    assert said in by_lever["nvlink_bandwidth"]
    assert "too fast in 2 of 2" in by_lever["nvlink_bandwidth"]
    assert "GEMMs: blind projections onto b200-sxm err by 5.0 %" in by_lever["hbm_bandwidth"]
    head = " ".join(recs.warnings)
    assert said in head
    assert "NVLink bandwidth (100 % of the time it saves)" in head
    assert "GEMMs: blind" not in head
