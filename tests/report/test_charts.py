from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.recommend.schema import Interval, RooflinePoint, WorkloadBacktestRow
from codesign.report.charts import paths
from codesign.report.charts.bars import BarInput, stacked
from codesign.report.charts.calibration import calibration
from codesign.report.charts.curves import common_domain, gain_curve
from codesign.report.charts.dots import DotInput, dot_chart
from codesign.report.charts.palette import style_of
from codesign.report.charts.roofline import roofline
from codesign.report.charts.scales import Linear, Log, log_domain, nice_domain
from codesign.workload.schema import EVIDENCE, OP_CLASSES

BIG = st.floats(1e-6, 1e12)


def test_linear_scale_maps_ends_and_middle() -> None:
    scale = Linear(1.0, 2.0, 100.0, 300.0)
    assert [scale(v) for v in (1.0, 1.5, 2.0)] == [100.0, 200.0, 300.0]
    # An axis that runs upwards: pixels grow downwards.
    assert Linear(0.0, 10.0, 200.0, 0.0)(2.5) == 150.0


def test_log_scale_maps_decades_evenly() -> None:
    scale = Log(1.0, 1000.0, 0.0, 300.0)
    assert [scale(v) for v in (1.0, 10.0, 100.0, 1000.0)] == [0.0, 100.0, 200.0, 300.0]


def test_an_empty_domain_does_not_divide_by_zero() -> None:
    assert Linear(1.0, 1.0, 10.0, 20.0)(1.0) == 10.0
    assert Log(2.0, 2.0, 10.0, 20.0)(2.0) == 10.0


def test_ticks_are_round_and_inside() -> None:
    assert Linear(1.0, 1.25, 0, 1).ticks() == [1.0, 1.05, 1.1, 1.15, 1.2, 1.25]
    assert Log(0.5, 2000.0, 0, 1).ticks() == [1.0, 10.0, 100.0, 1000.0]
    assert Log(1.0, 20.0, 0, 1).ticks() == [1.0, 2.0, 5.0, 10.0, 20.0]


@given(st.lists(st.floats(0.5, 500.0), min_size=1, max_size=20))
def test_a_nice_domain_holds_its_values_and_its_anchor(values: list[float]) -> None:
    low, high = nice_domain(values, 1.0)
    assert low <= min(*values, 1.0) + 1e-9
    assert high >= max(*values, 1.0) - 1e-9
    assert low < high


@given(st.lists(BIG, min_size=1, max_size=9))
def test_every_value_lands_inside_a_log_axis(values: list[float]) -> None:
    scale = Log(*log_domain(values), 0.0, 500.0)
    assert all(0.0 <= scale(v) <= 500.0 for v in values)


def test_paths() -> None:
    assert paths.line([(0.0, 1.0), (10.0, 2.5)]) == "M0,1L10,2.5"
    assert paths.band([(0.0, 1.0), (10.0, 1.0)], [(0.0, 3.0), (10.0, 4.0)]) == "M0,1L10,1L10,4L0,3Z"
    assert paths.line([]) == paths.band([], []) == ""


def test_stacked_segments_lie_edge_to_edge_and_fill_the_bar() -> None:
    parts = (("gemm", 0.5, ""), ("attention", 0.25, ""), ("idle", 0.25, ""))
    (bar,) = stacked("b", "t", "d", [BarInput("step", "", parts)]).bars
    # 720 wide with margins of 2: half of 716 is 358.
    assert [(s.x, s.width) for s in bar.segments] == [(2.0, 358.0), (360.0, 179.0), (539.0, 179.0)]


def test_separate_bars_have_their_own_legends() -> None:
    inputs = [BarInput("a", "", (("gemm", 1.0, ""),)), BarInput("b", "", (("measured", 1.0, ""),))]
    chart = stacked("b", "t", "d", inputs, separate=True)
    assert [(heading, [key for key, _ in keys]) for heading, keys in chart.legends] == [
        ("a", ["GEMM 100 %"]),
        ("b", ["measured 100 %"]),
    ]


def curve(steps: list[tuple[float, Interval]], knee: float | None = None):
    return gain_curve("c", "HBM", "x", steps=steps, domain=(1.0, 1.5), knee=knee)


def test_gain_curve_starts_at_no_change_and_ends_at_the_axis_end() -> None:
    chart = curve([(2.0, Interval(1.5, 1.25, 1.5))])
    left, top, right, bottom = chart.plot
    first, last = chart.points
    assert (first.x, first.y) == (left, bottom)
    assert (last.x, last.y) == (right, top)
    # 1.25 is half way from 1.0 to 1.5.
    assert last.y_lo == pytest.approx((top + bottom) / 2)
    assert chart.knee_x is None


