"""`codesign hw` as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from codesign._common.errors import CheckFailedError, UsageError
from codesign._common.files import data_dir
from codesign.cli.main import cli

SHIPPED = Path(__file__).resolve().parents[2] / "hwspecs" / "gpus" / "l40s.yaml"


def hw(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["hw", *arguments])


def test_list_names_parts_and_systems() -> None:
    result = hw("list")
    assert result.exit_code == 0
    for name in ("h100-sxm", "gb200-nvl72", "announced", "400 Gb/s"):
        assert name in result.output
    data = json.loads(hw("list", "--json").output)
    assert {"v100", "mi355x"} <= {gpu["name"] for gpu in data["gpus"]}


def test_show_has_value_label_source_and_the_disagreement() -> None:
    output = hw("show", "b300-sxm").output
    assert "13.50 PFLOP/s" in output
    assert "disputed" in output
    assert "five sources" in output
    assert "derived" in output


def test_show_cites_each_source_once() -> None:
    lines = hw("show", "hgx-h100").output.splitlines()
    cited = {line.split()[0] for line in lines if line.startswith("[")}
    used = {word for line in lines for word in line.split() if re.fullmatch(r"\[\d+\]", word)}
    assert cited == used == {f"[{n + 1}]" for n in range(len(cited))}
    texts = [line.partition(" ")[2] for line in lines if line.startswith("[")]
    assert len(set(texts)) == len(texts)


def test_list_says_which_gpus_have_measured_kernels() -> None:
    pytest.importorskip("aiconfigurator_core")
    from codesign.sources.perfdb import PerfDB

    gpus = json.loads(hw("list", "--json").output)["gpus"]
    assert {g["name"] for g in gpus if g["measured_kernels"]} == set(PerfDB().gpus())
    output = hw("list").output
    assert re.search(r"h100-sxm .* measured +shipping", output)
    assert re.search(r"mi300x .* - +shipping", output)


def test_a_name_that_comes_near_is_offered() -> None:
    assert "did you mean h100-nvl or h100-pcie or h100-sxm?" in str(hw("show", "h100").exception)


def test_show_json_is_in_si() -> None:
    rows = json.loads(hw("show", "NVIDIA H200", "--json").output)["gpu"]["quantities"]
    by_path = {row["path"]: row for row in rows}
    assert by_path["memory.capacity"]["value"] == 141e9
    assert by_path["memory.capacity"]["unit"] == "B"
    assert by_path["memory.bandwidth"]["source"]


def test_diff_names_what_moved() -> None:
    output = hw("diff", "hgx-h100", "hgx-h200").output
    assert "moved: gpu, memory.capacity, memory.bandwidth, memory.stacks" in output
    assert "x1.43" in output
    assert re.search(r"memory.stacks +5 +6 +x1.20\b", output)  # three digits, as all ratios
    data = json.loads(hw("diff", "b200-sxm", "gb200", "--json").output)
    ratio = next(r["ratio"] for r in data["quantities"] if r["path"] == "peak_dense.fp8")
    assert ratio == pytest.approx(5 / 4.5)
    assert "moved: nothing" in hw("diff", "h100-sxm", "h100-sxm").output


def test_check_passes_on_the_library_and_fails_on_a_sparse_peak(tmp_path: Path) -> None:
    assert hw("check").exit_code == 0
    bad = tmp_path / "l40s.yaml"
    bad.write_text(SHIPPED.read_text().replace("fp8: 733 TFLOP/s", "fp8: 1466 TFLOP/s"))
    result = hw("check", str(bad), str(SHIPPED))
    assert isinstance(result.exception, CheckFailedError)
    assert result.exception.exit_code == 5
    assert "fp8/bf16 = 4.05, expected 2" in result.output


def test_exit_codes_of_the_real_command(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "from codesign.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, "hw", *arguments],
            capture_output=True, check=False, text=True,
        )  # fmt: skip

    unknown = run("show", "h1000")
    assert unknown.returncode == 2
    assert unknown.stderr.count("\n") == 1
    broken = tmp_path / "x.yaml"
    broken.write_text("name: x\n")
    assert run("show", str(broken)).returncode == 3
    assert run("check", str(broken)).returncode == 5


def test_a_gpu_is_not_compared_with_nothing() -> None:
    assert isinstance(hw("diff", "h100-sxm", "none").exception, UsageError)


@pytest.mark.parametrize("name", ["list", "show", "check", "diff"])
def test_each_subcommand_has_help_with_an_example(name: str) -> None:
    result = hw(name, "--help")
    assert "Example" in result.output
    assert f"codesign hw {name}" in result.output


def test_of_a_gpu_and_a_system_the_gpus_are_compared_and_a_line_says_so() -> None:
    result = CliRunner().invoke(cli, ["hw", "diff", "h100-sxm", "hgx-h200"])
    assert result.exit_code == 0, result.output
    assert "hgx-h200 is a system, the other a GPU: only its GPU, h200-sxm, is compared" in (
        result.output
    )
    assert "x1.43" in result.output  # 4.8 TB/s / 3.35 TB/s


def test_every_problem_of_a_file_is_counted(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    text = (data_dir("hwspecs") / "gpus" / "h200-sxm.yaml").read_text()
    text = text.replace("  bf16: 989.4 T", "  bf16: 1978.9 T").replace(
        "bandwidth: 4.8 T", "bandwidth: 480 T"
    )
    bad.write_text(text.replace("name: h200-sxm", "name: bad"))
    result = CliRunner().invoke(cli, ["hw", "check", str(bad)])
    assert isinstance(result.exception, CheckFailedError)
    lines = [line for line in result.output.splitlines() if line]
    assert len(lines) > 1
    assert str(result.exception) == f"{len(lines)} problems in 1 file"
