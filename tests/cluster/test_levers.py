"""Limits and laws of whole steps under levers: domains, bandwidths, capacity, power."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codesign.cluster.candidates import enumerate_plans
from codesign.cluster.efficiency import DEFAULT
from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.levers import capacity_split, domain_study, study
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.search import evaluate
from codesign.cluster.step import step_times
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from tests.cluster.fakes import PLAIN, Roofline

BASE = load_system("hgx-b200")
LEVERS = ("hbm_bandwidth", "sm_count", "sm_clock", "bf16_throughput", "nvlink_bandwidth",
          "nvlink_domain", "scaleout_bandwidth", "power", "fp8_throughput")  # fmt: skip
MODERN = Framework(ep_overlap=True, graphs="partial")


def _job(name: str, gpus: int, batch: int, framework: Framework = MODERN) -> Job:
    return Job(load_model_config(name), gpus, batch, 4096, name=name, framework=framework)


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen3-30b-a3b"])
def test_a_job_inside_eight_gpus_gains_nothing_from_a_larger_domain(name: str) -> None:
    found = domain_study(_job(name, 8, 64), Roofline(), BASE, [8, 36, 72, 144, 576], DEFAULT)
    assert [g.fixed for g in found.gains] == [1.0] * 5
    assert [g.replanned for g in found.gains] == [1.0] * 5


def test_a_domain_as_large_as_the_job_is_the_all_inside_case() -> None:
    job = _job("deepseek-v3", 64, 512)
    candidates = [apply_lever(BASE, "nvlink_domain", f) for f in (8.0, 72.0)]
    plan = Plan(ep=64, dp=64)
    gains = study(job, Roofline(), BASE, candidates, DEFAULT, plan=plan).gains
    assert gains[0].fixed == gains[1].fixed > 1.0
    assert gains[0].replanned == gains[1].replanned >= 1.0


def test_a_new_plan_never_loses_to_the_plan_in_use() -> None:
    job = _job("deepseek-v3", 256, 2048)
    candidates = [apply_lever(BASE, "nvlink_domain", d) for d in (2.0, 9.0)]
    candidates += [apply_lever(BASE, "hbm_capacity", 2.0), load_system("gb300-nvl72")]
    for gain in study(job, Roofline(), BASE, candidates, DEFAULT).gains:
        assert gain.fits
        assert gain.by_plan >= 1.0


def test_infinite_links_leave_the_compute() -> None:
    job = _job("llama-3-70b", 64, 128, Framework(tp_overlap=False, dp_overlap=False))
    plan = Plan(tp=8, dp=8)
    fast = replace(BASE, nvlink_bandwidth_bytes_per_s=1e30, scaleout_bandwidth_bytes_per_s=1e30)
    found = evaluate(job, plan, Roofline(), [fast], PLAIN)[0]
    left = found.parts["compute"] + found.parts["optimizer"]
    assert found.step_s == pytest.approx(left)


def test_compute_is_flops_over_the_peak() -> None:
    """6 FLOPs a parameter and token, 8 with full recomputation of the layers, and attention."""
    model = load_model_config("llama-3-8b")
    job = Job(model, 8, 64, 512, name="llama-3-8b")
    plans = Plans.of([Plan(dp=8, recompute=r) for r in ("none", "full")])
    times = step_times(job, plans, Roofline(memory=0.0, network=0.0), [BASE], PLAIN)
    rate = BASE.gpu.peak_dense_flops_per_s["bf16"]
    tokens = 64 * 512 / 8
    vocabulary = model.vocab_size * model.hidden_size
    layers = model.parameters() - 2 * vocabulary
    # Causal attention: 512 x 513 / 2 pairs, 2 x 2 x 4096 FLOPs each, 3.5 or 4.5 passes.
    pairs = 8 * 512 * 513 / 2 * 4 * 4096 * 32
    for i, (dense, attention) in enumerate([(6, 3.5), (8, 4.5)]):
        flops = (dense * layers + 6 * vocabulary) * tokens + attention * pairs
        assert times.parts["compute"][0, i] == pytest.approx(flops / rate, rel=1e-6)


@settings(max_examples=40)
@example(  # Launches set the pace here: faster compute leaves gradients no less room.
    lever="sm_count",
    factor=2.0,
    index=262143,
    name="deepseek-v3",
    precision="bf16",
    overlapped=True,
)
@given(
    lever=st.sampled_from(LEVERS), factor=st.floats(1.0, 3.0), index=st.integers(0, 10**6),
    name=st.sampled_from(["llama-3-70b", "deepseek-v3"]),
    precision=st.sampled_from(["bf16", "fp8"]), overlapped=st.booleans(),
)  # fmt: skip
def test_no_lever_makes_a_step_slower(
    lever: str, factor: float, index: int, name: str, precision: str, overlapped: bool
) -> None:
    framework = MODERN if overlapped else Framework(tp_overlap=False, dp_overlap=False)
    job = Job(load_model_config(name), 256, 1024, 4096, name=name, framework=framework,
              precision=precision)  # type: ignore[arg-type] # fmt: skip
    plans = enumerate_plans(job)
    plan = plans.take(np.array([index % len(plans)]))
    better = apply_lever(BASE, lever, factor)
    step = step_times(job, plan, Roofline(), [BASE, better], DEFAULT).step_s[:, 0]
    assert step[1] <= step[0] * (1 + 1e-9)


def test_capacity_is_told_from_the_rates() -> None:
    """A part that differs in HBM capacity alone: all of its gain is capacity's."""
    job = _job("llama-3-70b", 32, 64)
    small = apply_lever(load_system("hgx-h200"), "hbm_capacity", 0.55)
    split = capacity_split(job, Roofline(), small, load_system("hgx-h200"), DEFAULT)
    steps = dict(split.steps)
    assert steps["rates"] == pytest.approx(1.0)
    assert steps["power"] == pytest.approx(1.0)
    assert steps["capacity"] == pytest.approx(split.total)
    assert split.total > 1.0


