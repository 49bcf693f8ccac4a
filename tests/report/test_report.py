"""The page and the Markdown as their readers meet them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from codesign._common.errors import UsageError
from codesign._common.scores import ExperimentRow
from codesign.recommend.schema import Interval, Recommendations
from codesign.report import render, render_html, render_markdown
from tests.report.factory import empty, recommendations
from tests.report.packages_case import recs as full
from tests.report.reading import Page, normal, read_html, read_markdown_tables
from tests.report.small import with_all


@pytest.fixture(scope="module")
def html() -> str:
    return render_html(recommendations())


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return read_html(html)


@pytest.fixture(scope="module")
def markdown() -> str:
    return render_markdown(recommendations())


def test_the_page_is_well_formed(page: Page) -> None:
    assert page.problems == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.references) <= set(page.ids)


def test_the_page_loads_nothing_from_outside(html: str, page: Page) -> None:
    assert page.targets == []
    assert "url(http" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html
    # xmlns is not needed inline; no address of any kind is in the page.
    assert not re.findall(r"https?://", html)


def test_only_the_shipped_script_may_run(html: str) -> None:
    import base64
    import hashlib

    (script,) = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r"script-src (.*?); base-uri", html)
    assert policy is not None
    assert read_html(f"<p>{policy.group(1)}</p>").text == f"'sha256-{digest}'"


def test_landmarks_headings_and_labels(html: str, page: Page) -> None:
    assert '<html lang="en">' in html
    assert {"header", "nav", "main", "footer"} <= set(page.tags)
    assert page.tags.count("main") == page.tags.count("h1") == 1
    levels = [level for level, _ in page.headings]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert html.count('role="img"') == len(re.findall(r'<svg class="chart', html))
    assert 'class="skip" href="#main"' in html


def test_it_opens_with_the_answer(page: Page, markdown: str) -> None:
    top = "Invest first in SM clock at +50 % (2.74e+03 MHz): the portfolio gains x1.186 ["
    assert page.headings[1] == (2, "The answer")
    assert top in page.text
    assert top in normal(markdown.partition("## Do not invest")[0].replace("\\", ""))


def test_every_section_is_there_in_order(page: Page, markdown: str) -> None:
    wanted = ["The answer", "Ranked recommendations", "Software beside hardware", "Do not invest",
              "Packages: levers together", "How firm the ranking is", "Levers, one by one",
              "Workloads, one by one", "How far to trust this: the backtest",
              "Extrapolation ledger", "Pairs",
              "Assumptions", "Provenance", "Words"]  # fmt: skip
    assert [text for level, text in page.headings if level == 2] == wanted
    assert re.findall(r"^## (.*)$", markdown, flags=re.MULTILINE) == wanted


def test_html_and_markdown_have_the_same_tables_cell_by_cell(page: Page, markdown: str) -> None:
    from_html = list(page.tables.values())
    from_markdown = read_markdown_tables(markdown)
    assert len(from_html) == len(from_markdown) > 40
    for left, right in zip(from_html, from_markdown, strict=True):
        assert left == right


def test_gains_of_the_file_are_printed_as_they_are(page: Page, markdown: str) -> None:
    recs = recommendations()
    for lever in recs.levers:
        for point in lever.points:
            g = point.gain
            text = "exactly" if g.lo == g.hi == 1 else f"x{g.value:.3f} [{g.lo:.3f}, {g.hi:.3f}]"
            assert text in page.text
            assert text in markdown.replace("\\", "")


def test_misses_are_in_the_open(page: Page) -> None:
    assert (
        "deepseek-v3-pretrain-fp8, h100-sxm to gb200: measured x2.610, projected x2.050"
        in page.text
    )
    hits = sum(r.covered for r in recommendations().backtest.workloads)
    assert f"{hits} of 7 measured gains" in page.text


def test_levers_without_effect_say_why(page: Page) -> None:
    rows = {row[0]: row for row in page.tables["not-worth-table"]}
    assert rows["FP4 tensor throughput"][1] == "No effect"
    assert rows["FP4 tensor throughput"][3] == "x1 exactly"
    assert "multiplies in FP4" in rows["FP4 tensor throughput"][4]
    assert "HBM bandwidth" not in rows
    # What cannot be told is no verdict against a lever.
    assert "L2 capacity" not in rows
    undecided = {row[0]: row for row in page.tables["no-verdict-table"]}
    assert undecided["L2 capacity"][1] == "Cannot say: not identifiable"


def test_a_missing_cost_is_a_dash_with_a_footnote(html: str, page: Page) -> None:
    row = next(r for r in page.tables["ranking-table"] if r[1].startswith("SM clock"))
    assert row[6].startswith("– (")
    assert "No sourced value for money: no public figure found" in page.text


@pytest.mark.parametrize("make", [recommendations, empty])
def test_output_is_the_same_for_the_same_input(make, tmp_path: Path) -> None:
    for name in ("a.html", "a.md", "a.json"):
        render(make(), tmp_path / name)
        first = (tmp_path / name).read_bytes()
        render(make(), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


def test_a_file_with_nothing_in_it_still_renders() -> None:
    page = read_html(render_html(empty()))
    assert page.problems == []
    assert "No recommendation" in page.text
    assert "No backtest was supplied" in page.text
    assert "No pairs were studied" in render_markdown(empty())


def test_json_reads_back_as_the_same_file(tmp_path: Path) -> None:
    render(recommendations(), tmp_path / "recs.json")
    raw = (tmp_path / "recs.json").read_bytes()
    assert msgspec.json.decode(raw, type=Recommendations) == recommendations()


def test_a_file_that_was_saved_and_read_renders_the_same(tmp_path: Path) -> None:
    """Keys are sorted in the file; no row order may follow them."""
    render(recommendations(), tmp_path / "recs.json")
    raw = (tmp_path / "recs.json").read_bytes()
    saved = msgspec.json.decode(raw, type=Recommendations)
    left, right = read_html(render_html(saved)), read_html(render_html(recommendations()))
    assert left.tables == right.tables
    assert left.text == right.text


def test_no_order_in_the_report_is_that_of_keys() -> None:
    """With every mapping of a file turned round, each format says the same."""

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list | tuple) else value

    left_out = {"L2 capacity": "cannot say", "HBM capacity": "not studied", "SM": "cannot say"}
    recs = with_all(full())
    first = msgspec.structs.replace(recs.packages[0], left_out=left_out)
    moved = {"hbm_bandwidth": 1.2, "sm_count": 1.1, "scaleout_bandwidth": 2.0}
    gain = Interval(1.3, 1.2, 1.4)
    experiments = (
        ExperimentRow("exp", "A link", "nvlink_domain", "test", "a", "b", moved, 1.1, 1.0, 1.2, 3,
                      "kernels", 1.1, True, gain, False, "", ("us",), (), "tables"),
    )  # fmt: skip
    recs = msgspec.structs.replace(
        recs, packages=(first, *recs.packages[1:]),
        backtest=msgspec.structs.replace(recs.backtest, experiments=experiments),
    )  # fmt: skip
    other = msgspec.convert(turned(msgspec.to_builtins(recs)), Recommendations)
    assert other == recs
    assert render_markdown(other) == render_markdown(recs)
    assert render_html(other) == render_html(recs)


@pytest.mark.parametrize("name", ["report.docx", "report", "report.HTML.bak"])
def test_an_unknown_format_is_refused_with_the_list(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.htm, \.md, \.markdown, \.json"):
        render(recommendations(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_extensions_are_read_in_any_case(tmp_path: Path) -> None:
    render(empty(), tmp_path / "R.HTML")
    assert (tmp_path / "R.HTML").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_large_portfolio_stays_small() -> None:
    recs = recommendations()
    loads = tuple(
        msgspec.structs.replace(w, name=f"{w.name}-{i}", roofline=w.roofline * 30)
        for i in range(3) for w in recs.workloads
    )  # fmt: skip
    by = {w.name: recs.levers[0].points[0].gain for w in loads}
    levers = tuple(
        msgspec.structs.replace(
            x, points=tuple(msgspec.structs.replace(p, by_workload=by) for p in x.points * 2)
        )
        for x in recs.levers
    )
    text = render_html(msgspec.structs.replace(recs, workloads=loads, levers=levers))
    assert len(text.encode()) < 3_000_000


def test_a_refused_lever_claims_no_gain() -> None:
    recs = recommendations()
    first = msgspec.structs.replace(
        recs.recommendations[0], status="refused", headline="FP4", label="not possible"
    )
    changed = msgspec.structs.replace(recs, recommendations=(*recs.recommendations[1:], first))
    page = read_html(render_html(changed))
    row = page.tables["ranking-table"][-1]
    assert row[1] == "FP4, not possible"
    assert row[3] == "–"
    assert row[-1] == "Refused"


def test_the_largest_gain_is_named_where_it_is_not_first() -> None:
    recs = recommendations()
    best, *rest = recs.recommendations
    order = tuple(msgspec.structs.replace(r, rank=i) for i, r in enumerate((*rest, best), start=1))
    page = read_html(render_html(msgspec.structs.replace(recs, recommendations=order)))
    assert "The largest gain is that of SM clock at +50 %" in page.text
    assert "at rank 12" in page.text


def test_an_untested_lever_that_would_be_first_is_named_beside_the_odds_of_the_first() -> None:
    recs = recommendations()
    first, other, *rest = recs.recommendations
    first = msgspec.structs.replace(first, gain_per_cost=0.1)
    for per_w, status, named in ((0.2, "assumed", True), (0.2, "identified", False),
                                 (0.05, "assumed", False)):  # fmt: skip
        untested = msgspec.structs.replace(other, status=status, p_best=None, gain_per_cost=per_w)
        order = (first, untested, *rest)
        text = read_html(render_html(msgspec.structs.replace(recs, recommendations=order))).text
        assert ("Left out of them, since no measurement tested" in text) is named
        assert ("untested ones would come first if their effect holds" in text) is named


def test_an_interaction_counts_only_if_it_is_certain_and_large_enough() -> None:
    from codesign.recommend.schema import Interval
    from codesign.report.views.appendix import reading

    assert reading(Interval(1.022, 1.006, 1.041)) == "help each other"
    assert reading(Interval(0.954, 0.93, 0.98)) == "compete"
    assert reading(Interval(1.002, 1.001, 1.003)) == "nearly independent"
    assert reading(Interval(1.022, 0.99, 1.05)) == "nearly independent"


def test_the_answer_admits_that_nothing_pays() -> None:
    from codesign.recommend.schema import Interval

    recs = recommendations()
    none = tuple(
        msgspec.structs.replace(r, gain=Interval(1.002, 0.999, 1.004)) for r in recs.recommendations
    )
    page = read_html(render_html(msgspec.structs.replace(recs, recommendations=none)))
    assert "No lever studied is worth its place" in page.text
    assert "Invest first" not in page.text


def test_the_error_chart_averages_a_family_by_rows() -> None:
    from codesign.report.views.backtest import op_chart

    recs = recommendations()
    row = msgspec.structs.replace(
        recs.backtest.ops[0], op_class="all_gather", target="t", tier="spec-only", source=None
    )
    rows = (
        msgspec.structs.replace(row, n=100, median_ape=0.10),
        msgspec.structs.replace(row, op_class="combine deepep_ll", n=300, median_ape=0.20),
    )
    chart = op_chart(msgspec.structs.replace(recs.backtest, ops=rows))
    assert chart is not None
    (drawn,) = chart.rows
    # (100 x 10 % + 300 x 20 %) / 400, from the best group to the worst.
    assert drawn.label == "collective, spec-only, 2 groups"
    assert drawn.reading == "17.5 %"
    assert "from 10.0 % to 20.0 %" in drawn.title
