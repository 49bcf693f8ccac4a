"""Bubbles and activations in flight against numbers worked out by hand and in papers."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.cluster.plan import Plan, Plans
from codesign.cluster.schedule import bubble_s, chunks_in_flight

ONE = np.array([1.0])


def _bubble(plan: Plan, forward: float, inputs: float, weights: float) -> float:
    others = (plan.pp - 1) * (forward + inputs + weights)
    return float(
        bubble_s(Plans.of([plan]), forward * ONE, inputs * ONE, weights * ONE, others * ONE)[0]
    )


def test_1f1b_idles_for_p_minus_1_passes() -> None:
    # 4 stages, a pass of 3 ms: 3 x 3 = 9 ms, whatever the number of micro-batches.
    assert _bubble(Plan(pp=4), 1.0, 1.0, 1.0) == pytest.approx(9.0)


def test_interleaving_divides_the_bubble_by_the_chunks() -> None:
    assert _bubble(Plan(pp=4, vpp=2), 1.0, 1.0, 1.0) == pytest.approx(4.5)
    assert _bubble(Plan(pp=8, vpp=7), 1.0, 1.0, 1.0) == pytest.approx(3.0)


def test_one_stage_has_no_bubble() -> None:
    assert _bubble(Plan(pp=1), 1.0, 1.0, 1.0) == 0.0


def test_zero_bubble_h1_is_a_third_where_the_three_passes_are_equal() -> None:
    # Qi et al. 2023: (p - 1)(F + B - W), a third of 1F1B's at F = B = W.
    plain = _bubble(Plan(pp=4), 1.0, 1.0, 1.0)
    assert _bubble(Plan(pp=4, schedule="zero_bubble"), 1.0, 1.0, 1.0) == pytest.approx(plain / 3)


def test_dualpipe_by_the_table_of_its_paper() -> None:
    # p = 8, F = W = 1 and B = 2 whole: (8 / 2 - 1)(3 + 2 - 3) = 6.
    assert _bubble(Plan(pp=8, schedule="dualpipe"), 1.0, 1.0, 1.0) == pytest.approx(6.0)


def test_1f1b_keeps_as_many_micro_batches_as_stages() -> None:
    plans = Plans.of([Plan(pp=4), Plan(pp=4), Plan(pp=1)])
    assert chunks_in_flight(plans, np.array([16.0, 2.0, 16.0])).tolist() == [4.0, 2.0, 1.0]


@pytest.mark.parametrize(("p", "v"), [(4, 2), (8, 4), (2, 20)])
def test_interleaving_keeps_what_korthikanti_says(p: int, v: int) -> None:
    # Korthikanti et al. 2022: 1 + (p - 1) / (p v) times 1F1B's p micro-batches.
    chunks = chunks_in_flight(Plans.of([Plan(pp=p, vpp=v)]), np.array([1000.0]))[0]
    assert chunks / v == pytest.approx(p * (1 + (p - 1) / (p * v)))