def test_the_steps_of_a_split_multiply_to_the_whole() -> None:
    job = _job("llama-3-70b", 64, 256)
    split = capacity_split(
        job, Roofline(), load_system("gb200-nvl72"), load_system("gb300-nvl72"), DEFAULT
    )
    product = np.prod([gain for _, gain in split.steps])
    assert product == pytest.approx(split.total)
    assert dict(split.steps)["power"] > 1.0


def test_power_moves_large_multiplies_alone() -> None:
    job = _job("llama-3-70b", 64, 128)
    plan = Plan(tp=8, dp=8)
    more = apply_lever(BASE, "power", 2.0)
    before, after = evaluate(job, plan, Roofline(), [BASE, more], DEFAULT)
    assert after.parts["compute"] < before.parts["compute"]
    for part in ("tp", "dp", "optimizer"):
        assert after.parts[part] == pytest.approx(before.parts[part], rel=0.2)


def test_slower_attention_kernels_take_their_time_and_no_more() -> None:
    """At half the rate attention takes as long again: 3.5 passes of causal pairs."""
    model = load_model_config("llama-3-8b")
    plan = Plan(dp=8)
    steps = [
        evaluate(Job(model, 8, 8, 8192, framework=Framework(attention_rate=rate)), plan,
                 Roofline(memory=0.0, network=0.0), [BASE], PLAIN)[0].parts["compute"]
        for rate in (1.0, 0.5)
    ]  # fmt: skip
    pairs = 8192 * 8193 / 2 * 4 * 4096 * 32
    extra = 3.5 * pairs / BASE.gpu.peak_dense_flops_per_s["bf16"]
    assert steps[1] - steps[0] == pytest.approx(extra, rel=1e-6)


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble", "dualpipe"])
def test_faster_memory_never_makes_a_host_bound_pipeline_slower(schedule: str) -> None:
    """The bubbles of schedules that fill it with gradients of weights have those subtracted:
    shorter ones must not lengthen a step whose pace the host sets. With all experts on a rank
    the weights' part is the memory's.
    """
    shown = Framework(dp_overlap=False)
    job = Job(load_model_config("qwen3-30b-a3b"), 32, 64, 2048, framework=shown)
    plan = msgspec.convert({"pp": 4, "dp": 8, "schedule": schedule}, Plan)
    systems = [BASE, *(apply_lever(BASE, "hbm_bandwidth", 1.5**i) for i in range(1, 8))]
    steps = [f.step_s for f in evaluate(job, plan, Roofline(), systems, DEFAULT)]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(steps))
