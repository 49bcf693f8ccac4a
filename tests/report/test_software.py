"""Software beside hardware, as readers of the page and of the Markdown meet it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from codesign.recommend.schema import (
    Interval,
    OpShare,
    Recommendations,
    SoftwareFinding,
    SoftwareResult,
    SoftwareSilence,
)
from codesign.report import render_html, render_markdown
from codesign.report.context import build
from tests.report.factory import WORKLOADS, recommendations
from tests.report.reading import normal, read_html

NAME = WORKLOADS[0][0]


def change(rule: str = "fuse", gain: float = 1.3, name: str = "aten::gelu", **more: Any) -> Any:
    value = Interval(gain, gain - 0.05, gain + 0.05)
    op = OpShare(NAME, "elementwise", name, "8192x4096", "bf16", "measured", 0.2, 1.0)
    finding = SoftwareFinding(
        NAME, f"{name} takes 2 s", 2.0, 0.5, "how it was derived", value, (op,), "high"
    )
    fields = {
        "rule": rule, "title": f"Fuse {name}", "action": "Compile it.", "gain": value,
        "by_workload": {NAME: value}, "reach": (0.3, 0.6, 0.9), "reach_why": "neighbours differ",
        "confidence": "medium", "confidence_why": "seen once", "effort": "low",
        "effort_why": "a switch", "confirm": "Capture it again.", "findings": (finding,),
    }  # fmt: skip
    return SoftwareResult(**(fields | more))


def silent(reason: str, *rules: str) -> tuple[SoftwareSilence, ...]:
    return tuple(SoftwareSilence(r, r.capitalize(), reason, (NAME,)) for r in rules)


def with_software(*changes: SoftwareResult, **more: Any) -> Recommendations:
    return recommendations(software=changes, **more)


def test_software_and_hardware_stand_in_one_table_by_gain() -> None:
    view = build(with_software(change(gain=1.3), change("other", 1.001))).software_changes
    assert view.together is not None
    gains = [float(str(row[2].sort)) for row in view.together.rows]
    assert gains == sorted(gains, reverse=True)
    kinds = [row[0].text for row in view.together.rows]
    # The lever without effect gains exactly 1, so that even x1.001 stands before it.
    assert kinds[0] == kinds[-2] == "Software"
    assert gains[-1] == 1.0
    assert kinds.count("Hardware") == len(recommendations().recommendations)
    row = view.together.rows[0]
    assert [row[3].text, row[4].text] == ["Low", "Medium"]


def test_both_formats_say_gain_bound_reach_and_confirmation() -> None:
    recs = with_software(change(), software_silent=silent("idle not reliable", "graphs"))
    page, markdown = read_html(render_html(recs)).text, normal(render_markdown(recs))
    for text in (
        "x1.300 [1.250, 1.350]",
        "2.00 s of the step are at stake; at the bound 500 ms of them are left",
        "60.0 % of the gap to the bound", "Capture it again.", "Idle not reliable.",
    ):  # fmt: skip
        assert text in page
        assert text in markdown.replace("\\", "")


def test_a_change_that_gains_the_fleet_nothing_is_not_to_be_done_first() -> None:
    none = change(gain=1.0, name="nothing_at_all")
    none = msgspec.structs.replace(none, gain=Interval(1.0, 1.0, 1.0))
    view = build(with_software(none))
    assert view.summary.actions is not None
    assert "Fuse nothing_at_all" not in [row[0].text for row in view.summary.actions.rows]
    assert "largest gain of software alone" not in [f.label for f in view.figures]
    some = build(with_software(change(gain=1.3)))
    assert "largest gain of software alone" in [f.label for f in some.figures]


def test_a_reason_that_begins_with_a_name_keeps_it() -> None:
    reasons = (*silent("h100-sxm has no dense FP4 peak", "nvfp4"), *silent("no steps", "graphs"))
    table = build(with_software(change(), software_silent=reasons)).software_changes.silent
    assert table is not None
    why = [row[2].text for row in table.rows]
    assert why == ["h100-sxm has no dense FP4 peak.", "No steps."]


def test_rules_that_are_silent_for_one_reason_are_one_line() -> None:
    recs = with_software(change(), software_silent=(
        *silent("no steps", "graphs", "stalls"), *silent("no model", "batch"),
    ))  # fmt: skip
    table = build(recs).software_changes.silent
    assert table is not None
    assert [row[0].text for row in table.rows] == ["Graphs; Stalls", "Batch"]


def test_a_file_without_software_reads_as_before() -> None:
    view = build(recommendations()).software_changes
    assert view.together is None
    assert view.changes == ()
    assert "found anything" in view.intro


@pytest.mark.parametrize("name", ["</script><b>", "a|b\nc", "=1+1", "算子", "x" * 300])
def test_hostile_names_stand_there_whole(name: str) -> None:
    recs = with_software(change(name=name))
    page = read_html(render_html(recs))
    assert page.problems == []
    assert len(page.ids) == len(set(page.ids))
    shown = name.replace("\n", "\\n")
    assert shown in page.text
    assert "</script><b>" not in render_html(recs)
    rows = [r for r in render_markdown(recs).splitlines() if r.startswith("| Software | Fuse")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 10


def test_the_file_survives_json() -> None:
    recs = with_software(change(), software_silent=silent("no steps", "graphs"))
    assert msgspec.json.decode(msgspec.json.encode(recs), type=Recommendations) == recs
