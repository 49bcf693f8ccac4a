"""The toy portfolio: ``train`` waits 3 s for tensor and 1 s for links, ``serve`` 4 s for HBM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codesign.hardware.costs import load_costs
from codesign.recommend.build import recommend
from codesign.recommend.portfolio import WorkloadEntry
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio, run

BY_POWER = {"ranking": "power", "draws": 200}


def test_a_workload_alone_puts_its_own_lever_first() -> None:
    recs = run(**BY_POWER)
    assert recs.recommendations[0].lever == "hbm_bandwidth"
    said = {m.change: m.lever for m in recs.first_moved}
    # serve waits for HBM alone; of train nothing but tensor and links can be had.
    assert said["train alone"] == said["serve gone"] == "nvlink_bandwidth"
    assert "serve alone" not in said
    assert recs.first_changes_tried > 6


def test_ranks_by_each_cause_and_together() -> None:
    recs = run(**BY_POWER)
    assert [s.lever for s in recs.rank_sensitivity] == [
        r.lever for r in recs.recommendations if r.lever in {s.lever for s in recs.rank_sensitivity}
    ]
    for cause in ("weights", "costs", "model", "together"):
        spreads = [getattr(s, cause) for s in recs.rank_sensitivity]
        assert sum(s.first for s in spreads) == pytest.approx(1.0)
        assert all(s.lo <= s.hi for s in spreads)
    assert [s.rank for s in recs.rank_sensitivity] == [1, 2, 3]
    assert run(**BY_POWER).rank_sensitivity == recs.rank_sensitivity


def test_of_one_workload_weights_move_nothing() -> None:
    only = {"workloads": (WorkloadEntry(weight=1.0, characterization="train.parquet"),)}
    recs = run(**BY_POWER, **only)
    assert all(s.weights.lo == s.weights.hi == s.rank for s in recs.rank_sensitivity)
    assert not [m for m in recs.first_moved if m.kind == "weight"]


def test_the_share_of_first_places_under_weights_by_hand() -> None:
    """HBM x1.25 gains w_serve / 4 less itself; links x2 gain w_train / 8: by watts one is first.

    Both weights are drawn from a half to twice themselves; the lever per watt is worked out
    here by the same draws of nothing but the ratio of two uniforms in the logarithm.
    """
    recs = run(**BY_POWER)
    rows = {r.lever: r for r in recs.recommendations}
    hbm, link = rows["hbm_bandwidth"], rows["nvlink_bandwidth"]
    rng = np.random.default_rng(99)
    w = 0.5 * np.exp(rng.uniform(-np.log(2), np.log(2), (200_000, 2)))
    train, serve = (w / w.sum(axis=1, keepdims=True)).T

    def per_watt(rec, g_train, g_serve):
        gain = 1 / (train / g_train + serve / g_serve) - 1
        return np.where(gain >= 0.02 - 1e-12, gain / rec.cost.power.value, -1.0)

    link_score = per_watt(link, 4 / (3 + 1 / link.factor), 1.0)
    hbm_score = per_watt(hbm, 1.0, hbm.factor)
    expected = float((link_score > hbm_score).mean())
    found = next(s for s in recs.rank_sensitivity if s.lever == "nvlink_bandwidth")
    assert found.weights.first == pytest.approx(expected, abs=0.08)


def test_a_cost_value_whose_range_reaches_far_enough_moves_the_first_place() -> None:
    costs = load_costs()
    entry = costs.values["hbm_energy"]
    dear = replace(entry, low=entry.value, high=entry.value * 1000, bound="lower")
    wide = replace(costs, values=dict(costs.values) | {"hbm_energy": dear})
    recs = recommend(portfolio(**BY_POWER), chars(), IdentifiedModel(), base=BASE, costs=wide)
    moved = [m for m in recs.first_moved if m.kind == "cost"]
    assert "HBM energy at 5,900 pJ/bit (now 5.9)" in [m.change for m in moved]
    assert moved[0].lever == "nvlink_bandwidth"
