"""From the traces of a GPU to a result, on a trace of a few events: five steps of one GEMM each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from codesign._common.errors import DataError
from codesign.capture.finish import finish

STEP_US = 1000.0


def event(category: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    device = category == "kernel"
    return {"ph": "X", "cat": category, "name": name, "pid": 0 if device else 1,
            "tid": 7 if device else 1, "ts": ts, "dur": dur, "args": args}  # fmt: skip


def traced(folder: Path, kernels: bool = True, **facts: Any) -> dict[str, Any]:
    """The status of a rank on an H200, and its trace."""
    events = []
    for i in range(1, 6):
        at = 1e6 + i * STEP_US
        shapes = {"Input Dims": [[1024, 512], [512, 2048]], "Input type": ["c10::BFloat16"] * 2}
        events += [
            event("user_annotation", f"ProfilerStep#{i}", at, STEP_US),
            event("cpu_op", "aten::mm", at + 5, 50, **{"External id": i, **shapes}),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 5, correlation=i,
                  **{"External id": i}),
        ]  # fmt: skip
        if kernels:
            events.append(event("kernel", "nvjet_gemm", at + 40, 900.0, device=0, stream=7,
                                correlation=i, **{"External id": i}))  # fmt: skip
    path = folder / "rank-0.pid-9.json"
    path.write_bytes(msgspec.json.encode({
        "schemaVersion": 1, "traceEvents": events,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
    }))  # fmt: skip
    return {
        "rank": 0, "pid": 9, "state": "saved", "steps": 12, "trace": str(path),
        "device": {"type": "cuda", "name": "NVIDIA H200", "uuid": "x", "sm_count": 132},
        "software": {"torch": "2.9.0", "cuda": "12.8", "nccl": "2.27.3"}, "world_size": 1,
        "plain_step_s": [1e-3, 1.1e-3, 0.9e-3], "profiled_step_s": [1.02e-3] * 5, **facts,
    }  # fmt: skip


def test_a_gpus_steps_work_and_versions(tmp_path: Path) -> None:
    char, paths = finish([traced(tmp_path)], workload="w")
    header = char.header
    assert (header.system, header.capture_method) == ("hgx-h200", "torch.profiler")
    assert header.step_time_s == pytest.approx(1e-3)
    (row,) = char.ops.to_dict("records")
    assert (row["op_class"], row["precision"], row["time_s"]) == ("gemm", "bf16", 0.9e-3)
    assert row["flops"] == 2 * 1024 * 512 * 2048
    assert header.totals["sm_count"] == 132
    assert header.software["nccl"] == "2.27.3"
    assert header.totals["profiling_overhead"] == pytest.approx(0.02)
    assert any("+2.0% (1.02 ms a step with it, 1.00 ms over 3 steps" in n for n in header.notes)
    assert header.quality.reliable("step_time")
    assert [p.name for p in paths] == ["rank-0.pid-9.json"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"plain_step_s": [0.85e-3] * 3}, "profiling slowed the step by 20%"),
        ({"profiled_step_s": [1.5e-3] * 5, "plain_step_s": [1.5e-3]}, "by the clock 1.50 ms"),
        ({"environment": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}}, "132 of 132 SMs"),
    ],
)
def test_what_makes_a_step_doubtful(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    quality = finish([traced(tmp_path, **facts)], workload="w")[0].header.quality
    assert not quality.reliable("step_time")
    assert any(said in warning for warning in quality.warnings)


def test_the_sms_of_a_green_context_are_those_that_count(tmp_path: Path) -> None:
    char, _ = finish([traced(tmp_path, described={"sms": 64, "phase": "forward"})], workload="w")
    assert char.header.totals["sm_count"] == 64
    assert char.header.phase == "forward"


def test_a_baseline_that_was_not_asked_for_leaves_the_overhead_unknown(tmp_path: Path) -> None:
    header = finish([traced(tmp_path, plain_step_s=[])], workload="w")[0].header
    assert "profiling_overhead" not in header.totals
    assert any("overhead of profiling: not measured" in note for note in header.notes)


def test_a_trace_without_the_gpus_work_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="saw no work of the GPU"):
        finish([traced(tmp_path, kernels=False)], workload="w")
