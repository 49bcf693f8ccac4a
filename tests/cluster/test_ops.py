"""FLOPs, ZeRO volumes and expert work of whole steps, counted from the kinds of ops."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codesign.cluster.grid import Kind
from codesign.cluster.job import Framework, Job, list_models, load_model_config
from codesign.cluster.ops import step_kinds
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.step import step_times
from codesign.cluster.summary import model_flops
from codesign.hardware import load_system
from codesign.workload.formulas import wire_factor
from codesign.workload.model_config import ModelConfig
from tests.cluster.fakes import PLAIN, Roofline

# Millions of parameters, all and active, as the models' cards and papers count them.
PUBLISHED = {
    "llama-3-8b": (8_030, 8_030), "llama-3-70b": (70_554, 70_554),
    "llama-3.1-405b": (405_853, 405_853), "qwen3-30b-a3b": (30_532, 3_300),
    "qwen3-235b-a22b": (235_094, 22_000), "deepseek-v3": (671_000, 37_000),
    "deepseek-v2": (236_000, 21_000), "deepseek-v2-lite": (15_706, 2_400),
    "mixtral-8x7b": (46_703, 12_900), "mixtral-8x22b": (141_000, 39_000),
    "gpt-oss-120b": (116_829, 5_130), "gpt-oss-20b": (20_914, 3_610),
    "kimi-k2": (1_026_000, 32_000), "qwen3-32b": (32_762, 32_762),
    "llama-2-70b": (68_977, 68_977), "llama-2-7b": (6_738, 6_738),
}  # fmt: skip


@pytest.mark.parametrize("name", list_models())
def test_shapes_have_the_published_parameters(name: str) -> None:
    whole, active = PUBLISHED[name]
    model = load_model_config(name)
    assert model.parameters() / 1e6 == pytest.approx(whole, rel=0.005)
    # Cards round, and gpt-oss leaves its embedding of 0.58 billion out of the active ones.
    embedding = model.vocab_size * model.hidden_size / 1e6 if name.startswith("gpt-oss") else 0
    assert model.parameters(active=True) / 1e6 - embedding == pytest.approx(active, rel=0.12)


def _flops(kinds: list[Kind], layers: dict[str, float]) -> dict[str, float]:
    """FLOPs of GEMMs by part, blocks weighted by how often they occur."""
    total: dict[str, float] = {}
    for kind in kinds:
        if kind.op_class not in ("gemm", "grouped_gemm"):
            continue
        m, n, k = (kind.dims[c][0] for c in "mnk")
        spent = 2.0 * m * n * k * kind.calls[0] * layers.get(kind.block, 0.0)
        part = kind.part.replace("grouped", "gemm")
        total[part] = total.get(part, 0.0) + spent
    return total


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen3-30b-a3b", "deepseek-v3"])
def test_a_pass_takes_two_flops_a_parameter_and_token_each_way(name: str) -> None:
    model = load_model_config(name)
    ep = 8 if model.experts else 1
    job = Job(model, 8, 8, 4096, name=name)
    _, kinds = step_kinds(job, Plans.of([Plan(ep=ep, dp=8)]))
    layers = {"layer": float(model.num_hidden_layers), "plain": float(model.dense_layers),
              "moe": float(model.moe_layers), "head": 1.0}  # fmt: skip
    flops = _flops(kinds, layers)
    # The input embedding is looked up, not multiplied.
    active = model.parameters(active=True) - model.vocab_size * model.hidden_size
    for part in ("gemm.f", "gemm.d", "gemm.w"):
        assert flops[part] == pytest.approx(2.0 * active * 4096, rel=1e-6)


def test_tensor_parallelism_divides_the_flops() -> None:
    job = Job(load_model_config("llama-3-70b"), 8, 8, 4096)
    plans = [Plan(tp=1, dp=8), Plan(tp=8)]
    spent = []
    for plan in plans:
        _, kinds = step_kinds(job, Plans.of([plan]))
        spent.append(_flops(kinds, {"layer": 80.0, "plain": 80.0, "head": 1.0})["gemm.f"])
    assert spent[0] / spent[1] == pytest.approx(8.0, rel=1e-6)


def _sent(plan: Plan, job: Job) -> dict[str, float]:
    """Bytes that a rank sends for each part of data parallelism, once each, over all layers."""
    _, kinds = step_kinds(job, Plans.of([plan]))
    total: dict[str, float] = {}
    for kind in kinds:
        if not kind.part.startswith("dp."):
            continue
        times = {"plain": 80.0, "vocabulary": 2.0}[kind.block]
        size = float(kind.dims["message_bytes"][0] * kind.calls[0] * times)
        sent = size * wire_factor(str(kind.fixed["collective"]), float(kind.dims["group_size"][0]))
        total[kind.part] = total.get(kind.part, 0.0) + sent
    return total


def test_zero_volumes_are_those_of_the_paper() -> None:
    """Rajbhandari et al. 2020, section 7: 2 parameters' worth for ZeRO 0 to 2, 3 for ZeRO 3."""
    model = load_model_config("llama-3-70b")
    job = Job(model, 64, 64, 4096, gradient_bytes=2.0)
    once = 2.0 * model.parameters() * 63 / 64
    plain = _sent(Plan(dp=64, zero=0), job)
    assert sum(plain.values()) == pytest.approx(2 * once, rel=1e-3)
    first = _sent(Plan(dp=64, zero=1), job)
    assert sum(first.values()) == pytest.approx(2 * once, rel=1e-3)
    third = _sent(Plan(dp=64, zero=3), job)
    # The step model gathers twice: before the forward and before the backward pass.
    assert 2 * third["dp.parameters"] + third["dp.gradients"] == pytest.approx(3 * once, rel=1e-3)


