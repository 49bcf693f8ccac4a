"""The shipped recipes lie inside what the kernel tables measured."""

from pathlib import Path

import pandas as pd
import pytest

from codesign.workload.recipe import list_recipes, load_recipe
from codesign.workload.transformer import build_ops

pytestmark = pytest.mark.perfdb
GPUS = ("h100_sxm", "h200_sxm", "b200_sxm", "gb200")
DTYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block"}


@pytest.fixture(scope="module", params=GPUS)
def gemm_shapes(request):
    core = pytest.importorskip("aiconfigurator_core")
    folder = Path(core.__file__).parent / "systems/data" / request.param / "gemm/trtllm"
    table = pd.read_parquet(sorted(folder.glob("*/gemm_perf.parquet"))[-1])
    return {d: set(zip(t["m"], t["n"], t["k"], strict=True))
            for d, t in table.groupby("gemm_dtype")}  # fmt: skip


def enclosing(value, grid):
    return max(g for g in grid if g <= value), min(g for g in grid if g >= value)


def test_every_gemm_has_measured_neighbours_on_all_sides(gemm_shapes):
    for name in list_recipes():
        ops = build_ops(load_recipe(name))
        for op in ops[ops["op_class"] == "gemm"].itertuples():
            shapes = gemm_shapes[DTYPES[op.precision]]
            grids = [sorted({s[axis] for s in shapes}) for axis in range(3)]
            ends = [enclosing(v, g) for v, g in zip((op.m, op.n, op.k), grids, strict=True)]
            corners = {(m, n, k) for m in ends[0] for n in ends[1] for k in ends[2]}
            assert corners <= shapes, f"{name}: {op.name} {op.m} x {op.n} x {op.k}"
