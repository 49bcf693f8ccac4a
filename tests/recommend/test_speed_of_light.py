"""The way from the datasheet bound to the step, by hand and by conservation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.recommend.schema import Gap
from codesign.recommend.speed_of_light import attainable, binding, gap, op_terms, speed_of_light
from tests.projection.fakes import FakeModel, characterization, collective, gemm, system
from tests.recommend.cases import run

BASE = system()


def by_key(rows: Any) -> dict[str, tuple[float, float, float]]:
    return {r.key: (r.bound_s, r.attainable_s, r.time_s) for r in rows}


def example() -> Gap:
    # A million launches of 1 us: the model reaches 3 s where the peak allows 2.
    char = characterization(
        [
            gemm(4.0, 2e15, 1e11, count=1e6),
            collective(8.0, 4e11, exposed_s=4.0, overlap_window_s=4.0),
            {"op_class": "other", "name": "custom", "time_s": 1.0, "phase": "backward"},
        ],
        idle_s=5.0, bubble_s=2.0,
    )  # fmt: skip
    return gap(char, BASE, FakeModel())


def test_a_step_by_hand() -> None:
    found = example()
    # Links take 4 s at best and hide behind the GEMM: 2 s of it, then 3 s, then 4 of 8.
    assert by_key(found.by_class) == {
        "gemm": pytest.approx((2.0, 3.0, 4.0)),
        "collective": pytest.approx((2.0, 1.0, 4.0), abs=1e-5),
        "other": pytest.approx((1.0, 1.0, 1.0)),
    }
    assert by_key(found.by_resource) == {
        "tensor": pytest.approx((2.0, 3.0, 4.0)),
        "nvlink": pytest.approx((2.0, 1.0, 4.0), abs=1e-5),
        "unknown work": pytest.approx((1.0, 1.0, 1.0)),
    }
    assert (found.bubble_s, found.idle_s, found.step_time_s) == (2.0, 3.0, 14.0)
    assert found.bound_s == pytest.approx(5.0)
    assert found.attainable_s == pytest.approx(5.0, abs=1e-5)
    assert found.unknown_share == pytest.approx(1 / 14)
    assert found.unmodelled_share == found.beats_bound_share == 0.0


def test_what_beats_its_bound_is_counted_and_not_hidden() -> None:
    char = characterization([gemm(1.0, 1e12, 5e12), gemm(3.0, 3e15, 1e11)])
    found = gap(char, BASE, FakeModel())
    # 5 TB at 1 TB/s would take 5 s, and it took one: a difference below zero.
    assert by_key(found.by_resource)["hbm"] == pytest.approx((5.0, 5.0, 1.0))
    assert found.beats_bound_share == pytest.approx(0.25)


def test_a_group_that_spans_domains_is_bound_by_what_leaves_them() -> None:
    # 16 ranks over two domains of 8, 100 GB/s inside and 10 GB/s between.
    # all_reduce of 8 GB: a shard of 1 GB crosses twice, half of it each way: 1 GB, 0.1 s.
    # dispatch of 8 GB, 2 experts a token: each domain has one with 3/4, so 1.5 of 2 copies
    # are sent and half of them leaves: 3 GB, 0.3 s.
    more = {"group_size": 16, "message_bytes": int(8e9)}
    reduce = collective(9.0, 15e9, **more)
    dispatch = collective(9.0, 8e9, **more) | {"collective": "dispatch", "topk": 2}
    terms = op_terms(characterization([reduce, dispatch]), BASE)
    assert terms["scaleout"] == pytest.approx([0.1, 0.3])
    assert terms["nvlink"] == pytest.approx([0.14, 0.05])
    assert list(binding(terms)) == ["nvlink", "scaleout"]


def test_an_op_without_a_model_attains_its_own_time() -> None:
    row = {"op_class": "other", "name": "custom", "time_s": 4.0, "bytes": 1e12}
    found = gap(characterization([row, gemm(4.0, 2e15, 1e11)]), BASE, FakeModel())
    assert by_key(found.by_class)["other"] == pytest.approx((1.0, 4.0, 4.0))
    assert found.unmodelled_share == pytest.approx(0.5)
    assert by_key(gap(characterization([row]), BASE, None).by_class)["other"][1] == 4.0


def test_attainable_lies_between_bound_and_own_time() -> None:
    import numpy as np

    own, bound = np.array([4.0, 4.0, 4.0, 1.0, 4.0]), np.array([2.0, 2.0, 2.0, 2.0, np.nan])
    model = np.array([3.0, 9.0, 1.0, 3.0, 3.0])
    assert attainable(own, bound, model) == pytest.approx([3.0, 4.0, 2.0, 2.0, 4.0])


rows = st.lists(
    st.one_of(
        st.builds(
            gemm, st.floats(0.01, 10), st.floats(1e12, 1e16), st.floats(1e9, 1e13),
            count=st.floats(1, 1e6), phase=st.sampled_from(["forward", "backward"]),
        ),
        st.builds(
            lambda time, part, wire, window: collective(
                time, wire, exposed_s=time * part, overlap_window_s=window
            ),
            st.floats(0.01, 10), st.floats(0, 1), st.floats(1e9, 1e12),
            st.one_of(st.none(), st.floats(0, 10)),
        ),
        st.builds(lambda time: {"op_class": "other", "name": "x", "time_s": time},
                  st.floats(0.01, 10)),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@given(rows, st.floats(0, 5), st.floats(0, 1))
@settings(max_examples=30)
def test_the_parts_add_up_to_the_step(
    ops: list[dict[str, Any]], idle: float, bubble: float
) -> None:
    char = characterization(ops, idle_s=idle, bubble_s=idle * bubble)
    found = gap(char, BASE, FakeModel())
    for split in (found.by_class, found.by_resource):
        assert sum(r.bound_s for r in split) == pytest.approx(found.bound_s)
        assert sum(r.attainable_s for r in split) == pytest.approx(found.attainable_s)
        whole = sum(r.time_s for r in split) + found.bubble_s + found.idle_s
        assert whole == pytest.approx(found.step_time_s)
        ways = sum(
            r.bound_s + (r.attainable_s - r.bound_s) + (r.time_s - r.attainable_s) for r in split
        )
        assert ways + found.bubble_s + found.idle_s == pytest.approx(char.header.step_time_s)
    assert found.bound_s == pytest.approx(speed_of_light(char, BASE))


def test_the_file_carries_it_for_each_workload() -> None:
    for w in run().workloads:
        assert w.gap is not None
        assert w.gap.bound_s == w.speed_of_light_s
        assert w.gap.step_time_s == pytest.approx(w.step_time_s)
