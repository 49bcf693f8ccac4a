"""Wall time of a step from its ops, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.projection.step import scale_step, step_of
from codesign.workload.overlap import overlap_windows
from codesign.workload.recipe import Overlap, load_recipe
from codesign.workload.schema import ops_frame
from tests.projection.fakes import characterization, collective, gemm


def _scaled(char: Any, ratio: list[float]) -> Any:
    return scale_step(step_of(char), np.array(ratio))


def test_a_collective_that_hides_gains_nothing_until_compute_shrinks() -> None:
    char = characterization(
        [
            gemm(10.0, 1, 1),
            collective(8.0, 1, exposed_s=0.0, overlap_window_s=10.0),
        ]
    )
    assert _scaled(char, [1.0, 0.5]).step_time_s == 10.0
    # Compute falls to 5 s, the window with it: 8 - 5 = 3 s come to light.
    half = _scaled(char, [0.5, 1.0])
    assert half.exposed_s.tolist() == [5.0, 3.0]
    assert half.step_time_s == 8.0
    # Now the links count: 4 s hide behind 5.
    assert _scaled(char, [0.5, 0.5]).step_time_s == 5.0


def test_slower_links_come_to_light_past_the_window() -> None:
    char = characterization([
        gemm(10.0, 1, 1), collective(8.0, 1, exposed_s=0.0, overlap_window_s=10.0),
    ])  # fmt: skip
    assert _scaled(char, [1.0, 2.0]).step_time_s == 16.0


def test_a_row_that_never_hides_stays_exposed() -> None:
    char = characterization([gemm(10.0, 1, 1), collective(8.0, 1)])
    assert _scaled(char, [0.5, 1.0]).exposed_s.tolist() == [5.0, 8.0]
    assert _scaled(char, [1.0, 0.5]).step_time_s == 14.0


def test_the_window_follows_the_compute_of_its_own_phase() -> None:
    char = characterization(
        [
            gemm(10.0, 1, 1, phase="forward"),
            gemm(20.0, 1, 1, phase="backward"),
            collective(8.0, 1, exposed_s=0.0, overlap_window_s=10.0, phase="forward"),
        ]
    )
    assert _scaled(char, [1.0, 0.1, 1.0]).step_time_s == pytest.approx(12.0)
    assert _scaled(char, [0.5, 1.0, 1.0]).step_time_s == pytest.approx(5 + 20 + 3)


def test_a_phase_without_compute_hides_behind_the_whole_step() -> None:
    char = characterization(
        [
            gemm(10.0, 1, 1, phase="forward"),
            collective(6.0, 1, exposed_s=2.0, overlap_window_s=4.0, phase="sync"),
        ]
    )
    assert _scaled(char, [0.5, 1.0]).step_time_s == pytest.approx(5 + 4)


def test_a_window_larger_than_its_phase_follows_the_whole_step() -> None:
    """3 s hidden behind 8 s of compute, of which the collective's own phase has 2."""
    char = characterization([
        gemm(2.0, 1, 1, phase="forward"), gemm(6.0, 1, 1, phase="backward"),
        collective(3.0, 1, exposed_s=0.0, overlap_window_s=3.0, phase="forward"),
    ])  # fmt: skip
    # All compute halves: 4 s, of which 3 / 8 hide 1.5 s of the collective.
    assert _scaled(char, [0.5, 0.5, 1.0]).step_time_s == 5.5
    # Backward alone halves: 5 s of 8, so 3 x 5 / 8 = 1.875 s stay hidden.
    assert _scaled(char, [1.0, 0.5, 1.0]).step_time_s == pytest.approx(5.0 + 3.0 - 1.875)


def test_compute_beside_compute_keeps_its_exposed_share() -> None:
    char = characterization([gemm(10.0, 1, 1, exposed_s=10.0), gemm(4.0, 1, 1, exposed_s=1.0)])
    assert _scaled(char, [1.0, 0.5]).exposed_s.tolist() == [10.0, 0.5]


