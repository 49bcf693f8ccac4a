"""Packages of the toy portfolio, worked out by hand.

``train``: 3 s tensor, 1 s links; ``serve``: 4 s HBM; half of the GPU-hours each.
"""

from __future__ import annotations

import pytest

from codesign.hardware.baseline_cost import baseline_cost
from codesign.hardware.costs import load_costs
from codesign.hardware.levers import apply_levers
from codesign.recommend.build import cost_record
from tests.recommend.cases import BASE, run


def by_kind(**changes):
    return {study.kind: study for study in run(**changes).packages}


def steps(package):
    return {s.lever: s.factor for s in package.steps}


def test_the_ranking_cost_comes_first_and_its_levers_are_told_apart() -> None:
    recs = run(ranking="power")
    assert recs.packages[0].kind == "power"
    assert recs.packages[0].marginal
    assert not recs.packages[-1].marginal
    assert recs.packages[0].left_out["Launch latency"] == "no effect"


def test_gains_of_packages_by_hand() -> None:
    study = by_kind(ranking="power")["power"]
    assert study.exhaustive
    for package in study.front:
        f = steps(package)
        train = 4 / (3 / f.get("bf16_throughput", 1) + 1 / f.get("nvlink_bandwidth", 1))
        serve = f.get("hbm_bandwidth", 1.0)
        assert package.gain.value == pytest.approx(1 / (0.5 / train + 0.5 / serve), rel=1e-4)


def test_costs_add_up_and_fleet_gain_is_what_equal_watts_buy() -> None:
    study = by_kind(ranking="power")["power"]
    assert study.baseline_cost == 700.0
    for package in study.front[1:]:
        system = apply_levers(BASE, steps(package))
        expected = cost_record(BASE, system, load_costs())
        assert expected is not None
        assert package.cost == expected
        watts = expected.power.value
        assert package.fleet_gain.value == pytest.approx(package.gain.value * 700 / (700 + watts))
    best = max(study.front, key=lambda p: p.fleet_gain.value)
    assert study.front[study.balanced] == best
    assert sum(p.p_best for p in study.front) == pytest.approx(1.0)


def test_a_budget_is_kept_and_named() -> None:
    study = by_kind(ranking="power", budgets={"power": 50.0})["power"]
    assert study.budget == 50.0
    assert all(p.cost is None or p.cost.power.value <= 50.0 for p in study.front)
    assert study.front[study.best].gain.value == max(p.gain.value for p in study.front)


def test_a_budget_of_another_kind_binds_too() -> None:
    study = by_kind(ranking="power", budgets={"area": 5.0})["power"]
    areas = [p.cost.area.value for p in study.front if p.cost is not None]
    assert all(value is None or value <= 5.0 for value in areas)


def test_marginal_gains_by_hand() -> None:
    study = by_kind(ranking="power")["power"]
    reference = steps(study.front[study.marginal_to])

    def gain(f):
        train = 4 / (3 / f.get("bf16_throughput", 1) + 1 / f.get("nvlink_bandwidth", 1))
        return 1 / (0.5 / train + 0.5 / f.get("hbm_bandwidth", 1.0))

    named = {m.lever: m for m in study.marginal}
    for lever in ("bf16_throughput", "nvlink_bandwidth", "hbm_bandwidth"):
        m = named[lever]
        assert m.inside == (lever in reference)
        without = {k: v for k, v in reference.items() if k != lever}
        factor = reference.get(lever) or _factor(m.label)
        expected = gain(without | {lever: factor}) / gain(without)
        assert m.last.value == pytest.approx(expected, rel=1e-4)
        assert m.alone.value == pytest.approx(gain({lever: factor}), rel=1e-4)
    assert "launch_latency" not in named  # no effect, so nothing to add


def _factor(label: str) -> float:
    return 1 + float(label.partition(" %")[0]) / 100


def test_money_of_a_gpu_is_silicon_and_memory() -> None:
    from codesign.hardware import load_system

    costs = load_costs()
    money = baseline_cost(load_system("hgx-h100"), costs, "money")
    # 80 GB at 15 USD, and 814 mm2 of a 16,988 USD wafer: 63 gross dies of which 42 % are good.
    memory = 80 * 15.0
    assert memory + 400 < money.value < memory + 1000
    assert baseline_cost(load_system("hgx-h100"), costs, "area").value == 814.0
    toy = baseline_cost(BASE, costs, "area")
    assert toy.value is None
    assert "not known" in toy.source


def test_what_no_measurement_tested_is_in_no_package_but_stands_among_what_could_be_added() -> None:
    study = by_kind(ranking="power", levers={"hbm_bandwidth": (2.0,), "sm_clock": (1.5,)})["power"]
    assert all("sm_clock" not in steps(package) for package in study.front)


def test_each_levers_own_step_at_equal_watts_by_hand() -> None:
    recs = run(ranking="power")
    study = recs.packages[0]
    for rec in recs.recommendations:
        if rec.lever not in study.alone:
            continue
        watts = rec.cost.power.value
        assert study.alone[rec.lever].value == pytest.approx(rec.gain.value * 700 / (700 + watts))
    assert {"hbm_bandwidth", "nvlink_bandwidth"} <= set(study.alone)
    assert "fp4_throughput" not in study.alone
