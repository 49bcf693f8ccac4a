from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.recommend.packages import search
from codesign.recommend.packages.search import hull, pareto

OPTIONS = {"a": [1.5, 2.0], "b": [1.5, 2.0], "c": [2.0]}
PRICE = {"a": 10.0, "b": 4.0, "c": 30.0}


def cost_of(package):
    return sum(PRICE[lever] * (f - 1) for lever, f in package)


def amdahl(package, parts={"a": 0.5, "b": 0.3, "c": 0.1}):  # noqa: B006
    """A step of 1 s, a part of it each lever's."""
    factor = dict(package)
    moved = sum(share / factor.get(lever, 1.0) for lever, share in parts.items())
    return 1 / (1 - sum(parts.values()) + moved)


def gains_of(packages):
    return np.array([amdahl(p) for p in packages])


def test_a_front_worked_out_by_hand() -> None:
    # Saved of 1 s, and cost: b1.5 0.1 for 2, b2 0.15 for 4, a1.5 0.167 for 5, a1.5 b1.5 0.267 for
    # 7, a1.5 b2 0.317 for 9, a2 b1.5 0.35 for 12, a2 b2 0.4 for 14, all 0.45 for 44. a2 alone saves
    # 0.25 for 10, and what else holds c costs 30 or more for at most 0.367.
    front = pareto(OPTIONS, gains_of, cost_of)
    assert front.exhaustive
    assert front.tried == 3 * 3 * 2
    assert front.costs.tolist() == [0, 2, 4, 5, 7, 9, 12, 14, 44]
    assert front.packages[-1] == (("a", 2.0), ("b", 2.0), ("c", 2.0))
    assert front.gains[-1] == pytest.approx(1 / (0.1 + 0.25 + 0.15 + 0.05))


def test_a_budget_ends_the_front() -> None:
    def within(package):
        return cost_of(package) if cost_of(package) <= 8 else math.inf

    front = pareto(OPTIONS, gains_of, within)
    assert front.packages[-1] == (("a", 1.5), ("b", 1.5))


def test_what_cannot_be_built_is_on_no_front() -> None:
    def gains(packages):
        return np.array([0.0 if dict(p).get("a") == 2.0 else amdahl(p) for p in packages])

    front = pareto(OPTIONS, gains, cost_of)
    assert all(dict(p).get("a") != 2.0 for p in front.packages)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_the_search_finds_what_trying_all_finds(seed: int) -> None:
    """Six levers on ops that wait for the slower of two of them: what helps only together."""
    rng = np.random.default_rng(seed)
    levers = [f"l{i}" for i in range(6)]
    options = {name: sorted(rng.uniform(1.1, 3.0, 3).tolist()) for name in levers}
    price = {name: float(rng.uniform(1, 50)) for name in levers}
    demand = rng.uniform(0, 1, (12, 6)) * (rng.random((12, 6)) < 0.4)

    def gains(packages):
        rate = np.array([[dict(p).get(name, 1.0) for name in levers] for p in packages])
        time = (demand[None] / rate[:, None, :]).max(axis=2).sum(axis=1) + 0.3
        return (demand.max(axis=1).sum() + 0.3) / time

    def cost(package):
        return sum(price[name] * (f - 1) for name, f in package)

    everything = search.pareto(options, gains, cost)
    limit, search.EXHAUSTIVE = search.EXHAUSTIVE, 0
    try:
        found = search.pareto(options, gains, cost)
    finally:
        search.EXHAUSTIVE = limit
    assert not found.exhaustive
    # At the cost of every package of the true front, what was found gains (almost) as much.
    at = np.searchsorted(found.costs, everything.costs * (1 + 1e-9), side="right") - 1
    assert (found.gains[at] >= everything.gains * 0.995).all()


def test_hull_keeps_only_falling_returns() -> None:
    # The line from (1, 1.4) to (4, 5) lies above (2, 1.5) and (3, 3).
    costs, gains = np.array([0.0, 1, 2, 3, 4]), np.array([0.0, 1.4, 1.5, 3.0, 5.0])
    assert hull(costs, gains) == [0, 1, 4]
    assert hull(np.array([0.0, 1, 2, 3]), np.array([0.0, 3, 4, 4.5])) == [0, 1, 2, 3]