def test_a_partly_hidden_row_without_a_window_is_read_conservatively() -> None:
    char = characterization([gemm(10.0, 1, 1), collective(8.0, 1, exposed_s=4.0)])
    # Faster links: all of the 4 hidden seconds staying hidden would leave 0; the share leaves 2.
    assert _scaled(char, [1.0, 0.5]).exposed_s[1] == 2.0
    # Half the compute hides half as much: 4 + 2 s.
    assert _scaled(char, [0.5, 1.0]).exposed_s[1] == 6.0


def test_idle_stays_and_the_bubble_follows_the_busy_time() -> None:
    char = characterization([gemm(8.0, 1, 1)], idle_s=3.0, bubble_s=2.0)
    scaled = _scaled(char, [0.5])
    assert scaled.bubble_s == 1.0
    assert scaled.step_time_s == 4.0 + 1.0 + 1.0


def test_windows_that_share_compute_cannot_make_faster_compute_slower() -> None:
    # Two collectives both claim the same 10 s; losing 5 s may bring 5 s to light, not 10.
    row = {"exposed_s": 0.0, "overlap_window_s": 10.0}
    char = characterization(
        [gemm(10.0, 1, 1), collective(10.0, 1, **row), collective(10.0, 1, **row)]
    )
    assert _scaled(char, [0.5, 1.0, 1.0]).step_time_s == 10.0


def test_a_window_that_its_row_does_not_fill_hides_nothing_of_others() -> None:
    """All 12 s of compute hide some exchange: what compute saves comes to light as exchanges.

    The pipeline's sends could use half of the compute (6 s) and use 0.5 s of it.
    """
    char = characterization([
        gemm(4.0, 1, 1, phase="forward"), gemm(8.0, 1, 1, phase="backward"),
        collective(0.25, 1, exposed_s=0.0, overlap_window_s=2.0, phase="forward"),
        collective(0.25, 1, exposed_s=0.0, overlap_window_s=4.0, phase="backward"),
        collective(10.0, 1, exposed_s=6.0, overlap_window_s=4.0, phase="forward"),
        collective(7.5, 1, exposed_s=0.0, overlap_window_s=7.5, phase="backward"),
    ])  # fmt: skip
    # 12 s of compute and 6 s of exchanges beyond it: 0.25 + 0.25 + 10 + 7.5 = 18 s of sending.
    for factor in (0.95, 0.5, 0.1):
        faster = _scaled(char, [factor, factor, 1.0, 1.0, 1.0, 1.0])
        assert faster.step_time_s == pytest.approx(18.0)
    # Slower sends find no compute that is free.
    assert _scaled(char, [1.0, 1.0, 3.0, 1.0, 1.0, 1.0]).step_time_s == pytest.approx(18.5)


def test_exchanges_that_hide_anywhere_pass_free_compute_on() -> None:
    """Two micro-batches at once: exchanges of 16.8 s beside 12 s of compute, of either pass."""
    rows = [
        gemm(4.0, 1, 1, name="f", phase="forward"), gemm(8.0, 1, 1, name="b", phase="backward"),
        *(collective(8.4, 1, name="ep.dispatch", phase=p) for p in ("forward", "backward")),
    ]  # fmt: skip
    recipe = msgspec.structs.replace(
        load_recipe("deepseek-v3-pretrain-fp8"), overlap={"ep": Overlap("any", "test", 1.0)}
    )
    ops = ops_frame([{"count": 1.0, "evidence": "measured", **row} for row in rows])
    for row, window in zip(rows[2:], overlap_windows(ops, recipe).iloc[2:], strict=True):
        row |= {"overlap_window_s": float(window), "exposed_s": max(8.4 - float(window), 0.0)}
    char = characterization(rows)
    assert char.header.step_time_s == pytest.approx(16.8)
    # Links a third faster: 11.2 s, so all hides. Half the compute: the exchanges take as long.
    assert _scaled(char, [1.0, 1.0, 2 / 3, 2 / 3]).step_time_s == pytest.approx(12.0)
    assert _scaled(char, [0.5, 0.5, 1.0, 1.0]).step_time_s == pytest.approx(16.8)
    assert _scaled(char, [0.5, 0.5, 0.5, 0.5]).step_time_s == pytest.approx(8.4)


