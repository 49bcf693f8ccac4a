"""The search: what it may choose, that it is the best, and what it says of the others."""

from __future__ import annotations

import numpy as np
import pytest

from codesign._common.errors import UsageError
from codesign.cluster.candidates import Limits, enumerate_plans, why_not
from codesign.cluster.efficiency import DEFAULT
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.memory import SPEC_TO_DEVICE
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.search import best_plan, evaluate, explain, search
from codesign.cluster.step import step_times
from codesign.hardware import load_system
from tests.cluster.fakes import PLAIN, Roofline


def _job(name: str = "llama-3-70b", gpus: int = 64, batch: int = 128) -> Job:
    return Job(load_model_config(name), gpus, batch, 4096, name=name)


def test_every_listed_plan_divides_the_job() -> None:
    job = _job("qwen3-30b-a3b", 64, 256)
    plans = enumerate_plans(job)
    assert len(plans) > 100
    assert set((plans.tp * plans.cp * plans.pp * plans.dp).tolist()) == {64}
    assert not (job.global_batch % (plans.dp * plans.micro_batch)).any()
    assert not (128 % plans.ep).any()
    assert not ((plans.tp * plans.cp * plans.dp) % plans.ep).any()
    rows = [tuple(r) for r in plans.rows().tolist()]
    assert rows == sorted(set(rows))


def test_the_best_is_the_best_of_all_that_fit() -> None:
    job, system = _job(), load_system("hgx-h100")
    found = best_plan(job, Roofline(), system, PLAIN)
    plans = enumerate_plans(job)
    times = step_times(job, plans, Roofline(), [system], PLAIN)
    allowed = np.where(times.fits[0], times.step_s[0], np.inf)
    assert found.step_s == pytest.approx(allowed.min())
    assert found.needed_bytes <= SPEC_TO_DEVICE * system.gpu.hbm_capacity_bytes


def test_a_search_over_many_systems_equals_one_by_one() -> None:
    job = _job()
    systems = [load_system(n) for n in ("hgx-h100", "hgx-h200", "gb200-nvl72")]
    together = search(job, Roofline(), systems, PLAIN).found
    alone = [search(job, Roofline(), [s], PLAIN).found[0] for s in systems]
    assert [f.plan if f else None for f in together] == [f.plan if f else None for f in alone]


def test_parts_add_up_to_the_step() -> None:
    found = best_plan(_job(), Roofline(), load_system("hgx-h100"), PLAIN)
    assert sum(found.parts.values()) == pytest.approx(found.step_s)
    assert all(v >= 0 for v in found.parts.values())


def test_equal_ops_are_timed_once() -> None:
    model = Roofline()
    job = _job()
    plans = enumerate_plans(job)
    step_times(job, plans, model, [load_system("hgx-h100")], PLAIN)
    assert model.rows < 4 * len(plans)


def test_every_neighbour_says_what_it_loses() -> None:
    job, system = _job(), load_system("hgx-h100")
    best = best_plan(job, Roofline(), system, PLAIN)
    neighbours = explain(job, best, Roofline(), PLAIN)
    assert {n.changed for n in neighbours} >= {"tp", "pp", "micro_batch", "recompute"}
    for n in neighbours:
        if n.loss is None:
            assert "does not fit" in n.reason
        else:
            again = evaluate(job, n.plan, Roofline(), [system], PLAIN)[0]
            assert again.step_s / best.step_s - 1 == pytest.approx(n.loss)
            assert n.loss >= 0


def test_what_fits_nowhere_is_refused_with_the_memory() -> None:
    """405 billion weights and gradients of 2 and 4 bytes, 12 of optimizer state: 912 GB a GPU."""
    job = _job("llama-3.1-405b", 8, 8)
    with pytest.raises(UsageError, match=r"no plan over 8 GPUs fits hgx-h100: the smallest") as e:
        best_plan(job, Roofline(), load_system("hgx-h100"), PLAIN)
    needed = float(str(e.value).split(" needs ")[1].split(" GB")[0])
    assert 18 * 405.9 / 8 < needed < 1.15 * 18 * 405.9 / 8