def test_the_knee_stands_at_its_factor_on_the_log_axis() -> None:
    chart = curve([(4.0, Interval(1.2, 1.1, 1.3))], knee=2.0)
    left, _, right, _ = chart.plot
    assert chart.knee_x == pytest.approx((left + right) / 2)
    assert curve([(4.0, Interval(1.2, 1.1, 1.3))], knee=9.0).knee_x is None


def test_a_latency_improves_to_the_right() -> None:
    steps = [(0.5, Interval(1.1, 1.05, 1.15)), (0.25, Interval(1.2, 1.1, 1.3))]
    xs = [p.x for p in curve(steps).points]
    assert xs == sorted(xs)
    assert xs[1] == pytest.approx((xs[0] + xs[2]) / 2)  # half of the logarithm of a quarter


def test_curves_share_one_domain() -> None:
    low, high = common_domain([[Interval(1.1, 0.98, 1.2)], [Interval(1.7, 1.6, 1.9)]])
    assert low <= 0.98
    assert high >= 1.9


def test_dot_chart_places_value_whiskers_and_groups() -> None:
    inputs = [
        DotInput("a", 1.1, 1.0, 1.2, "", "", "cheap"),
        DotInput("b", 1.2, 1.2, 1.2, "", "", "cheap"),
        DotInput("c", 1.0, 1.0, 1.0, "", "", "dear"),
    ]
    chart = dot_chart("d", "t", "d", axis_label="gain", inputs=inputs, reference=1.0,
                      tick_format="x{:g}")  # fmt: skip
    a, b, c = chart.rows
    assert a.x_lo == c.x == chart.reference_x
    assert a.x_hi == b.x
    assert a.x == pytest.approx((a.x_lo + a.x_hi) / 2, abs=0.1)
    assert [text for _, text in chart.groups] == ["cheap", "dear"]
    assert a.y < b.y < c.y < chart.plot_bottom < chart.height


ROOF = {"bf16": 1000e12, "fp8": 2000e12}


def test_roofline_ridge_is_where_the_slope_meets_the_peak() -> None:
    points = [RooflinePoint("g", "gemm", "bf16", 10.0, 20e12, 0.5)]
    chart = roofline("r", "t", points, ROOF, 4e12)
    assert chart is not None
    (ceiling,) = chart.ceilings  # only the precision that an op uses
    # Ridge at 1000e12 / 4e12 = 250 FLOP/B, the end of the slope.
    assert chart.slope.endswith(f"L{ceiling.x:g},{ceiling.y:g}")
    (dot,) = chart.dots
    left, top, right, bottom = chart.plot
    assert left < dot.x < ceiling.x < right
    assert top <= ceiling.y < dot.y < bottom


def test_a_point_on_the_slope_is_drawn_on_the_slope() -> None:
    points = [RooflinePoint("g", "gemm", "bf16", 25.0, 100e12, 0.5)]
    chart = roofline("r", "t", points, ROOF, 4e12)
    assert chart is not None
    start, end = [tuple(map(float, p.split(","))) for p in chart.slope[1:].split("L")]
    (dot,) = chart.dots
    on_line = start[1] + (dot.x - start[0]) / (end[0] - start[0]) * (end[1] - start[1])
    assert dot.y == pytest.approx(on_line, abs=0.3)


def test_no_roofline_without_known_work() -> None:
    assert roofline("r", "t", [], ROOF, 4e12) is None
    unknown = [RooflinePoint("g", "gemm", "bf16", float("nan"), 20e12, 0.5)]
    assert roofline("r", "t", unknown, ROOF, 4e12) is None


def test_a_perfect_projection_lies_on_the_diagonal() -> None:
    rows = [
        WorkloadBacktestRow("w", "a", "b", 1.5, Interval(1.5, 1.4, 1.6), 0.0, True, ()),
        WorkloadBacktestRow("v", "a", "b", 2.0, Interval(1.5, 1.4, 1.6), -0.25, False, ()),
    ]
    chart = calibration("c", "t", rows)
    assert chart is not None
    left, top, right, bottom = chart.plot
    hit, miss = chart.points
    assert (hit.x - left) / (right - left) == pytest.approx(
        (bottom - hit.y) / (bottom - top), abs=0.01
    )
    assert miss.y > bottom - (miss.x - left)  # too low a gain lies below the diagonal
    assert "MISSED" in miss.title
    assert chart.description.startswith("1 of 2")


def test_every_key_of_the_vocabulary_has_a_style_and_no_two_evidences_share_one() -> None:
    keys = (*OP_CLASSES, *EVIDENCE, "tensor", "hbm", "l2", "launch", "nvlink", "scaleout")
    assert all(style_of(k).colour for k in keys)
    assert len({style_of(k)[:2] for k in EVIDENCE}) == len(EVIDENCE)
    assert len({style_of(k)[:2] for k in OP_CLASSES}) == len(OP_CLASSES)
    assert style_of("a new resource") == style_of("a new resource")
