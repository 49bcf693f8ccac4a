"""What hidden collectives take from the compute beside them, by hand."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.cluster.contention import taken
from codesign.cluster.efficiency import DEFAULT
from codesign.cluster.job import Job, load_model_config
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.step import step_times
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from tests.cluster.fakes import PLAIN, Roofline

H100 = load_system("hgx-h100")


def test_sms_and_bandwidth_of_an_h100() -> None:
    """24 of 132 SMs; 2 x 450 GB/s inside, 2 x 50 GB/s outside, of 3.35 TB/s."""
    lost = taken([H100], Plans.of([Plan(tp=8, dp=8)]))
    assert lost["tp"][0, 0] == pytest.approx(24 / 132 + 900 / 3350)
    assert lost["dp"][0, 0] == pytest.approx(24 / 132 + 100 / 3350)


def test_a_larger_domain_takes_more_of_the_memory() -> None:
    plans = Plans.of([Plan(ep=64, dp=64)])
    wide = apply_lever(H100, "nvlink_domain", 8.0)
    before, after = taken([H100, wide], plans)["ep"][:, 0]
    assert after - before == pytest.approx(800 / 3350)


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
    assert parts[1] - parts[0] == pytest.approx(hidden * (24 / 132 + 900 / 3350), rel=0.01)


@settings(max_examples=30, deadline=None)
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
