"""Ops matched between the two sides of an experiment, and the ratio over them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import InsufficientDataError
from codesign.projection.experiments.records import Experiment
from codesign.projection.experiments.rows import measured_ratio, pairs_of
from codesign.workload.schema import ops_frame


class Tables:
    """H200 is 1.4 times H100 on few rows and its equal on many; fp8 is twice bf16."""

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        return self.collectives() if op_class == "collective" else self.gemms(gpu)

    def gemms(self, gpu: str) -> pd.DataFrame:
        rows = []
        for precision, speed in (("bf16", 1.0), ("fp8", 2.0)):
            for m in (1, 8, 16, 4096, 8192):
                for n in (1024, 8192):
                    faster = 1.4 if gpu == "h200-sxm" and m <= 16 else 1.0
                    rows.append({
                        "op_class": "gemm", "name": "gemm", "precision": precision, "m": m, "n": n,
                        "k": 8192, "count": 1.0, "evidence": "measured",
                        "time_s": 1e-6 * m * n / speed / faster,
                    })  # fmt: skip
        # A repeat of a shape by a slower kernel.
        return ops_frame([*rows, {**rows[0], "kernel": "slow", "time_s": 1.0}])

    def collectives(self) -> pd.DataFrame:
        return ops_frame([
            {"op_class": "collective", "name": "deepep_normal", "collective": kind, "m": m,
             "k": 7168, "topk": 8, "precision": "fp8", "message_bytes": m * 7168 * 8,
             "group_size": 8, "kernel": f"deepep sms={sms}", "count": 1.0,
             "evidence": "measured", "time_s": m / sms}
            for kind in ("dispatch", "combine") for m in (64, 128, 256) for sms in (4, 20, 24)
        ])  # fmt: skip


def experiment(**changes: Any) -> Experiment:
    record = {
        "name": "x", "title": "X", "lever": "hbm_bandwidth", "before": {"system": "hgx-h100"},
        "after": {"system": "hgx-h200"}, "measured": {"by": "kernels", "ratio": 1.4},
        "kernels": {"op_class": "gemm"}, "hold_out": ["h200-sxm"], "source": "s",
        **changes,
    }  # fmt: skip
    return msgspec.convert(record, Experiment)


def ratio(e: Experiment) -> Any:
    assert e.kernels is not None
    return measured_ratio(pairs_of(e, e.kernels, Tables()), e.kernels.statistic)


def few(**more: object) -> dict[str, object]:
    return {"op_class": "gemm", "where": {"precision": "bf16", "m": {"max": 16}}, **more}


def test_the_same_ops_on_two_gpus() -> None:
    found = ratio(experiment(kernels=few()))
    assert found.n == 6
    assert found.value == pytest.approx(1.4)
    many = ratio(experiment(kernels={"op_class": "gemm", "where": {"m": {"min": 4096}}}))
    assert (many.n, many.value) == (8, pytest.approx(1.0))


def test_a_repeated_shape_counts_once_with_its_fastest_kernel() -> None:
    e = experiment(kernels=few(where={"precision": "bf16", "m": 1}))
    with pytest.raises(InsufficientDataError, match="x: 2 ops"):
        ratio(e)  # m = 1 has two shapes; the repeat adds none.
    assert ratio(experiment(kernels=few())).hi == pytest.approx(1.4)


def test_two_precisions_of_one_gpu_are_matched_by_shape() -> None:
    side = {"system": "hgx-h100"}
    found = ratio(experiment(before={**side, "where": {"precision": "bf16"}},
                             after={**side, "where": {"precision": "fp8"}}))  # fmt: skip
    assert found.n == 10
    assert found.value == pytest.approx(2.0)


def test_weights_are_n_times_k() -> None:
    large = few(where={"precision": "bf16", "m": {"max": 16},
                       "weight_elements": {"min": 8192 * 8192}})  # fmt: skip
    assert ratio(experiment(kernels=large)).n == 3


def test_communication_sms_are_read_from_the_kernel_and_other_kinds_stay_apart() -> None:
    side = {"system": "hgx-h100"}
    found = ratio(experiment(
        before={**side, "where": {"comm_sms": 4}}, after={**side, "where": {"comm_sms": 24}},
        kernels={"op_class": "collective"},
    ))  # fmt: skip
    assert found.n == 6
    assert found.value == pytest.approx(6.0)


def test_a_high_percentile_shows_a_lever_that_few_ops_feel() -> None:
    both = {"op_class": "gemm", "where": {"precision": "bf16"}}
    assert ratio(experiment(kernels={**both, "statistic": "p90"})).value == pytest.approx(1.4)
    halves = ratio(experiment(kernels=both))
    assert np.isclose(halves.lo, 1.0)


def test_time_is_a_filter_of_one_side_and_no_difference_of_the_ops() -> None:
    e = experiment(before={"system": "hgx-h100", "where": {"time_s": {"min": 1e-2}}})
    assert e.where == ()
    # 1 us x m x n over 10 ms: from m = 16, n = 1024 in bf16 on.
    assert ratio(e).n < ratio(experiment()).n
