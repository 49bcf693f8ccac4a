"""What projections rest on, by hand."""

from __future__ import annotations

import pytest

from codesign.recommend.ledger import basis
from codesign.sources.perfdb._store import ROW_FOR_ROW
from tests.projection.fakes import characterization, gemm
from tests.recommend.cases import run


def test_a_modelled_time_says_from_what() -> None:
    said = {
        ("measured", "tables gemm_perf"): "measured",
        ("interpolated", "tables gemm_perf"): "interpolated",
        ("modelled", "speed of light of hgx-h100"): "speed_of_light",
        ("modelled", "mxfp8 as fp8: tables gemm_perf"): "other_precision",
        ("modelled", "forward's time: tables moe_perf"): "other_op",
        ("assumed", "1e9 B over the scale-out network"): "assumed",
        ("assumed", f"tables nccl_perf, {ROW_FOR_ROW}"): "other_gpu",
    }
    char = characterization(
        [gemm(1.0, 1e12, 1e9, evidence=e, source=s, name=str(i)) for i, (e, s) in enumerate(said)]
    )
    assert basis(char) == list(said.values())


def test_steps_and_what_levers_save_of_them() -> None:
    found = run().ledger
    assert found is not None
    assert (found.gpu, found.ratio_seen) == ("toy", True)
    rows = {(r.workload, r.lever): r for r in found.rows}
    assert rows["train", ""].rests_on == {"measured": 1.0}
    # serve: 3.6 s measured and 0.4 s assumed, both bound by HBM, which saves both alike
    # but for a launch of 1 us.
    expected = {k: pytest.approx(v, rel=1e-5) for k, v in (("measured", 0.9), ("assumed", 0.1))}
    assert rows["serve", ""].rests_on == expected
    assert rows["serve", "hbm_bandwidth"].rests_on == expected
    # Links save nothing of a workload that has none.
    assert rows["serve", "nvlink_bandwidth"].rests_on == {}
    # Nothing is said of a lever that was not studied.
    assert ("serve", "hbm_capacity") not in rows


def test_every_share_adds_up() -> None:
    found = run().ledger
    assert found is not None
    for row in found.rows:
        assert sum(row.rests_on.values()) == pytest.approx(1.0 if row.rests_on else 0.0)
