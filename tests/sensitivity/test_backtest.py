"""Backtests: what trains and what is scored, leakage, baselines by hand, scores of known truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import UsageError
from codesign.hardware import load_system, system_of_gpu
from codesign.sensitivity import SensitivityModel
from codesign.sensitivity.backtest import (
    Split,
    fitted_splits,
    op_backtest,
    protocols,
    score_split,
    sources_for,
)
from codesign.sensitivity.backtest_baselines import (
    datasheet_roofline,
    fit_roofline,
    scaled_source_time,
)
from codesign.sensitivity.backtest_rows import (
    RowCache,
    cells,
    fastest_by_op,
    sample,
    source_times,
)
from codesign.sensitivity.errors import LeakageError
from codesign.sensitivity.training import measured_rows
from codesign.workload.schema import ops_frame
from tests.sensitivity.fakes import FakeDB

ALL = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300", "l40s",
       "rtx-pro-6000-server")  # fmt: skip


class WorkDB(FakeDB):
    """The fake with the work that real tables carry."""

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        ops = super().training_ops(gpu, op_class, framework)
        m, n, k = (ops[c].astype("Float64") for c in "mnk")
        return ops.assign(flops=2 * m * n * k, bytes=2 * (m * k + n * k + m * n))


def gemm_row(**more: object) -> dict[str, object]:
    return {"op_class": "gemm", "name": "g", "precision": "bf16", "m": 8, "n": 8, "k": 8,
            "count": 2.0, "evidence": "measured", **more}  # fmt: skip


def test_no_protocol_trains_on_what_it_scores() -> None:
    for protocol in protocols(ALL).values():
        assert protocol.splits
        for split in protocol.splits:
            assert not set(split.train) & set(split.targets)


def test_time_order_never_trains_on_a_newer_architecture() -> None:
    age = {"ampere": 0, "ada": 1, "hopper": 1, "blackwell": 2, "blackwell-ultra": 3}
    for split in protocols(ALL)["time-ordered"].splits:
        newest = max(age[system_of_gpu(g).gpu.architecture] for g in split.train)
        assert all(age[system_of_gpu(t).gpu.architecture] >= newest for t in split.targets)


def test_every_gpu_is_left_out_once() -> None:
    splits = protocols(ALL)["leave-one-gpu-out"].splits
    assert sorted(s.targets[0] for s in splits) == sorted(ALL)
    assert all(len(s.train) == len(ALL) - 1 for s in splits)


def test_missing_gpus_leave_only_usable_splits() -> None:
    assert protocols(("h200-sxm",))["quick"].splits == ()
    (split,) = protocols(("h100-sxm", "b200-sxm"))["quick"].splits
    assert split == Split(("h100-sxm",), ("b200-sxm",))


def test_a_source_is_never_the_target() -> None:
    for protocol in protocols(ALL).values():
        for split in protocol.splits:
            for target in split.targets:
                assert target not in sources_for(target, split)
    assert sources_for("b300-sxm", Split(("a100-80gb-sxm",), ())) == ("h100-sxm", "b200-sxm")


def test_leakage_is_refused(fake_model: SensitivityModel) -> None:
    with pytest.raises(LeakageError, match="h200-sxm"):
        score_split(WorkDB(), fake_model, Split(("a100-80gb-sxm",), ("h200-sxm",)), "trtllm", 50)
    with pytest.raises(LeakageError, match="b200-sxm"):
        score_split(WorkDB(), fake_model, Split(("b200-sxm",), ("b200-sxm",)), "trtllm", 50)


def test_a_fit_never_reads_its_target() -> None:
    db = FakeDB()
    next(iter(fitted_splits(db, "quick")))
    assert "b200-sxm" not in db.asked
    assert "h200-sxm" not in db.asked


def test_targets_own_times_change_no_prediction(fake_model: SensitivityModel) -> None:
    """Twice the measured time: predictions stay, so every error goes as (1 + e) / 2 - 1."""
    split = Split(("h100-sxm",), ("b200-sxm",))
    true = score_split(WorkDB(noise=0.0), fake_model, split, "trtllm", None, ("gemm",))
    slow = score_split(
        WorkDB(noise=0.0, bias={"b200-sxm": float(np.log(2))}),
        fake_model, split, "trtllm", None, ("gemm",),
    )  # fmt: skip
    for a, b in zip(true, slow, strict=True):
        assert (1 + b.bias) * 2 == pytest.approx(1 + a.bias, rel=1e-6)


def test_scores_of_a_known_truth(fake_model: SensitivityModel) -> None:
    """The held-out GPU follows the model's own form: small error, honest coverage, n exact."""
    split = Split(("a100-80gb-sxm", "h100-sxm", "h200-sxm"), ("b200-sxm",))
    # A backtest takes the launch latency of older parts: here that is the truth as well.
    db = WorkDB(launch_latency_s=2.5e-6)
    rows = score_split(db, fake_model, split, "trtllm", None, ("gemm",))
    assert [(r.tier, r.source) for r in rows] == [("spec-only", None), ("transfer", "h100-sxm")]
    for row in rows:
        assert row.op_class == "gemm"
        assert row.precision == "bf16"
        assert row.trained_on == fake_model.trained_on
        assert row.median_ape < 0.12
        assert row.median_ape <= row.mape <= row.p90_ape * 2
        assert row.coverage_90 > 0.8
        assert row.roofline_median_ape > row.median_ape
        assert row.fitted_roofline_median_ape is not None
    assert rows[0].ratio_median_ape is None
    assert rows[1].ratio_median_ape is not None


