"""The whole study on a portfolio whose answer is worked out by hand (see cases)."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from codesign._common.errors import DataError, UsageError
from codesign.recommend.build import recommend
from codesign.recommend.jsonfile import (
    json_schema,
    load_backtest,
    load_recommendations,
    save_recommendations,
    to_json,
)
from codesign.recommend.schema import LeverResult, Recommendations
from tests.projection.fakes import characterization, gemm
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio, run


@pytest.fixture(scope="module")
def recs() -> Recommendations:
    return run()


def _lever(recs: Recommendations, name: str) -> object:
    return next(r for r in recs.levers if r.lever == name)


def test_gains_are_those_worked_out_by_hand(recs: Recommendations) -> None:
    by_lever = {r.lever: r for r in recs.levers}
    # HBM x2: serve 4 s -> 2 s, train unmoved: 1 / (0.5 + 0.25). Launches are microseconds.
    hbm = by_lever["hbm_bandwidth"].points[-1]
    assert hbm.gain.value == pytest.approx(4 / 3, rel=1e-5)
    assert hbm.by_workload["serve"].value == pytest.approx(2.0, rel=1e-5)
    assert hbm.by_workload["train"].value == 1.0
    assert hbm.label == "+100 %: 2.00 TB/s"
    # BF16 x2: train 4 s -> 2.5 s; serve is bound by memory.
    bf16 = by_lever["bf16_throughput"].points[-1]
    assert bf16.gain.value == pytest.approx(1 / (0.5 * 2.5 / 4 + 0.5), rel=1e-5)
    # Links x2: train 4 s -> 3.5 s.
    nvlink = by_lever["nvlink_bandwidth"].points[-1]
    assert nvlink.gain.value == pytest.approx(1 / (0.5 * 3.5 / 4 + 0.5), rel=1e-5)
    # At the baseline 50 % of portfolio time follows HBM.
    assert by_lever["hbm_bandwidth"].elasticity is not None
    assert by_lever["hbm_bandwidth"].elasticity.value == pytest.approx(-0.5, abs=0.01)
    assert by_lever["hbm_bandwidth"].binding_before == pytest.approx(
        {"hbm": 0.5, "tensor": 0.375, "nvlink": 0.125}, rel=1e-3
    )
    # x2 HBM leaves 0.75 of the hours: 0.25 of them HBM.
    assert by_lever["hbm_bandwidth"].binding_after["hbm"] == pytest.approx(1 / 3, rel=1e-3)


def test_the_ranked_list_is_whole_and_no_effect_stands_last(recs: Recommendations) -> None:
    assert [r.rank for r in recs.recommendations] == list(range(1, 8))
    order = [r.lever for r in recs.recommendations]
    assert set(order[:3]) == {"hbm_bandwidth", "bf16_throughput", "nvlink_bandwidth"}
    last = {r.lever: r for r in recs.recommendations[3:]}
    fp8 = last["fp8_throughput"]
    assert fp8.gain.value == fp8.gain.lo == fp8.gain.hi == 1.0
    assert fp8.status == "no_effect"
    assert fp8.verdict == "none"
    assert fp8.p_best is None
    assert fp8.reason
    assert last["fp4_throughput"].status == "refused"
    assert "no dense FP4 peak" in last["fp4_throughput"].reason


def test_steps_that_worsen_a_lever_move_neither_its_carriers_nor_its_refutation() -> None:
    def lever(*steps: float) -> LeverResult:
        return run(levers={"hbm_bandwidth": steps}).levers[0]

    better, both = lever(1.25), lever(1.25, 0.5, 1.0)
    # Half the bandwidth is farther from today's than a quarter more, and gains nothing.
    assert [p.factor for p in both.points] == [0.5, 1.25]
    assert both.points[0].gain.value < 1 < both.points[1].gain.value
    assert both.carried_by == better.carried_by
    assert both.refuted_by == better.refuted_by
    assert both.binding_after == better.binding_after
    assert [p.factor for p in run(levers={"launch_latency": (0.5, 2.0)}).levers[0].points] == [
        2.0, 0.5,
    ]  # fmt: skip


def test_capacity_is_not_studied_rather_than_worth_nothing(recs: Recommendations) -> None:
    """At a fixed batch and sharding capacity cannot pay, which says nothing of what it pays."""
    capacity = next(r for r in recs.levers if r.lever == "hbm_capacity")
    assert capacity.status == "not_studied"
    assert "re-optimises" in capacity.reason
    assert capacity.refuted_by.startswith("To study it")
    assert capacity.elasticity is None
    assert not capacity.binding_after
    assert not capacity.carried_by
    assert [p.by_workload for p in capacity.points] == [{}]
    line = next(r for r in recs.recommendations if r.lever == "hbm_capacity")
    assert (line.verdict, line.p_best, line.gain_per_cost) == ("open", None, None)


def test_no_op_is_said_to_carry_nothing(recs: Recommendations) -> None:
    for result in recs.levers:
        assert all(op.saved_share > 0 for op in result.carried_by)
        keys = [(op.workload, op.name, op.shape, op.evidence) for op in result.carried_by]
        assert len(keys) == len(set(keys))


def test_what_carries_a_gain_and_on_what_evidence(recs: Recommendations) -> None:
    hbm = next(r for r in recs.recommendations if r.lever == "hbm_bandwidth")
    assert hbm.evidence == pytest.approx({"measured": 0.9, "assumed": 0.1}, rel=1e-4)
    top = hbm.carried_by[0]
    assert (top.workload, top.name) == ("serve", "weights")
    assert top.time_share == pytest.approx(0.9)
    assert top.saved_share == pytest.approx(0.9, rel=1e-4)
    # Without the assumed tenth of the saving: x2 saves 0.25 of the hours, 0.225 for sure.
    if hbm.factor == 2.0:
        assert any("x1.290" in s for s in hbm.would_change)
    assert "H200" in hbm.refuted_by
    assert "x1.43" in hbm.refuted_by


def test_pairs_help_where_they_unmask_each_other(recs: Recommendations) -> None:
    pair = next(p for p in recs.pairs if set(p.levers) == {"hbm_bandwidth", "bf16_throughput"})
    # Portfolio gains are harmonic: the pair is worth more than the product of the singles.
    assert pair.interaction.value > 1
    assert pair.gain.value == pytest.approx(pair.product_of_singles * pair.interaction.value)


def test_workloads_add_up(recs: Recommendations) -> None:
    train, serve = recs.workloads
    for w in recs.workloads:
        assert sum(r.time_s for r in w.breakdown) == pytest.approx(w.step_time_s)
        assert sum(r.share for r in w.breakdown) == pytest.approx(1.0)
        assert sum(w.evidence.values()) == pytest.approx(1.0)
        assert sum(w.binding.values()) == pytest.approx(1.0)
    # 3e15 FLOP in 4 s on 1 PFLOP/s; 800 tokens by 8 GPUs in 4 s.
    assert train.mfu == pytest.approx(0.75)
    assert train.tokens_per_s_per_gpu == pytest.approx(25.0)
    assert train.speed_of_light_s == pytest.approx(4.0)
    assert serve.speed_of_light_s == pytest.approx(4.0)
    assert serve.evidence == pytest.approx({"measured": 0.9, "assumed": 0.1})
    assert train.step_time_modelled.lo <= 4.0 <= train.step_time_modelled.hi


def test_the_same_input_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first, second = run(), run()
    assert first.generated_at == "2023-11-14T22:13:20Z"
    assert to_json(first) == to_json(second)
    assert to_json(run(seed=4)) != to_json(first)


def test_the_file_fits_its_published_schema_and_comes_back(
    recs: Recommendations, tmp_path: object
) -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(to_json(recs)), schema)
    path = f"{tmp_path}/r.json"
    save_recommendations(recs, path)
    assert load_recommendations(path) == recs


def test_files_of_another_kind_are_refused(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(f"{tmp_path}/x.json")
    for content, message in [
        ("{", "not JSON"),
        ("[]", "not a backtest file"),
        ('{"schema_version": 99}', "found 99"),
        ('{"schema_version": 1, "ops": 3}', "ops"),
    ]:
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            load_backtest(path)


def test_a_number_that_json_cannot_hold_is_an_error_not_a_null(recs: Recommendations) -> None:
    broken = msgspec.structs.replace(
        recs, workloads=(msgspec.structs.replace(recs.workloads[0], mfu=float("nan")),)
    )
    with pytest.raises(DataError, match=r"workloads\[0\].mfu"):
        to_json(broken)


def test_inputs_that_do_not_fit_are_refused() -> None:
    model = IdentifiedModel()
    with pytest.raises(UsageError, match="workload serve: no characterization"):
        recommend(portfolio(), {"train": chars()["train"]}, model, base=BASE)
    elsewhere = {**chars(), "serve": characterization([gemm(1, 1, 1)], system="hgx-b200")}
    with pytest.raises(UsageError, match="characterized on hgx-b200"):
        recommend(portfolio(), elsewhere, model, base=BASE)
    with pytest.raises(UsageError, match="unknown lever 'warp_drive'"):
        run(levers={"warp_drive": (2.0,)})


def test_the_schema_in_the_docs_is_the_one_in_the_code() -> None:
    from pathlib import Path

    from codesign.recommend.jsonfile import schema_text

    docs = Path(__file__).resolve().parents[2] / "docs"
    if not docs.is_dir():
        pytest.skip("no docs beside the tests")
    published = (docs / "recommendations.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run: codesign recommend --schema > docs/..."


def test_a_lever_without_effect_is_last_with_x1_and_the_reason() -> None:
    from codesign.report import render_markdown

    made = run(
        levers={"fp8_throughput": (2.0,), "hbm_bandwidth": (2.0,), "bf16_throughput": (2.0,)}
    )
    last = made.recommendations[-1]
    assert (last.lever, last.status, last.verdict) == ("fp8_throughput", "no_effect", "none")
    # Nothing of it multiplies in FP8: 1 in every draw, not 1 by rounding.
    assert (last.gain.lo, last.gain.value, last.gain.hi) == (1.0, 1.0, 1.0)
    assert last.reason.startswith("no op of these workloads that waits for tensor throughput")
    text = render_markdown(made)
    (row,) = [line for line in text.splitlines() if line.startswith("| 3 | FP8")]
    assert "| x1 exactly, " in row
    assert row.endswith("| nothing is saved | – | No effect |")
    assert last.reason in text
