"""What changed, and scenarios, as readers of each format meet them."""

from __future__ import annotations

import pytest

from codesign.report import render_html, render_markdown
from codesign.report.context import build
from codesign.report.text import printable
from tests.report.factory import recommendations
from tests.report.reading import normal, read_html, read_markdown_tables
from tests.report.small import with_all
from tests.report.test_hostile import HOSTILE


def test_sections_stand_only_where_there_is_something_to_say() -> None:
    plain = recommendations()
    for text in (render_html(plain), render_markdown(plain)):
        assert "What changed" not in text
        assert "Scenarios" not in text
    page = read_html(render_html(with_all(plain)))
    assert page.problems == []
    heads = [text for level, text in page.headings if level == 2]
    assert heads[2:4] == ["What changed", "Scenarios"]
    assert {"changes", "scenarios"} <= set(page.references)


def test_the_table_says_ranks_before_between_and_now() -> None:
    recs = with_all(recommendations())
    rows = read_html(render_html(recs)).tables["changes-ranks"]
    assert rows[0][:4] == ["Lever", "Rank before", "After data and model", "Rank now"]
    assert rows[1][:4] == [recs.recommendations[0].headline, "2", "2", "1"]
    gains = read_html(render_html(recs)).tables["changes-gains"]
    # 1.02 x 0.97
    assert gains[1][1:] == ["x1.50", "x1.020", "x0.970", "x0.989"]


def test_the_first_lever_of_each_scenario_is_named() -> None:
    recs = with_all(recommendations())
    view = build(recs).scenarios
    assert view is not None
    first, last = recs.recommendations[0].headline, recs.recommendations[-1].headline
    assert view.summary == (
        f"First is {first} under as weighted; {last} under 2028: more MoE and RL."
    )
    ranks = read_html(render_html(recs)).tables["scenarios-ranks"]
    assert ranks[1][1] == "1"
    assert ranks[1][4] == str(len(recs.recommendations))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_of_files_and_scenarios_are_harmless(name: str) -> None:
    recs = with_all(recommendations(), name)
    html, markdown = render_html(recs), render_markdown(recs)
    page = read_html(html)
    assert page.problems == []
    assert html.count("</script>") == 1
    assert normal(printable(name)) in page.text
    assert [len(r) for t in read_markdown_tables(markdown) for r in t] == [
        len(r) for r in (row for table in page.tables.values() for row in table)
    ]
