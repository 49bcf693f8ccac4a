"""What the head of the report promises: error beside coverage, bounds beside costs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from codesign.recommend.schema import (
    Backtest,
    BacktestRow,
    Cost,
    CostItem,
    FirstByCost,
    Interval,
    OpShare,
    Recommendation,
    Recommendations,
    WorkloadBacktestRow,
)
from codesign.report import formatting as fmt
from codesign.report import render_html, render_markdown
from codesign.report.table import Footnotes
from codesign.report.views import backtest, costs, ranking, verdicts
from tests.report.factory import recommendations
from tests.report.reading import read_html

change = msgspec.structs.replace


def row(measured: float, value: float, half: float) -> WorkloadBacktestRow:
    gain = Interval(value, value - half, value + half)
    return WorkloadBacktestRow(
        "w", "a", "b", measured, gain, value / measured - 1, gain.lo <= measured <= gain.hi, ()
    )


def with_rows(*rows: WorkloadBacktestRow) -> Recommendations:
    recs = recommendations()
    return change(recs, backtest=change(recs.backtest, workloads=rows))


def card(recs: Recommendations) -> ranking.Figure:
    (found,) = [f for f in ranking.figures(recs) if "error" in f.label]
    return found


def test_the_card_shows_the_error_and_the_width_beside_the_coverage() -> None:
    # Errors of 10, 20 and 0 %; half widths of 0.2 / 1.1, 0.3 / 1.2 and 0.5 / 1: 31.06 % on average.
    figure = card(with_rows(row(1.0, 1.1, 0.2), row(1.0, 1.2, 0.3), row(1.0, 1.0, 0.5)))
    assert figure.value == "10.0 %"
    assert "20.0 % at worst" in figure.detail
    assert "3 of 3 lie inside their 90 % interval, on average ±31.1 %." in figure.detail
    assert "composed from measured kernels; no end-to-end run" in figure.detail


@pytest.mark.parametrize(
    ("hits", "n", "wide"), [(20, 20, True), (19, 19, False), (38, 40, False), (39, 40, True)]
)
def test_over_wide_is_said_of_enough_rows_only(hits: int, n: int, wide: bool) -> None:
    rows = [row(1.0, 1.0, 0.1)] * hits + [row(2.0, 1.0, 0.1)] * (n - hits)
    assert ("wider than they need be" in card(with_rows(*rows)).detail) == wide
    summary = " ".join(backtest.summary(with_rows(*rows).backtest))
    assert ("wider than they need be" in summary) == wide


def test_groups_of_ops_with_too_wide_intervals_are_marked() -> None:
    old: BacktestRow = recommendations().backtest.ops[0]
    wide = change(old, op_class="all_reduce custom", precision="", coverage_90=0.99, n=50,
                  target="t", tier="spec-only", source=None, median_ape=0.01)  # fmt: skip
    few = change(wide, n=19)
    bench = change(recommendations().backtest, ops=(wide, few), workloads=())
    table = backtest.op_table(bench)
    assert table is not None
    assert [r[-2].text for r in table.rows] == ["interval too wide", "–"]
    (line,) = [m for m in backtest.misses(bench) if "wider than it need be" in m]
    # One space where a collective has no precision.
    assert "all_reduce custom on t, spec-only (99.0 %)" in line


def cost(power: CostItem, note: str = "") -> Cost:
    none = CostItem(None, "mm2", "nobody says", "unknown")
    return Cost(none, power, CostItem(5.0, "USD", "list", "modelled", "central", 4.0, 8.0), note)


UPPER = CostItem(68.94, "W", "all of it", "assumed", "upper", 27.6, 68.94)
LOWER = CostItem(3.9, "W", "one end", "modelled", "lower", 3.9, 17.0)


def test_a_bound_is_marked_in_the_cell_and_turns_round_in_the_gain_per_cost() -> None:
    notes = Footnotes()
    cells = costs.cells(cost(UPPER), 0.042, "W per GPU", notes, brief=True)
    assert [c.text for c in cells[1:]] == ["≤ 68.9 W", "+5.00 USD", "≥ 0.0420"]
    lower = costs.cells(cost(LOWER), 1.01, "W per GPU", notes, brief=True)
    assert [lower[1].text, lower[3].text] == ["≥ 3.90 W", "≤ 1.01"]
    said = [note for _, note in notes.items()]
    assert any(note.startswith("≤: an upper bound") for note in said)
    assert any(note.startswith("≥: a lower bound") for note in said)
    # Ranked by money, neither bound touches the ratio.
    assert costs.cells(cost(UPPER), 0.4, "USD per GPU", notes)[3].text == "0.400"


def test_sources_give_the_range_as_a_factor() -> None:
    notes = Footnotes()
    costs.cells(cost(UPPER), 0.042, "W per GPU", notes)
    assert (
        "Power, assumed, upper bound, 90 % range 0.4 to 1.0 times the value: all of it"
        in dict(notes.items()).values()
    )


def test_costs_in_words() -> None:
    text = costs.in_words(cost(UPPER, "needs another die: x"), 0.042, "W per GPU")
    assert text == (
        "it costs at most 68.9 W and 5.00 USD per GPU, which is at least 0.0420 % per W (no source "
        "gives its area), and it needs another die"
    )


def first(recs: Recommendations, **changes: Any) -> Recommendations:
    head, *rest = recs.recommendations
    return change(recs, recommendations=(change(head, **changes), *rest))


def test_a_step_beyond_the_reticle_has_a_footnote() -> None:
    big = cost(UPPER, "needs another die: the die of 814 mm2 would grow")
    page = read_html(render_html(first(recommendations(), cost=big)))
    cell = page.tables["ranking-table"][1][4]
    assert cell.startswith("– (")
    assert "Needs another die: the die of 814 mm² would grow." in page.text


def test_one_name_stands_once_among_the_carriers_of_a_workload() -> None:
    def op(name: str, shape: str, saved: float) -> OpShare:
        return OpShare("w", "collective", name, shape, "bf16", "measured", 0.1, saved)

    ops = (op("tp.all_gather", "a", 0.2), op("gate", "b", 0.25), op("tp.all_gather", "c", 0.1))
    assert ranking.carriers(ops) == "tp.all_gather, 2 shapes, in w (30.0 %); gate in w (25.0 %)"


def test_a_lever_that_was_not_studied_claims_no_gain() -> None:
    from codesign.recommend.status import NOT_STUDIED

    recs = recommendations()
    none = Interval(1.0, 1.0, 1.0)
    points = [
        change(p, gain=none, by_workload={}, gain_per_cost=None) for p in recs.levers[0].points
    ]
    lever = change(recs.levers[0], status="not_studied", reason=NOT_STUDIED["hbm_capacity"],
                   elasticity=None, saturates_at=None, saturation_note="", binding_before={},
                   binding_after={}, carried_by=(), points=tuple(points))  # fmt: skip
    line: Recommendation = next(r for r in recs.recommendations if r.lever == lever.lever)
    line = change(line, status="not_studied", verdict="open", gain=none,
                  gain_per_cost=None, p_best=None, carried_by=(), evidence={})  # fmt: skip
    recs = change(recs, levers=(lever,), recommendations=(line,), warnings=())
    page = read_html(render_html(recs))
    assert "x1 exactly" not in page.text
    assert "No effect" not in [c for r in page.tables["ranking-table"] for c in r]
    assert "not-worth-table" not in page.tables
    assert page.tables["no-verdict-table"][1][1] == "Not studied"
    row = page.tables["ranking-table"][1]
    assert (row[2], row[3], row[7], row[-1]) == ("Open", "–", "–", "Not studied")
    # Its costs stand, its curve does not.
    assert "cost of each step; what it gains was not studied" in page.text
    assert "curve" not in " ".join(page.ids)
    assert "What would tell, possible today" in render_markdown(recs)


def test_verdicts_discriminate_and_say_by_how_much() -> None:
    recs = recommendations()
    head, other, *rest = recs.recommendations
    watts = CostItem(10.0, "USD", "x", "modelled")
    price = Cost(watts, watts, watts)
    head = change(head, verdict="first", cost=price, gain_per_cost=0.4)
    other = change(other, verdict="costly", cost=price, gain_per_cost=0.1)
    recs = change(recs, recommendations=(head, other, *rest))
    by_lever = {x.lever: x for x in recs.levers}
    assert verdicts.advice(recs, head, by_lever[head.lever]) == "First"
    assert verdicts.advice(recs, other, by_lever[other.lever]) == (
        f"Costly: 25.0 % of the gain per USD of the first, {head.headline}"
    )
    assert "Worth considering" not in render_html(recs)


def test_the_answer_admits_that_the_draws_favour_another() -> None:
    recs = recommendations()
    head, other, *rest = recs.recommendations
    order = (change(head, p_best=0.2), change(other, p_best=0.7), *rest)
    text = ranking.how_sure(change(recs, recommendations=order))
    assert text.startswith("It is first by the costs as printed, but the draws favour another")
    assert "lead" not in text
    close = (change(head, p_best=0.5), change(other, p_best=0.4), *rest)
    assert "Its lead is narrow" in ranking.how_sure(change(recs, recommendations=close))
    assert f"More often, in 70.0 % of them, {ranking.step_in_words(other)} is best" in text
    assert "More often" not in ranking.how_sure(first(recs, p_best=0.9))


def test_caveats_stand_in_the_section_and_at_the_head() -> None:
    recs = first(recommendations(), caveats=("deep-v3: the wait is not typical: all of it",))
    recs = change(recs, warnings=("deep-v3: the wait is not typical", "nothing measured this"))
    for text in (read_html(render_html(recs)).text, render_markdown(recs)):
        assert "deep-v3: the wait is not typical: all of it." in text
        # A name keeps its case at the head of a line, a sentence gets its capital.
        assert "deep-v3: the wait is not typical." in text
        assert "Nothing measured this." in text


def test_the_shipped_words_cover_every_status_and_verdict() -> None:
    from typing import get_args

    from codesign.recommend.schema import Status, Verdict
    from codesign.report.views.terms import STATUS_WORDS, VERDICT_WORDS

    assert set(STATUS_WORDS) == set(get_args(Status))
    assert set(VERDICT_WORDS) == set(get_args(Verdict))


def test_natural_experiments_stand_beside_the_backtest_with_their_misses() -> None:
    from codesign._common.scores import ExperimentRow, LeverEvidence, LeverOrderRow

    def made(**changes: Any) -> ExperimentRow:
        values: dict[str, Any] = {
            "name": "hbm", "title": "H100 to H200", "lever": "hbm_bandwidth", "role": "test",
            "before": "hgx-h100", "after": "hgx-h200", "moved": {"hbm_bandwidth": 1.43},
            "measured": 1.42, "measured_lo": 1.36, "measured_hi": 1.45, "n": 40,
            "measured_by": "kernels", "stated": 1.4, "agrees": True,
            "projected": Interval(1.38, 1.3, 1.41), "inside": False, "why_not": "",
            "trained_on": ("h100-sxm",), "confounders": ("sm_clock",), "source": "tables",
        }  # fmt: skip
        return ExperimentRow(**(values | changes))

    rows = (made(), made(title="control", inside=True), made(projected=None, inside=None))
    hbm, sms = (LeverEvidence(k, "a", "b", 1.4, m, 0.01, p)
                for k, m, p in (("hbm_bandwidth", 0.8, 0.1), ("sm_count", 0.2, 0.7)))  # fmt: skip
    order = LeverOrderRow("decode", "hgx-h100", (hbm, sms), 1, (("hbm_bandwidth", "sm_count"),), ())
    recs = recommendations()
    recs = change(recs, backtest=change(recs.backtest, experiments=rows, lever_order=(order,)))
    page = read_html(render_html(recs))
    first_row = page.tables["backtest-experiments"][1]
    assert first_row[1] == "HBM bandwidth"
    assert first_row[5:7] == ["x1.420", "x1.360 to x1.450"]
    assert first_row[9:] == ["x1.380 [1.300, 1.410]", "no: missed", "SM clock"]
    assert "1 of 2 measured ratios lie inside" in page.text
    assert "1 more could not be projected" in page.text
    assert page.tables["backtest-lever-order"][1][-1] == (
        "no: projected SM count before HBM bandwidth"
    )
    assert "0 of 1 workloads" in render_markdown(recs)


def _cut(recs: Recommendations, **changes: Any) -> Recommendations:
    """The first lever cheap and marginal; the others as they are."""
    first = change(recs.recommendations[0], verdict="marginal", **changes)
    return change(recs, recommendations=(first, *recs.recommendations[1:]))


def test_the_answer_speaks_of_the_first_lever_that_is_worth_it() -> None:
    recs = recommendations()
    second = recs.recommendations[1]
    said = ranking.headline(_cut(recs))
    assert "No lever" not in said
    assert fmt.gain(second.gain) in said
    none = change(
        recs, recommendations=tuple(change(r, verdict="marginal") for r in recs.recommendations)
    )
    largest = max((r for r in recs.recommendations if ranking.worthwhile(r)),
                  key=lambda r: r.gain.value)  # fmt: skip
    assert ranking.headline(none).startswith("No lever studied is worth its place")
    assert fmt.gain(largest.gain) in ranking.headline(none)


def test_an_untested_lever_is_to_be_tested_and_not_to_be_bought() -> None:
    recs = recommendations()
    untested = change(recs.recommendations[0], verdict="untested", status="assumed")
    others = (change(r, verdict="marginal") for r in recs.recommendations[1:])
    said = ranking.headline(change(recs, recommendations=(untested, *others)))
    assert "Invest" not in said
    assert said.startswith("No lever that measurements identify is worth its place")
    assert said.endswith("Test it before you invest.")
    assert fmt.gain(untested.gain) in said


def test_the_answer_names_the_first_by_other_costs_in_one_sentence() -> None:
    recs = recommendations()
    gain = Interval(1.07, 1.05, 1.09)
    others = (
        FirstByCost("W per GPU", "sm_count", "SM count", 1.1, "+10 %: 145 SMs", gain, 0.5),
        FirstByCost("mm2 per GPU", recs.recommendations[0].lever, "x", 1.5, "+50 %: y", gain, 0.1),
        FirstByCost("USD per GPU", "", "", 1.0, "", Interval(1, 1, 1), None),
    )
    text = ranking.how_sure(change(recs, first_by=others))
    assert "per W SM count at +10 % (145 SMs), x1.070 [1.050, 1.090] and 0.500 % per W" in text
    assert "per mm² the same lever, at +50 %" in text
    assert "per USD none" in text


def test_the_gain_per_another_cost_is_a_bound_where_that_cost_is() -> None:
    recs = recommendations()
    lever = recs.levers[1]
    none = CostItem(None, "USD", "x", "assumed")
    area = CostItem(6.0, "mm2", "x", "modelled", "lower", 6.0, 20.0)
    point = change(lever.points[0], cost=Cost(area, none, none))
    levers = (recs.levers[0], change(lever, points=(point,)), *recs.levers[2:])
    other = FirstByCost("mm2 per GPU", lever.lever, lever.title, point.factor, point.label,
                        Interval(1.06, 1.05, 1.07), 1.0)  # fmt: skip
    # At least 6 mm² for 6 %: at most 1 % for each of them.
    text = ranking.how_sure(change(recs, levers=levers, first_by=(other,)))
    assert "x1.060 [1.050, 1.070] and at most 1.00 % per mm²" in text


def test_an_assumed_gain_says_what_its_interval_leaves_out_in_both_formats() -> None:
    recs = recommendations()
    assumed = [r for r in recs.recommendations if r.status == "assumed"]
    assert assumed
    table = ranking.ranked_table(recs, {})
    assert any("covers only what is modelled" in note for _, note in table.footnotes)
    assert "covers only what is modelled" in ranking.gain_in_words(assumed[0])


def test_a_gain_on_a_small_part_of_a_step_is_also_given_on_the_whole() -> None:
    # 34 % of the step gains x1.053: 0.66 + 0.34 / 1.053 = 0.98289 of the time, x1.0174.
    assert backtest.whole_gain(1.053, 0.34) == pytest.approx(1.0174, abs=1e-4)
    assert backtest.whole_gain(1.5, 1.0) == pytest.approx(1.5)
    row = change(recommendations().backtest.workloads[0],
                  measured_gain=1.053, scored_share=0.34)  # fmt: skip
    made = Backtest(workloads=(row, change(row, scored_share=0.9)))
    assert "x1.017 on the whole step" in " ".join(backtest.summary(made))
    table = backtest.workload_table(made)
    assert table is not None
    texts = [[cell.text for cell in r] for r in table.rows]
    assert "34.0 %" in texts[0]
    assert "x1.017" in texts[0]
    assert "90.0 %" in texts[1]
    assert "Scored is 62.0 % of the step time" in backtest.scored_words(made.workloads)


def test_a_contradicted_lever_names_its_experiment() -> None:
    recs = recommendations()
    first = change(recs.recommendations[0], status="contradicted", verdict="contradicted")
    levers = tuple(
        change(x, status="contradicted", contradicted_by="gb300-training (x1.2 measured)")
        if x.lever == first.lever else x for x in recs.levers
    )  # fmt: skip
    changed = change(recs, recommendations=(first, *recs.recommendations[1:]), levers=levers)
    notes = " ".join(note for _, note in ranking.ranked_table(changed, {}).footnotes)
    assert "Contradicted by gb300-training (x1.2 measured)" in notes
    assert ranking.head(changed) is not first
