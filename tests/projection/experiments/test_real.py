"""Every shipped record against the installed kernel tables: a stated ratio cannot rot."""

from __future__ import annotations

from typing import Any

import pytest

from codesign.projection.experiments.records import Experiment, load_experiments

COMPUTED = [e for e in load_experiments() if e.measured.by == "kernels"]
LIGHT = ("gemm", "quantize", "collective")
"""Op classes whose tables are read in a second or two."""


@pytest.fixture(scope="module")
def db() -> Any:
    pytest.importorskip("aiconfigurator_core")
    from codesign.projection.experiments.run import CachedTables
    from codesign.sources.perfdb import PerfDB

    return CachedTables(PerfDB())


@pytest.mark.perfdb
@pytest.mark.parametrize(
    "experiment",
    [
        pytest.param(
            e, id=e.name,
            marks=() if e.kernels and e.kernels.op_class in LIGHT else pytest.mark.slow,
        )
        for e in COMPUTED
    ],
)  # fmt: skip
def test_the_tables_give_the_stated_ratio(experiment: Experiment, db: Any) -> None:
    from codesign.projection.experiments.run import _today, check_experiment

    assert check_experiment(experiment, db) == ""
    _, today, why = _today(experiment, db)
    assert today is not None, why
    assert today.n == experiment.measured.n


@pytest.mark.perfdb
def test_decode_gemms_gain_what_plain_pandas_finds() -> None:
    """H100 to H200, bf16, m <= 16, n k >= 64 M: read from the files without codesign."""
    core = pytest.importorskip("aiconfigurator_core")
    from pathlib import Path

    import pandas as pd

    data = Path(core.__file__).parent / "systems" / "data"
    tables = []
    for gpu in ("h100_sxm", "h200_sxm"):
        (path,) = (data / gpu / "gemm" / "trtllm").glob("1.3.0rc20/gemm_perf.parquet")
        raw = pd.read_parquet(path, columns=["gemm_dtype", "m", "n", "k", "latency"])
        raw = raw[(raw.gemm_dtype == "bfloat16") & (raw.m <= 16) & (raw.n * raw.k >= 64e6)]
        tables.append(raw.groupby(["m", "n", "k"]).latency.min())
    ratio = (tables[0] / tables[1]).dropna()
    (stated,) = load_experiments(("h200-decode-gemm-bf16-trtllm",))
    assert ratio.median() == pytest.approx(stated.measured.ratio, rel=0.005)
    assert len(ratio) == stated.measured.n


@pytest.mark.perfdb
@pytest.mark.slow
def test_the_order_of_levers_is_the_one_that_shipped_parts_show(db: Any) -> None:
    """The bar itself: fitted without H200 and Blackwell, for every default workload on H100."""
    from codesign.projection.experiments.order import HOLD_OUT, lever_orders
    from codesign.projection.experiments.run import fit_on, training_gpus
    from codesign.workload.recipe import list_recipes

    model = fit_on(db, training_gpus(db, HOLD_OUT))
    assert not set(model.trained_on) & set(HOLD_OUT)
    rows = lever_orders(db, model)
    assert {r.workload for r in rows} == set(list_recipes())
    assert [(r.workload, r.reversed) for r in rows if r.agrees is False] == []
    # H200 shows it beyond noise: decode lives on HBM bandwidth, training does not.
    largest = {r.workload: r.levers[0].lever for r in rows}
    for name in ("llama-3.1-70b-decode-b16", "qwen3-235b-a22b-rollout-decode"):
        assert largest[name] == "hbm_bandwidth"
    assert largest["llama-3.1-70b-pretrain-bf16"] != "hbm_bandwidth"
