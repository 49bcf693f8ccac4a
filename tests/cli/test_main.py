"""The command line as a whole: help, exit codes, one line for each error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from codesign.cli.main import _COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", "from codesign.cli.main import main; main()", *arguments],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert all(f"\n  {name} " in result.stdout for name in _COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    # Speed is a matter of what is imported, and that can be asserted exactly.
    code = (
        "import sys\nfrom codesign.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "heavy = {'pandas', 'numpy', 'scipy', 'statsmodels', 'pyarrow', 'torch', 'pint'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True
    )
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Example" in result.output
    assert f"codesign {name}" in result.output


@pytest.mark.parametrize("name", ["list", "show", "check", "diff"])
def test_every_hw_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, ["hw", name, "--help"])
    assert f"Example:\n    codesign hw {name}" in result.output


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_outputs_have_one_rule_and_the_help_says_it(name: str) -> None:
    text = " ".join(CliRunner().invoke(cli, [name, "--help"]).output.split())
    writes = "--output" in text
    assert writes == (name in ("characterize", "fit", "recommend", "backtest"))
    for said in ("--force Overwrite an output that exists; without it that is refused",
                 "-q, --quiet No progress"):  # fmt: skip
        assert (said in text) == writes, said


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"codesign {name}" in (ROOT / "README.md").read_text()


def test_unknown_command_is_a_usage_error() -> None:
    result = run("frobnicate")
    assert result.returncode == 2
    assert "frobnicate" in result.stderr


def test_errors_are_one_line_without_a_trace(tmp_path: Path) -> None:
    missing = tmp_path / "none.parquet"
    result = run("show", str(missing))
    assert result.returncode in (2, 3)
    assert "Traceback" not in result.stderr
    assert "none.parquet" in result.stderr


def test_doctor_runs_without_a_gpu() -> None:
    result = run("doctor", "--json", PATH="")
    assert result.returncode == 0
    assert '"codesign"' in result.stdout


def test_a_legacy_console_does_not_crash(tmp_path: Path) -> None:
    result = run("show", str(tmp_path / "作業負荷.parquet"), PYTHONIOENCODING="cp1252")
    assert "UnicodeEncodeError" not in result.stderr
    assert result.returncode in (2, 3)
