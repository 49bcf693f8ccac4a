"""Portfolio entries that say on how many GPUs they run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codesign._common.errors import DataError
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from codesign.recommend.at_scale import portfolio_at_scale
from codesign.recommend.portfolio import Portfolio, WorkloadEntry, load_portfolio
from tests.cluster.fakes import Roofline

BASE = load_system("hgx-b200")


class _Model(Roofline):
    def draws(self, n: int, seed: int) -> Any:
        return None


def _study(portfolio: Portfolio) -> Any:
    return SimpleNamespace(portfolio=portfolio, model=_Model(), base=BASE)


def _entry(**values: Any) -> Portfolio:
    entry = WorkloadEntry(weight=1.0, recipe="llama-3.1-8b-sft", **values)
    return Portfolio(title="t", baseline="hgx-b200", workloads=(entry,))


def test_an_entry_without_gpus_is_left_alone() -> None:
    assert portfolio_at_scale(_study(_entry()), SimpleNamespace(systems=()), []) == ()  # type: ignore[arg-type]


def test_levers_of_the_list_are_studied_at_their_steps() -> None:
    wide = apply_lever(BASE, "hbm_bandwidth", 2.0)
    point = SimpleNamespace(label="x2", factor=2.0)
    result = SimpleNamespace(lever="hbm_bandwidth", title="HBM bandwidth")
    picks: Any = [SimpleNamespace(result=result, point=point, index=0),
                  SimpleNamespace(result=result, point=None, index=-1)]  # fmt: skip
    evaluation: Any = SimpleNamespace(systems=(wide,))
    found = portfolio_at_scale(_study(_entry(gpus=16)), evaluation, picks)
    assert [(x.lever, x.factor) for x in found[0].levers] == [("hbm_bandwidth", 2.0)]
    assert found[0].gpus == 16
    assert 1.0 < found[0].levers[0].replanned.value <= 2.0


@pytest.mark.parametrize(
    ("line", "message"),
    [("gpus: 0", "expected 1 to"), ("gpus: 10000000", "expected 1 to"),
     ("gpus: many", "gpus")],
)  # fmt: skip
def test_a_bad_number_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "title: t\nbaseline: hgx-b200\nworkloads:\n"
        f"  - {{recipe: llama-3.1-8b-sft, weight: 1, {line}}}\n",
        encoding="utf-8",
    )
    with pytest.raises(DataError, match=message):
        load_portfolio(path)


def test_only_a_training_recipe_can_be_spread(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    text = "title: t\nbaseline: hgx-b200\nworkloads:\n  - {%s, weight: 1, gpus: 64}\n"
    path.write_text(text % "characterization: x.parquet", encoding="utf-8")
    with pytest.raises(DataError, match=r"workloads\[0\].gpus: only a recipe"):
        load_portfolio(path)
    path.write_text(text % "recipe: llama-3.1-70b-rollout-decode", encoding="utf-8")
    with pytest.raises(DataError, match=r"workloads\[0\].gpus: .*no training step"):
        portfolio_at_scale(_study(load_portfolio(path)), SimpleNamespace(systems=()), [])  # type: ignore[arg-type]
