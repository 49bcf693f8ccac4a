"""Where a portfolio's characterizations come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.recommend.characterizations import load_characterizations
from codesign.recommend.portfolio import WorkloadEntry
from tests.projection.fakes import characterization, gemm, system
from tests.recommend.cases import portfolio

BASE = system()


def _plan(tmp_path: Path, **entry: Any) -> Any:
    return portfolio(workloads=(WorkloadEntry(weight=1.0, **entry),), path=str(tmp_path / "p.yaml"))


def test_a_recipe_is_looked_up_by_name_in_the_folder(tmp_path: Path) -> None:
    characterization([gemm(1.0, 1, 1)], workload="mine").save(tmp_path / "mine.parquet")
    plan = _plan(tmp_path, recipe="elsewhere/mine.yaml")
    chars, files = load_characterizations(plan, BASE, tmp_path)
    assert chars["mine"].header.workload == "mine"
    assert files == (tmp_path / "mine.parquet",)


def test_a_characterization_is_relative_to_the_portfolio(tmp_path: Path) -> None:
    characterization([gemm(1.0, 1, 1)]).save(tmp_path / "run.parquet")
    chars, _ = load_characterizations(_plan(tmp_path, characterization="run.parquet"), BASE)
    assert len(chars["run"].ops) == 1


def test_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        load_characterizations(_plan(tmp_path, recipe="a"), BASE, tmp_path / "nope")
    with pytest.raises(DataError, match=r"p\.yaml: workloads\[0\]\.trace: .*no trace matches"):
        load_characterizations(_plan(tmp_path, trace="t-*.json"), BASE)
    with pytest.raises(DataError, match=r"workloads\[0\]\.characterization: .*no such file"):
        load_characterizations(_plan(tmp_path, characterization="x.parquet"), BASE)
    with pytest.raises(DataError, match=r"p\.yaml: workloads\[0\]\.recipe: unknown recipe"):
        load_characterizations(_plan(tmp_path, recipe="no-such-recipe"), BASE, tmp_path)


def test_a_folder_without_any_of_the_workloads_is_refused(tmp_path: Path) -> None:
    characterization([gemm(1.0, 1, 1)]).save(tmp_path / "other.parquet")
    plan = _plan(tmp_path, recipe="llama-3.1-8b-sft")
    with pytest.raises(UsageError, match=r"such as llama-3.1-8b-sft.parquet; there is none"):
        load_characterizations(plan, BASE, tmp_path)
