"""MFU of a workload: which FLOPs it counts, and which peaks it is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codesign.hardware.model import System
from codesign.recommend.build import recommend
from codesign.recommend.portfolio import WorkloadEntry
from codesign.recommend.schema import WorkloadResult
from tests.projection.fakes import FakeModel, characterization, gemm
from tests.recommend.cases import BASE, portfolio


class _NoFp8(FakeModel):
    """Times FP8 at the BF16 rate, as a part does that has no other."""

    def times(self, ops, systems, draws=None):  # type: ignore[no-untyped-def]
        return super().times(ops.assign(precision="bf16"), systems, draws)

    def binding(self, ops, system):  # type: ignore[no-untyped-def]
        return super().binding(ops.assign(precision="bf16"), system)


def _result(
    rows: list[dict[str, object]], base: System = BASE, model: FakeModel | None = None,
    gpus: int = 1,
) -> WorkloadResult:  # fmt: skip
    plan = portfolio(
        workloads=(WorkloadEntry(weight=1.0, characterization="w.parquet"),),
        levers={"hbm_bandwidth": (2.0,)},
    )
    chars = {"w": characterization(rows, gpus=gpus)}
    return recommend(plan, chars, model or FakeModel(), base=base).workloads[0]


def test_each_precision_counts_against_its_own_peak() -> None:
    # 1e15 FLOP at 2 PFLOP/s take 0.5 s, 1e14 at 1 PFLOP/s take 0.1 s: 0.6 s of a step of 1.2 s.
    found = _result([
        gemm(1.0, 1e15, 1e9, precision="fp8"), gemm(0.2, 1e14, 1e9, name="head"),
    ])  # fmt: skip
    assert found.mfu == pytest.approx(0.5)
    assert found.mfu_peaks == {"bf16": 1e15, "fp8": 2e15}


def test_formats_that_share_a_rate_share_its_key() -> None:
    rows = [gemm(1.0, 1e15, 1e9, precision=p, name=p) for p in ("fp8", "fp8_block", "mxfp8")]
    assert _result(rows).mfu_peaks == {"fp8": 2e15}


def test_the_ops_of_one_rank_are_held_to_one_gpu() -> None:
    # 8e15 FLOP over 8 ranks in 2 s: 500 TFLOP/s a rank, half of a PFLOP/s.
    assert _result([gemm(2.0, 8e15 / 8, 1e9)], gpus=8).mfu == pytest.approx(0.5)


def test_recomputed_layers_are_not_needed_twice() -> None:
    # Layers of 10, 20 and 30, all computed again: 60e13 of 120e13 FLOP count, in 1.2 s.
    rows = [
        gemm(size / 100, size * 1e13, 1e9, name=f"layer{size}{again}")
        for size in (10, 20, 30) for again in ("", ".recompute")
    ]  # fmt: skip
    assert _result(rows).mfu == pytest.approx(0.6 / 1.2)


def test_a_rate_that_the_part_lacks_is_named_by_the_one_it_runs_at() -> None:
    base = replace(BASE, gpu=replace(BASE.gpu, peak_dense_flops_per_s={"bf16": 1e15}))
    found = _result([gemm(2.0, 1e15, 1e9, precision="fp8")], base, _NoFp8())
    assert found.mfu == pytest.approx(0.5)
    assert found.mfu_peaks == {"bf16": 1e15}
    (said,) = [w for w in found.quality_warnings if "peak_dense" in w]
    assert "toy has no peak_dense.fp8; ops of 100.0 % of the measured step" in said


def test_unknown_work_has_no_utilization_and_no_peaks() -> None:
    found = _result([gemm(1.0, 1e15, 1e9), {"op_class": "gemm", "name": "x", "time_s": 1.0,
                                            "precision": "bf16"}])  # fmt: skip
    assert found.mfu is None
    assert found.mfu_peaks == {}
