"""`codesign project`, through the real command, on a model that is done by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from codesign._common.errors import DataError, UsageError
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


def test_json_agrees_with_the_hand(char: str) -> None:
    result = _run(char, "--set", "hbm_bandwidth=x2", "--set", "hbm_bandwidth=x1", "--json")
    content = json.loads(result.output)
    base, double, same = content["candidates"]
    assert base["step_time_s"] == pytest.approx(4.0)
    assert double["gain"] == pytest.approx(4 / 2.5, rel=1e-4)
    assert double["gain_lo"] <= double["gain"] <= double["gain_hi"]
    assert same["gain"] == same["gain_lo"] == same["gain_hi"] == 1.0
    assert sum(double["binding"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
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
