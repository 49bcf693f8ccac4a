"""Comparisons against differences worked out by hand and against scipy's test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from codesign.workload.characterization import (
    Characterization,
    Header,
    Quality,
    Reliability,
    StepTimes,
)
from codesign.workload.compare import Side, compare, welch
from codesign.workload.schema import ops_frame

GEMM = {"op_class": "gemm", "name": "aten::mm", "kernel": "k1", "m": 64, "n": 32, "k": 16}


def row(time_s, sd_s=None, count=1.0, **columns):
    return {"count": count, "evidence": "measured", "time_s": time_s, "time_sd_s": sd_s,
            "exposed_s": time_s, **GEMM, **columns}  # fmt: skip


def step(time_s, device="0", name="s"):
    return StepTimes(name=name, device=device, time_s=time_s, compute_s=time_s, comm_s=0.0,
                     exposed_comm_s=0.0, exposed_copy_s=0.0, idle_s=0.0, kernels=1,
                     kernel_time_s=time_s)  # fmt: skip


def char(rows, steps=(), **header):
    times = [s.time_s for s in steps]
    known = {"step_time_s": float(np.mean(times))} if times else {}
    made = Header(**{"workload": "w", "system": None, "steps": tuple(steps), **known, **header})
    return Characterization(made, ops_frame(rows))


def op(found, what):
    return next(c for c in found.ops if c.what == what)


def test_an_op_that_got_slower():
    found = compare(char([row(1.0), row(2.0, name="b")]), char([row(3.0), row(2.0, name="b")]))
    slower = op(found, "aten::mm")
    assert (slower.delta_s, slower.ratio, slower.status) == (2.0, 3.0, "same")
    assert found.ops[0] is slower  # the largest change first
    assert found.classes[0].delta_s == 2.0


def test_new_vanished_and_reshaped_ops():
    before = char([row(1.0), row(2.0, name="gone"), row(4.0, name="grown")])
    after = char([row(1.0), row(3.0, name="fresh"), row(5.0, name="grown", m=128)])
    found = compare(before, after)
    assert {c.what: c.status for c in found.ops} == {
        "aten::mm": "same", "gone": "vanished", "fresh": "new", "grown": "reshaped",
    }  # fmt: skip
    grown = op(found, "grown")
    assert grown.delta_s == 1.0
    assert grown.shapes == (("m 64 n 32 k 16",), ("m 128 n 32 k 16",))
    # Every second of either side is in one change.
    assert math.fsum(c.before.time_s for c in found.ops) == 7.0
    assert math.fsum(c.after.time_s for c in found.ops) == 9.0


def test_another_kernel_is_the_same_op():
    found = compare(char([row(1.0)]), char([row(0.5, kernel="k2")]))
    assert found.ops[0].status == "same"
    assert found.ops[0].kernels == ("k1", "k2")


@given(
    means=st.tuples(*[st.floats(0.1, 10)] * 2), sds=st.tuples(*[st.floats(0.01, 3)] * 2),
    n=st.tuples(*[st.integers(2, 50)] * 2),
)  # fmt: skip
def test_the_test_is_welchs(means, sds, n):
    sides = [Side(m, s, k) for m, s, k in zip(means, sds, n, strict=True)]
    expected = stats.ttest_ind_from_stats(
        means[0], sds[0], n[0], means[1], sds[1], n[1], equal_var=False
    ).pvalue
    assert welch(*sides) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_steps_of_the_device_that_the_ops_are_of():
    steps = [step(1.0), step(1.2), step(9.0, "1"), step(9.1, "1")]
    one = char([row(1.0, 0.1)], steps, step_time_s=1.1)
    part = compare(one, one).parts[0]
    assert (part.what, part.before.time_s, part.before.steps) == ("step", pytest.approx(1.1), 2)


def test_a_step_slower_beyond_chance():
    fast = [step(1.0 + 0.001 * i) for i in range(5)]
    slow = [step(1.1 + 0.001 * i) for i in range(5)]
    rows = [row(1.0, 0.002)]
    part = compare(char(rows, fast), char(rows, slow)).parts[0]
    samples = [[s.time_s for s in steps] for steps in (fast, slow)]
    assert part.p == pytest.approx(stats.ttest_ind(*samples, equal_var=False).pvalue)
    assert part.significant
    same = compare(char(rows, fast), char(rows, fast)).parts[0]
    assert not same.significant


def test_one_step_is_not_tested():
    found = compare(char([row(1.0)], [step(1.0)]), char([row(2.0)], [step(2.0)]))
    assert found.parts[0].p is None
    assert found.ops[0].significant is None
    assert any("no significance: 1 and 1 steps" in c for c in found.cautions)


def test_a_class_never_passes_for_less_spread_than_its_rows_may_have():
    """Rows that vary together: the spread of their sum is the sum of theirs."""
    rng = np.random.default_rng(1)
    shared = rng.normal(0, 0.1, 20)
    samples = 2 * (1 + shared)
    steps = [step(float(t)) for t in samples]
    sd = float((1 + shared).std(ddof=1))
    rows = [row(float(1 + shared.mean()), sd, name=n) for n in ("a", "b")]
    found = compare(char(rows, steps), char(rows, steps))
    assert found.classes[0].before.sd_s == pytest.approx(samples.std(ddof=1))


def test_among_many_ops_chance_finds_are_held_back():
    """Twenty ops without a difference: one at p = 0.04 is what chance gives."""
    n = [step(1.0 + 0.01 * i) for i in range(10)]
    before, after = [], []
    for i in range(20):
        before.append(row(1.0, 0.1, name=f"op{i}"))
        after.append(row(1.0 + (0.099 if i == 0 else 0.001), 0.1, name=f"op{i}"))
    found = compare(char(before, n), char(after, n))
    lead = op(found, "op0")
    assert 0.02 < lead.p < 0.05
    assert not any(c.significant for c in found.ops)
    alone = compare(char(before[:1], n), char(after[:1], n))
    assert alone.ops[0].significant


def test_unreliable_sides_are_named():
    doubtful = Quality(reliability={"step_time": Reliability(False, ("graph replays",))})
    found = compare(char([row(1.0)], quality=doubtful), char([row(1.0)], system="hgx-h100"))
    assert "A: step time is unreliable: graph replays" in found.cautions
    assert any("different systems: unknown and hgx-h100" in c for c in found.cautions)


names = st.lists(st.sampled_from("abcd"), max_size=6)


@settings(max_examples=40)
@given(a=names, b=names, shift=st.floats(0.1, 5))
def test_every_second_of_both_sides_is_in_one_op(a, b, shift):
    sides = [char([row(i + s, name=n, m=i % 3 + 1) for i, n in enumerate(side)])
             for side, s in ((a, 1.0), (b, shift))]  # fmt: skip
    if not sides[0].ops.empty and not sides[1].ops.empty:
        found = compare(*sides)
        for side, total in zip(("before", "after"), sides, strict=True):
            assert math.fsum(getattr(c, side).time_s for c in found.ops) == pytest.approx(
                float(total.ops["time_s"].sum())
            )