def test_a_window_keeps_what_nothing_else_uses() -> None:
    """6 s of 10 are used; a row may grow by the 2 s that its window holds, no further."""
    char = characterization([
        gemm(10.0, 1, 1, phase="forward"),
        collective(2.0, 1, exposed_s=0.0, overlap_window_s=4.0, phase="forward"),
        collective(4.0, 1, exposed_s=0.0, overlap_window_s=4.0, phase="forward"),
    ])  # fmt: skip
    assert _scaled(char, [1.0, 2.0, 1.0]).step_time_s == pytest.approx(10.0)
    assert _scaled(char, [1.0, 3.0, 1.0]).step_time_s == pytest.approx(12.0)


_seconds = st.floats(1e-6, 1e3)
_row = st.tuples(
    st.sampled_from(["gemm", "norm", "collective", "copy"]),
    st.sampled_from(["forward", "backward", "sync"]),
    _seconds,
    st.floats(0, 1),
    st.one_of(st.none(), _seconds),
)


def _random_char(rows: list[Any], idle: float, bubble: float) -> Any:
    table = []
    for op_class, phase, time, share, window in rows:
        hides = window is not None and op_class in ("collective", "copy")
        exposed = max(0.0, time - window) if hides else time * share
        table.append({
            "op_class": op_class, "name": "x", "phase": phase, "time_s": time,
            "exposed_s": exposed, "overlap_window_s": window if hides else None,
        })  # fmt: skip
    return characterization(table, idle_s=idle + bubble, bubble_s=bubble)


@settings(max_examples=200)
@given(st.lists(_row, min_size=1, max_size=12), _seconds, _seconds, st.data())
def test_laws_of_any_step(rows: list[Any], idle: float, bubble: float, data: Any) -> None:
    char = _random_char(rows, idle, bubble)
    step = step_of(char)
    ones = scale_step(step, np.ones((3, 2, len(rows))))
    assert (ones.step_time_s == step.step_time_s).all()
    assert step.step_time_s == pytest.approx(char.header.step_time_s)

    ratio = st.lists(st.floats(0.05, 3.0), min_size=len(rows), max_size=len(rows))
    slow = np.array(data.draw(ratio))
    fast = slow * np.array(data.draw(st.lists(st.floats(0.1, 1.0), min_size=len(rows),
                                              max_size=len(rows))))  # fmt: skip
    both = scale_step(step, np.stack([slow, fast]))
    parts = both.exposed_s.sum(axis=-1) + both.bubble_s + step.fixed_idle_s
    np.testing.assert_allclose(parts, both.step_time_s, rtol=1e-9, atol=1e-12 * step.step_time_s)
    assert (both.exposed_s >= 0).all()
    # Shorter ops never make a longer step.
    assert both.step_time_s[1] <= both.step_time_s[0] * (1 + 1e-9)


def test_a_bubble_beside_no_busy_time_stays_as_it_is() -> None:
    # 1e-310 s of compute; a copy that its window hides, until it takes three times as long.
    rows = [("gemm", "forward", 1e-4, 1e-306, None), ("copy", "forward", 1.0, 0.0, 1.0)]
    step = step_of(_random_char(rows, 1.0, 2.0))
    longer = scale_step(step, np.array([1.0, 3.0]))
    assert longer.bubble_s == pytest.approx(2.0)
    assert longer.step_time_s == pytest.approx(step.step_time_s + 2.0)
