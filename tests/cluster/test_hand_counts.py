"""Whole steps against counts worked out by hand from published shapes and papers.

Pure rooflines stand in for the fitted model, so that a time is FLOPs or bytes over one rate.
"""

from __future__ import annotations

import numpy as np
import pytest

from codesign.cluster.efficiency import DEFAULT
from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.memory import memory_of
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.records import Placed
from codesign.cluster.search import evaluate
from codesign.cluster.shares import Shares
from codesign.cluster.step import step_times
from codesign.cluster.summary import model_flops, placed
from codesign.hardware import load_system
from codesign.workload.model_config import ModelConfig
from tests.cluster.fakes import PLAIN, Roofline

H100 = load_system("hgx-h100")
COMPUTE, NETWORK = Roofline(memory=0.0, network=0.0), Roofline(memory=0.0, network=1.0)

# Elements of all tensors as the models' files on Hugging Face add up, MTP layer left out, and
# those of them that are norms (and DeepSeek's routing bias), which do next to no work.
TENSORS = {
    "llama-3-8b": (8_030_261_248, (2 * 32 + 1) * 4096),
    "llama-3-70b": (70_553_706_496, (2 * 80 + 1) * 8192),
    "llama-3.1-405b": (405_853_388_800, (2 * 126 + 1) * 16384),
    "mixtral-8x7b": (46_702_792_704, (2 * 32 + 1) * 4096),
    "qwen3-235b-a22b": (235_093_634_560, (2 * 94 + 1) * 4096 + 94 * 2 * 128),
    "deepseek-v3": (671_026_419_200, 61 * (2 * 7168 + 1536 + 512) + 7168 + 58 * 256),
}


@pytest.mark.parametrize("name", TENSORS)
def test_parameters_to_the_last_one(name: str) -> None:
    tensors, norms = TENSORS[name]
    assert load_model_config(name).parameters() == tensors - norms


# A layer's weights that one token meets, times the layers; the output head; FLOPs of causal
# attention a token in one pass, at 2 x (d_qk + d_v) a head and pair and (S + 1) / 2 pairs.
def _attention(layers: int, heads: int, both: int, length: int) -> float:
    return layers * heads * 2 * both * (length + 1) / 2


BY_HAND = {
    # q, k and v, o; gate, up and down.
    "llama-3-8b": (32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336), 128256 * 4096,
                   _attention(32, 32, 256, 8192)),
    "llama-3-70b": (80 * (8192 * (8192 + 2 * 1024 + 8192) + 3 * 8192 * 28672), 128256 * 8192,
                    _attention(80, 64, 256, 8192)),
    "llama-3.1-405b": (126 * (16384 * (16384 + 2 * 1024 + 16384) + 3 * 16384 * 53248),
                       128256 * 16384, _attention(126, 128, 256, 8192)),
    # Two of eight experts and the router.
    "mixtral-8x7b": (32 * (4096 * (4096 + 2 * 1024 + 4096) + 2 * 3 * 4096 * 14336 + 8 * 4096),
                     32000 * 4096, _attention(32, 32, 256, 8192)),
    # Heads of 128 in a model of 4096; eight of 128 experts.
    "qwen3-235b-a22b": (94 * (4096 * (8192 + 2 * 512 + 8192) + 8 * 3 * 4096 * 1536 + 128 * 4096),
                        151936 * 4096, _attention(94, 64, 256, 8192)),
    # Latent attention; three plain layers, then eight of 256 experts and a shared one.
    "deepseek-v3": (61 * (7168 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256
                          + 128 * 128 * 7168)
                    + 3 * 3 * 7168 * 18432 + 58 * (9 * 3 * 7168 * 2048 + 256 * 7168),
                    129280 * 7168, _attention(61, 128, 320, 8192)),
}  # fmt: skip
# Billions that one token meets, both embeddings counted, as the cards round them.
CARDS = {"mixtral-8x7b": 12.9, "qwen3-235b-a22b": 22.0, "deepseek-v3": 37.0}


@pytest.mark.parametrize("name", BY_HAND)
def test_active_parameters_and_flops_a_token(name: str) -> None:
    layers, head, attention = BY_HAND[name]
    model = load_model_config(name)
    active = model.parameters(active=True)
    assert active == layers + 2 * head
    if name in CARDS:
        assert active / 1e9 == pytest.approx(CARDS[name], rel=0.016)
    # Two FLOPs a weight and pass, three passes; the input embedding is a look-up.
    job = Job(model, 1, 1, 8192)
    assert model_flops(job) / 8192 == pytest.approx(6 * (layers + head) + 3 * attention, rel=1e-12)


def test_flops_of_the_405b_run_that_meta_published() -> None:
    """arXiv:2407.21783: 3.8e25 FLOPs for 15.6e12 tokens, nearly all at a length of 8192."""
    model = load_model_config("llama-3.1-405b")
    a_token = model_flops(Job(model, 1, 1, 8192)) / 8192
    assert a_token * 15.6e12 == pytest.approx(3.8e25, rel=0.05)


FLAT = ModelConfig(hidden_size=1024, num_hidden_layers=16, num_attention_heads=8, vocab_size=8,
                   intermediate_size=4096)  # fmt: skip


@pytest.mark.parametrize(
    ("chunks", "of_ideal", "of_total"), [(1, 0.375, 0.273), (2, 0.1875, 0.158), (4, 3 / 32, 0.0857)]
)
def test_bubble_of_a_whole_step(chunks: int, of_ideal: float, of_total: float) -> None:
    """4 stages, 8 micro-batches: (p - 1) / (m v) of the ideal time, Narayanan et al. 2021."""
    plans = Plans.of([Plan(pp=4, vpp=chunks)])
    times = step_times(Job(FLAT, 4, 8, 2048), plans, COMPUTE, [H100], PLAIN)
    # The vocabulary of 8 leaves the stages equal to a thousandth.
    ideal, bubble = times.parts["compute"][0, 0], times.parts["bubble"][0, 0]
    assert bubble / ideal == pytest.approx(of_ideal, rel=2e-3)
    assert bubble / times.step_s[0, 0] == pytest.approx(of_total, rel=4e-3)


