"""The order of events in a file says nothing."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from pathlib import Path

import pandas as pd
import pytest

from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization

from .traces import kernel, launch, op, write

_KEYS = ["op_class", "name", "kernel", "phase", "m", "n", "k", "message_bytes", "count", "time_s",
         "exposed_s"]  # fmt: skip


def rows(char: Characterization) -> pd.DataFrame:
    return char.ops[_KEYS].sort_values(_KEYS).reset_index(drop=True)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_ops_that_seem_to_run_at_the_same_time_the_later_numbered_is_inside(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Old traces have whole microseconds: a wrapper takes as long as what it wraps."""
    ops = [op(0, 50, name, external=i) for i, name in enumerate(
        ["aten::linear", "aten::matmul", "aten::mm"], start=1)]  # fmt: skip
    events = [*(ops[i] for i in order), launch(10, 1), kernel(20, 10, corr=1)]
    assert list(read_kineto(write(tmp_path, events)).ops["name"]) == ["aten::mm"]


@pytest.mark.parametrize("second", ["a_kernel", "z_kernel"])
@pytest.mark.parametrize("turned", [False, True])
def test_of_equally_long_kernels_of_a_call_the_first_names_it(
    tmp_path: Path, second: str, turned: bool
) -> None:
    kernels = [kernel(20, 10, "m_kernel", corr=1), kernel(30, 10, second, corr=2)]
    events = [op(0, 50, "aten::mm", external=1), launch(10, 1), launch(12, 2)]
    char = read_kineto(write(tmp_path, [*events, *(kernels[::-1] if turned else kernels)]))
    assert list(char.ops["kernel"]) == ["m_kernel"]


@pytest.mark.parametrize(
    "name", ["sampled_rank-0", "graph_execution", "mi300_gaunernst_bert-small-uncased__1016001"]
)
def test_a_real_trace_in_any_order(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / "kineto" / f"{name}.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    events = trace.pop("traceEvents")
    random.Random(7).shuffle(events)
    other, whole = read_kineto(write(tmp_path, events, **trace)), read_kineto(path)
    pd.testing.assert_frame_equal(rows(other), rows(whole), rtol=1e-12)
    assert other.header.totals == pytest.approx(whole.header.totals)
    assert other.header.quality == whole.header.quality
