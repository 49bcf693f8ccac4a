"""A workload over many GPUs: both gains of levers, domains with their control, scaling."""

from __future__ import annotations

import msgspec
import pytest

from codesign._common.errors import UsageError
from codesign.cluster.at_scale import LeverStep, at_scale, control_job, with_controls
from codesign.cluster.candidates import Limits
from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.plan import Plan
from codesign.cluster.records import AtScale
from codesign.cluster.summary import project_job
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from tests.cluster.fakes import PLAIN, Roofline

BASE = load_system("hgx-b200")
LIMITS = Limits(max_tp=8, max_cp=1, max_pp=8, max_ep=64, micro_batches=(1, 2))
JOB = Job(load_model_config("qwen3-30b-a3b"), 128, 1024, 4096, name="qwen", precision="fp8",
          framework=Framework(graphs="full"))  # fmt: skip


def _step(lever: str, factor: float) -> LeverStep:
    return LeverStep(lever, lever, f"x{factor}", factor, apply_lever(BASE, lever, factor))


@pytest.fixture(scope="module")
def found() -> AtScale:
    """A mixture of experts whose exchange leaves the domain."""
    steps = [_step("nvlink_bandwidth", 2.0), _step("fp8_throughput", 2.0), _step("hbm_capacity", 2)]
    return at_scale(JOB, Plan(ep=32, dp=128), Roofline(), BASE, steps, None, PLAIN, limits=LIMITS)


def test_a_new_plan_is_never_worse(found: AtScale) -> None:
    assert len(found.levers) == 3
    for lever in found.levers:
        assert lever.replanned.value >= lever.fixed.value * (1 - 1e-12)
    assert found.plan_in_use is not None
    assert found.best.step_s.value <= found.plan_in_use.step_s.value
    # Capacity alone changes no rate: at one plan it gains nothing.
    assert found.levers[2].fixed.value == 1.0


def test_domains_grow_in_gain_and_the_control_stays(found: AtScale) -> None:
    sizes = [d.gpus_in_domain for d in found.domains]
    gains = [d.replanned for d in found.domains]
    assert sizes == [8, 36, 72, 144, 576]
    assert gains == sorted(gains)
    assert gains[0] == pytest.approx(1.0)
    assert gains[-1] > 1.0
    assert [c.replanned for c in found.control] == [1.0] * 5
    assert [c.fixed for c in found.control] == [1.0] * 5


def test_the_breakdown_adds_up_and_the_curve_keeps_the_batch_a_gpu(found: AtScale) -> None:
    assert sum(found.best.breakdown.values()) == pytest.approx(found.best.step_s.value)
    assert [p.gpus for p in found.scaling] == [32, 64, 256, 512]
    tokens = JOB.tokens / JOB.gpus
    for p in found.scaling:
        assert p.tokens_per_s_gpu * p.step_s.value == pytest.approx(tokens)


def test_the_control_fits_in_one_domain() -> None:
    control = control_job(JOB, BASE)
    assert control.gpus == 8
    assert control.precision == JOB.precision
    assert control.framework == JOB.framework
    assert control_job(JOB, load_system("gb200-nvl72")).gpus == 8


def test_a_plan_that_does_not_divide_is_left_out_and_no_fit_is_an_error() -> None:
    few = msgspec.structs.replace(JOB, gpus=16, global_batch=128)
    seen = at_scale(few, Plan(dp=128), Roofline(), BASE, [], None, PLAIN, limits=LIMITS, domains=())
    assert seen.plan_in_use is None
    huge = msgspec.structs.replace(few, model=load_model_config("llama-3.1-405b"), gpus=1,
                                   global_batch=8)  # fmt: skip
    with pytest.raises(UsageError, match="fits"):
        at_scale(huge, None, Roofline(), BASE, [], None, PLAIN, limits=LIMITS)


# 64 x 12 GB hold Llama 3 8B in training, about 16 bytes a weight; the control's 8 x 12 GB do not.
SMALL = apply_lever(load_system("l4-pcie"), "hbm_capacity", 0.5)


def test_a_domain_without_a_control_says_so() -> None:
    job = Job(load_model_config("llama-3-8b"), 64, 64, 4096, name="llama")
    larger = apply_lever(SMALL, "nvlink_domain", 8)
    found = project_job(job, Roofline(), [SMALL, larger], PLAIN, limits=LIMITS)
    told = with_controls(found, job, Roofline(), [SMALL, larger])
    assert [row.control for row in told.systems] == [None, None]
    (warning,) = told.warnings
    assert warning.startswith(f"{larger.name}: its domain has no control: llama-3-8b: no plan")
    assert "8 GPUs" in warning
    assert "\n" not in warning
    # What is not about the control stays as it was.
    assert told == msgspec.structs.replace(found, warnings=told.warnings)


def test_controls_stand_beside_larger_domains_alone() -> None:
    """Another part has moved more than its domain, and other levers have not moved it."""
    other = load_system("gb200-nvl72")
    systems = [BASE, apply_lever(BASE, "nvlink_domain", 9), apply_lever(BASE, "sm_clock", 1.1),
               apply_lever(BASE, "nvlink_domain", 0.5), other]  # fmt: skip
    few = msgspec.structs.replace(JOB, gpus=16, global_batch=64)
    found = project_job(few, Roofline(), systems, PLAIN, plan=Plan(ep=8, dp=16), reoptimize=False)
    told = with_controls(found, few, Roofline(), systems)
    assert [row.control for row in told.systems] == [None, 1.0, None, None, None]
    assert told.warnings == found.warnings == ()


def test_a_study_says_that_its_control_does_not_fit() -> None:
    job = Job(load_model_config("llama-3-8b"), 64, 64, 4096, name="llama")
    seen = at_scale(job, None, Roofline(), SMALL, [], None, PLAIN, limits=LIMITS, domains=(8, 72))
    assert [d.gpus_in_domain for d in seen.domains] == [8, 72]
    assert seen.control == ()
    assert seen.control_job == "llama-3-8b on 8 GPUs (no plan of it fits)"
