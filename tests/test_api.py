"""The public Python API: names, laziness, and that it takes names and text."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import codesign
from codesign._common.errors import UsageError
from codesign.hardware import load_system
from tests.projection.fakes import FakeModel, characterization, gemm
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, codesign; heavy = {'numpy', 'pandas', 'scipy', 'statsmodels', 'pyarrow', "
        "'msgspec', 'yaml', 'pint', 'click', 'torch'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there_and_others_are_not() -> None:
    for name in codesign.__all__:
        assert callable(getattr(codesign, name)), name
        assert name in dir(codesign)
    assert codesign.__version__
    with pytest.raises(AttributeError, match="no attribute 'reccomend'"):
        codesign.reccomend  # noqa: B018


def test_project_takes_systems_names_and_levers() -> None:
    char = characterization([gemm(1.0, 1e12, 1e12)], system="hgx-h100")
    wanted: list[Any] = ["hbm_bandwidth=+50%", "hbm_bandwidth=x2,launch_latency=-50%",
                         "hgx-h200", load_system("hgx-b200")]  # fmt: skip
    proj = codesign.project(char, FakeModel(), wanted, draws=0)  # type: ignore[arg-type]
    assert [s.gpu.name for s in proj.systems] == ["h100-sxm", "h100-sxm", "h200-sxm", "b200-sxm"]
    assert proj.systems[1].levers == (("hbm_bandwidth", 2.0), ("launch_latency", 0.5))
    assert proj.gain[0].value == pytest.approx(1.5, rel=1e-3)
    # 3.35 -> 4.8 TB/s is the whole story of a memory-bound op on H200.
    assert proj.gain[2].value == pytest.approx(4.8 / 3.35, rel=1e-3)
    one = codesign.project(char, FakeModel(), "hbm_bandwidth=x1", draws=0)  # type: ignore[arg-type]
    assert one.gain[0].value == 1.0
    with pytest.raises(UsageError, match="unknown system"):
        codesign.project(char, FakeModel(), "hgx-h1000", draws=0)  # type: ignore[arg-type]


def test_results_print_on_one_short_line() -> None:
    rows = [gemm(1.0, 1e12, 1e12)] * 50
    char = characterization(rows, system="hgx-h100", workload="sft")
    proj = codesign.project(char, FakeModel(), ["hbm_bandwidth=x2"] * 9, draws=5)  # type: ignore[arg-type]
    for result, said in [(char, "sft on hgx-h100: 50 ops, step 50 s"), (proj, "sft from hgx-h100")]:
        assert said in repr(result)
        assert len(repr(result)) < 400
        assert "\n" not in repr(result)
    assert "5 more" in repr(proj)


def test_recommend_is_a_function_and_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import codesign.recommend.portfolio as module

    monkeypatch.setattr("codesign.hardware.load_system", lambda name: BASE)
    recs = codesign.recommend(portfolio(), IdentifiedModel(), characterizations=chars())
    assert recs.recommendations[0].gain.value > 1
    assert "'toy' against toy-8: 7 ranked, first" in repr(recs)
    assert len(repr(recs)) < 200
    assert module.Portfolio is codesign.recommend.Portfolio
