"""`codesign project`, through the real command, on a model that is done by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign.cli.project import command
from tests.projection.fakes import FakeModel, characterization, gemm


@pytest.fixture
def char(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("codesign.sensitivity.load_model", lambda path: FakeModel())
    path = tmp_path / "c.parquet"
    rows = [gemm(3.0, 1e12, 1e13), gemm(1.0, 1e15, 1e10)]
    characterization(rows, system="hgx-h100", title="toy run").save(path)
    return str(path)


def _run(*args: str) -> Result:
    return CliRunner().invoke(command, [*args, "--model", "m.json", "--draws", "20"])


def test_table_has_gain_interval_and_binding(char: str) -> None:
    result = _run(char, "--set", "hbm_bandwidth=+50%", "--system", "hgx-h200")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "toy run on hgx-h100"
    assert "90 % interval" in lines[1]
    # 3 s of HBM time fall to 2 s: 4 / 3.
    assert "hbm_bandwidth=+50%  lever" in lines[3]
    assert "x1.333" in lines[3]
    assert "transfer" in lines[4]


def test_times_of_a_cpu_are_not_taken_for_those_of_a_gpu(char: str, tmp_path: Path) -> None:
    path = str(tmp_path / "cpu.parquet")
    run = characterization([gemm(3.0, 1e12, 1e13)], system=None)
    run.with_header(capture_method="torch.profiler on the CPU").save(Path(path))
    refused = _run(path, "--set", "hbm_bandwidth=+50%")
    assert isinstance(refused.exception, UsageError)
    assert "captured on a CPU, whose times are no GPU's" in str(refused.exception)
    assert "--base" in str(refused.exception)
    tried = _run(path, "--set", "hbm_bandwidth=+50%", "--base", "hgx-h100")
    assert tried.exit_code == 0, tried.output
    assert "captured on a CPU: its times are not those of hgx-h100" in tried.stderr


def test_json_agrees_with_the_hand(char: str) -> None:
    result = _run(char, "--set", "hbm_bandwidth=x2", "--set", "hbm_bandwidth=x1", "--json")
    content = json.loads(result.output)
    base, double, same = content["candidates"]
    assert base["step_time_s"] == pytest.approx(4.0)
    assert double["gain"] == pytest.approx(4 / 2.5, rel=1e-4)
    assert double["gain_lo"] <= double["gain"] <= double["gain_hi"]
    assert same["gain"] == same["gain_lo"] == same["gain_hi"] == 1.0
    assert sum(double["binding"].values()) == pytest.approx(1.0)


def test_csv_holds_the_numbers_of_json(char: str) -> None:
    args = (char, "--set", "hbm_bandwidth=x2")
    rows = list(csv.DictReader(_run(*args, "--csv").output.splitlines()))
    candidates = json.loads(_run(*args, "--json").output)["candidates"]
    assert [float(r["gain"]) for r in rows] == [c["gain"] for c in candidates]
    assert [r["candidate"] for r in rows] == ["(baseline)", "hbm_bandwidth=x2"]
    assert _run(*args, "--csv", "--json").exit_code != 0


def _saved(tmp_path: Path, rows: list[dict[str, Any]], **header: Any) -> str:
    path = tmp_path / "w.parquet"
    characterization(rows, system="hgx-h100", **header).save(path)
    return str(path)


def _other(time_s: float) -> dict[str, Any]:
    return {"op_class": "other", "name": "mystery", "time_s": time_s}


def test_what_the_model_cannot_move_is_said(char: str, tmp_path: Path) -> None:
    path = _saved(tmp_path, [gemm(1.0, 1e12, 1e13), _other(7.0)], idle_s=2.0)
    result = _run(path, "--set", "hbm_bandwidth=x2")
    assert "warning: only 10 % of the step can move" in result.output
    assert "not cover take 70 %, idle time 20 %" in result.output
    content = json.loads(_run(path, "--set", "hbm_bandwidth=x2", "--json").stdout)
    assert content["movable_share"] == pytest.approx(0.1)
    assert content["held_share"] == pytest.approx(0.7)
    assert content["idle_share"] == pytest.approx(0.2)
    assert len(content["warnings"]) == 1
    # Of 10 s only the 1 s of HBM time halves.
    assert content["candidates"][1]["gain"] == pytest.approx(10 / 9.5, rel=1e-4)


def test_a_format_that_a_system_has_no_rate_for_is_said(
    char: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _AtBf16(FakeModel):
        def times(self, ops, systems, draws=None):  # type: ignore[no-untyped-def]
            return super().times(ops.assign(precision="bf16"), systems, draws)

    monkeypatch.setattr("codesign.sensitivity.load_model", lambda path: _AtBf16())
    path = _saved(tmp_path, [gemm(3.0, 1e15, 1e9, precision="fp8"), gemm(1.0, 1e14, 1e9)])
    result = _run(path, "--system", "hgx-a100", "--system", "hgx-h200", "--json")
    assert result.exit_code == 0, result.output
    # 3 s of 4 s; H200 has FP8 tensor cores as H100 has.
    (said,) = json.loads(result.stdout)["warnings"]
    assert said.startswith("hgx-a100: a100-80gb-sxm has no peak_dense.fp8; ops of 75.0 % of")
    assert "bf16 rate of 312 TFLOP/s, an assumption" in said


def test_a_model_of_another_librarys_kernels_is_told(
    char: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _OfTrtllm(FakeModel):
        framework = "trtllm"

    monkeypatch.setattr("codesign.sensitivity.load_model", lambda path: _OfTrtllm())
    path = _saved(tmp_path, [gemm(3.0, 1e15, 1e9)], software={"kernels of": "sglang"})
    result = _run(path, "--set", "hbm_bandwidth=+50%", "--json")
    assert result.exit_code == 0, result.output
    (line,) = json.loads(result.stdout)["warnings"]
    assert line.startswith("composed from kernels of sglang, but the model was fitted on those of")


@pytest.mark.parametrize("rows", [[_other(3.0)], [_other(3.0), gemm(0.0, 1e12, 1e12)]])
def test_nothing_to_move_is_no_gain_of_one(
    char: str, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    result = _run(_saved(tmp_path, rows), "--set", "hbm_bandwidth=x2")
    assert isinstance(result.exception, InsufficientDataError)
    assert result.exception.exit_code == 4
    assert "other 3 s" in str(result.exception)


def test_a_system_that_only_a_file_describes_asks_for_it(char: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    characterization([gemm(1.0, 1e12, 1e13)], system="my-box").save(path)
    result = _run(str(path), "--set", "sm_count=x2")
    assert isinstance(result.exception, DataError)
    assert "--base FILE" in str(result.exception)
    assert _run(str(path), "--set", "sm_count=x2", "--base", "hgx-h100").exit_code == 0


@pytest.mark.parametrize(
    "text", ["hbm_bandwidth", "hbm_bandwidth=", "=x2", "", "hgx-h200", "sm_count=x2,"]
)
def test_set_says_what_it_expects(char: str, text: str) -> None:
    result = _run(char, "--set", text)
    assert isinstance(result.exception, UsageError)
    assert "--set" in str(result.exception)
    assert "expected LEVER=CHANGE, such as hbm_bandwidth=+50%" in str(result.exception)


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        (("--system", "sm_count=x2"), UsageError, "write --set sm_count=x2"),
        (("--set", "sm_count=1.5"), UsageError, "--set sm_count=1.5: "),
        ((), UsageError, "nothing to project onto"),
        (("--set", "warp=+50%"), UsageError, "unknown lever"),
        (("--set", "fp4_throughput=x2"), UsageError, "no peak_dense.fp4"),
        (("--system", "nope"), UsageError, "unknown system"),
    ],
)
def test_wrong_requests_are_one_line(
    char: str, args: tuple[str, ...], kind: type[Exception], message: str
) -> None:
    result = _run(char, *args)
    assert isinstance(result.exception, kind)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_missing_file_is_a_data_error() -> None:
    result = _run("/nowhere/c.parquet", "--set", "sm_count=x2")
    assert isinstance(result.exception, DataError)
    near = _run("llama-3.1-8b-stf", "--set", "sm_count=x2")
    assert "did you mean llama-3.1-8b-sft" in str(near.exception)


def test_levers_set_together_say_where_they_interact(char: str) -> None:
    # HBM x2: 4 / 2.5. Tensor x2: 4 / 3.5. Both: 4 / 2, 9.4 % more than their product of 1.829.
    both = _run(char, "--set", "hbm_bandwidth=x2,bf16_throughput=x2")
    assert "together x2.000, 9.4 % more than the product of the single gains" in both.output
    assert "help each other" in both.output
    nothing = _run(char, "--set", "hbm_bandwidth=x2,nvlink_bandwidth=x2", "--set", "sm_count=x2")
    assert "together" not in nothing.output
