"""`codesign backtest`: the file, the table and the checks, on a fake database."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from codesign._common.errors import CheckFailedError, UsageError
from codesign._common.scores import Backtest, BacktestRow
from codesign.cli.backtest import _condition, command, op_lines
from codesign.cli.main import cli
from tests.sensitivity.test_backtest import WorkDB


def row(**more: object) -> BacktestRow:
    values = {
        "op_class": "gemm", "precision": "bf16", "target": "h200-sxm", "tier": "spec-only",
        "source": None, "trained_on": ("h100-sxm",), "n": 7, "median_ape": 0.05, "mape": 0.25,
        "p90_ape": 0.4, "bias": -0.1, "coverage_90": 0.5, "roofline_median_ape": 0.4,
        "ratio_median_ape": None,
    }  # fmt: skip
    return BacktestRow(**{**values, **more})  # type: ignore[arg-type]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.sources.perfdb.PerfDB", WorkDB)


@pytest.mark.usefixtures("fake")
def test_writes_the_contracted_file_and_a_table(tmp_path: Path) -> None:
    path = tmp_path / "backtest.json"
    result = CliRunner().invoke(
        cli, ["backtest", "-o", str(path), "--quick", "--ops-only", "--rows", "50"]
    )
    assert result.exit_code == 0, result.output
    found = msgspec.json.decode(path.read_bytes(), type=Backtest)
    assert {(r.target, r.tier) for r in found.ops} == {
        (t, tier) for t in ("h200-sxm", "b200-sxm") for tier in ("spec-only", "transfer")
    }
    assert all(r.target not in r.trained_on and r.n == 50 for r in found.ops)
    assert "50 rows" in found.protocol
    assert result.output.count("h200-sxm") >= 2


@pytest.mark.usefixtures("fake")
def test_a_failed_check_says_which_and_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "backtest.json"
    arguments = ["-o", str(path), "--quick", "--ops-only", "--fail-on", "mape>0.000001@gemm"]
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, CheckFailedError)
    assert result.exception.exit_code == 5
    assert "gemm bf16" in str(result.exception)
    assert path.exists()


@pytest.mark.parametrize(
    ("text", "fails"),
    [("mape>0.2", True), ("mape>0.25", False), ("mape>=0.25", True), ("bias>0.09", True),
     ("coverage_90<0.85", True), ("mape>0.2@gemm bf16", True), ("mape>0.2@fp8", False),
     ("median_ape > 0.01 @ transfer", False)],
)  # fmt: skip
def test_conditions(text: str, fails: bool) -> None:
    assert bool(_condition(text).failures([row()])) is fails


@pytest.mark.parametrize("text", ["", "speed>1", "mape", "mape>x", "mape=0.2", "mape>1.2.3"])
def test_bad_conditions_name_the_metrics(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        _condition(text)


def test_bad_condition_stops_before_any_fit(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    result = CliRunner().invoke(command, ["-o", str(path), "--fail-on", "speed>1"])
    assert isinstance(result.exception, UsageError)
    assert not path.exists()


def test_rows_and_all_rows_exclude_each_other(tmp_path: Path) -> None:
    arguments = ["-o", str(tmp_path / "b.json"), "--rows", "5", "--all-rows"]
    assert isinstance(CliRunner().invoke(command, arguments).exception, UsageError)


def test_table_shows_per_cent_and_absent_baselines() -> None:
    head, line = op_lines([row()])
    assert head.split()[:2] == ["op", "class"]
    assert line.split() == ["gemm", "bf16", "h200-sxm", "spec-only", "-", "7", "5.0", "25.0",
                            "40.0", "-10.0", "50", "40.0", "-", "-"]  # fmt: skip


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(cli, ["backtest", "--help"])
    assert result.exit_code == 0
    assert "codesign backtest -o" in result.output
