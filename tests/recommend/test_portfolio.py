"""The portfolio file: what it holds, and one clear line for what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.hardware import list_systems
from codesign.recommend.portfolio import list_portfolios, load_portfolio, reweighted
from codesign.workload.recipe import list_recipes

GOOD = """
title: t
baseline: hgx-h100
workloads:
  - {recipe: a, weight: 0.25}
  - {trace: "runs/b-*.json.gz", weight: 0.75}
levers:
  hbm_bandwidth: [1.5, "5 TB/s"]
"""


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return path


def test_shipped_portfolios_name_shipped_recipes_and_systems() -> None:
    assert {"default", "decode"} <= set(list_portfolios())
    for name in list_portfolios():
        portfolio = load_portfolio(name)
        assert portfolio.baseline in list_systems()
        assert {e.recipe for e in portfolio.workloads} <= set(list_recipes())
        assert sum(e.weight for e in portfolio.workloads) == pytest.approx(1.0)
        assert not portfolio.notes


def test_a_file_is_read_with_its_hash(tmp_path: Path) -> None:
    portfolio = load_portfolio(_write(tmp_path, GOOD))
    assert portfolio.levers == {"hbm_bandwidth": (1.5, "5 TB/s")}
    assert portfolio.names == ("a", "b-*")
    assert len(portfolio.sha256) == 64


def test_weights_are_normalised_and_it_is_said(tmp_path: Path) -> None:
    portfolio = load_portfolio(_write(tmp_path, GOOD.replace("0.75", "0.25")))
    assert [e.weight for e in portfolio.workloads] == [0.5, 0.5]
    assert portfolio.notes == ("weights added up to 0.5 and were divided by it",)


def test_weights_may_be_any_scale_such_as_gpus(tmp_path: Path) -> None:
    text = GOOD.replace("0.75", "3e3").replace("0.25", "1000")
    portfolio = load_portfolio(_write(tmp_path, text))
    assert [e.weight for e in portfolio.workloads] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("title: t", "titel: t", "unknown field `titel`; allowed: .*scenarios, notes$"),
        ("weight: 0.25", 'weight: "a"', r"workloads\[0\].weight"),
        ("weight: 0.25", "weight: -1", r"workloads\[0\].weight: -1"),
        ("weight: 0.25", "weight: .nan", r"workloads\[0\].weight: nan"),
        ("recipe: a", "recipe: a, trace: b", "exactly one of"),
        ("recipe: a, ", "", "exactly one of"),
        ("[1.5,", "[-1.5,", r"levers.hbm_bandwidth\[0\]"),
        ("[1.5,", "[1e9,", r"levers.hbm_bandwidth\[0\]: 1e\+09, expected a factor of"),
        ("[1.5,", '["x1e9",', r"levers.hbm_bandwidth\[0\]: 1e\+09"),
        ("[1.5,", '["50%",', r"levers.hbm_bandwidth\[0\]: .*such as \+50%"),
        ("5 TB/s", "5 TBs", r"levers.hbm_bandwidth\[1\]: .*converts to byte/s"),
        ('[1.5, "5 TB/s"]', "[]", "levers.hbm_bandwidth: empty; expected at least one"),
        ('[1.5, "5 TB/s"]', str([1.5] * 51), "levers.hbm_bandwidth: 51 steps, expected at most"),
        ('hbm_bandwidth: [1.5, "5 TB/s"]', "nvlink_domain: [72]",
         r"levers.nvlink_domain\[0\]: 72 would be a factor, x72; write '72 GPUs' for the value"),
        ("hbm_bandwidth:", "warp:", "levers.warp: unknown lever 'warp'; known: bf16_throughput"),
        ("weight: 0.25", "weight: 1.0e+308}\n  - {recipe: c, weight: 1.7e+308", "add up to more"),
        ("title: t", "title: t\ndraws: 3", "draws: 3, expected 10"),
        ("title: t", "title: t\nranking: gold", "ranking"),
        ("title: t", "title: t\nsha256: x", "sha256"),
        ("title: t", "title: t\nrequested: {draws: 20}", "requested"),
        ("title: t", "title: t\nbudgets: {money: -1}", "budgets.money"),
        ("trace: \"runs/b-*.json.gz\"", "recipe: a", "twice"),
        ("title: t", "title: [", "not valid YAML"),
    ],
)  # fmt: skip
def test_bad_content_names_file_and_key(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    path = _write(tmp_path, GOOD.replace(before, after, 1))
    with pytest.raises(DataError, match=message) as error:
        load_portfolio(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"unknown portfolio 'nope'; known: decode, default"):
        load_portfolio("nope")
    with pytest.raises(DataError, match="No such file"):
        load_portfolio("/nowhere/p.yaml")


def test_one_weight_moves_the_others_in_proportion(tmp_path: Path) -> None:
    portfolio = load_portfolio("default")
    changed = reweighted(portfolio, {"deepseek-v3-pretrain-fp8": 0.5})
    weights = {e.name: e.weight for e in changed.workloads}
    assert weights["deepseek-v3-pretrain-fp8"] == 0.5
    # 0.15 of the remaining 0.75 becomes the same part of 0.5.
    assert weights["llama-3.1-70b-pretrain-bf16"] == pytest.approx(0.1)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert "deepseek-v3-pretrain-fp8 = 0.5" in changed.notes[-1]


def test_weights_that_cannot_be_are_refused(tmp_path: Path) -> None:
    portfolio = load_portfolio(_write(tmp_path, GOOD))
    for weights, message in [
        ({"zzz": 0.5}, "unknown workload 'zzz'"),
        ({"a": 1.5}, "expected 0 to 1"),
        ({"a": 0.7, "b-*": 0.7}, "add up to 1.4"),
        ({"a": 0.2, "b-*": 0.2}, "expected 1"),
    ]:
        with pytest.raises(UsageError, match=message):
            reweighted(portfolio, weights)
