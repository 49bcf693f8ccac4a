"""Model FLOPs against published rates, and what a projection of a job holds."""

from __future__ import annotations

import msgspec
import pytest

from codesign._common.errors import UsageError
from codesign.cluster.from_recipe import job_of, plan_of
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.plan import Plan
from codesign.cluster.summary import ClusterProjection, model_flops, project_job
from codesign.hardware import load_system
from codesign.workload.recipe import load_recipe
from tests.cluster.fakes import PLAIN, Roofline

SYSTEMS = [load_system("hgx-h100"), load_system("gb200-nvl72")]


@pytest.mark.parametrize(
    ("name", "length", "tflops", "tokens_per_s"),
    [("llama-3-8b", 8192, 1622, 31508), ("llama-3-70b", 8192, 734, 1633),
     ("llama-3.1-405b", 8192, 2129, 843), ("qwen3-30b-a3b", 4096, 599, 26112)],
)  # fmt: skip
def test_flops_a_token_are_those_that_published_rates_count(
    name: str, length: int, tflops: float, tokens_per_s: float
) -> None:
    job = Job(load_model_config(name), 1, 1, length)
    assert model_flops(job) / job.tokens == pytest.approx(tflops * 1e12 / tokens_per_s, rel=0.02)


@pytest.mark.parametrize(("mtp", "tflops", "rate"), [(False, 782, 3139), (True, 1276, 4912)])
def test_flops_of_deepseek_v3_with_and_without_mtp(mtp: bool, tflops: float, rate: float) -> None:
    job = Job(load_model_config("deepseek-v3"), 1, 1, 4096, mtp=mtp)
    assert model_flops(job) / job.tokens == pytest.approx(tflops * 1e12 / rate, rel=0.03)


def test_a_projection_has_both_plans_and_adds_up() -> None:
    job = Job(load_model_config("llama-3-70b"), 64, 128, 4096, name="llama-3-70b")
    found = project_job(job, Roofline(), SYSTEMS, PLAIN, plan=Plan(tp=8, pp=2, dp=4),
                        scaling=(128,))  # fmt: skip
    assert found.tried > 100
    for row in found.systems:
        assert row.fixed
        assert row.best
        assert row.best.fits
        assert row.best.step_s.value <= row.fixed.step_s.value or not row.fixed.fits
        for one in (row.fixed, row.best, *row.scaling):
            assert sum(one.breakdown.values()) == pytest.approx(one.step_s.value)
            assert one.mfu
            assert one.hfu
            assert 0 < one.mfu <= one.hfu < 1
            rate = job.tokens * one.gpus / job.gpus / one.step_s.value / one.gpus
            assert one.tokens_per_s_gpu == pytest.approx(rate)
        assert [p.gpus for p in row.scaling] == [128]
        assert {n.changed for n in row.neighbours} >= {"tp", "micro_batch"}
    again = msgspec.json.decode(msgspec.json.encode(found), type=ClusterProjection)
    assert again == found


def test_nothing_to_project_is_refused() -> None:
    job = Job(load_model_config("llama-3-8b"), 8, 8, 4096, name="llama-3-8b")
    with pytest.raises(UsageError, match="re-optimize"):
        project_job(job, Roofline(), SYSTEMS, PLAIN, reoptimize=False)
    with pytest.raises(UsageError, match="3 GPUs, not 8"):
        project_job(job, Roofline(), SYSTEMS, PLAIN, plan=Plan(dp=3), reoptimize=False)


def test_recipes_become_jobs_and_plans() -> None:
    recipe = load_recipe("llama-3.1-70b-pretrain-bf16")
    job, plan = job_of(recipe), plan_of(recipe)
    assert plan.gpus == job.gpus == recipe.parallelism.gpus
    assert job.tokens == recipe.tokens_per_step
    twice = job_of(recipe, 2 * job.gpus)
    assert (twice.global_batch, plan_of(recipe, twice.gpus).dp) == (
        2 * job.global_batch, 2 * plan.dp,
    )  # fmt: skip
    with pytest.raises(UsageError, match="no training step"):
        job_of(load_recipe("llama-3.1-70b-decode-b16"))
