"""What hidden collectives take from the compute beside them, by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.cluster.candidates import enumerate_plans
from codesign.cluster.communication import _sent_bytes
from codesign.cluster.contention import Contention
from codesign.cluster.efficiency import DEFAULT
from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.step import step_times
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from tests.cluster.fakes import PLAIN, Roofline

H100 = load_system("hgx-h100")


def test_sms_and_bytes_of_an_h100() -> None:
    """1 s of 2 s runs behind compute and 100 GB are sent: 24 of 132 SMs for that second, and
    half of 200 GB through 3.35 TB/s.
    """
    lost = Contention([H100], 1.0).lost_s(np.array([[1.0]]), np.array([[2.0]]), np.array([[100e9]]))
    assert lost[0, 0] == pytest.approx(24 / 132 + 100 / 3350)


def test_no_more_is_lost_than_would_be_exposed() -> None:
    lost = Contention([H100], 100.0).lost_s(
        np.array([[1.0]]), np.array([[2.0]]), np.array([[100e9]])
    )
    assert lost[0, 0] == 1.0


@pytest.mark.parametrize(
    ("what", "topk", "sent"),
    [
        ("all_gather", None, 7 / 8),
        ("all_reduce", None, 14 / 8),
        # 8 experts drawn over 8 ranks are on 8 (1 - (7/8)^8) = 5.25 of them, 7 of 8 elsewhere.
        ("dispatch", 8, 8 * (1 - (7 / 8) ** 8) / 8 * 7 / 8),
        ("dispatch", 1, 7 / 8),
    ],
)  # fmt: skip
def test_bytes_on_the_links(what: str, topk: int | None, sent: float) -> None:
    found = _sent_bytes(what, np.array([1e9]), np.array([8.0]), topk)
    assert found[0] == pytest.approx(sent * 1e9)


@settings(max_examples=25)
@given(index=st.integers(0, 10**6), domain=st.sampled_from([16, 36, 72, 576]))
def test_a_larger_domain_never_costs_time_at_one_plan(index: int, domain: int) -> None:
    """Hidden exchanges that move inside must not take more of the compute than they give."""
    job = Job(load_model_config("deepseek-v3"), 256, 2048, 4096, name="deepseek-v3",
              framework=Framework(ep_overlap=True, graphs="full"))  # fmt: skip
    plans = enumerate_plans(job)
    plan = plans.take(np.array([index % len(plans)]))
    base = load_system("hgx-b200")
    wide = apply_lever(base, "nvlink_domain", domain / 8)
    # Links of a kernel that reaches a tenth of NVLink's rate: what a domain gains is little.
    for network in (1.0, 10.0):
        step = step_times(job, plan, Roofline(network=network), [base, wide], DEFAULT).step_s[:, 0]
        assert step[1] <= step[0] * (1 + 1e-9)


def test_hidden_gradients_cost_their_share() -> None:
    """Nothing is exposed of the gradients, then what they take is all that is left of them."""
    job = Job(load_model_config("llama-3-8b"), 8, 64, 8192, gradient_bytes=2.0)
    plans = Plans.of([Plan(dp=8)])
    free = msgspec.structs.replace(PLAIN, dp_window=1.0)
    paid = msgspec.structs.replace(free, slowdown=1.0)
    parts = [step_times(job, plans, Roofline(), [H100], e).parts["dp"][0, 0] for e in (free, paid)]
    # 8.03 G parameters x 2 bytes, 7 of 8 parts sent, reduced and gathered.
    sent_s = 2 * 8.03e9 * 2 * 7 / 8 / 450e9
    hidden = sent_s - parts[0]
    expected = hidden * (24 / 132 + 2 * 450 / 3350)  # sent at the full rate of NVLink
    assert parts[1] - parts[0] == pytest.approx(expected, rel=0.01)


@settings(max_examples=30)
@given(factor=st.floats(1.0, 8.0), overlap=st.booleans(), tp=st.sampled_from([1, 8]))
def test_a_faster_link_never_costs_more_than_it_saves(
    factor: float, overlap: bool, tp: int
) -> None:
    model = load_model_config("llama-3-70b")
    job = Job(model, 64, 64, 2048, framework=msgspec.structs.replace(
        Job(model, 1, 1, 1).framework, tp_overlap=overlap))  # fmt: skip
    plans = Plans.of([Plan(tp=tp, dp=64 // tp)])
    for lever in ("nvlink_bandwidth", "scaleout_bandwidth"):
        systems = [H100, apply_lever(H100, lever, factor)]
        step = step_times(job, plans, Roofline(), systems, DEFAULT).step_s[:, 0]
        assert step[1] <= step[0] * (1 + 1e-9)
