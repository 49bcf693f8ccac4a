"""Packages, sensitivity, the first page and the ledger as they are printed: numbers by hand."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from codesign.recommend.schema import CostItem, Recommendations
from codesign.report import render_html, render_markdown
from codesign.report.views.levers import company
from codesign.report.views.packages import summary
from tests.report.packages_case import recs, study
from tests.report.reading import Page, read_html, read_markdown_tables


@cache
def page() -> Page:
    return read_html(render_html(recs()))


def test_the_front_by_hand() -> None:
    rows = page().tables["packages-power-table"]
    head = rows[0]
    cells = {row[0]: dict(zip(head, row, strict=True)) for row in rows[1:]}
    assert cells["the baseline as it is"]["Gain of the fleet"] == "x1.000 [0.990, 1.010]"
    one = cells["HBM bandwidth +50 %"]
    assert one["Note"] == "Balanced"
    assert one["Gain"] == "x1.120 [1.110, 1.130]"
    assert one["Power"].startswith("+20.0 W")
    assert one["Gain, % per W"] == "0.600"
    # 1.12 x 700 / 720
    assert one["Gain of the fleet"] == "x1.089 [1.079, 1.099]"
    two = cells["HBM bandwidth +50 % and SM count +25 %"]
    assert two["Note"] == "Largest gain"
    # 1.2 x 700 / 840: more GPUs of today are as good.
    assert two["Gain of the fleet"] == "x1.000 [0.990, 1.010]"
    assert two["P(best)"] == "60.0 %"


def test_the_sentence_names_the_set_and_what_the_draws_prefer() -> None:
    text = summary(study())
    assert "The balanced set is HBM bandwidth +50 %: x1.120 [1.110, 1.130] for 20.0 W" in text
    assert "x1.089 [1.079, 1.099] at the power of today's fleet" in text
    assert "in 60.0 % of the draws against 30.0 %: HBM bandwidth +50 % and SM count +25 %" in text
    assert "No package returns more than the same power" in summary(study(balanced=0))
    assert "Within the budget of 150 W the largest gain is that of HBM bandwidth +50 % and SM" in (
        summary(study(budget=150.0))
    )


def test_what_each_adds_last_is_in_its_table_and_in_its_section() -> None:
    rows = {r[0]: r for r in page().tables["packages-power-marginal"]}
    assert rows["SM count, +25 %: 165 SMs"][1:4] == [
        "no", "x1.050 [1.040, 1.060]", "x1.070 [1.060, 1.080]",
    ]  # fmt: skip
    facts = dict(company(recs(), next(x for x in recs().levers if x.lever == "sm_count")))
    assert facts["After the others"] == (
        "+25 % adds x1.070 [1.060, 1.080] to all of HBM bandwidth +50 %; by itself it is "
        "x1.050 [1.040, 1.060]"
    )
    # HBM bandwidth is the whole set, so there are no others.
    hbm = next(x for x in recs().levers if x.lever == "hbm_bandwidth")
    assert "After the others" not in dict(company(recs(), hbm))
    assert facts["In pairs"] == "competes with SM clock (0.9540 [0.9300, 0.9800])"
    assert facts["After the others"] in page().text


def test_a_bound_on_what_a_lever_adds_turns_round_in_its_gain_per_cost() -> None:
    made = recs()
    first = made.packages[0]
    watts = CostItem(20.0, "W", "a table", "modelled", "upper", 5.0, 20.0)
    marginal = (replace(first.marginal[0], cost=watts), *first.marginal[1:])
    packages = (replace(first, marginal=marginal), *made.packages[1:])
    table = read_html(render_html(replace(made, packages=packages))).tables
    rows = table["packages-power-marginal"]
    assert rows[1][4:6] == ["≤ 20.0 W", "≥ 0.600"]
    assert rows[2][5] == "0.0580"


def test_sensitivity_by_hand() -> None:
    rows = page().tables["sensitivity-table"]
    assert rows[1] == ["1", "SM clock", "1, first in 100 %", "1 to 2, first in 90.0 %",
                       "1 to 3, first in 80.0 %", "1 to 3, first in 75.0 %"]  # fmt: skip
    assert rows[2][2] == "2"
    assert page().tables["first-moved-table"][1] == [
        "HBM energy at 3.9 pJ/bit (now 5.9)", "cost", "HBM bandwidth",
    ]  # fmt: skip
    assert "Of 51 single changes" in page().text


def test_the_first_page_says_what_to_do() -> None:
    rows = page().tables["actions-table"]
    # Three levers, the balanced set, one change of software.
    assert [r[1] for r in rows[1:]] == ["hardware"] * 4 + ["software"]
    assert rows[4][0] == "The balanced set, HBM bandwidth +50 %"
    assert rows[4][4] == (
        "best of the 3 packages of identified levers in 30.0 % of draws; "
        "x1.089 [1.079, 1.099] at equal power"
    )
    assert rows[5] == ["Multiply in FP8", "software", "x1.070 [1.040, 1.090]",
                       "no silicon; high effort", "medium confidence"]  # fmt: skip
    assert "FP4 tensor throughput (no effect)" in page().text
    assert "L2 capacity (cannot say: not identifiable)" in page().text


def test_warnings_about_the_first_lever_come_first_and_all_are_kept() -> None:
    from codesign.report.views.summary import summary_view

    said = [f"Nothing of note {i}. More of it." for i in range(5)] + ["SM clock: beware. Why."]
    view = summary_view(replace(recs(), warnings=tuple(said)), {})
    assert view.doubts[0] == "SM clock: beware."
    assert view.doubts[1] == "Nothing of note 0."
    assert view.doubts_left.startswith("2 more")
    numbers = "run_4: 97 % of it is held; SM count at +10 %: 145 SMs. More of it."
    view = summary_view(replace(recs(), warnings=(numbers,)), {})
    assert view.doubts == ("run_4: 97 % of it is held; SM count at +10 %: 145 SMs.",)
    text = read_html(render_html(replace(recs(), warnings=tuple(said)))).text
    assert all(line in text for line in said)


def test_the_ledger_by_hand() -> None:
    steps = page().tables["ledger-steps"]
    head, first, last = steps[0], steps[1], steps[-1]
    assert head[1:7] == ["Measured shape", "Interpolated", "From another op",
                         "From another precision", "From another GPU",
                         "Speed-of-light bound"]  # fmt: skip
    assert first[1:] == ["60.0 %", "0 %", "40.0 %", "0 %", "0 %", "0 %", "10.0 %"]
    assert last[:2] == ["Portfolio, by weight", "60.0 %"]
    projections = page().tables["ledger-projections"]
    # A workload of which nothing is saved has no line.
    assert len(projections) == 2
    assert projections[1][2] == "70.0 %"
    assert "the model has not seen this GPU, h100-sxm" in page().text


def test_both_formats_agree() -> None:
    assert list(page().tables.values()) == read_markdown_tables(render_markdown(recs()))


def test_how_sure_says_among_which_levers_and_by_what() -> None:
    made = recs()
    # Two with a cost, one without, and the rest without odds: no measurement tested them.
    odds = [(0.7, 0.4, "gain per USD"), (0.3, 0.1, "gain per USD"), (0.9, None, "gain (no cost)")]
    odds += [(None, None, "gain (assumed)")] * (len(made.recommendations) - len(odds))
    lines = tuple(
        replace(r, p_best=p, gain_per_cost=per, ranked_by=by)
        for r, (p, per, by) in zip(made.recommendations, odds, strict=True)
    )
    rows = _actions(replace(made, recommendations=lines))
    priced = "best by gain per USD of the 2 priced identified levers"
    assert rows[1][4].endswith(f"; {priced} in 70.0 % of draws")
    assert rows[2][4].endswith(f"; {priced} in 30.0 % of draws")
    assert rows[3][4].endswith("; best by gain of the 3 identified levers in 90.0 % of draws")
    first, second, third, *rest = lines
    rows = _actions(replace(made, recommendations=(first, second, *rest)))
    assert "best by gain per USD of the 2 identified levers in 70.0 % of draws" in rows[1][4]
    rows = _actions(replace(made, recommendations=(first, third, *rest)))
    assert "worth it in 70.0 % of draws, by gain per USD without an identified rival" in rows[1][4]


def _actions(made: Recommendations) -> list[list[str]]:
    return read_html(render_html(made)).tables["actions-table"]


def test_the_card_of_the_odds_counts_those_that_compete() -> None:
    from codesign.report.views.ranking import figures

    made = recs()
    odds = [(0.7, 0.4, "gain per USD"), (0.3, 0.1, "gain per USD"), (0.9, None, "gain")]
    odds += [(None, None, "gain")] * (len(made.recommendations) - len(odds))
    lines = tuple(
        replace(r, p_best=p, gain_per_cost=per, ranked_by=by)
        for r, (p, per, by) in zip(made.recommendations, odds, strict=True)
    )
    (card,) = [f for f in figures(replace(made, recommendations=lines)) if "probability" in f.label]
    assert card.value == "70.0 %"
    assert "by gain per USD, among the 2 priced levers that measurements identify" in card.detail