def test_row_limit_is_kept_and_deterministic(fake_model: SensitivityModel) -> None:
    split = Split(("h100-sxm",), ("b200-sxm",))
    one, two = (score_split(WorkDB(), fake_model, split, "trtllm", 60, ("gemm",)) for _ in "ab")
    assert one == two
    assert {r.n for r in one} == {60}


def test_unknown_protocol_lists_the_known() -> None:
    with pytest.raises(UsageError, match="time-ordered"):
        op_backtest(FakeDB(), "someday")


def test_datasheet_roofline_by_hand() -> None:
    """989.4 TFLOP/s, 3.35 TB/s and 450 GB/s of the H100; work is divided by the count."""
    ops = ops_frame([
        gemm_row(flops=2 * 989.4e12, bytes=2 * 3.35e9),
        gemm_row(flops=2 * 989.4e9, bytes=2 * 3.35e12),
        {"op_class": "collective", "name": "c", "collective": "all_gather", "message_bytes": 8,
         "group_size": 8, "count": 1.0, "wire_bytes": 450e9, "evidence": "measured"},
        {"op_class": "collective", "name": "c", "collective": "all_gather", "message_bytes": 8,
         "group_size": 16, "count": 1.0, "wire_bytes": 50e9, "evidence": "measured"},
    ])  # fmt: skip
    np.testing.assert_allclose(datasheet_roofline(ops, load_system("hgx-h100")), 1.0, rtol=1e-3)


def test_scaled_source_time_by_hand() -> None:
    """HBM x 4.8 / 3.35 for a memory-bound op, x 1 for a compute-bound one, H100 to H200."""
    ops = ops_frame([gemm_row(flops=1.0, bytes=1e9), gemm_row(flops=1e15, bytes=1.0)])
    h100, h200 = load_system("hgx-h100"), load_system("hgx-h200")
    scaled = scaled_source_time(ops, np.array([4.8e-3, 1.0]), h100, h200)
    np.testing.assert_allclose(scaled, [3.35e-3, 1.0], rtol=1e-6)


def test_four_parameter_roofline_recovers_its_own_truth() -> None:
    system = load_system("hgx-h100")
    rng = np.random.default_rng(0)
    flops, size = 10 ** rng.uniform(8, 15, 400), 10 ** rng.uniform(4, 11, 400)
    ops = ops_frame(
        [gemm_row(flops=f, bytes=b, count=1.0) for f, b in zip(flops, size, strict=True)]
    )
    ops["time_s"] = 5e-6 + np.maximum(flops / (0.7 * 989.4e12), size / (0.8 * 3.35e12))
    error = fit_roofline([(ops, system)]).times(ops, system) / ops.time_s.to_numpy(float) - 1
    assert np.median(np.abs(error)) < 0.01


def test_ops_match_by_shape_and_the_fastest_repeat_counts() -> None:
    source = ops_frame([gemm_row(time_s=4.0), gemm_row(time_s=2.0), gemm_row(m=9, time_s=8.0)])
    asked = ops_frame([gemm_row(), gemm_row(m=9), gemm_row(m=10), gemm_row(precision="fp8")])
    found = source_times(asked, fastest_by_op(source))
    np.testing.assert_array_equal(found, [1.0, 4.0, np.nan, np.nan])


def test_communication_sms_tell_collectives_apart() -> None:
    row = {"op_class": "collective", "name": "deepep_normal", "collective": "dispatch",
           "message_bytes": 8, "group_size": 8, "count": 1.0, "evidence": "measured"}  # fmt: skip
    source = ops_frame([{**row, "kernel": "deepep sms=4", "time_s": 4.0}])
    asked = ops_frame([{**row, "kernel": f"deepep sms={s}"} for s in (4, 24)])
    np.testing.assert_array_equal(source_times(asked, fastest_by_op(source)), [4.0, np.nan])


def test_cells_partition_the_rows() -> None:
    ops = ops_frame([
        gemm_row(), gemm_row(precision="fp8"), gemm_row(),
        {"op_class": "attention", "name": "a", "precision": "bf16", "kv_precision": "fp8",
         "phase": "decode", "count": 1.0, "evidence": "measured"},
    ])  # fmt: skip
    found = {(g, p): rows.tolist() for g, p, rows in cells(ops)}
    assert found == {
        ("gemm", "bf16"): [0, 2], ("gemm", "fp8"): [1], ("attention decode", "bf16/fp8"): [3],
    }  # fmt: skip


def test_samples_are_even_and_whole_when_small() -> None:
    rows = np.arange(1000)
    assert sample(rows, None, 0).size == 1000
    drawn = sample(rows, 100, 0)
    assert np.unique(drawn).size == 100
    assert abs(drawn.mean() - 499.5) < 100


def test_host_bound_tables_are_left_out() -> None:
    """fp8_block under vLLM times the host, with floors of 57 to 259 us."""

    class Host(FakeDB):
        def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
            ops = super().training_ops(gpu, op_class, framework)
            return ops.assign(precision=np.where(ops.index < 100, "fp8_block", "bf16"))

    assert len(measured_rows(Host(), "h100-sxm", "gemm", "vllm")) == 200
    assert len(measured_rows(Host(), "h100-sxm", "gemm", "trtllm")) == 300
    assert measured_rows(Host(), "h100-sxm", "attention", "vllm").empty


def test_tables_are_read_once() -> None:
    db = FakeDB()
    cached = RowCache(db)
    first = cached.training_ops("h100-sxm", "gemm")
    assert cached.training_ops("h100-sxm", "gemm") is first
    assert db.asked == ["h100-sxm"]
    assert cached.gpus() == db.gpus()