def test_a_batch_that_cannot_be_dealt_out_is_refused() -> None:
    job = Job(load_model_config("llama-3-8b"), 16384, 1, 4096, name="tiny-batch")
    with pytest.raises(UsageError, match="16384 replicas or more; a multiple of 16384 sequences"):
        enumerate_plans(job, Limits(max_tp=1, max_cp=1, max_pp=1))


@pytest.mark.parametrize(
    ("model", "plan", "says"),
    [
        ("llama-3-8b", Plan(tp=3), "3 GPUs, not 64"),
        ("llama-3-8b", Plan(tp=64), "32 heads do not divide by tp 64"),
        ("llama-3-8b", Plan(pp=64), "pp 64 x vpp 1 leaves stages without any of 32 layers"),
        ("llama-3-8b", Plan(pp=8, vpp=8, dp=8), "pp 8 x vpp 8 leaves stages without"),
        ("llama-3-8b", Plan(ep=8, dp=64), "no experts"),
        ("llama-3-8b", Plan(cp=64), "1040 tokens do not divide by 2 x cp 64"),
        ("llama-3-8b", Plan(dp=64, micro_batch=8), "no multiple of dp 64 x micro-batch 8"),
        ("llama-3-8b", Plan(pp=16, vpp=2, dp=4, micro_batch=4), "micro-batches do not"),
        ("llama-3-8b", Plan(pp=4, dp=16, zero=3), "ZeRO 3"),
        ("llama-3-8b", Plan(dp=64, schedule="dualpipe"), "dualpipe"),
        ("qwen3-30b-a3b", Plan(ep=3, dp=64), "128 experts do not divide by ep 3"),
        ("qwen3-30b-a3b", Plan(pp=16, ep=32, dp=4), "ep 32 does not divide tp x cp x dp = 4"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_run_is_refused_with_the_reason(
    model: str, plan: Plan, says: str
) -> None:
    job = Job(load_model_config(model), 64, 128, 1040, name=model)
    system = [load_system("hgx-h100")]
    with pytest.raises(UsageError, match=says):
        evaluate(job, plan, Roofline(), system, PLAIN)
    with pytest.raises(UsageError, match=says):
        search(job, Roofline(), system, PLAIN, include=[plan])


def test_every_listed_plan_can_run() -> None:
    """Two lists of rules, one for arrays and one with reasons, agree on all plans of a search."""
    for name, gpus in (("llama-3-8b", 16), ("qwen3-30b-a3b", 32), ("deepseek-v3", 64)):
        job = Job(load_model_config(name), gpus, 64, 4096)
        plans = enumerate_plans(job)
        some = range(0, len(plans), max(len(plans) // 300, 1))
        assert [why_not(job, plans.plan(i)) for i in some] == [None] * len(some)


@pytest.mark.parametrize(("name", "gpus"), [("llama-3-8b", 8), ("qwen3-30b-a3b", 16)])
def test_a_search_equals_trying_everything(name: str, gpus: int) -> None:
    """No plan that was set aside unseen (too big, or recomputing for nothing) is faster."""
    job = Job(load_model_config(name), gpus, 32, 4096)
    systems = [load_system(n) for n in ("hgx-h100", "hgx-b200", "gb300-nvl72")]
    plans = enumerate_plans(job)
    times = step_times(job, plans, Roofline(), systems, DEFAULT)
    every = np.where(times.fits, times.step_s, np.inf).min(axis=1)
    found = search(job, Roofline(), systems, DEFAULT).found
    assert [f.step_s if f else np.inf for f in found] == pytest.approx(every.tolist())


def test_plans_survive_the_way_through_arrays() -> None:
    plan = Plan(tp=2, pp=4, vpp=2, dp=8, micro_batch=2, recompute="full", schedule="1f1b")
    assert Plans.of([plan]).plan(0) == plan