def test_expert_work_is_the_same_wherever_the_experts_are() -> None:
    job = Job(load_model_config("qwen3-30b-a3b"), 8, 8, 4096)
    plans = Plans.of([Plan(ep=e, dp=8) for e in (1, 2, 8)])
    _, kinds = step_kinds(job, plans)
    rows = [k.dims["m"] for k in kinds if k.op_class == "grouped_gemm"]
    assert all(np.ptp(r) == 0 and r[0] == 4096 * 8 for r in rows)


def test_an_exchange_carries_every_choice_of_every_token() -> None:
    model = load_model_config("deepseek-v3")
    job = Job(model, 64, 64, 4096)
    _, kinds = step_kinds(job, Plans.of([Plan(ep=64, dp=64)]))
    sizes = {k.fixed["collective"]: k.dims["message_bytes"][0] for k in kinds if k.part == "ep.f"}
    assert sizes == {"dispatch": 4096 * 8 * 7168 * 2, "combine": 4096 * 8 * 7168 * 2}


def test_lora_has_no_weight_gradients() -> None:
    job = Job(load_model_config("llama-3-8b"), 8, 8, 4096, lora=True)
    _, kinds = step_kinds(job, Plans.of([Plan(dp=8)]))
    assert not [k for k in kinds if k.part in ("gemm.w", "optimizer", "dp.gradients")]


def test_context_parallelism_by_heads_needs_no_keys_of_others() -> None:
    model = load_model_config("llama-3-70b")
    ring = Job(model, 8, 1, 32768)
    heads = Job(model, 8, 1, 32768, framework=Framework(cp_exchange="all_to_all"))
    for job, wanted in ((ring, (4096.0, 64.0)), (heads, (32768.0, 8.0))):
        _, kinds = step_kinds(job, Plans.of([Plan(cp=8)]))
        core = next(k for k in kinds if k.part == "attention.f")
        assert (core.dims["q_len"][0], core.dims["heads"][0]) == wanted


def test_a_dispatcher_that_permutes_on_the_way_reads_the_rows_less_often() -> None:
    """One pass reads and writes a row once: 6 each way around NCCL's, 4 around DeepEP, 2 else."""
    model = load_model_config("qwen3-30b-a3b")
    moved = {}
    for dispatcher in ("all_to_all", "fused", "hybrid"):
        framework = Framework(dispatcher=dispatcher)
        job = Job(model, 8, 8, 4096, framework=framework)
        _, kinds = step_kinds(job, Plans.of([Plan(ep=8, dp=8)]))
        moved[dispatcher] = sum(
            float(k.dims["bytes"][0]) for k in kinds if (k.block, k.part) == ("moe", "memory.f")
        )
    row_bytes = 4096 * 8 * 2048 * 2
    assert moved["all_to_all"] - moved["hybrid"] == 4 * row_bytes
    assert moved["fused"] - moved["hybrid"] == 2 * row_bytes


