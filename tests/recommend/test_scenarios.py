"""Ranks under other weights: each scenario is the study that its weights alone would make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.recommend.portfolio import in_scenario, load_portfolio, reweighted
from codesign.recommend.scenarios import AS_WEIGHTED
from tests.recommend.cases import portfolio, run
from tests.recommend.test_compare import weighted


def test_without_scenarios_there_are_none() -> None:
    assert run().scenarios == ()


def test_each_scenario_is_ranked_as_a_portfolio_of_its_weights() -> None:
    found = run(scenarios={"more training": {"train": 0.9}, "GPUs": {"train": 30, "serve": 10}})
    assert [s.name for s in found.scenarios] == [AS_WEIGHTED, "more training", "GPUs"]
    for scenario, train in zip(found.scenarios, (0.5, 0.9, 0.75), strict=True):
        assert scenario.weights == pytest.approx({"train": train, "serve": 1 - train})
        alone = run(workloads=weighted(train).workloads)
        for rank, rec in zip(scenario.ranks, alone.recommendations, strict=True):
            assert (rank.rank, rank.lever, rank.label) == (rec.rank, rec.lever, rec.label)
            assert rank.gain.value == pytest.approx(rec.gain.value, rel=1e-12)
            assert rank.gain.lo == pytest.approx(rec.gain.lo, rel=1e-12)
            assert rank.verdict == rec.verdict


def test_a_scenario_moves_nothing_of_the_list_itself() -> None:
    plain, with_one = run(), run(scenarios={"more training": {"train": 0.9}})
    assert plain.recommendations == with_one.recommendations


def test_a_scenario_of_the_same_weights_names_the_list_itself() -> None:
    found = run(scenarios={"more training": {"train": 0.9}, "today": {}}).scenarios
    assert [s.name for s in found] == ["today", "more training"]
    assert found[0].weights == {"train": 0.5, "serve": 0.5}


def test_scenarios_of_a_file_are_against_its_own_weights(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        """
title: t
baseline: hgx-h100
workloads:
  - {characterization: a.parquet, weight: 2}
  - {characterization: b.parquet, weight: 1}
  - {characterization: c.parquet, weight: 1}
scenarios: {today: {}, later: {c: 0.7}}
"""
    )
    plan = reweighted(load_portfolio(path), {"a": 0.0})
    assert in_scenario(plan, "today").weights == {"a": 0.5, "b": 0.25, "c": 0.25}
    # What c leaves, 0.3, is divided 2 to 1.
    assert in_scenario(plan, "later").weights == pytest.approx({"a": 0.2, "b": 0.1, "c": 0.7})


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"nobody": 0.5}, "unknown workload 'nobody'"),
        ({"train": -1.0}, "weight -1.0"),
        ({"train": 1.5}, "expected 0 to 1"),
        ({"train": 0.0, "serve": 0.0}, "add up to 0"),
        ({"train": float("inf"), "serve": 1.0}, "weight inf"),
    ],
)
def test_wrong_weights_name_file_and_scenario(
    weights: dict[str, float], said: str, tmp_path: Path
) -> None:
    import yaml

    content: dict[str, Any] = {
        "title": "t", "baseline": "hgx-h100", "scenarios": {"2028": weights},
        "workloads": [{"characterization": "train.parquet", "weight": 1},
                      {"characterization": "serve.parquet", "weight": 1}],
    }  # fmt: skip
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(DataError) as error:
        load_portfolio(path)
    assert said in str(error.value)
    assert "fleet.yaml: scenarios.2028" in str(error.value)


def test_an_unknown_scenario_is_answered_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match="unknown scenario '2030'; known: 2028"):
        in_scenario(portfolio(scenarios={"2028": {"train": 0.9}}), "2030")
