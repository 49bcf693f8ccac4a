"""`codesign recommend`, through the real command, on a model that is done by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from codesign._common.errors import DataError, UsageError
from codesign._common.files import data_dir
from codesign.cli.recommend import command
from codesign.recommend.jsonfile import load_recommendations
from tests.projection.fakes import characterization, gemm
from tests.recommend.cases import IdentifiedModel

PORTFOLIO = """
title: Two workloads
baseline: hgx-h100
workloads:
  - {recipe: mine.yaml, weight: 0.5}
  - {characterization: other.parquet, weight: 0.5}
levers:
  hbm_bandwidth: [1.5, 2]
  fp4_throughput: [2]
  hbm_capacity: ["160 GB"]
"""


@pytest.fixture
def portfolio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("codesign.sensitivity.load_model", lambda path: IdentifiedModel())
    (tmp_path / "chars").mkdir()
    (tmp_path / "m.json").write_text("{}")
    memory = characterization([gemm(3.0, 1e12, 1e13)], system="hgx-h100")
    memory.save(tmp_path / "chars" / "mine.parquet")
    characterization([gemm(1.0, 1e15, 1e9)], system="hgx-h100").save(tmp_path / "other.parquet")
    (tmp_path / "p.yaml").write_text(PORTFOLIO)
    return str(tmp_path / "p.yaml")


def _run(portfolio: str, *args: str) -> Result:
    here = Path(portfolio).parent
    return CliRunner().invoke(command, [
        portfolio, "--model", str(here / "m.json"), "--characterizations", str(here / "chars"),
        "--draws", "20", *args,
    ])  # fmt: skip


def test_formats_by_extension_several_at_once(portfolio: str, tmp_path: Path) -> None:
    outputs = [str(tmp_path / "out" / name) for name in ("r.html", "r.md", "r.json")]
    result = _run(portfolio, *(a for path in outputs for a in ("-o", path)))
    assert result.exit_code == 0, result.output
    recs = load_recommendations(outputs[2])
    # x2 on the half that waits for memory: 1 / (0.25 + 0.5).
    assert recs.levers[0].points[-1].gain.value == pytest.approx(4 / 3, rel=1e-4)
    assert recs.provenance.inputs["p.yaml"]
    assert {"mine.parquet", "other.parquet"} <= set(recs.provenance.inputs)
    assert "Two workloads" in Path(outputs[0]).read_text(encoding="utf-8")
    assert "Two workloads" in Path(outputs[1]).read_text(encoding="utf-8")


def test_without_output_the_ranking_is_printed(portfolio: str) -> None:
    result = _run(portfolio)
    assert result.exit_code == 0, result.output
    assert "HBM bandwidth" in result.output
    assert "refused" in result.output
    assert "no backtest was given" in result.output


def test_what_if_options_reach_the_file(portfolio: str, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    result = _run(
        portfolio, "--weights", "mine=80%", "--rank-by", "area", "--seed", "7", "-o", str(out)
    )
    assert result.exit_code == 0, result.output
    recs = load_recommendations(out)
    assert [w.weight for w in recs.workloads] == pytest.approx([0.8, 0.2])
    assert recs.ranking_cost == "mm2 per GPU"
    assert recs.provenance.seed == 7
    assert any("weights set on request: mine = 0.8" in w for w in recs.warnings)


def test_stdout_takes_the_file_in_the_format_asked_for(portfolio: str, tmp_path: Path) -> None:
    result = _run(portfolio, "-o", "-", "-o", str(tmp_path / "r.json"), "--quiet")
    assert result.stderr == ""
    printed = json.loads(result.stdout) | {"generated_at": ""}
    assert printed == json.loads((tmp_path / "r.json").read_text()) | {"generated_at": ""}
    markdown = _run(portfolio, "-o", "-", "--format", "md")
    assert markdown.stdout.startswith("# Two workloads")


def test_a_file_written_is_said_on_stderr_only(portfolio: str, tmp_path: Path) -> None:
    result = _run(portfolio, "-o", str(tmp_path / "r.json"))
    assert result.stdout == ""
    assert re.fullmatch(r"wrote .*r\.json \([0-9.]+ kB\)\n", result.stderr)


def test_weights_of_any_scale_are_shares_and_it_is_said(portfolio: str, tmp_path: Path) -> None:
    path = Path(portfolio)
    path.write_text(PORTFOLIO.replace("mine.yaml, weight: 0.5", "mine.yaml, weight: 1.5"))
    result = _run(portfolio, "-o", str(tmp_path / "r.json"))
    assert "warning: weights added up to 2" in result.stderr
    recs = load_recommendations(tmp_path / "r.json")
    assert [w.weight for w in recs.workloads] == pytest.approx([0.75, 0.25])


def test_a_workload_whose_name_holds_an_equals_sign_can_be_weighed(
    portfolio: str, tmp_path: Path
) -> None:
    path = Path(portfolio)
    (path.parent / "other.parquet").rename(path.parent / "bs=8.parquet")
    path.write_text(PORTFOLIO.replace("other.parquet", "bs=8.parquet"))
    result = _run(portfolio, "--weights", "bs=8=25%", "-o", str(tmp_path / "r.json"))
    assert result.exit_code == 0, result.output
    weights = {w.name: w.weight for w in load_recommendations(tmp_path / "r.json").workloads}
    assert weights["bs=8"] == pytest.approx(0.25)


def test_what_is_given_holds_and_what_is_not_keeps_the_portfolios_value(
    portfolio: str, tmp_path: Path
) -> None:
    Path(portfolio).write_text(f"{PORTFOLIO}min_gain: 0.05\nranking: area\n")

    def settings(*args: str) -> tuple[object, object]:
        assert _run(portfolio, *args, "-o", str(tmp_path / "r.json"), "--force").exit_code == 0
        made = load_recommendations(tmp_path / "r.json").provenance.settings
        return made["min_gain"], made["ranking"]

    assert settings() == (0.05, "area")
    assert settings("--min-gain", "5%", "--rank-by", "area") == (0.05, "area")
    # What a portfolio has by default is a value like any other where it is given.
    assert settings("--min-gain", "2%", "--rank-by", "power") == (0.02, "power")


def test_the_file_says_which_values_were_given_even_where_they_are_the_same(
    portfolio: str, tmp_path: Path
) -> None:
    Path(portfolio).write_text(f"{PORTFOLIO}min_gain: 0.05\nranking: area\n")

    def requested(*args: str) -> tuple[dict[str, object], str]:
        outputs = [str(tmp_path / name) for name in ("r.json", "r.md")]
        found = _run(portfolio, *args, "--force", *(a for o in outputs for a in ("-o", o)))
        assert found.exit_code == 0, found.output
        made = load_recommendations(outputs[0]).provenance
        # Given or not, the value in force is the same.
        assert (made.settings["min_gain"], made.settings["ranking"]) == (0.05, "area")
        return made.requested, Path(outputs[1]).read_text()

    plain, text = requested()
    assert plain == {"draws": 20}
    assert "- Set on request: draws 20\n" in text
    given, text = requested("--min-gain", "5%", "--rank-by", "area", "--steps", "power=x1.2")
    assert given == {"draws": 20, "min_gain": 0.05, "ranking": "area", "steps": ["power=x1.2"]}
    assert "- Set on request: draws 20; min_gain 0.05; ranking area; steps power=x1.2\n" in text


def test_hostile_titles_take_one_line_of_the_terminal(portfolio: str) -> None:
    path = Path(portfolio)
    path.write_text(PORTFOLIO.replace("title: Two workloads", 'title: "a\\n\\u202eb \\x1b[31m"'))
    result = _run(portfolio)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0].startswith(r"a\n\u202eb \x1b[31m: against ")


def test_the_reason_of_a_refused_lever_is_printed(portfolio: str) -> None:
    assert "refused: FP4 throughput: h100-sxm has no dense FP4 peak" in _run(portfolio).output


def test_a_baseline_file_is_relative_to_its_portfolio(portfolio: str, tmp_path: Path) -> None:
    path = Path(portfolio)
    text = (data_dir("hwspecs") / "systems" / "hgx-h100.yaml").read_text()
    (path.parent / "mine.yaml").write_text(text)
    path.write_text(PORTFOLIO.replace("baseline: hgx-h100", "baseline: mine.yaml"))
    assert _run(portfolio, "-o", str(tmp_path / "r.json")).exit_code == 0
    path.write_text(PORTFOLIO.replace("baseline: hgx-h100", "baseline: none.yaml"))
    error = _run(portfolio).exception
    assert isinstance(error, DataError)
    assert "p.yaml: baseline: none.yaml" in str(error)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-o", "{r}"), "given twice"),
        (("-o", "{here}/./r.json"), "given twice"),
        (("-o", "{here}/p.yaml", "--force"), ".yaml"),
        (("-o", "{here}/p.yaml/x.html"), "is no folder"),
        (("--template", "{here}/nope"), "no such file or folder"),
        (("--template", "{here}"), "--template goes with"),
        (("--template", "{here}/p.yaml", "-o", "r.html"), "expected a folder"),
        (("--costs", "{here}/nope"), "no such file or folder"),
        (("--backtest", "{here}/nope"), "no such file or folder"),
        (("--format", "md"), "--format goes with -o -"),
        (("--weights", "=0.5"), "expected NAME=SHARE"),
        (("--weights", "mine="), "expected NAME=SHARE"),
        (("--weights", "mine"), "expected NAME=SHARE"),
        (("--weights", "mine=x"), "expected NAME=SHARE"),
        (("--weights", "nope=0.1"), "unknown workload"),
        (("-o", "report.docx"), ".docx"),
        (("--system", "nope"), "unknown system"),
    ],
)
def test_wrong_requests_are_one_line_and_write_nothing(
    portfolio: str, args: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    out = tmp_path / "r.json"
    given = [a.format(r=out, here=tmp_path) for a in args]
    result = _run(portfolio, "-o", str(out), *given)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "r.json").exists()


def test_a_workload_of_another_system_is_refused(portfolio: str) -> None:
    result = _run(portfolio, "--system", "hgx-h200")
    assert isinstance(result.exception, UsageError)
    assert "was characterized on hgx-h100" in str(result.exception)


def test_the_schema_is_printed() -> None:
    result = CliRunner().invoke(command, ["--schema"])
    jsonschema.Draft202012Validator.check_schema(json.loads(result.output))


def test_without_a_model_it_says_what_it_needs() -> None:
    result = CliRunner().invoke(command, ["default"])
    assert isinstance(result.exception, UsageError)
    assert "--model" in str(result.exception)


def test_a_weight_may_go_by_the_name_that_the_characterization_gives_itself(
    portfolio: str, tmp_path: Path
) -> None:
    results = []
    for names in (("mine", "other"), ("mine", "w")):  # other.parquet calls its workload "w".
        out = tmp_path / f"{names[1]}.json"
        given = [a for n, w in zip(names, ("0.9", "0.1"), strict=True)
                 for a in ("--weights", f"{n}={w}")]  # fmt: skip
        result = _run(portfolio, "-o", str(out), *given)
        assert result.exit_code == 0, result.output
        results.append(load_recommendations(out).levers[0].points[-1].gain.value)
    assert results[0] == results[1]
    # x2 on the nine tenths that wait for memory.
    assert results[0] == pytest.approx(1 / (0.45 + 0.1), rel=1e-4)
    twice = _run(portfolio, "-o", str(tmp_path / "t.json"), "--weights", "w=0.5",
                 "--weights", "other=0.5")  # fmt: skip
    assert "other is given twice, by both of its names" in str(twice.exception)


def test_what_if_the_baseline_had_it_already(portfolio: str, tmp_path: Path) -> None:
    out = tmp_path / "w.json"
    result = _run(portfolio, "--set", "hbm_bandwidth=x2", "-o", str(out))
    assert result.exit_code == 0, result.output
    recs = load_recommendations(out)
    # 3.35 TB/s doubled: the workload that waits for memory takes 1.5 s, the other stays at 1 s.
    steps = {w.name: w.step_time_s for w in recs.workloads}
    assert steps == pytest.approx({"mine": 1.5, "other": 1.0}, rel=1e-4)
    assert recs.baseline_title == "HGX H100, 8 GPUs, with HBM bandwidth of 6.70 TB/s"
    assert any("hypothetical" in warning for warning in recs.warnings)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("hbm_bandwidht=x2", "hbm_bandwidth"),
        ("fp4_throughput=x2", "h100-sxm has no peak_dense.fp4"),
    ],
)
def test_a_baseline_that_cannot_be(portfolio: str, change: str, said: str) -> None:
    result = _run(portfolio, "--set", change)
    assert isinstance(result.exception, UsageError)
    assert said in str(result.exception)
    assert f"--set {change}" in str(result.exception)
