"""The sweep of single ops: whole, broken off, gone on with; and what `fit` makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from codesign._common.errors import DataError, UsageError
from codesign.capture.calibrate import calibrate, journal
from codesign.capture.calibrate.points import effort_of, points
from codesign.capture.calibrate.run import journal_path
from codesign.cli.characterize import command
from codesign.sources.calibration import CalibrationDB, JoinedDB
from codesign.workload.characterization import Characterization


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Characterization:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    out = tmp_path_factory.mktemp("calibration") / "cal.parquet"
    result = calibrate(out, effort="tiny", ranks=2)
    assert result.error is None
    # Hours of work: kept until whoever writes the result says that it is safe.
    assert result.journal == journal_path(out)
    assert journal_path(out).exists()
    assert result.characterization is not None
    return result.characterization


def test_rows_have_the_columns_and_work_of_a_kernel_database(swept: Characterization) -> None:
    ops = swept.ops
    assert (ops["count"] == 1.0).all()
    assert (ops["evidence"] == "measured").all()
    assert (ops["time_s"] > 0).all()
    assert ops["exposed_s"].isna().all()  # single ops are no step, so none is exposed
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
    header = {"device": {"name": "A", "uuid": "1"}, "effort": "tiny", "world_size": 1,
              "software": {"torch": "2.9"}}  # fmt: skip
    assert journal.begin(path, header, 3) == set()
    kind = {"op_class": "gemm", "name": "gemm", "precision": "bf16"}
    first, second = {**kind, "m": 1}, {**kind, "m": 2}
    journal.add(path, first, {"time_s": 1.0, "time_sd_s": 0.0})
    with path.open("a") as stream:
        stream.write(json.dumps({"point": second})[:20])  # the power went off
    assert journal.begin(path, header, 3) == {journal.key(first)}
    journal.add(path, second, {"time_s": 2.0, "time_sd_s": 0.0})
    assert [line["point"] for line in journal.read(path)[1]] == [first, second]
    # Another of the same GPUs will do, another kind or another PyTorch will not.
    assert len(journal.begin(path, header | {"device": {"name": "A", "uuid": "2"}}, 3)) == 2
    for change in ({"device": {"name": "B"}}, {"software": {"torch": "2.10"}}, {"world_size": 2}):
        with pytest.raises(DataError, match="remove it"):
            journal.begin(path, header | change, 3)
    path.write_text("something else")
    with pytest.raises(DataError, match="not the journal"):
        journal.read(path)


HEADER = {"device": {"name": "A"}, "effort": "tiny", "world_size": 1, "software": {"torch": "2.9"}}


def test_a_point_that_kills_the_process_is_left_out_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    point = {"op_class": "gemm", "name": "gemm", "precision": "bf16", "m": 1}
    for _ in range(3):
        assert journal.begin(path, HEADER, 2) == set()
        journal.begun(path, point)  # and no more is heard of it
    assert journal.begin(path, HEADER, 2) == {journal.key(point)}
    ((line,), done) = journal.read(path)[1], journal.begin(path, HEADER, 2)
    assert "3 times" in line["skipped"]
    assert done == {journal.key(point)}


@pytest.mark.parametrize(
    "change",
    [{"points": "many"}, {"points": None}, {"device": 1}, {"device": {}}, {"world_size": "2"}],
)
def test_a_journal_of_something_else(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "j.jsonl"
    for content in ("[1]", json.dumps(HEADER | {"points": 1} | change)):
        path.write_text(content + "\n")
        with pytest.raises(DataError, match="not the journal"):
            journal.read(path)


def test_what_broke_in_the_middle_costs_its_own_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    gemm = {"op_class": "gemm", "name": "gemm", "precision": "bf16"}
    good = [{"point": {**gemm, "m": m}, "time_s": 1e-5, "time_sd_s": 0.0} for m in (1, 2)]
    bad: list[Any] = [
        [2], "x", {"point": 3}, {"point": {"op_class": 3}, "time_s": 1.0, "time_sd_s": 0.0},
        {**good[0], "point": {**gemm, "m": 3}, "time_s": "fast"},
        {**good[0], "point": {**gemm, "m": 4}, "time_s": float("nan")},
        {**good[0], "point": {**gemm, "m": 5}, "time_s": -1.0},
        {"point": {**gemm, "m": 6}, "time_s": 1.0}, {"point": {**gemm, "m": 7}, "skipped": 1},
        good[0],  # twice is once
    ]  # fmt: skip
    lines = [json.dumps(line) for line in (HEADER | {"points": 9}, good[0], *bad, good[1])]
    raw = "\n".join(lines).encode()
    path.write_bytes(raw.replace(b'"x"', b'\x00\xff\xfe{"point"'))
    assert journal.read(path)[1] == good
    assert journal.begin(path, HEADER, 9) == {journal.key(line["point"]) for line in good}


def test_a_sweep_ends_with_whoever_began_it(tmp_path: Path) -> None:
    # Killed, it could not end its sweep; the next would find two at work on one journal.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = tmp_path / "j.jsonl"
    sweep = [sys.executable, "-m", "codesign.capture.calibrate", str(path), "--effort", "tiny"]
    ended = subprocess.run([*sweep, "--parent", str(gone.pid)], check=False, timeout=60)
    assert ended.returncode == 1
    assert journal.read(path)[1] == []


def written(out: Path, leave: int) -> list[dict[str, Any]]:
    """A journal beside ``out`` that lacks the first ``leave`` points; all points."""
    import torch

    from codesign.capture.boot import status
    from codesign.capture.calibrate.measure import precisions

    wanted = points(effort_of("tiny"), precisions(torch.device("cpu")))
    threads = int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))
    header = {"device": {**status.device(), "threads": threads}, "effort": "tiny",
              "world_size": 1, "software": status.software(), "environment": {}}  # fmt: skip
    journal.begin(journal_path(out), header, len(wanted))
    # With a time that no measurement gives.
    for point in wanted[leave:]:
        journal.add(journal_path(out), point, {"time_s": 99.0, "time_sd_s": 0.0})
    return wanted


def test_the_same_command_goes_on_and_removes_the_journal_when_all_is_safe(
    tmp_path: Path,
) -> None:
    out = tmp_path / "cal.parquet"
    wanted = written(out, leave=2)
    out.write_text("what a run that broke off left")
    run = ["-q", "--calibrate", "--preset", "tiny", "-o", str(out)]
    command.main(run, standalone_mode=False)  # no --force: it is what it goes on with
    char = Characterization.load(out)
    assert char.header.quality.complete
    assert (char.ops["time_s"] == 99.0).sum() == len(wanted) - 2
    assert (char.ops["time_s"].iloc[-2:] < 1.0).all()  # those that were missing come last
    assert not journal_path(out).exists()
    with pytest.raises(UsageError, match="--force"):
        command.main(run, standalone_mode=False)


def test_a_journal_of_another_device_is_one_clear_line(tmp_path: Path) -> None:
    out = tmp_path / "cal.parquet"
    header = {"device": {"type": "cuda", "name": "NVIDIA H200"}, "effort": "tiny",
              "world_size": 1, "software": {}}  # fmt: skip
    journal.begin(journal_path(out), header, 10)
    result = calibrate(out, effort="tiny")
    assert "was begun with device type 'cuda', now 'cpu'; remove it" in str(result.error)
    assert result.characterization is None
    assert [p.name for p in tmp_path.iterdir()] == [journal_path(out).name]


def test_an_op_that_breaks_the_gpu_is_left_out_and_the_sweep_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of the sweep: a process that ends as one does whose GPU is broken by a point.
    out = tmp_path / "cal.parquet"
    told = {"points": 3, **HEADER, "environment": {}, "device": {"type": "cpu", "name": "A"}}
    path = journal_path(out)
    path.write_text(json.dumps(told) + "\n")
    code = (
        "import json, sys\n"
        f"path = {str(path)!r}\n"
        "n = len(open(path).read().splitlines()) - 1\n"
        "result = {'skipped': 'illegal address'} if n == 1 else {'time_s': 1, 'time_sd_s': 0}\n"
        "point = {'op_class': 'gemm', 'name': 'gemm', 'precision': 'bf16', 'm': n + 1, 'n': 2,"
        " 'k': 4}\n"
        "open(path, 'a').write(json.dumps({'point': point, **result}) + '\\n')\n"
        "sys.exit(75 if n == 1 else 0 if n == 2 else 75)\n"
    )
    monkeypatch.setattr(
        "codesign.capture.calibrate.run._command", lambda *_: [sys.executable, "-c", code]
    )
    journal.add(path, {"op_class": "gemm", "name": "gemm", "precision": "bf16", "m": 1, "n": 2,
                       "k": 4}, {"time_s": 1.0, "time_sd_s": 0.0})  # fmt: skip
    result = calibrate(out, effort="tiny")
    assert result.error is None
    assert list(result.characterization.ops["m"]) == [1, 3]
    assert "1 points could not be measured" in result.characterization.header.quality.warnings[0]


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
