"""Collectives: bytes on each fabric against hand sums, domains, laws, measured anchors."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.hardware.model import System
from codesign.sensitivity.collective import CollectiveModel
from codesign.sensitivity.collective_volume import (
    KIND_INDEX,
    PER_EXPERT,
    PER_RANK,
    PER_SLOT,
    copies_sent,
    inside_bytes,
    outside_bytes,
    span_in_domain,
)
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.workload.schema import COLLECTIVES, ops_frame
from tests.sensitivity.laws import CAPABILITIES, assert_monotone, assert_terms_agree, example_system

MODEL = CollectiveModel()
KINDS = st.sampled_from([k for k in COLLECTIVES if k not in ("dispatch", "combine")])
POWERS = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


def collective(kind: str, size: int, ranks: int, **more: object) -> pd.DataFrame:
    row = {"op_class": "collective", "name": "c", "collective": kind, "message_bytes": size,
           "group_size": ranks, "count": 1.0, "evidence": "measured"}  # fmt: skip
    return ops_frame([{**row, **more}])


def time_of(ops: pd.DataFrame, system: System) -> float:
    theta = np.array([p.initial for p in MODEL.parameters(str(MODEL.variant(ops)[0]))])
    return float(MODEL.times(theta, MODEL.features(ops), hardware_arrays([system]))[0, 0])


def one(value: float) -> np.ndarray:
    return np.array([[value]])


@pytest.mark.parametrize(
    ("ranks", "stride", "domain", "span"),
    [(8, 1, 8, 8), (8, 1, 72, 8), (16, 1, 8, 8), (8, 8, 8, 1), (8, 8, 72, 8), (4, 2, 8, 4),
     (8, 4, 8, 2), (64, 1, 72, 64), (12, 1, 8, 6), (2, 16, 8, 1), (1, 1, 8, 1)],
)  # fmt: skip
def test_span_by_hand(ranks: int, stride: int, domain: int, span: int) -> None:
    assert span_in_domain(one(ranks), one(stride), one(domain))[0, 0] == span


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    # 16 ranks in two domains of 8, 1600 bytes. Reduced and gathered messages: whole inside
    # each domain, a sixteenth's share times two across. Exchanges: 7 and 8 peers of 16.
    [("all_reduce", 2 * 1400, 2 * 100), ("all_gather", 1400, 100), ("reduce_scatter", 1400, 100),
     ("all_to_all", 700, 800)],
)  # fmt: skip
def test_bytes_by_hand(kind: str, inside: float, outside: float) -> None:
    arguments = (one(KIND_INDEX[kind]), one(1600), one(16), one(8), one(1))
    assert inside_bytes(*arguments, one(False))[0, 0] == inside
    assert outside_bytes(*arguments)[0, 0] == outside


def test_alltoall_payload_is_conserved() -> None:
    """What stays at home, goes inside and goes outside is the message."""
    arguments = (one(KIND_INDEX["all_to_all"]), one(6400), one(64), one(8), one(1))
    sent = inside_bytes(*arguments, one(False)) + outside_bytes(*arguments)
    assert sent[0, 0] == 6400 * 63 / 64


def test_forwarded_tokens_are_sent_inside_too() -> None:
    """4 ranks in two domains of 2, top-1 of 400 bytes spread evenly over the ranks.

    A rank's own tokens: 100 bytes go to its neighbour. Of what its mirror in the other
    domain sends it (200 bytes), half is for the neighbour: 100 bytes more.
    """
    arguments = (one(KIND_INDEX["dispatch"]), one(400), one(4), one(2), one(1))
    assert inside_bytes(*arguments, one(True))[0, 0] == 200
    assert outside_bytes(*arguments)[0, 0] == 200


def test_copies_by_policy() -> None:
    """8 experts over 2 ranks: 8 copies, 2 slots, or 2 x (1 - 1/256) ranks; per choice of 8."""
    for policy, copies in ((PER_EXPERT, 8), (PER_SLOT, 2), (PER_RANK, 2 * (1 - 2**-8))):
        assert copies_sent(one(policy), one(8), one(2))[0, 0] * 8 == pytest.approx(copies)


def test_8_rank_all_reduce_nears_nccl_tests() -> None:
    """1 GB over 8 ranks, 5 ms as nccl-tests prints it, is 350 GB/s of bus bandwidth: 77.8 %
    of 450 GB/s in one direction. A model at that efficiency must give that time."""
    ops = collective("all_reduce", 1_000_000_000, 8)
    parameters = MODEL.parameters("all_reduce")
    values = {p.name: p.initial for p in parameters}
    values |= {"efficiency": 350 / 450, "pair_loss": 0.0, "switch_efficiency": 0.2,
               "pipeline_s": 1e-9, "overhead_s": 1e-7, "step_s": 1e-8}  # fmt: skip
    theta = np.array([values[p.name] for p in parameters])
    system = replace(example_system(), in_switch_reduction=False)
    time_s = MODEL.times(theta, MODEL.features(ops), hardware_arrays([system]))[0, 0]
    assert time_s == pytest.approx(5e-3, rel=0.01)


def test_in_switch_reduction_beats_the_wire() -> None:
    """NVLS: bus bandwidth above what a ring could reach at full link rate."""
    ops = collective("all_reduce", 2**33, 64)
    ring = replace(example_system(), nvlink_domain=72, in_switch_reduction=False)
    switch = replace(ring, in_switch_reduction=True)
    assert time_of(ops, switch) < time_of(ops, ring)
    assert time_of(collective("all_gather", 2**33, 64), switch) == time_of(
        collective("all_gather", 2**33, 64), ring
    )


@settings(max_examples=40)
@given(KINDS, POWERS, st.integers(8, 33), st.sampled_from([1, 2, 8]))
def test_larger_domains_never_slow(kind: str, ranks: int, log_size: int, stride: int) -> None:
    ops = collective(kind, 2**log_size, ranks, group_stride=stride)
    times = [time_of(ops, replace(example_system(), nvlink_domain=d))
             for d in (1, 2, 4, 8, 16, 32, 64, 72, 128, 576)]  # fmt: skip
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(times))


@settings(max_examples=40)
@given(KINDS, POWERS, st.integers(8, 33), st.integers(1, 8))
def test_a_domain_that_holds_the_group_is_the_all_inside_case(
    kind: str, ranks: int, log_size: int, stride: int
) -> None:
    ops = collective(kind, 2**log_size, ranks, group_stride=stride)
    exact = replace(example_system(), nvlink_domain=ranks * stride)
    vast = replace(example_system(), nvlink_domain=100_000, scaleout_bandwidth_bytes_per_s=1.0)
    assert time_of(ops, exact) == pytest.approx(time_of(ops, vast), rel=1e-12)


@settings(max_examples=40)
@given(st.sampled_from(["dispatch", "combine"]), POWERS, st.integers(10, 30), st.booleans())
def test_larger_domains_never_slow_dispatch(
    kind: str, ranks: int, log_size: int, decode: bool
) -> None:
    phase = "decode" if decode else "prefill"
    ops = collective(kind, 2**log_size, ranks, topk=8, phase=phase)
    times = [time_of(ops, replace(example_system(), nvlink_domain=d)) for d in (1, 8, 64, 576)]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(times))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_no_capability_slows_a_collective(capability: str, kind: str) -> None:
    ops = pd.concat([collective(kind, size, ranks, topk=8)
                     for size in (2**10, 2**20, 2**30) for ranks in (2, 8, 64)])  # fmt: skip
    factors = [0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 9.0]
    assert_monotone(MODEL, ops, example_system(), capability, factors)


def test_terms_and_times_agree() -> None:
    assert_terms_agree(MODEL, collective("all_reduce", 2**20, 16), example_system())


def test_nothing_moves_in_a_group_of_one() -> None:
    system = example_system()
    small, large = (time_of(collective("all_reduce", s, 1), system) for s in (8, 2**30))
    assert small == large


def test_nvlink_does_not_help_across_domains_when_the_nic_binds() -> None:
    """Ranks eight apart all sit in different domains: only the NIC carries them."""
    ops = collective("all_gather", 2**30, 8, group_stride=8)
    system = example_system()
    faster_link = replace(system, nvlink_bandwidth_bytes_per_s=900e9)
    faster_nic = replace(system, scaleout_bandwidth_bytes_per_s=100e9)
    assert time_of(ops, faster_link) == time_of(ops, system)
    assert time_of(ops, system) / time_of(ops, faster_nic) > 1.9


def test_unknown_domains_are_told_from_the_system_not_the_row() -> None:
    """``domain_span`` of the row is what was; the system says what would be."""
    before = collective("all_gather", 2**30, 16, domain_span=8)
    after = collective("all_gather", 2**30, 16, domain_span=16)
    wide = replace(example_system(), nvlink_domain=72)
    assert time_of(before, wide) == time_of(after, wide)


@pytest.mark.perfdb
def test_a100_and_h100_project_large_collectives_onto_blackwell() -> None:
    """Fitted on A100 and H100: B200 all_gather and all_reduce over 200 us within 15 %."""
    pytest.importorskip("aiconfigurator_core")
    from codesign.hardware import system_of_gpu
    from codesign.sensitivity import fit
    from codesign.sources.perfdb import PerfDB

    db = PerfDB()
    model = fit(db, gpus=["a100-80gb-sxm", "h100-sxm"], models=(MODEL,))
    ops = db.training_ops("b200-sxm", "collective")
    large = ops.collective.isin(["all_gather", "all_reduce"]) & (ops.time_s > 2e-4)
    ops = ops[large.to_numpy(dtype=bool) & (ops.name == "nccl").to_numpy(dtype=bool)]
    predicted = model.predict(ops, system_of_gpu("b200-sxm"))
    error = predicted.time_s.to_numpy() / ops.time_s.to_numpy(dtype=float) - 1.0
    assert len(ops) > 20
    assert np.median(np.abs(error)) < 0.15


@pytest.mark.parametrize(
    ("kind", "more", "variant"),
    [("all_reduce", {}, "all_reduce"), ("all_reduce", {"phase": "backward"}, "all_reduce"),
     ("all_reduce", {"phase": "decode"}, "all_reduce_custom"),
     ("all_reduce", {"phase": "decode", "source": "x nccl_perf"}, "all_reduce"),
     ("all_reduce", {"source": "x custom_allreduce_perf"}, "all_reduce_custom"),
     ("all_reduce", {"name": "custom_allreduce", "kernel": "vLLM_custom_graph"},
      "all_reduce_custom"),
     ("all_reduce", {"name": "custom_allreduce", "kernel": "vLLM_custom_eager"},
      "all_reduce_eager"),
     ("dispatch", {"phase": "decode"}, "dispatch_low_latency"),
     ("dispatch", {"phase": "forward"}, "dispatch_normal"),
     ("dispatch", {"phase": "decode", "name": "deepep_normal"}, "dispatch_normal"),
     ("combine", {"name": "trtllm_alltoall"}, "combine_slots")],
)  # fmt: skip
def test_kernel_family_is_that_of_the_table_else_of_the_phase(
    kind: str, more: dict[str, object], variant: str
) -> None:
    assert MODEL.variant(collective(kind, 1024, 8, **more)).tolist() == [variant]


def test_the_custom_all_reduce_stands_in_for_itself_first() -> None:
    """Started from graphs or one by one it moves its bytes the same way, NCCL another."""
    assert MODEL.fallbacks("all_reduce_eager")[:2] == ("all_reduce_custom", "all_reduce")
    assert MODEL.fallbacks("all_reduce_custom")[:2] == ("all_reduce_eager", "all_reduce")
    assert "custom" not in " ".join(MODEL.fallbacks("all_reduce"))


@pytest.mark.perfdb
@pytest.mark.parametrize("framework", ["sglang", "vllm"])
def test_waiting_for_the_host_is_no_property_of_the_links(framework: str) -> None:
    """Eager rows take up to five times as long as those of graphs, on H100 and H200 alike."""
    pytest.importorskip("aiconfigurator_core")
    from codesign.hardware import system_of_gpu
    from codesign.sensitivity import fit
    from codesign.sources.perfdb import PerfDB

    db = PerfDB()
    model = fit(db, gpus=["a100-80gb-sxm", "h100-sxm"], framework=framework, models=(MODEL,))
    ops = db.training_ops("h200-sxm", "collective", framework=framework)
    ops = ops[(ops.name == "custom_allreduce").to_numpy(dtype=bool)]
    predicted = model.predict(ops, system_of_gpu("h200-sxm"))
    error = np.abs(predicted.time_s.to_numpy() / ops.time_s.to_numpy(dtype=float) - 1.0)
    assert len(ops) > 100
    assert np.median(error) < 0.10
