"""`codesign backtest --experiments`: table, file, checks; on records of a folder of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from codesign._common.errors import CheckFailedError, UsageError
from codesign._common.scores import Backtest, ExperimentRow, Interval, LeverEvidence, LeverOrderRow
from codesign.cli._experiments import check, lines, unseen
from codesign.cli.backtest import EXPERIMENT_METRICS, _condition, command
from codesign.cli.main import cli
from codesign.projection.experiments import load_experiments
from codesign.sensitivity.gemm import GemmModel
from tests.sensitivity.test_backtest import WorkDB

RECORD = {
    "name": "mine", "title": "H100 to H200", "lever": "hbm_bandwidth",
    "before": {"system": "hgx-h100"}, "after": {"system": "hgx-h200"},
    "moved": {"hbm_bandwidth": 1.433, "hbm_capacity": 1.7625},
    "kernels": {"op_class": "gemm", "where": {"m": {"max": 16}}},
    "hold_out": ["h200-sxm", "b200-sxm"], "source": "a fake", "confounders": ["made up"],
}  # fmt: skip


def write(folder: Path, ratio: float) -> None:
    record = {**RECORD, "measured": {"by": "kernels", "ratio": ratio}}
    (folder / "experiments").mkdir(exist_ok=True)
    path = folder / "experiments" / "mine.yaml"
    path.write_text(json.dumps({"experiments": [record]}), encoding="utf-8")


def true_ratio() -> float:
    """Median over the fake's own tables, by plain pandas."""
    before, after = (WorkDB().training_ops(g, "gemm") for g in ("h100-sxm", "h200-sxm"))
    both = before.merge(after, on=["m", "n", "k"], suffixes=("", "_after"))
    both = both[both["m"] <= 16].sort_values("time_s").drop_duplicates(["m", "n", "k"])
    return float((both["time_s"] / both["time_s_after"]).median())


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of records, and a database in memory with GEMM alone."""
    import codesign.projection.experiments.run as module
    from codesign.sensitivity import fit

    def fit_on(db, gpus):
        return fit(db, gpus=gpus, models=(GemmModel(),), rows_per_gpu=80)

    monkeypatch.setattr(module, "fit_on", fit_on)
    monkeypatch.setattr("codesign.sources.perfdb.PerfDB", WorkDB)
    monkeypatch.setenv("CODESIGN_HWSPECS", str(tmp_path))
    return tmp_path


def test_measured_and_projected_stand_beside_each_other(folder: Path) -> None:
    write(folder, ratio=true_ratio())
    path = folder / "out.json"
    result = CliRunner().invoke(command, ["--experiments", "mine", "-o", str(path)])
    assert result.exit_code == 0, result.output
    (row,) = msgspec.json.decode(path.read_bytes(), type=Backtest).experiments
    assert row.measured == pytest.approx(true_ratio(), rel=0.03)
    assert row.projected is not None
    # The fake's truth is the form that is fitted: the projection must find it.
    assert row.projected.value == pytest.approx(row.measured, rel=0.05)
    assert row.inside is True
    assert set(row.trained_on) == {"a100-80gb-sxm", "h100-sxm"}
    for text in ("mine", "hbm_bandwidth", "yes", "made up", "1 of 1 projected"):
        assert text in result.output


def test_a_record_that_the_tables_contradict_fails_the_check(folder: Path) -> None:
    write(folder, ratio=2 * true_ratio())
    result = CliRunner().invoke(command, ["--experiments", "mine"])
    assert isinstance(result.exception, CheckFailedError)
    assert result.exception.exit_code == 5
    assert "mine: states x" in str(result.exception)
    assert "the record states x" in result.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--experiments", "nobody"], "unknown experiment 'nobody'"),
        (["mine"], "mine: only --experiments takes names"),
        (["--experiments", "--quick"], "--quick has no effect with --experiments"),
        (["--experiments", "--rows", "5"], "--rows has no effect"),
        (["--experiments", "--fail-on", "mape>0.2"], "metrics: missed, reversed"),
        ([], "-o is missing"),
    ],
)
def test_requests_that_cannot_be_met_say_so(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)


def row(name: str, inside: bool | None, lever: str = "power") -> ExperimentRow:
    projected = None if inside is None else Interval(1.2, 1.1, 1.3)
    return ExperimentRow(
        name=name, title=name, lever=lever, role="test", before="a", after="b", moved={},
        measured=1.2 if inside else 1.5, measured_lo=None, measured_hi=None, n=3,
        measured_by="published", stated=1.2, agrees=None, projected=projected, inside=inside,
        why_not="" if projected else "no recipe", trained_on=("old",), confounders=(), source="s",
    )  # fmt: skip


def order(name: str, reversed: tuple[tuple[str, str], ...], decided: int = 1) -> LeverOrderRow:
    evidence = LeverEvidence("hbm_bandwidth", "a", "b", 1.4, 0.7, 0.05, 0.6)
    return LeverOrderRow(name, "hgx-h100", (evidence,), decided, reversed, ("old",))


def test_conditions_count_misses_and_reversals() -> None:
    result = Backtest(
        experiments=(row("hit", True), row("miss", False), row("open", None)),
        lever_order=(order("good", ()), order("bad", (("a", "b"),)), order("none", (), 0)),
    )
    for text, fails in (("missed>0", True), ("missed>1", False), ("missed>0@power", True),
                        ("missed>0@hbm_bandwidth", False), ("reversed>0", True),
                        ("reversed>0@good", False)):  # fmt: skip
        condition = _condition(text, EXPERIMENT_METRICS)
        if fails:
            with pytest.raises(CheckFailedError, match=r"(missed|reversed) = 1 > 0; first: "):
                check(result, [condition])
        else:
            check(result, [condition])


def test_the_table_says_what_was_missed_and_what_was_not_projected() -> None:
    result = Backtest(
        experiments=(row("hit", True), row("miss", False), row("open", None)),
        lever_order=(order("good", ()), order("bad", (("a", "b"),)), order("none", (), 0)),
    )
    text = "\n".join(lines(result))
    assert "1 of 2 projected ratios with the measured one inside" in text
    assert "; 1 not projected" in text
    assert "not projected: no recipe" in text
    assert "order of levers: 1 of 2 workloads" in text
    assert "REVERSED; a before b" in text
    assert next(line for line in lines(result) if line.startswith("miss")).split()[-2] == "NO"


def test_levers_that_the_parts_do_not_tell_apart_are_not_said_to_be_in_order() -> None:
    # The sd of either is 0.05, of a difference 0.071, and 1.645 times that 0.116.
    measured = {"power": 0.7, "sm_clock": 0.6, "hbm_bandwidth": 0.1}
    levers = tuple(LeverEvidence(n, "a", "b", 1.4, m, 0.05, 0.6) for n, m in measured.items())
    found = LeverOrderRow("w", "hgx-h100", levers, 2, (), ("old",))
    text = lines(Backtest(lever_order=(found,)))[0]
    assert re.search(r"^w: power \S+ ± .* ~ sm_clock .* > hbm_bandwidth", text)


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(cli, ["backtest", "--help"])
    assert "codesign backtest --experiments" in result.output


def test_hw_check_reads_records_too(folder: Path) -> None:
    write(folder, ratio=1.4)
    path = folder / "experiments" / "mine.yaml"
    assert CliRunner().invoke(cli, ["hw", "check", str(path)]).exit_code == 0
    path.write_text(path.read_text().replace("hbm_capacity", "hbm_size"))
    result = CliRunner().invoke(cli, ["hw", "check", str(path)])
    assert isinstance(result.exception, CheckFailedError)
    assert "mine.yaml: experiments[0] (mine): moved: unknown quantity" in result.output


def test_a_backtest_scores_those_experiments_that_one_of_its_fits_has_not_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import codesign.projection.experiments as package
    from codesign.projection.experiments import order
    from codesign.projection.experiments.run import fit_on
    from codesign.projection.held_out import HeldOut

    write(folder, ratio=true_ratio())
    monkeypatch.setattr(package, "load_experiments", lambda: load_experiments(("mine",)))
    # The order of levers needs recipes, and so more tables than this database has.
    monkeypatch.setattr(order, "lever_orders", lambda *_, **__: ())
    db = WorkDB()
    without = tuple(g for g in db.gpus() if g not in ("h200-sxm", "b200-sxm"))
    held_out = HeldOut(db, fitter=fit_on)
    assert without
    assert unseen(db, held_out, [("h100-sxm",), tuple(db.gpus())], str).experiments == ()
    (found,) = unseen(db, held_out, [without], str).experiments
    assert (found.name, found.agrees) == ("mine", True)
    assert found.projected is not None
    assert not set(found.trained_on) & {"h200-sxm", "b200-sxm"}