@pytest.mark.parametrize(
    ("zero", "micro_batches", "volume"),
    # Parameters' worth of traffic a step: reduced and gathered once (ZeRO 0 as an all-reduce),
    # or with ZeRO 3 gathered twice and reduced once in each micro-batch.
    [(0, 1, 2), (1, 1, 2), (2, 1, 2), (3, 1, 3), (0, 4, 2), (1, 4, 2), (3, 4, 12)],
)
def test_zero_volumes_of_a_whole_step(zero: int, micro_batches: int, volume: int) -> None:
    """Rajbhandari et al. 2020, section 7. Each rank sends 7 / 8 of it at 450 GB/s."""
    model = load_model_config("llama-3-8b")
    job = Job(model, 8, 8 * micro_batches, 512, gradient_bytes=2.0,
              framework=Framework(dp_overlap=False))  # fmt: skip
    plans = Plans.of([Plan(dp=8, zero=zero)])  # type: ignore[arg-type]
    seconds = step_times(job, plans, NETWORK, [H100], PLAIN).parts["dp"][0, 0]
    sent_bytes = volume * 2 * 8.03e9 * 7 / 8
    assert seconds == pytest.approx(sent_bytes / 450e9, rel=1e-3)


def test_memory_of_state_as_the_zero_paper_prints_it() -> None:
    """Its figure 1: 7.5e9 parameters over 64 GPUs take 120, 31.4, 16.6 and 1.9 GB a GPU; the
    first two do not fit the 32 GB of its V100 beside activations, the others do.
    """
    model = load_model_config("llama-3-8b")
    job = Job(model, 64, 64, 512, gradient_bytes=2.0)
    plans = Plans.of([Plan(dp=64, zero=z) for z in (0, 1, 2, 3)])  # type: ignore[arg-type]
    memory = memory_of(Shares.of(job, plans))
    state = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    scaled_gb = state * 7.5e9 / model.parameters() / 1e9
    assert scaled_gb == pytest.approx(np.array([120, 31.4, 16.6, 1.9]), rel=0.015)
    v100_bytes = load_system("dgx-v100").gpu.hbm_capacity_bytes
    assert v100_bytes == 32e9
    assert memory.fits(np.array([v100_bytes]))[0].tolist() == [False, False, True, True]


def _placed(job: Job, plan: Plan) -> Placed:
    return placed(job, evaluate(job, plan, Roofline(), [H100], DEFAULT)[0])


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "deepseek-v3"])
def test_recomputation_is_in_hfu_and_not_in_mfu(name: str) -> None:
    """Full: the layers' forward pass once more. Selective: of matrices MLA's two up-projections
    alone, 61 x (1536 x 24576 + 512 x 32768) weights. Backward attention redoes the product of
    queries and keys whatever is recomputed: of DeepSeek's 192 + 128 a pair 192, else a half.
    """
    layers, head, attention = BY_HAND[name]
    job = Job(load_model_config(name), 64, 64, 8192, name=name)
    rate = H100.gpu.peak_dense_flops_per_s["bf16"] * 64
    up = 2 * 61 * (1536 * 24576 + 512 * 32768) if name == "deepseek-v3" else 0.0
    scores = attention * (192 / 320 if name == "deepseek-v3" else 1 / 2)
    again = {"none": 0.0, "selective": up, "full": 2 * layers + attention}
    for recompute, extra in again.items():
        plan = Plan(dp=64, ep=8 if job.model.experts else 1, zero=3, recompute=recompute)  # type: ignore[arg-type]
        found = _placed(job, plan)
        needed = 6 * (layers + head) + 3 * attention
        spent = found.step_s.value * rate / job.tokens
        assert found.mfu is not None
        assert found.hfu is not None
        assert found.mfu * spent == pytest.approx(needed, rel=1e-9)
        assert found.hfu * spent == pytest.approx(needed + scores + extra, rel=1e-9)


@pytest.mark.parametrize("plan", [Plan(cp=8), Plan(tp=8), Plan(pp=8), Plan(dp=8, zero=3)])
def test_every_rank_counts_once_in_a_utilization(plan: Plan) -> None:
    """However eight ranks share the work, each has an eighth of it: no rank is left out."""
    layers, head, attention = BY_HAND["llama-3-8b"]
    job = Job(load_model_config("llama-3-8b"), 8, 8, 8192)
    found = _placed(job, plan)
    whole = (6 * (layers + head) + 3 * attention) * 8 * 8192
    assert found.mfu is not None
    a_rank = found.mfu * H100.gpu.peak_dense_flops_per_s["bf16"] * found.step_s.value
    assert a_rank == pytest.approx(whole / 8, rel=1e-9)


def test_a_utilization_over_one_precision_is_of_that_ones_peak() -> None:
    """The same step of the same FLOPs: of the FP8 peak it is half of what it is of BF16's."""
    model = load_model_config("llama-3-8b")
    found = {p: _placed(Job(model, 8, 64, 8192, precision=p), Plan(dp=8, recompute="full"))
             for p in ("bf16", "fp8", "mxfp8")}  # type: ignore[arg-type]  # fmt: skip
    spent = {p: (f.mfu or 0.0) * f.step_s.value for p, f in found.items()}
    assert spent["bf16"] / spent["fp8"] == pytest.approx(2.0, rel=1e-3)
    assert spent["mxfp8"] == pytest.approx(spent["fp8"])
