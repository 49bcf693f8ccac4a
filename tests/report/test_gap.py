"""The way from the ideal to the step as it is printed and drawn."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from codesign.recommend.schema import Gap, GapRow
from codesign.report import render_html, render_markdown
from codesign.report.charts.waterfall import WaterfallInput, waterfall
from codesign.report.views.gap import gap_view
from tests.report.factory import recommendations
from tests.report.reading import read_html

# A step of 10 s: 4 s of GEMMs that could take 2 or 3; 3 s of links that could take 3.5 or 2,
# since more of them shows behind faster compute; 0.02 s of norms; 1.98 s of bubble, 1 s idle.
GAP = Gap(
    bound_s=5.51, attainable_s=5.016, step_time_s=10.0, bubble_s=1.98, idle_s=1.0,
    by_class=(GapRow("gemm", 2.0, 3.0, 4.0), GapRow("collective", 3.5, 2.0, 3.0),
              GapRow("norm", 0.01, 0.016, 0.02)),
    by_resource=(GapRow("tensor", 2.0, 3.0, 4.0), GapRow("nvlink", 3.5, 2.0, 3.0),
                 GapRow("hbm", 0.01, 0.016, 0.02)),
    unknown_share=0.0, unmodelled_share=0.0002, beats_bound_share=0.03,
)  # fmt: skip


def test_the_table_by_hand() -> None:
    view = gap_view(GAP, "w", "toy")
    rows = {r[0].text: [c.text for c in r[1:]] for r in view.by_class.rows}
    assert rows["GEMM"] == ["2.00 s", "+1.00 s", "3.00 s", "+1.00 s", "4.00 s", "40.0 %",
                            "x2.00", "x1.33"]  # fmt: skip
    assert rows["collective"][:4] == ["3.50 s", "−1.50 s", "2.00 s", "+1.00 s"]
    assert rows["pipeline bubble"][4] == "1.98 s"
    # 7.02 s of ops less 5.016 s; bubble and idle time stand apart.
    assert rows["The step"] == ["5.51 s", "−494 ms", "5.02 s", "+2.00 s", "10.0 s", "100 %",
                                "x1.81", "x1.99"]  # fmt: skip
    assert "minus 4.9 % is lost" in view.summary
    assert view.notes == (
        "3.0 % of the step are ops faster than their datasheet bound, mostly because data stay in "
        "L2 and HBM is not asked for them.",
    )


def test_bars_follow_each_other_and_end_at_the_step() -> None:
    chart = gap_view(GAP, "w", "toy").chart
    assert chart is not None
    scale = (chart.plot[2] - chart.plot[0]) / 10.0  # the domain is 0 to 10 s
    at = chart.zero_x
    for bar in chart.bars:
        if bar.total:
            assert bar.x == pytest.approx(chart.zero_x, abs=0.1)
            assert bar.x + bar.width == pytest.approx(at, abs=0.3)
        else:
            assert min(abs(bar.x - at), abs(bar.x + bar.width - at)) < 0.9
        at = bar.x_end
    assert chart.bars[-1].label == "The step"
    assert (at - chart.zero_x) / scale == pytest.approx(10.0, abs=0.02)
    # Norms are too small for a bar of their own, and not lost.
    assert [b.reading for b in chart.bars if b.label.startswith("others")] == [
        "+10.0 ms", "+6.00 ms", "+4.00 ms",
    ]  # fmt: skip
    assert {"GEMM: below peak": "+1.00 s", "collective: below peak": "−1.50 s",
            "Attainable bound": "5.02 s"}.items() <= {
        b.label: b.reading for b in chart.bars
    }.items()  # fmt: skip


def test_a_roofline_says_what_it_lacks_and_why() -> None:
    recs = recommendations()
    first = recs.workloads[0]
    assert first.gap is not None

    def texts(**changes: Any) -> list[str]:
        made = replace(recs, workloads=(replace(first, **changes), *recs.workloads[1:]))
        return [read_html(render_html(made)).text, render_markdown(made)]

    again = "Capture it again with shapes"
    for text in texts(gap=replace(first.gap, unknown_share=0.62)):
        assert "Ops that take 62.0 % of the step are not on the roofline" in text
        assert again in text
    for text in texts(roofline=()):
        assert "No roofline: no op of this workload has known FLOPs" in text
        assert again in text
    for text in texts(gap=replace(first.gap, unknown_share=0.05)):
        assert again not in text


def test_nothing_to_draw_is_no_chart() -> None:
    assert waterfall("x", "t", "d", [WaterfallInput("a", "gemm", 0.0)]) is None


def test_the_page_has_it_and_does_without() -> None:
    import msgspec

    recs = recommendations()
    html = render_html(recs)
    page = read_html(html)
    assert page.problems == []
    found = [name for name in page.tables if name.endswith("-gap-class")]
    assert len(found) == len(recs.workloads)
    assert len(re.findall("-waterfall-title", html)) >= len(recs.workloads)
    bare = msgspec.structs.replace(
        recs, workloads=tuple(msgspec.structs.replace(w, gap=None) for w in recs.workloads)
    )
    assert "From the ideal to the step" not in read_html(render_html(bare)).text
