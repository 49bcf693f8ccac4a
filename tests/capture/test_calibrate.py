"""The sweep of single ops: whole, broken off, gone on with; and what `fit` makes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from codesign._common.errors import DataError, UsageError
from codesign.capture.calibrate import calibrate, journal
from codesign.capture.calibrate.points import effort_of, points
from codesign.capture.calibrate.run import journal_path
from codesign.sources.calibration import CalibrationDB, JoinedDB
from codesign.workload.characterization import Characterization


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Characterization:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    out = tmp_path_factory.mktemp("calibration") / "cal.parquet"
    result = calibrate(out, effort="tiny", ranks=2)
    assert result.error is None
    assert not journal_path(out).exists()
    assert result.characterization is not None
    return result.characterization


def test_rows_have_the_columns_and_work_of_a_kernel_database(swept: Characterization) -> None:
    ops = swept.ops
    assert (ops["count"] == 1.0).all()
    assert (ops["evidence"] == "measured").all()
    assert (ops["time_s"] > 0).all()
    gemm = ops[ops["op_class"] == "gemm"]
    assert set(zip(gemm["m"], gemm["n"], gemm["k"], strict=True)) == {
        (m, n, k) for m in (1, 64) for n, k in ((64, 128), (128, 64))
    }
    assert (gemm["flops"] == 2 * gemm["m"] * gemm["n"] * gemm["k"]).all()
    assert set(ops[ops["op_class"] == "attention"]["phase"]) == {"prefill", "decode"}
    talks = ops[ops["op_class"] == "collective"]
    assert len(talks) == 4 * 2
    assert set(talks["group_size"]) == {2}
    add = ops[ops["name"] == "add"].iloc[0]
    assert add["bytes"] == 3 * 4 * 64 * 128


def test_a_sweep_on_a_cpu_is_no_database_of_a_gpu(swept: Characterization, tmp_path: Path) -> None:
    swept.save(tmp_path / "cal.parquet")
    with pytest.raises(DataError, match="no GPU of the hardware library"):
        CalibrationDB([tmp_path / "cal.parquet"])


def test_a_database_beside_others(swept: Characterization, tmp_path: Path) -> None:
    path = tmp_path / "cal.parquet"
    swept.with_header(system="hgx-h200").save(path)
    own = CalibrationDB([path])
    assert own.gpus() == ["h200-sxm"]
    assert len(own.training_ops("h200-sxm", "gemm")) == 8
    assert len(own.training_ops("h200-sxm", "conv")) == 0

    class Other:
        def gpus(self) -> list[str]:
            return ["a100-80gb-sxm", "h200-sxm"]

        def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> Any:
            assert gpu == "a100-80gb-sxm"
            return own.training_ops("h200-sxm", "norm")

    both = JoinedDB([Other(), own])
    assert both.gpus() == ["a100-80gb-sxm", "h200-sxm"]
    assert len(both.training_ops("h200-sxm", "gemm")) == 8
    assert len(both.training_ops("a100-80gb-sxm", "gemm")) == 1
    with pytest.raises(UsageError, match="h200-sxm"):
        both.training_ops("v100", "gemm")
    swept.with_header(system="hgx-h200", workload="train").save(path)
    with pytest.raises(DataError, match="expected a calibration"):
        CalibrationDB([path])


def test_a_journal_goes_on_after_a_cut_line_and_only_on_the_same_device(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    header = {"device": {"name": "A"}, "effort": "tiny", "world_size": 1, "software": {}}
    assert journal.begin(path, header, 3) == set()
    first, second = {"op_class": "gemm", "m": 1}, {"op_class": "gemm", "m": 2}
    journal.add(path, first, {"time_s": 1.0})
    with path.open("a") as stream:
        stream.write(json.dumps({"point": second})[:20])  # the power went off
    assert journal.begin(path, header, 3) == {journal.key(first)}
    journal.add(path, second, {"time_s": 2.0})
    assert [line["point"] for line in journal.read(path)[1]] == [first, second]
    with pytest.raises(DataError, match="remove it"):
        journal.begin(path, header | {"device": {"name": "B"}}, 3)
    path.write_text("something else")
    with pytest.raises(DataError, match="not the journal"):
        journal.read(path)


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    out = tmp_path / "cal.parquet"
    # All but one point stand in the journal, with a time that no measurement gives.
    import torch

    from codesign.capture.boot import status
    from codesign.capture.calibrate.measure import precisions

    wanted = points(effort_of("tiny"), precisions(torch.device("cpu")))
    threads = int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))
    header = {"device": {**status.device(), "threads": threads}, "effort": "tiny",
              "world_size": 1, "software": status.software(), "environment": {}}  # fmt: skip
    journal.begin(journal_path(out), header, len(wanted))
    for point in wanted[1:]:
        journal.add(journal_path(out), point, {"time_s": 99.0, "time_sd_s": 0.0})
    result = calibrate(out, effort="tiny")
    assert result.error is None
    assert result.characterization is not None
    times = result.characterization.ops["time_s"]
    assert (times == 99.0).sum() == len(wanted) - 1
    assert times.iloc[-1] < 1.0  # the one that was missing comes last


@pytest.mark.parametrize("effort", ["standard", "full"])
def test_points_are_distinct_and_fit_a_gpu(effort: str) -> None:
    found = points(effort_of(effort), ["bf16", "fp16", "fp8"], ranks=8)
    assert len({journal.key(p) for p in found}) == len(found) > 500
    assert {p["op_class"] for p in found} == {
        "gemm", "attention", "grouped_gemm", "collective", "norm", "softmax", "copy",
        "elementwise", "reduction", "quantize",
    }  # fmt: skip
    assert {p.get("group_size") for p in found if p["op_class"] == "collective"} == {2, 4, 8}
    for p in found:
        if p["op_class"] == "gemm":
            assert (p["m"] * p["k"] + p["n"] * p["k"] + p["m"] * p["n"]) * 2 < 60e9
