"""Real traces against totals that were computed independently of this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codesign._common.errors import DataError
from codesign.sources.kineto import read_kineto

_TIMES = {
    "kernel_sum_us": "kernel_time_s", "busy_union_us": "busy_s", "span_us": "span_s",
    "comm_union_us": "comm_s", "compute_union_us": "compute_s", "overlap_us": "overlap_s",
    "exposed_comm_us": "exposed_comm_s",
}  # fmt: skip
_FILES = [
    "kineto/graph_execution.json.gz",
    "kineto/h100_Falconsai_nsfw_image_detection__1016002.json.gz",
    "kineto/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "kineto/h100_gaunernst_bert-small-uncased__1016001.json.gz",
    "kineto/mi300_Falconsai_nsfw_image_detection__1016002.json.gz",
    "kineto/mi300_gaunernst_bert-small-uncased__1016001.json.gz",
    "kineto/nccl_data.json.gz", "kineto/sampled_rank-0.json.gz", "kineto/sampled_rank-1.json.gz",
    "kineto/sglang_Qwen3-8B_decode.json.gz", "kineto/worker0.1623143089861.pt.trace.json.gz",
    "kineto/worker0.1623143566756.pt.trace.json.gz",
    "kineto_edge/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "kineto_edge/rank_non_gpu.json.gz", "kineto_edge/triton_example.json.gz",
]  # fmt: skip


@pytest.fixture(scope="module")
def expectations(shared_data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_data / "expectations.json").read_text())
    return found


def test_every_expected_file_is_tried(expectations: dict[str, Any]) -> None:
    assert sorted(expectations) == sorted(_FILES)


@pytest.mark.parametrize("name", _FILES)
def test_real_trace(shared_data: Path, expectations: dict[str, Any], name: str) -> None:
    expected = expectations[name]
    path = shared_data / name
    if not expected["kernels"]:
        with pytest.raises(DataError, match="no device activity"):
            read_kineto(path)
        return
    char = read_kineto(path)
    totals, header = char.header.totals, char.header
    assert totals["kernels"] == expected["kernels"]
    for theirs, ours in _TIMES.items():
        # 0.05 us: their values are rounded to a tenth.
        assert totals[ours] * 1e6 == pytest.approx(expected[theirs], rel=0.01, abs=0.051), theirs
    assert header.quality.orphan_kernels == expected["orphan_kernels"]
    named = [s for s in expected["steps"] if s.startswith("ProfilerStep")]
    if named:
        assert header.quality.steps_by == "ProfilerStep"
        assert set(named) <= {s.name for s in header.steps}
    assert header.quality.clipped_events == 0
    assert sum(s.kernels for s in header.steps) == expected["kernels"]


@pytest.mark.parametrize("name", [f for f in _FILES if "edge" not in f])
def test_real_trace_adds_up(shared_data: Path, expectations: dict[str, Any], name: str) -> None:
    char = read_kineto(shared_data / name)
    header, ops = char.header, char.ops
    assert header.step_time_s is not None
    total = ops["exposed_s"].sum() + header.idle_s
    assert total == pytest.approx(header.step_time_s, rel=1e-12)
    for step in header.steps:
        parts = step.compute_s + step.exposed_comm_s + step.exposed_copy_s + step.idle_s
        assert parts == pytest.approx(step.time_s, rel=1e-12)
        assert min(parts, step.idle_s, step.compute_s, step.exposed_comm_s) >= 0
        assert step.host_bound_s is None or 0 <= step.host_bound_s <= step.idle_s + 1e-12
    assert (ops["exposed_s"] <= ops["time_s"] * (1 + 1e-9) + 1e-12).all()
    kernels = ops[~ops["kernel"].str.startswith(("Memcpy", "Memset"))]
    per_step = header.totals["kernel_time_s"] / max(1, len(header.steps))
    assert kernels["time_s"].sum() == pytest.approx(per_step, rel=1e-9)


@pytest.mark.parametrize("name", [f for f in _FILES if "edge" not in f])
def test_classes_agree_with_the_expected_families(
    shared_data: Path, expectations: dict[str, Any], name: str
) -> None:
    ops = read_kineto(shared_data / name).ops
    ops = ops[~ops["kernel"].str.startswith(("Memcpy", "Memset"))]
    share = ops.groupby("op_class")["time_s"].sum() / ops["time_s"].sum()

    def of(*classes: str) -> float:
        return float(sum(share.get(c, 0.0) for c in classes))

    expected = expectations[name]["fraction_of_kernel_time"]
    assert of("collective") == pytest.approx(expected.get("comm", 0.0), abs=0.002)
    # Their family "attention" may hold the kernels that write the cache.
    assert of("attention") == pytest.approx(expected.get("attention", 0.0), abs=0.015)
    if "sampled" not in name and "nccl_data" not in name:
        # Not where embedding tables and layout changes of convolutions count as GEMM.
        assert of("gemm", "grouped_gemm", "conv") == pytest.approx(expected["gemm"], abs=0.03)
