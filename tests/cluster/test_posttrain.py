"""Rollout with batch decay, and the RL step around it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import UsageError
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.plan import Plan
from codesign.cluster.posttrain import Placement, post_training_step, training_job
from codesign.cluster.rollout import Rollout, replica_batch, rollout_times, segments
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from tests.cluster.fakes import PLAIN, Roofline

H100 = load_system("hgx-h100")
MODEL = load_model_config("llama-3-8b")
ROLLOUT = Rollout(prompts=64, samples=8, prompt_length=512, response_mean=1024, tp=1)


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 500), min_size=1, max_size=80), slots=st.integers(1, 40),
)  # fmt: skip
def test_every_token_is_generated_once(lengths: list[int], slots: int) -> None:
    made = segments(np.array(lengths, dtype=float), slots, 100)
    assert sum(s.steps * s.batch for s in made) == pytest.approx(sum(lengths))
    assert all(0 < s.batch <= min(slots, len(lengths)) * (1 + 1e-9) for s in made)
    assert sum(s.steps for s in made) >= max(*lengths, sum(lengths) / slots) * (1 - 1e-9)


def test_equal_lengths_do_not_decay() -> None:
    made = segments(np.full(16, 100.0), 16, 50)
    assert {round(s.batch, 6) for s in made} == {16.0}
    assert made[0].context < made[-1].context
    mean = sum(s.context * s.steps for s in made) / sum(s.steps for s in made)
    assert mean == pytest.approx(100)  # 50 of the prompt and half of the response


def test_lengths_have_their_mean_and_end_at_the_limit() -> None:
    rollout = msgspec.structs.replace(ROLLOUT, response_max=100_000)
    assert rollout.lengths(20_000).mean() == pytest.approx(1024, rel=0.01)
    cut = msgspec.structs.replace(ROLLOUT, response_max=1100)
    assert cut.lengths(1000).max() == 1100
    assert np.ptp(msgspec.structs.replace(ROLLOUT, response_cv=0.0).lengths(10)) == 0


def test_spread_lengths_take_longer_than_equal_ones() -> None:
    times = {
        cv: rollout_times(MODEL, msgspec.structs.replace(ROLLOUT, response_cv=cv), 8, Roofline(),
                          [H100])
        for cv in (0.0, 1.0)
    }  # fmt: skip
    assert times[1.0].decode_s[0] > times[0.0].decode_s[0]
    assert times[1.0].tail_share > times[0.0].tail_share == 0.0


def test_the_batch_is_what_the_cache_leaves_room_for() -> None:
    # 85.4 GB - 4 reserved, 3 % fragments, 16.06 GB of weights: 63 GB over
    # 2 x 8 heads x 128 x 2 B x 32 layers x 1536 tokens = 201 MB: 312.9.
    wide = msgspec.structs.replace(ROLLOUT, max_batch=10_000)
    assert replica_batch(MODEL, wide, H100, 1) == 312
    with pytest.raises(UsageError, match="leave no room"):
        replica_batch(load_model_config("llama-3-70b"), wide, H100, 1)


def _step(placement: Placement, gpus: int = 8, system: object = None) -> object:
    job = training_job(Job(MODEL, gpus, gpus, 4096, name="llama-3-8b"), ROLLOUT)
    places = [H100] if system is None else [H100, system]
    return post_training_step(
        job, Plan(dp=gpus, recompute="full"), ROLLOUT, Roofline(), places, placement,  # type: ignore[arg-type]
        efficiency=PLAIN,
    )  # fmt: skip


def test_a_colocated_step_is_the_sum_of_its_parts() -> None:
    step = _step(Placement())
    assert sum(step.parts(0).values()) == pytest.approx(step.step_s[0])  # type: ignore[attr-defined]


def test_overlapped_pools_wait_for_the_slower_one() -> None:
    apart = Placement(kind="disaggregated", rollout_gpus=8)
    one = _step(apart)
    both = _step(msgspec.structs.replace(apart, overlapped=True))
    parts = both.parts(0)  # type: ignore[attr-defined]
    made, trained = parts["prefill"] + parts["decode"], parts["reference"] + parts["train"]
    assert both.step_s[0] == pytest.approx(max(made, trained) + parts["sync"])  # type: ignore[attr-defined]
    assert one.step_s[0] == pytest.approx(made + trained + parts["sync"])  # type: ignore[attr-defined]
    assert both.gpus == 16  # type: ignore[attr-defined]


def test_a_reference_pass_is_about_a_third_of_training_without_recomputation() -> None:
    job = training_job(Job(MODEL, 8, 8, 4096), ROLLOUT)
    step = post_training_step(job, Plan(dp=8), ROLLOUT, Roofline(memory=0, network=0), [H100],
                              efficiency=PLAIN)  # fmt: skip
    assert step.reference_s[0] / step.train_s[0] == pytest.approx(1 / 3, rel=0.03)


def test_hbm_bandwidth_helps_the_rollout_more_than_training() -> None:
    step = _step(Placement(), system=apply_lever(H100, "hbm_bandwidth", 2.0))
    before, after = step.parts(0), step.parts(1)  # type: ignore[attr-defined]
    assert before["decode"] / after["decode"] > 1.8 > before["train"] / after["train"]


def test_the_training_batch_holds_the_tokens() -> None:
    job = training_job(Job(MODEL, 8, 8, 4096), ROLLOUT)
    assert job.global_batch % 8 == 0
    assert job.tokens >= ROLLOUT.sequences * ROLLOUT.mean_length > job.tokens - 8 * 4096


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="rollout_gpus"):
        _step(Placement(kind="disaggregated"))
    with pytest.raises(UsageError, match="do not divide"):
        rollout_times(MODEL, msgspec.structs.replace(ROLLOUT, tp=8), 12, Roofline(), [H100])
