from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.recommend.software import RULES, Effect, Look, assess, software, step_after
from codesign.workload.characterization import Characterization
from tests.projection.fakes import FakeModel, characterization, collective
from tests.recommend.software.cases import (
    BASE,
    compute,
    cube,
    found,
    look,
    one_step,
    rule,
    silence,
    unreliable,
)
from tests.recommend.software.test_domain import KEY as CROSSES
from tests.recommend.software.test_fusion import chain, point
from tests.recommend.software.test_overlap import KEY as OVERLAP
from tests.recommend.software.test_overlap import copy

CAPTURED = [r.key for r in RULES if r.captured]


def eventful(**header: object) -> Characterization:
    """A step in which every rule about captures has something to see."""
    rows = [
        compute(4.0), cube(8192, 1.0, name="aten::addmm"), *chain(), point("aten::gelu", 1.0),
        collective(1.0, 1e9, count=4, wait_s=0.5, group_stride=8),
        copy(0.5, "Memcpy HtoD (Pageable -> Device)"),
    ]  # fmt: skip
    return characterization(rows, idle_s=2.0, steps=one_step(2.0, 2.0, 1.5, time_s=9.5), **header)


def test_without_steps_no_rule_says_anything() -> None:
    for quantity in ("steps", "step_time"):
        char = eventful(quality=unreliable(quantity))
        results, silent = software({"w": char}, {"w": 1.0}, BASE, FakeModel())
        assert results == ()
        assert {s.rule for s in silent} == {r.key for r in RULES}


def test_a_device_that_does_next_to_nothing_makes_no_step() -> None:
    # One kernel of 1 ms in a "step" of 1 s, such as a compilation: no gain of x1000 is projected.
    def step(busy_s: float) -> Look:
        char = characterization([compute(busy_s)], idle_s=1 - busy_s,
                                steps=one_step(1 - busy_s, 1 - busy_s, 1 - busy_s))  # fmt: skip
        return Look(char, BASE, FakeModel())

    for entry in RULES:
        assert "works for 0.1 % of the step" in str(assess(step(0.001), entry))
    assert found("host_stall", step(0.02)).gain.value == pytest.approx(1 / (1 - 0.7 * 0.98))


def test_what_was_composed_has_no_gaps_overlap_or_ranks_to_see() -> None:
    char = eventful(capture_method="composed")
    results, silent = software({"w": char}, {"w": 1.0}, BASE, FakeModel())
    assert not {r.rule for r in results} & set(CAPTURED)
    assert set(CAPTURED) <= {s.rule for s in silent}
    for key in CAPTURED:
        assert "composed" in silence(key, Look(char, BASE, FakeModel()))


def test_a_captured_step_like_it_has_findings_of_them() -> None:
    results, _ = software({"w": eventful()}, {"w": 1.0}, BASE, FakeModel())
    found = {r.rule for r in results}
    assert {OVERLAP, "stragglers", "unhidden_copies", "host_stall", "unfused_pointwise"} <= found


def test_the_portfolio_gains_by_gpu_hours() -> None:
    # Half the fleet's hours go to a workload of which half the step could be hidden copies.
    copies = characterization([compute(5.0), copy(5.0, "Memcpy HtoD")])
    other = characterization([compute(1.0)])
    (result,), _ = software(
        {"copies": copies, "other": other}, {"copies": 0.5, "other": 0.5}, BASE, FakeModel()
    )
    gain = 10 / (10 - 0.95 * 5)
    assert result.by_workload["copies"].value == pytest.approx(gain)
    assert result.gain.value == pytest.approx(1 / (0.5 / gain + 0.5))
    assert result.gain.lo < result.gain.value < result.gain.hi


def test_a_workload_without_weight_is_not_looked_at() -> None:
    copies = characterization([compute(5.0), copy(5.0, "Memcpy HtoD")])
    other = characterization([compute(1.0)])
    results, silent = software(
        {"copies": copies, "other": other}, {"copies": 0.0, "other": 1.0}, BASE, FakeModel()
    )
    assert results == ()
    assert all("copies" not in s.workloads for s in silent)


def test_the_largest_gain_comes_first_and_rivals_name_each_other() -> None:
    results, _ = software({"w": eventful()}, {"w": 1.0}, BASE, FakeModel())
    gains = [r.gain.value for r in results]
    assert gains == sorted(gains, reverse=True)
    rivals = {r.rule: r.rivals for r in results}
    for key, others in rivals.items():
        for other in others:
            assert key in rivals[other]


def test_shares_of_the_time_saved_add_up_over_the_portfolio() -> None:
    copies = characterization([compute(5.0), copy(5.0, "Memcpy HtoD")])
    weights = {"a": 0.3, "b": 0.7}
    (result,), _ = software({"a": copies, "b": copies}, weights, BASE, FakeModel())
    ops = [op for f in result.findings for op in f.ops]
    assert sum(op.saved_share for op in ops) == pytest.approx(1.0)
    assert ops[0].saved_share == pytest.approx(0.3)


@pytest.mark.parametrize("key", [r.key for r in RULES])
def test_an_empty_looking_step_has_no_finding(key: str) -> None:
    from codesign.recommend.software import assess

    assert assess(look([compute(1.0)], steps=one_step(0.0, 0.0, 0.0)), rule(key)) is None


def test_the_registry_is_whole() -> None:
    keys = [r.key for r in RULES]
    assert len(set(keys)) == len(keys)
    for r in RULES:
        assert 0 <= r.reach.lo <= r.reach.value <= r.reach.hi <= 1
        assert set(r.rivals) <= set(keys)
        assert r.confirm.endswith(".")
        assert r.reach.why


@given(
    times=st.lists(st.floats(0.01, 10), min_size=1, max_size=5),
    ratio=st.floats(0, 1), hidden=st.floats(0, 1), idle=st.floats(0, 3),
    reach=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)  # fmt: skip
def test_more_reach_never_makes_the_step_longer(
    times: list[float], ratio: float, hidden: float, idle: float, reach: tuple[float, float]
) -> None:
    import numpy as np

    at = look([compute(t, name=str(i)) for i, t in enumerate(times)], idle_s=1.0, bubble_s=0.5)
    n = len(times)
    effect = Effect(np.full(n, ratio), hidden * np.array(times), idle)
    less, more = sorted(reach)
    now = at.step_s
    assert step_after(at.step, effect, 0.0) == pytest.approx(now)
    one, two = (step_after(at.step, effect, r) for r in (less, more))
    assert -1e-9 <= two <= one + 1e-9 <= now + 2e-9


def test_a_finding_survives_the_file() -> None:
    from codesign.recommend.schema import SoftwareResult

    results, _ = software({"w": eventful()}, {"w": 1.0}, BASE, FakeModel())
    raw = msgspec.json.encode(results)
    assert msgspec.json.decode(raw, type=tuple[SoftwareResult, ...]) == results
    assert CROSSES in {r.key for r in RULES}
