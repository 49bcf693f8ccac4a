"""`codesign project --gpus`, through the real command, on a roofline."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from codesign._common.errors import UsageError
from codesign.cli.project import command
from tests.cluster.fakes import Roofline
from tests.cluster.test_measured import _char


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codesign.sensitivity.load_model", lambda path: Roofline())


def _run(*args: str) -> Result:
    return CliRunner().invoke(command, [*args, "--model", "m.json"])


def test_the_best_plan_of_a_model_and_what_it_is_not() -> None:
    result = _run("llama-3-8b", "--gpus", "16", "--batch", "64", "--precision", "fp8",
                  "--system", "gb200-nvl72", "--reoptimize")  # fmt: skip
    assert result.exit_code == 0, result.output
    text = result.output
    assert text.startswith("llama-3-8b: 16 GPUs, 64 sequences of 8192 tokens a step, fp8")
    for part in ("best plan:", "tokens/s/GPU", "GB a GPU", "not ", "by GPUs"):
        assert part in text
    # What a utilization is of stands with it.
    assert re.search(r"MFU \d+\.\d %, HFU \d+\.\d % of dense fp8\n", text)


def test_a_name_with_a_dot_stays_whole() -> None:
    result = _run("llama-3.1-405b", "--gpus", "512", "--batch", "512", "--system", "gb300-nvl72")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("llama-3.1-405b: 512 GPUs")


def test_a_recipe_has_a_plan_in_use_too() -> None:
    result = _run("llama-3.1-70b-pretrain-bf16", "--gpus", "128", "--system", "hgx-h200",
                  "--set", "nvlink_domain=72", "--reoptimize", "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    content = json.loads(result.output)
    assert content["gpus"] == 128
    small, large = content["systems"]
    assert large["system"].startswith("hgx-h200[nvlink_domain")
    for row in (small, large):
        assert row["best"]["step_s"]["value"] <= row["fixed"]["step_s"]["value"]
        assert sum(row["best"]["breakdown"].values()) == pytest.approx(
            row["best"]["step_s"]["value"]
        )
    assert large["best"]["step_s"]["value"] <= small["best"]["step_s"]["value"]
    # A job of 8 GPUs does not feel the larger domain; the base has no domain to account for.
    assert (small["control"], large["control"]) == (None, 1.0)


def test_a_measured_rank_is_scaled_out(tmp_path: Path) -> None:
    path = tmp_path / "rank.parquet"
    _char().save(path)
    result = _run(str(path), "--gpus", "256", "--system", "hgx-b200", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.output)
    assert content["kept_s"] == pytest.approx(0.7)
    assert content["systems"][0]["step_time_s"] > content["measured_step_time_s"]


def test_a_larger_domain_comes_with_its_control() -> None:
    result = _run("llama-3-70b", "--gpus", "64", "--base", "hgx-h200", "--set", "nvlink_domain=72")
    assert result.exit_code == 0, result.output
    assert "control, a job inside the smaller domain: x1.000 from the domain" in result.output
    other = _run("llama-3-70b", "--gpus", "64", "--base", "hgx-h200", "--set", "sm_clock=x1.1")
    assert "control" not in other.output


def test_a_larger_domain_without_a_control_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for parts too small for the control's model: 405 billion weights on 8 of them."""
    monkeypatch.setattr("codesign.cluster.at_scale.CONTROL_MODEL", "llama-3.1-405b")
    args = ("llama-3-70b", "--gpus", "64", "--base", "hgx-h200", "--set", "nvlink_domain=72")
    shown = _run(*args)
    assert shown.exit_code == 0, shown.output
    (line,) = [t for t in shown.stderr.splitlines() if "control" in t]
    assert "hgx-h200[nvlink_domain" in line
    assert "has no control: llama-3.1-405b: no plan over 8 GPUs fits" in line
    assert "control" not in shown.stdout
    content = json.loads(_run(*args, "--json").stdout)
    assert [row["control"] for row in content["systems"]] == [None, None]
    (warning,) = content["warnings"]
    assert warning in line


@pytest.mark.parametrize(
    ("args", "says"),
    [(("no-such-model", "--gpus", "8", "--system", "hgx-h100"), "expected a recipe"),
     (("llama-3-8b", "--gpus", "8"), "needs a system"),
     (("llama-3-8b", "--reoptimize"), "need --gpus")],
)  # fmt: skip
def test_wrong_use_is_refused(args: tuple[str, ...], says: str) -> None:
    result = _run(*args)
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)


def test_a_change_is_told_against_the_system_without_it() -> None:
    """Twice the NVLink rate, at the plan in use and re-planned; the base is there unasked."""
    result = _run("llama-3.1-70b-pretrain-bf16", "--gpus", "128", "--base", "hgx-h200",
                  "--set", "nvlink_bandwidth=x2", "--reoptimize")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.output.count("best plan:") == 2
    line = next(t for t in result.output.splitlines() if "gain over hgx-h200" in t)
    fixed, replanned = (float(t.split()[0]) for t in line.split(" x")[1:])
    assert replanned >= 1.0
    assert 1.0 < fixed < 2.0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("llama-3.1-405b", "--gpus", "8", "--system", "hgx-h100"), "GB a GPU of 85"),
        (("llama-3-8b", "--gpus", "7", "--system", "hgx-h100"), "a multiple of 7 sequences"),
        (("llama-3-8b", "--gpus", "8", "--system", "hgx-h100", "--precision", "nvfp4"),
         "no fp4 tensor cores"),
        (("llama-3-8b", "--gpus", "8", "--system", "hgx-a100", "--precision", "fp8"),
         "no fp8 tensor cores"),
        (("llama-3.1-70b-pretrain-bf16", "--gpus", "100", "--system", "hgx-h100"), "not 100"),
        (("llama-3.1-70b-pretrain-bf16", "--gpus", "100", "--system", "hgx-h100"),
         "--reoptimize looks for one that can"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(args: tuple[str, ...], says: str) -> None:
    result = _run(*args)
    assert isinstance(result.exception, UsageError)
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_largest_batch_has_a_curve_of_what_is_smaller() -> None:
    result = _run("llama-3-8b", "--gpus", "8", "--batch", "100000000", "--system", "hgx-h100")
    assert result.exit_code == 0, result.output
    assert (
        "batch in proportion: 2: " in result.output or "batch in proportion: 4: " in result.output
    )
    assert "16: " not in result.output.splitlines()[-1]
