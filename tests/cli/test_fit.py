from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from codesign._common.errors import DataError
from codesign.cli.fit import command
from codesign.cli.main import cli
from codesign.sensitivity import model as model_module
from codesign.sensitivity.gemm import GemmModel
from tests.sensitivity.fakes import FakeDB


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command on a database in memory, with GEMM alone."""
    import codesign.sensitivity as package
    import codesign.sources.perfdb as perfdb

    real = package.fit

    def small(db, **options):
        return real(db, models=(GemmModel(),), rows_per_gpu=60, **options)

    monkeypatch.setattr(perfdb, "PerfDB", FakeDB)
    monkeypatch.setattr(package, "fit", small)
    return CliRunner()


def test_writes_the_model_and_prints_its_fit(runner: CliRunner, tmp_path) -> None:
    path = tmp_path / "model.json"
    result = runner.invoke(command, ["-o", str(path), "--exclude", "b200-sxm"])
    assert result.exit_code == 0, result.output
    assert "gemm" in result.output
    assert "excluded b200-sxm" in result.output
    assert "b200-sxm" not in json.loads(path.read_text())["trained_on"]
    assert model_module.load_model(path).trained_on == ("a100-80gb-sxm", "h100-sxm", "h200-sxm")
    # What the fit printed is what the file shows, with what is known of each lever beside it.
    shown = runner.invoke(cli, ["show", str(path)])
    assert shown.exit_code == 0, shown.output
    heads, row = (line for line in result.output.splitlines() if line.startswith(("op m", "gemm")))
    shown_row = next(line for line in shown.output.splitlines() if line.startswith("│ gemm"))
    assert [cell.strip() for cell in shown_row.split("│")[1:-1]] == re.split(r" {2,}", row)
    assert "median APE" in heads
    assert re.search(r"HBM bandwidth +│ GEMM", shown.output)


def test_an_unknown_gpu_writes_nothing(runner: CliRunner, tmp_path) -> None:
    path = tmp_path / "model.json"
    result = runner.invoke(command, ["-o", str(path), "--exclude", "h100"])
    assert "known: " in str(result.exception)
    assert not path.exists()


def test_a_model_that_exists_is_kept_unless_force_is_given(runner: CliRunner, tmp_path) -> None:
    path = tmp_path / "model.json"
    path.write_text("precious")
    result = runner.invoke(command, ["-o", str(path)])
    assert "pass --force" in str(result.exception)
    assert path.read_text() == "precious"
    assert runner.invoke(command, ["-o", str(path), "--force"]).exit_code == 0
    assert model_module.load_model(path).trained_on


def test_quiet_says_nothing_and_else_stage_and_file(runner: CliRunner, tmp_path) -> None:
    loud = runner.invoke(command, ["-o", str(tmp_path / "a.json")])
    quiet = runner.invoke(command, ["-o", str(tmp_path / "b.json"), "--quiet"])
    stage = "reading kernel tables and fitting, one to three minutes\n"
    assert re.fullmatch(stage + r"wrote .*a\.json \([0-9.]+ [kM]B\)\n", loud.stderr)
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("key", ["units", "trained_on"])
def test_a_model_that_knows_nothing_is_refused(runner: CliRunner, tmp_path, key: str) -> None:
    path = tmp_path / "model.json"
    runner.invoke(command, ["-o", str(path)])
    content = json.loads(path.read_text()) | {key: []}
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"model\.json: {key}: empty.*codesign fit"):
        model_module.load_model(path)


def test_help_has_an_example() -> None:
    assert "codesign fit -o model.json" in CliRunner().invoke(command, ["--help"]).output


@pytest.mark.parametrize("name", ["fit.html", "fit.json"])
def test_diagnostics_are_written_beside_the_model(
    runner: CliRunner, tmp_path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import codesign.sensitivity.diagnostics as module

    monkeypatch.setattr(module, "MODELS", (GemmModel(),))
    path = tmp_path / name
    result = runner.invoke(command, ["-o", str(tmp_path / "m.json"), "--diagnostics", str(path)])
    assert result.exit_code == 0, result.output
    text = path.read_text()
    for word in ("hbm_efficiency", "h200-sxm"):
        assert word in text
    assert "wrote" in result.stderr
    assert name in result.stderr


def test_diagnostics_that_cannot_be_written_stop_before_the_fit(
    runner: CliRunner, tmp_path
) -> None:
    model, page = tmp_path / "m.json", tmp_path / "fit.html"
    wrong = runner.invoke(command, ["-o", str(model), "--diagnostics", str(tmp_path / "fit.pdf")])
    assert "expected a name that ends in one of" in str(wrong.exception)
    page.write_text("precious")
    kept = runner.invoke(command, ["-o", str(model), "--diagnostics", str(page)])
    assert "pass --force" in str(kept.exception)
    same = runner.invoke(command, ["-o", str(model), "--diagnostics", str(model)])
    assert "given twice" in str(same.exception)
    assert not model.exists()
    assert page.read_text() == "precious"


def test_a_calibration_that_is_too_small_to_count_is_named(
    runner: CliRunner, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Calibrated:
        def __init__(self, paths) -> None:
            assert [p.name for p in paths] == ["own.parquet"]

        def gpus(self) -> list[str]:
            return ["v100-sxm"]

    monkeypatch.setattr("codesign.sources.calibration.CalibrationDB", Calibrated)
    monkeypatch.setattr("codesign.sources.calibration.JoinedDB", lambda databases: databases[0])
    own = tmp_path / "own.parquet"
    own.write_bytes(b"")
    run = ["-q", "-o", str(tmp_path / "m.json"), "--database", str(own)]
    result = runner.invoke(command, run)
    assert result.exit_code == 0, result.output
    assert "warning: v100-sxm took no part" in result.output
    result = runner.invoke(command, [*run, "--force", "--gpus", "h100-sxm"])
    assert "took no part" not in result.output
