"""Memory against published runs, hand counts, and what is known to fit or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.memory import attention_activations, memory_of, plain_activations
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.published import read_bridge, read_steps
from codesign.cluster.run_file import read_runs
from codesign.cluster.shares import Shares
from codesign.hardware import load_system
from codesign.workload.model_config import ModelConfig

SHIPPED = Path(__file__).resolve().parents[2] / "benchmarks" / "published_runs.yaml"


def _needed(job: Job, plan: Plan) -> float:
    return float(memory_of(Shares.of(job, Plans.of([plan]))).needed_bytes[0])


def test_the_published_steps_are_within_two_percent(shared_data: Path) -> None:
    """Llama-3-70B with 12 layers on 8 B200; the bar is 5 %, and nothing was fitted."""
    runs = list(read_steps(shared_data / "tables" / "b200_training_steps.csv"))
    assert len(runs) >= 16
    for run in runs:
        memory = memory_of(Shares.of(run.job, Plans.of([run.plan])))
        assert run.allocated_bytes is not None
        assert memory.allocated_bytes[0] == pytest.approx(run.allocated_bytes, rel=0.02)


def test_nearly_all_published_plans_fit(shared_data: Path) -> None:
    """They ran; what the table leaves out (offloading, sharding) explains the few that do not."""
    runs = list(read_bridge(shared_data / "tables" / "megatron_bridge_training_throughput.csv"))
    fits = []
    for run in runs:
        memory = memory_of(Shares.of(run.job, Plans.of([run.plan])))
        capacity = np.array([load_system(run.system).gpu.hbm_capacity_bytes])
        fits.append(bool(memory.fits(capacity)[0, 0]))
    assert len(runs) > 100
    assert np.mean(fits) > 0.88


def test_state_of_mixed_precision_is_18_bytes_a_parameter() -> None:
    model = load_model_config("llama-3-8b")
    memory = memory_of(Shares.of(Job(model, 1, 1, 512), Plans.of([Plan(zero=0)])))
    state = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    assert state[0] == pytest.approx(18 * model.parameters(), rel=1e-6)


def test_zero_shards_what_its_level_says() -> None:
    model = load_model_config("llama-3-8b")
    job = Job(model, 64, 64, 512)
    plans = Plans.of([Plan(dp=64, zero=z) for z in (0, 1, 2, 3)])
    memory = memory_of(Shares.of(job, plans))
    n = model.parameters()
    assert memory.optimizer_bytes == pytest.approx(12 * n / np.array([1, 64, 64, 64]))
    assert memory.gradients_bytes == pytest.approx(4 * n / np.array([1, 1, 64, 64]))
    assert memory.weights_bytes == pytest.approx(2 * n / np.array([1, 1, 1, 64]))


def test_recomputation_keeps_less() -> None:
    job = Job(load_model_config("llama-3-70b"), 64, 64, 8192)
    plans = Plans.of([Plan(tp=8, dp=8, recompute=r) for r in ("none", "selective", "full")])
    kept = memory_of(Shares.of(job, plans)).activations_bytes
    assert kept[0] > kept[1] > kept[2]
    # Full: a layer's input, 8192 tokens x 8192 / 8 x 2 B, for 80 layers and the embedding,
    # and one layer in full.
    boundary = 8192 * 8192 / 8 * 2
    assert kept[2] == pytest.approx(81 * boundary + (kept[0] - boundary) / 80, rel=1e-6)


def test_deepseek_v3_fits_the_80_gb_of_its_published_run() -> None:
    """2048 H800, pp 16, ep 64, DualPipe, selective recomputation (arXiv:2412.19437)."""
    job = Job(
        load_model_config("deepseek-v3"), 2048, 15360, 4096, precision="fp8_block",
        moment_bytes=2.0, gradient_bytes=4.0, framework=Framework(swiglu_bytes=1.03),
    )  # fmt: skip
    plan = Plan(pp=16, ep=64, dp=128, recompute="selective", schedule="dualpipe")
    assert _needed(job, plan) < 1.068 * 80e9


@pytest.mark.parametrize(
    ("name", "gpus", "plan"),
    [("llama-3-70b", 8, Plan(tp=8)), ("llama-3.1-405b", 64, Plan(tp=8, pp=8)),
     ("deepseek-v3", 64, Plan(ep=64, dp=64))],
)  # fmt: skip
def test_what_cannot_fit_80_gb_does_not(name: str, gpus: int, plan: Plan) -> None:
    """State alone: 70e9 x 18 / 8 = 158 GB; 405e9 x 18 / 64 = 114 GB; DeepSeek-V3 with experts
    over 64 ranks and no pipeline, (17e9 + 654e9 / 64) x 6 = 163 GB."""
    assert _needed(Job(load_model_config(name), gpus, gpus, 4096), plan) > 1.068 * 80e9


def test_offloaded_layers_leave_the_gpu() -> None:
    model = load_model_config("llama-3-70b")
    kept = [
        memory_of(Shares.of(Job(model, 64, 64, 8192, framework=Framework(offload=o)),
                            Plans.of([Plan(dp=64, zero=3)]))).activations_bytes[0]
        for o in (0.0, 0.5)
    ]  # fmt: skip
    assert kept[1] == pytest.approx(kept[0] / 2, rel=0.02)


def test_allocated_memory_of_published_steps() -> None:
    """27 steps of Llama-3.1-405B, DeepSeek-V2 and -V3 cut to four layers on B200, tp, pp, ep, cp
    and sequences varied (SimuMax 1.2): nothing here is fitted to them.
    """
    runs = [r for r in read_runs(SHIPPED) if r.allocated_bytes]
    assert len(runs) == 27
    for run in runs:
        memory = memory_of(Shares.of(run.job, Plans.of([run.plan])))
        assert run.allocated_bytes is not None
        assert float(memory.allocated_bytes[0]) == pytest.approx(run.allocated_bytes, rel=0.02)


def test_activations_of_gpt_are_those_of_the_paper() -> None:
    """Korthikanti et al. 2022, arXiv:2205.05198: 34 s b h bytes a layer, 2 of them the masks of
    two dropouts, which current models have none of; the softmax statistics are 4 s b heads more.
    """
    hidden, length, heads = 8192, 2048, 64
    gpt = ModelConfig(hidden_size=hidden, num_hidden_layers=4, num_attention_heads=heads,
                      vocab_size=1000, intermediate_size=4 * hidden, gated=False)  # fmt: skip
    for tp in (1, 8):
        shares = Shares.of(Job(gpt, tp, 1, length), Plans.of([Plan(tp=tp)]))
        kept = float((attention_activations(shares) + plain_activations(shares))[0])
        assert kept == (32 * length * hidden + 4 * length * heads) / tp
