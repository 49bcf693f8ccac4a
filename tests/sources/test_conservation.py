"""Whatever the source: the parts of every step, and the rows of the table, add up to the step."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.sources import read
from codesign.workload.characterization import Characterization

_FILES = (
    "kineto/graph_execution.json.gz",
    "kineto/h100_Falconsai_nsfw_image_detection__1016002.json.gz",
    "kineto/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "kineto/h100_gaunernst_bert-small-uncased__1016001.json.gz",
    "kineto/mi300_Falconsai_nsfw_image_detection__1016002.json.gz",
    "kineto/mi300_gaunernst_bert-small-uncased__1016001.json.gz",
    "kineto/nccl_data.json.gz",
    "kineto/sampled_rank-0.json.gz",
    "kineto/sampled_rank-1.json.gz",
    "kineto/sglang_Qwen3-8B_decode.json.gz",
    "kineto/worker0.1623143089861.pt.trace.json.gz",
    "kineto/worker0.1623143566756.pt.trace.json.gz",
    "kineto_edge/triton_example.json.gz",
    "nsys/h100_matmul.sqlite",
    "xplane/tw003.xplane.pb",
)
_NS = 1e-12
"""Far below the nanosecond that times are known to."""


@pytest.mark.parametrize("name", _FILES)
def test_parts_of_each_step_add_up_to_it(shared_data: Path, name: str) -> None:
    header = read(shared_data / name).header
    assert header.steps
    for step in header.steps:
        busy_s = step.compute_s + step.exposed_comm_s + step.exposed_copy_s
        assert busy_s + step.idle_s == pytest.approx(step.time_s, rel=1e-12, abs=_NS)
        assert busy_s <= step.time_s + _NS
        assert step.exposed_comm_s <= step.comm_s + _NS
        assert step.comm_s <= step.time_s + _NS
        for part in (step.host_bound_s or 0.0, step.stall_s):
            assert 0.0 <= part <= step.idle_s + _NS


@pytest.mark.parametrize("name", _FILES)
def test_rows_and_idle_time_are_the_step(shared_data: Path, name: str) -> None:
    char = read(shared_data / name)
    ops, header = char.ops, char.header
    assert header.step_time_s is not None
    total = float(ops["exposed_s"].sum()) + header.idle_s
    assert total == pytest.approx(header.step_time_s, rel=1e-12, abs=_NS)
    assert (ops["exposed_s"] <= ops["time_s"] + _NS).all()
    _totals(char)


def _totals(char: Characterization) -> None:
    """Over the capture: compute and what communication it leaves exposed are the busy time."""
    found = char.header.totals
    assert found["busy_s"] <= found["span_s"] + _NS
    assert found["busy_s"] <= found["kernel_time_s"] + _NS
    assert found["compute_s"] + found["exposed_comm_s"] == pytest.approx(found["busy_s"], rel=1e-12)
    assert found["overlap_s"] + found["exposed_comm_s"] == pytest.approx(found["comm_s"], rel=1e-12)


def test_two_ranks_wait_no_longer_than_they_communicate(shared_data: Path) -> None:
    files = [shared_data / f"kineto/sampled_rank-{r}.json.gz" for r in (0, 1)]
    char = read(files)
    for rank in char.header.rank_times:
        assert rank.wait_s is not None
        assert rank.transfer_s is not None
        assert rank.wait_s + rank.transfer_s <= rank.comm_s + _NS
    talks = char.ops[char.ops["op_class"] == "collective"]
    assert (talks["wait_s"].fillna(0.0) <= talks["time_s"] + _NS).all()
