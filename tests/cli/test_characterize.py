"""`codesign characterize` as a user runs it."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from codesign.cli.main import cli
from codesign.workload.characterization import Characterization
from codesign.workload.recipe import list_recipes


def run(*arguments):
    code = "from codesign.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "characterize", *map(str, arguments)],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture(scope="module")
def _tables():
    pytest.importorskip("aiconfigurator_core")


def test_the_list_names_every_recipe():
    result = run("--list")
    assert result.returncode == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list_recipes()


@pytest.mark.perfdb
@pytest.mark.usefixtures("_tables")
def test_a_recipe_becomes_a_file_and_a_summary(tmp_path):
    out = tmp_path / "d.parquet"
    result = run("--recipe", "llama-3.1-70b-decode-b16", "--system", "hgx-h200", "-o", out)
    assert result.returncode == 0, result.stderr
    assert "hgx-h200" in result.stdout
    assert "measured" in result.stdout
    assert Characterization.load(out).header.system == "hgx-h200"


@pytest.mark.perfdb
@pytest.mark.usefixtures("_tables")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--recipe", "no-such"], 2, "llama-3.1-8b-sft"),
        (["--recipe", "llama-3.1-8b-sft", "--system", "hgx-h999"], 2, "hgx-h100"),
        (["--recipe", "llama-3.1-8b-sft", "--system", "mi300x-platform"], 2, "no measured"),
        (["--recipe", "llama-3.1-70b-pretrain-fp8", "--system", "hgx-a100"], 3, "fp8"),
        (["--from", "missing.json"], 3, "missing.json"),
        (["--from", __file__], 3, "not a file that codesign reads"),
    ],
)
def test_errors_are_one_line_and_leave_nothing_behind(tmp_path, arguments, code, said):
    out = tmp_path / "x.parquet"
    result = run(*arguments, "-o", out)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--recipe"),
        (["--recipe", "a", "--from", "b", "-o", "c"], "one of"),
        (["stray.json", "--recipe", "a", "-o", "c"], "stray.json"),
        (["--recipe", "llama-3.1-8b-sft"], "-o"),
    ],
)
def test_wrong_requests_are_usage_errors(arguments, said):
    result = run(*arguments)
    assert result.returncode == 2
    assert said in result.stderr


def test_the_ranks_of_a_job_follow_one_option(tmp_path):
    missing = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    result = run("--from", *missing, "-o", tmp_path / "run.parquet")
    assert result.returncode == 3
    assert "rank0.json" in result.stderr


def test_help_names_every_way_to_a_characterization():
    text = " ".join(run("--help").stdout.split())
    for part in ("compose measured kernels", "read traces", "-- python train.py"):
        assert part in text


def test_shapes_and_counters_join_a_trace(tmp_path, shared_data):
    """Both options reach the reader; without --from they would have no effect."""
    traced = shared_data / "kineto_edge" / "triton_example.json.gz"
    page = shared_data / "ncu" / "kernel_0001.ncu.details.csv"
    for option, path, said in (("--ncu", page, "none of its"),
                               ("--execution-trace", page, "no execution trace")):  # fmt: skip
        out = str(tmp_path / "run.parquet")
        result = CliRunner().invoke(
            cli, ["characterize", "--from", str(traced), option, str(path), "-o", out]
        )
        assert said in str(result.exception), option
        result = CliRunner().invoke(cli, ["characterize", "--recipe", "x", option, str(path)])
        assert f"{option} goes with --from" in result.output
