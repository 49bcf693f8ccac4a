"""Published tables: how rows are read, and that calibration finds what made the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from codesign.cluster.calibrate import calibrate, predict, prepare, score, system_ratios
from codesign.cluster.efficiency import PRIOR_SD, UNCALIBRATED, Efficiency
from codesign.cluster.published import model_of, read_bridge, read_steps
from tests.cluster.fakes import Roofline

HEADER = "release,system,model,gpus,precision,gbs,mbs,seq,fsdp,tp,pp,cp,vp,ep,tok_s_gpu,tflops,malformed,file\n"  # noqa: E501
ROWS = """\
26.04 NeMo Container,DGX-H100,LLAMA3_70B,64,FP8,256,1,8192,0,4,8,1,5,n/a,1633,734,0,x.md
25.11 NeMo Container,DGX-GB200,LLAMA3_8B,8,FP8-CS (FP8-MX),128,2,8192,0,1,1,1,n/a,1,31508 (29789),1622 (1533),0,x.md
25.11 NeMo Container,DGX-GB200,DeepSeekV3 (w/o MTP),256,BF16,4096,1,4096,0,1,4,1,4,64,3139,782,0,x.md
26.06 NeMo Container,DGX-GB200,LLAMA3_70B,8,FP8,32,1,4096,,1,2,1,20,n/a,6206,1731,0,x.md
26.06 NeMo Container,DGX-GB200,LLAMA3_70B,8,FP8,32,1,4096,,1,2,1,20,n/a,garbled,1731,1,x.md
26.06 NeMo Container,DGX-GB200,SomethingElse,8,FP8,32,1,4096,,1,2,1,20,n/a,6206,1731,0,x.md
"""  # noqa: E501


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table in the layout of the published one."""
    path = tmp_path / "throughput.csv"
    path.write_text(HEADER + ROWS, encoding="utf-8")
    return path


def test_rows_become_jobs_and_plans(table: Path) -> None:
    runs = list(read_bridge(table))
    assert [(r.job.name, r.job.precision) for r in runs] == [
        ("llama-3-70b", "fp8"), ("llama-3-8b", "fp8"), ("llama-3-8b", "mxfp8"),
        ("deepseek-v3", "bf16"), ("llama-3-70b", "fp8"),
    ]  # fmt: skip
    first = runs[0]
    assert (first.plan.tp, first.plan.pp, first.plan.vpp, first.plan.dp) == (4, 8, 5, 2)
    assert first.tokens_per_s_gpu == pytest.approx(1633)
    assert [r.tokens_per_s_gpu for r in runs[1:3]] == pytest.approx([31508, 29789])
    assert not runs[3].job.mtp
    # 1731 TFLOP/s at 6206 tokens/s are 4 FLOPs a parameter: adapters, no weight gradients.
    assert [r.job.lora for r in runs] == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("name", "shape"),
    [("LLAMA3.1_405B", "llama-3.1-405b"), ("Qwen3_30B_a3B (tokendrop)", "qwen3-30b-a3b"),
     ("DeepSeekV3 (w/ MTP)", "deepseek-v3"), ("llama3_70b", "llama-3-70b"),
     ("Qwen3_235B_a22b", "qwen3-235b-a22b"), ("mixtral-8x7b", "mixtral-8x7b")],
)  # fmt: skip
def test_names_of_models_are_found(name: str, shape: str) -> None:
    assert model_of(name) == shape


def test_calibration_finds_the_parameters_that_made_the_data(shared_data: Path) -> None:
    truth = msgspec.structs.replace(UNCALIBRATED, gemm=1.4, gap_s=1e-3)
    runs = list(read_steps(shared_data / "tables" / "b200_training_steps.csv"))
    prepared = prepare(runs, Roofline())
    seconds = predict(prepared, truth)
    data = [replace(p, run=replace(p.run, step_s=float(s)))
            for p, s in zip(prepared, seconds, strict=True)]  # fmt: skip
    found = calibrate(data, names=["gemm", "gap_s"])
    assert found.gemm == pytest.approx(1.4, rel=0.03)
    assert found.gap_s == pytest.approx(1e-3, rel=0.15)
    scores = score(data, predict(data, found))
    assert scores.median < 0.01
    assert scores.rank > 0.99


