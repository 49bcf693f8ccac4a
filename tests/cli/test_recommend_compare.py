"""Comparison, scenarios, what-if options and checks, through the real command."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import openpyxl
import pytest

from codesign._common.errors import CheckFailedError, DataError, UsageError
from codesign.recommend.jsonfile import load_recommendations
from tests.cli.test_recommend import PORTFOLIO, _run
from tests.cli.test_recommend import portfolio as portfolio  # noqa: PLC0414 - a fixture

SCENARIOS = """
scenarios:
  today: {mine: 3, other: 1}
  "2028: more RL": {other: 0.9}
"""


def made(portfolio: str, name: str, *args: str) -> Path:
    out = Path(portfolio).parent / name
    result = _run(portfolio, "-o", str(out), *args)
    assert result.exit_code == 0, result.output
    return out


def test_what_changed_is_told_on_the_terminal_and_in_the_file(portfolio: str) -> None:
    old = made(portfolio, "old.json")
    out = Path(portfolio).parent / "new.json"
    result = _run(portfolio, "-o", str(out), "--compare", str(old), "--weights", "mine=80%")
    assert result.exit_code == 0, result.output
    assert "changed: weights: mine: 50 % -> 80 %; other: 50 % -> 20 % (recomputed" in result.stdout
    changes = load_recommendations(out).changes
    assert changes is not None
    assert changes.old == "old.json"
    assert changes.stages == ("weights",)
    hbm = next(x for x in changes.levers if x.lever == "hbm_bandwidth")
    at = hbm.factor or 0.0
    # "mine" waits for memory, "other" does not.
    assert hbm.gains["weights"] == pytest.approx((0.5 + 0.5 / at) / (0.2 + 0.8 / at), rel=1e-4)
    assert _run(portfolio, "--compare", str(old), "-o", str(out), "--force", "-q").stdout == ""


def test_a_comparison_is_in_every_format(portfolio: str, tmp_path: Path) -> None:
    old = made(portfolio, "old.json")
    outputs = [str(tmp_path / f"r{suffix}") for suffix in (".html", ".md", ".xlsx")]
    given = [a for path in outputs for a in ("-o", path)]
    assert _run(portfolio, *given, "--compare", str(old), "--weights", "mine=0.8").exit_code == 0
    for path in outputs[:2]:
        assert "What changed" in Path(path).read_text(encoding="utf-8")
    book = openpyxl.load_workbook(outputs[2])
    assert {"Changes causes", "Changes ranks", "Changes gains"} <= set(book.sheetnames)


def test_a_workbook_goes_to_standard_output_as_bytes(portfolio: str) -> None:
    result = _run(portfolio, "-o", "-", "--format", "xlsx")
    assert result.exit_code == 0
    assert "Ranking" in openpyxl.load_workbook(io.BytesIO(result.stdout_bytes)).sheetnames


def test_scenarios_are_ranked_and_one_can_be_taken(portfolio: str) -> None:
    Path(portfolio).write_text(PORTFOLIO + SCENARIOS)
    recs = load_recommendations(made(portfolio, "r.json"))
    assert [s.name for s in recs.scenarios] == ["as weighted", "today", "2028: more RL"]
    assert recs.scenarios[1].weights == {"mine": 0.75, "other": 0.25}
    assert recs.scenarios[2].weights == pytest.approx({"mine": 0.1, "other": 0.9})
    printed = _run(portfolio).stdout
    table = printed.partition("rank by scenario")[2].splitlines()
    hbm = next(line for line in table if line.startswith("HBM bandwidth"))
    assert hbm.count(" x") == 3
    # Not studied is no gain of 1: neither here nor in the list.
    capacity = [line for line in printed.splitlines() if line.startswith("HBM capacity")]
    assert all("x1" not in line for line in capacity)
    taken = load_recommendations(made(portfolio, "t.json", "--scenario", "today"))
    assert [w.weight for w in taken.workloads] == [0.75, 0.25]
    assert any("those of the scenario 'today'" in w for w in taken.warnings)


def test_a_lever_over_the_budget_says_so_in_its_line(portfolio: str) -> None:
    printed = _run(portfolio, "--steps", "hbm_bandwidth=x2", "--budget", "power=1").stdout
    line = next(x for x in printed.splitlines() if re.search(r"^\d+ +HBM bandwidth", x))
    assert "over budget" in line
    free = _run(portfolio, "--steps", "hbm_bandwidth=x2").stdout
    assert "over budget" not in free


def test_a_bare_number_of_sms_is_a_value_as_in_set(portfolio: str) -> None:
    recs = load_recommendations(made(portfolio, "r.json", "--steps", "sm_count=160,x2"))
    sms = next(x for x in recs.levers if x.lever == "sm_count")
    assert [p.factor for p in sms.points] == pytest.approx([160 / 132, 2.0])  # H100: 132 SMs


def test_what_if_options_reach_the_study(portfolio: str) -> None:
    recs = load_recommendations(made(
        portfolio, "r.json", "--steps", "hbm_bandwidth=+10%,x3", "--budget", "power=100",
        "--min-gain", "5%",
    ))  # fmt: skip
    hbm = next(x for x in recs.levers if x.lever == "hbm_bandwidth")
    assert [p.factor for p in hbm.points] == pytest.approx([1.1, 3.0])
    assert recs.provenance.settings["budgets"] == {"power": 100.0}
    assert recs.provenance.settings["min_gain"] == 0.05
    assert any("steps set on request: hbm_bandwidth = +10%,x3" in w for w in recs.warnings)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("gain>1.1@hbm_bandwidth", "hbm_bandwidth: gain = 1.2 > 1.1"),
        ("rank<=1@hbm_bandwidth", "hbm_bandwidth: rank = 1 <= 1"),
        ("warnings>0", "warnings = "),
        ("measured>=1", "measured = 1 >= 1"),
    ],
)
def test_a_condition_that_is_met_is_exit_code_5_after_the_report_is_written(
    portfolio: str, condition: str, said: str
) -> None:
    out = Path(portfolio).parent / "r.json"
    result = _run(portfolio, "-o", str(out), "--steps", "hbm_bandwidth=1.5", "--fail-on", condition)
    assert isinstance(result.exception, CheckFailedError)
    assert result.exception.exit_code == 5
    assert said in str(result.exception)
    assert json.loads(out.read_text())["recommendations"]


def test_conditions_that_are_not_met_pass(portfolio: str) -> None:
    result = _run(portfolio, "--fail-on", "gain<1.01@hbm_bandwidth", "--fail-on", "measured<0.5")
    assert result.exit_code == 0, result.output


def test_conditions_on_changes_and_scenarios(portfolio: str) -> None:
    Path(portfolio).write_text(PORTFOLIO + SCENARIOS)
    old = made(portfolio, "old.json")
    given = ("--compare", str(old), "--weights", "mine=0.8")
    for condition in ("gain_change>0.05@hbm_bandwidth", "gain_change>=0", "rank_change<1"):
        result = _run(portfolio, *given, "--fail-on", condition)
        assert isinstance(result.exception, CheckFailedError), condition
    for condition in ("first_changed>0", "firsts>1", "rank_change>0"):
        assert _run(portfolio, *given, "--fail-on", condition).exit_code == 0, condition


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--fail-on", "gain=1"), "expected METRIC>NUMBER"),
        (("--fail-on", "speed>1"), "metrics: rank, gain"),
        (("--fail-on", "gain>1.2.3"), "1.2.3 is not a number"),
        (("--fail-on", "first_changed>0"), "needs --compare OLD.json"),
        (("--fail-on", "warnings>3@hbm_bandwidth"), "of the whole file"),
        (("--compare-model", "{m}"), "goes with --compare"),
        (("--compare", "{m}.nope"), "no such file"),
        (("--scenario", "2030"), "the portfolio has no scenarios"),
        (("--steps", "warp=2"), "unknown lever 'warp'"),
        (("--steps", "hbm_bandwidth=fast"), "--steps hbm_bandwidth"),
        (("--steps", "hbm_bandwidth=1e9"), "expected a factor of 0.001 to 1000"),
        (("--budget", "joy=3"), "expected KIND=AMOUNT"),
        (("--budget", "power=-3"), "expected KIND=AMOUNT"),
        (("--min-gain", "lots"), "--min-gain: expected"),
        (("--min-gain", "200%"), "expected 0 to 100 %"),
    ],
)
def test_wrong_requests_are_one_line_before_any_work(
    portfolio: str, args: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = _run(portfolio, *(a.format(m=tmp_path / "m.json") for a in args))
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_check_that_can_never_fail_is_refused(portfolio: str) -> None:
    for condition in ("gain<1@nobody", "firsts>1"):
        result = _run(portfolio, "--fail-on", condition)
        assert isinstance(result.exception, UsageError), condition
        assert "nothing in the list" in str(result.exception)


def test_what_is_no_recommendations_file_is_refused(portfolio: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"schema_version": 99}')
    error = _run(portfolio, "--compare", str(tmp_path / "old.json")).exception
    assert isinstance(error, DataError | UsageError)


def test_the_older_model_has_to_be_the_one_that_made_the_file(
    portfolio: str, tmp_path: Path
) -> None:
    old = made(portfolio, "old.json")
    (tmp_path / "other.json").write_text('{"another": 1}')
    error = _run(portfolio, "--compare", str(old), "--compare-model",
                 str(tmp_path / "other.json")).exception  # fmt: skip
    assert isinstance(error, UsageError)
    assert "old.json was made with another model (m.json" in str(error)
