"""A printed MFU or HFU says which peak of which precision it is of, in every format."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from codesign.recommend.schema import Recommendations, WorkloadResult
from codesign.report import render_html, render_markdown
from codesign.report.views.at_scale import at_scale_views
from codesign.report.views.workloads import mfu_of
from tests.report.factory import recommendations
from tests.report.reading import normal, read_html
from tests.report.test_at_scale import _with

H100 = {"bf16": 989.4e12}
MIXED = {"bf16": 989.4e12, "fp8": 1978.9e12}
ONE = "of the dense bf16 peak, 989 TFLOP/s"
BOTH = "of dense peaks, each op against that of its precision: bf16 989 TFLOP/s, fp8 1.98 PFLOP/s"


def _recs() -> Recommendations:
    """Two workloads with peaks, then one whose file says none, then one without an MFU."""
    recs = recommendations()
    peaks: list[dict[str, float]] = [H100, MIXED, {}]
    shown = [replace(w, mfu=0.41, mfu_peaks=p) for w, p in zip(recs.workloads, peaks, strict=False)]
    last: WorkloadResult = replace(recs.workloads[3], mfu=None, mfu_peaks={})
    return replace(recs, workloads=(*shown, last))


def test_words_by_hand() -> None:
    one, both, old, _ = _recs().workloads
    assert [mfu_of(w) for w in (one, both, old)] == [ONE, BOTH, ""]


def test_the_table_of_workloads_has_the_peaks_in_footnotes() -> None:
    page = read_html(render_html(_recs()))
    head, *rows = page.tables["workloads-table"]
    at = head.index("MFU of dense peak")
    assert [r[at] for r in rows] == ["41.0 % (a)", "41.0 % (b)", "41.0 %", "–"]
    for said in (f"O{ONE[1:]}.", f"O{BOTH[1:]}."):
        assert said in page.text
    text = normal(render_markdown(_recs()))
    assert f"- (a) O{ONE[1:]}." in text
    assert f"- (b) O{BOTH[1:]}." in text


def test_the_section_of_a_workload_says_it_beside_the_number() -> None:
    for text in (read_html(render_html(_recs())).text, normal(render_markdown(_recs()))):
        assert f"41.0 % {ONE}" in text
        assert f"41.0 % {BOTH}" in text


@pytest.mark.parametrize(
    ("precision", "peak"),
    [("bf16", "bf16"), ("fp8_block", "fp8"), ("mxfp8", "fp8"), ("nvfp4", "fp4")],
)
def test_plans_over_many_gpus_have_both_utilizations_of_a_named_peak(
    precision: str, peak: str
) -> None:
    recs = _with(recommendations())
    one = replace(recs.at_scale[0], precision=precision)
    (view,) = at_scale_views(replace(recs, at_scale=(one,)), {})
    titles = [c.title for c in view.plans.columns]
    assert titles[4:6] == [f"MFU of dense {peak}", f"HFU of dense {peak}"]
    hints = [c.hint for c in view.plans.columns]
    assert hints[4:6] == ["without recomputed FLOPs", "with recomputed FLOPs"]