def test_perfect_predictions_score_perfectly(table: Path) -> None:
    prepared = prepare(list(read_bridge(table)), Roofline())
    measured = np.array([p.run.step_s for p in prepared])
    scores = score(prepared, measured)
    assert (scores.median, scores.bias) == (0.0, 0.0)
    assert scores.rank == pytest.approx(1.0)
    assert not system_ratios(prepared, measured).any()


def test_parameters_are_named_once() -> None:
    fields = set(Efficiency.__struct_fields__)
    assert set(PRIOR_SD) <= fields


def test_a_sparse_model_counted_leanly_is_not_taken_for_adapters(tmp_path: Path) -> None:
    """gpt-oss-120b, 26.02 on GB200: 428 TFLOP/s at 15,784 tokens/s are 27.1 GFLOP a token. Of
    5.13 billion active weights without the embedding, 4 FLOPs each would be 20.5, 6 are 30.8.
    """
    path = tmp_path / "t.csv"
    row = "26.02 NeMo Container,DGX-GB200,GPT OSS 120B,64,BF16,1280,4,4096,0,1,1,1,n/a,64,15784,428"
    path.write_text(f"{HEADER}{row},0,x.md\n", encoding="utf-8")
    (run,) = read_bridge(path)
    assert (run.job.name, run.job.lora) == ("gpt-oss-120b", False)


def test_models_of_the_step_table_are_cut_to_their_layers(tmp_path: Path) -> None:
    """SimuMax ran DeepSeek-V3 with four layers, the first of them plain, not the model's three."""
    path = tmp_path / "steps.csv"
    path.write_text(
        "model,layers,tp,pp,dp,cp,ep,sequence,micro_batches,measured_ms,measured_alloc_gib\n"
        "deepseekv3,4,1,1,8,1,8,4096,8,1101.70,104.30\n", encoding="utf-8",
    )  # fmt: skip
    (run,) = read_steps(path)
    assert (run.job.model.num_hidden_layers, run.job.model.dense_layers) == (4, 1)
    assert run.job.global_batch == 64
    assert run.allocated_bytes == 104.30 * 2**30


@pytest.mark.parametrize(
    ("row", "graphs", "dispatcher", "recompute"),
    [
        ("DGX-GB300,GPT OSS 120B,64,BF16,1280,4,4096,0,1,1,1,n/a,64,19412", "partial",
         "all_to_all", "none"),
        ("DGX-GB200,GPT OSS 120B,64,BF16,1280,4,4096,0,1,1,1,n/a,64,15784", "none",
         "all_to_all", "selective"),
        ("DGX-GB200,Qwen3_235B_a22B,256,MXFP8,8192,1,4096,0,1,8,1,n/a,32,5448", "partial",
         "hybrid", "none"),
        ("DGX-B300,Qwen3_235B_a22B,256,MXFP8,8192,1,4096,0,1,8,1,4,8,2691", "none",
         "all_to_all", "none"),
    ],
)  # fmt: skip
def test_frameworks_are_those_of_the_public_configurations(
    tmp_path: Path, row: str, graphs: str, dispatcher: str, recompute: str
) -> None:
    """Megatron Bridge, scripts/performance/configs of the release in question."""
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}26.02 NeMo Container,{row},,0,x.md\n", encoding="utf-8")
    (run,) = read_bridge(path)
    framework = run.job.framework
    assert (framework.graphs, framework.dispatcher) == (graphs, dispatcher)
    assert run.plan.recompute == recompute


def test_rows_of_systems_that_the_library_lacks_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    row = "NeMo Container,DGX-{},LLAMA3_8B,8,BF16,128,1,8192,0,1,1,1,n/a,n/a,10000,500,0,x.md"
    lines = [f"26.02 {row.format(name)}" for name in ("VR200", "H100")]
    path.write_text("\n".join([HEADER.strip(), *lines]) + "\n", encoding="utf-8")
    assert [run.system for run in read_bridge(path)] == ["hgx-h100"]