def test_casts_of_experts_cost_narrow_recipes_alone() -> None:
    model = load_model_config("qwen3-30b-a3b")
    plans = Plans.of([Plan(ep=8, dp=8)])
    system = [load_system("hgx-b200")]
    casts = msgspec.structs.replace(PLAIN, grouped=2.0)
    grouped = {}
    for precision in ("bf16", "fp8"):
        job = Job(model, 8, 8, 4096, precision=precision)
        steps = [
            step_times(job, plans, Roofline(memory=0.0, network=0.0), system, e).parts["compute"]
            for e in (PLAIN, casts)
        ]
        grouped[precision] = float((steps[1] - steps[0])[0, 0])
    assert grouped["bf16"] == 0.0
    # Every routed row once more: 6 FLOPs a weight of an expert (gate, up and down).
    flops = 48 * 6 * 4096 * 8 * 3 * 2048 * 768
    assert grouped["fp8"] == pytest.approx(flops / system[0].gpu.peak_dense_flops_per_s["fp8"])


def test_gradients_of_many_experts_are_bound_by_memory() -> None:
    """128 experts on one rank, 8 rows of each: 2 x 2 bytes of every weight, read and written."""
    model = load_model_config("qwen3-30b-a3b")
    job = Job(model, 1, 1, 128, gradient_bytes=2.0)
    system = load_system("hgx-b200")
    _, kinds = step_kinds(job, Plans.of([Plan()]))
    moved = sum(float(k.dims["bytes"][0]) for k in kinds if k.part == "accumulate")
    assert moved == 4 * 128 * 3 * 2048 * 768
    times = step_times(job, Plans.of([Plan()]), Roofline(memory=1.0), [system], PLAIN)
    assert times.parts["compute"][0, 0] > 48 * moved / system.gpu.hbm_bandwidth_bytes_per_s


def test_windows_and_mlps_without_a_gate() -> None:
    """FLOPs of all layers by hand: pairs within the window on half the layers, two matrices."""
    base = ModelConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8,
                       vocab_size=1000, intermediate_size=2048, sliding_window=128,
                       windowed_layers=2, gated=False)  # fmt: skip
    job = Job(base, 1, 1, 1024)
    _, kinds = step_kinds(job, Plans.of([Plan()]))
    attention = [k for k in kinds if k.part == "attention.f"]
    assert [(float(k.calls[0]), "window" in k.dims) for k in attention] == [
        (0.5, True), (0.5, False)]  # fmt: skip
    mlp = sum(float((2 * k.dims["m"] * k.dims["n"] * k.dims["k"])[0]) for k in kinds
              if k.block == "plain" and k.part.startswith("gemm"))  # fmt: skip
    assert mlp == 6 * 1024 * 2 * 512 * 2048
    pairs = 2 * (128 * 129 // 2 + (1024 - 128) * 128) + 2 * (1024 * 1025 // 2)
    weights = 4 * (4 * 512 * 512 + 2 * 512 * 2048) + 1000 * 512
    assert model_flops(job) == pytest.approx(6 * 1024 * weights + 12 * pairs * 512)


def _streamed(job: Job) -> float:
    """Bytes of all memory-bound ops of an expert layer, both passes."""
    _, kinds = step_kinds(job, Plans.of([Plan(ep=8, dp=8)]))
    blocks = [k for k in kinds if k.op_class == "elementwise" and k.block in ("layer", "moe")]
    return sum(float((k.dims["bytes"] * k.calls)[0]) for k in blocks if k.part != "selective")


def test_what_fused_kernels_lack_runs_on_its_own() -> None:
    """gpt-oss with eager PyTorch, 2 bytes an element. Clamps: gate and up read and written,
    then joined (8 passes over the product's size); two masks of a byte for up, one for gate,
    their and, the choices, joined (15). Bias times probability written, added, joined (6);
    its gradients: each product read, written and summed (6). Rotary: 10 and 11 more than fused.
    """
    model = load_model_config("gpt-oss-120b")
    plain = msgspec.structs.replace(model, swiglu_limit=None, biased_experts=False,
                                    scaled_rotary=False)  # fmt: skip
    extra = _streamed(Job(model, 8, 8, 4096)) - _streamed(Job(plain, 8, 8, 4096))
    rows, rotated = 4096 * 4 * 2880, 4096 * (64 + 8) * 64
    assert extra == pytest.approx(2 * (rows * (8 + 15 + 6 + 6) + rotated * (10 + 11)))
    fused = Framework(fused_moe=True)
    inside = _streamed(Job(model, 8, 8, 4096, framework=fused)) - _streamed(
        Job(plain, 8, 8, 4096, framework=fused))  # fmt: skip
    assert inside == pytest.approx(2 * rotated * (10 + 11))
