"""Collectives inside a domain, larger than the tables, and across domains."""

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import UsageError
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever

from .conftest import op

pytestmark = pytest.mark.perfdb


def one(db, gpu, kind, group, size, framework="trtllm", **more):
    values = {"collective": kind, "group_size": group, "message_bytes": size, **more}
    ops = op(op_class="collective", **values)
    return db.measure(ops, gpu, framework=framework).iloc[0]


def test_more_ranks_than_measured_are_modelled_and_slower(db):
    gb200 = load_system("gb200-nvl72")
    four = one(db, gb200, "all_reduce", 4, 2**29)
    many = one(db, gb200, "all_reduce", 72, 2**29)
    assert four["evidence"] == "measured"
    assert many["evidence"] == "modelled"
    assert "4 ranks scaled to 72" in many["source"]
    # 72 GB200 measured 577 GB/s of bus bandwidth at 512 MiB.
    busbw = 2 * 71 / 72 * 2**29 / many["time_s"]
    assert busbw == pytest.approx(577e9, rel=0.2)


def test_the_only_sweep_inside_a_large_domain_is_used(db):
    row = one(db, load_system("gb200-nvl72"), "dispatch", 64, 4096 * 8 * 7168 * 2, topk=8)
    assert row["evidence"] == "measured"
    assert "trtllm_alltoall_perf" in row["source"]


def test_exchange_over_eight_nodes_is_measured_on_hopper(db):
    row = one(db, load_system("hgx-h100"), "combine", 64, 4096 * 8 * 7168 * 2, topk=8)
    assert row["evidence"] == "measured"
    assert row["domain_span"] == 8
    # 4461 us and 8048 us to notify, at 20 SMs.
    assert row["time_s"] == pytest.approx((4461.0 + 8048.0) * 1e-6)


def test_across_domains_rests_on_named_assumptions(db):
    result = db.measured(
        op(op_class="collective", collective="all_reduce", group_size=64, message_bytes=2**28),
        load_system("hgx-h100"),
    )
    row = result.ops.iloc[0]
    assert row["evidence"] == "assumed"
    assert "scale-out" in row["source"]
    assert {"scale-out efficiency", "scale-out hop latency"} <= set(result.assumptions)
    # At best 2 x 7/8 of an eighth of the message leaves each GPU at 50 GB/s.
    assert row["time_s"] > 2 * 7 / 8 * 2**28 / 8 / 50e9


def test_a_rank_of_each_domain_sends_everything_over_the_network(db):
    near = one(db, load_system("hgx-h100"), "all_reduce", 8, 2**28)
    far = one(db, load_system("hgx-h100"), "all_reduce", 8, 2**28, group_stride=8)
    assert (near["domain_span"], far["domain_span"]) == (8, 1)
    assert far["time_s"] > 2 * 7 / 8 * 2**28 / 50e9 > near["time_s"]


def test_a_faster_network_helps_only_what_leaves_the_domain(db):
    before = load_system("hgx-h100")
    after = apply_lever(before, "scaleout_bandwidth", 2.0)
    for group, helped in ((8, False), (64, True)):
        times = [one(db, s, "all_reduce", group, 2**28)["time_s"] for s in (before, after)]
        assert bool(times[1] < times[0]) is helped


def test_leaving_the_domain_without_a_system_is_a_usage_error(db):
    with pytest.raises(UsageError, match="pass a system"):
        one(db, "h100-sxm", "all_reduce", 64, 2**20, domain_span=8)


def test_serving_takes_the_serving_kernel(db):
    training = one(db, "h100-sxm", "all_reduce", 8, 2**17, phase="forward")
    serving = one(db, "h100-sxm", "all_reduce", 8, 2**17, phase="decode")
    assert "nccl_perf" in training["source"]
    assert "custom_allreduce_perf" in serving["source"]
    assert serving["time_s"] < training["time_s"]


@pytest.mark.parametrize("framework", ["sglang", "vllm"])
def test_serving_reduces_as_cuda_graphs_launch_it(folder, db, framework):
    path = sorted((folder / "h100_sxm/comm" / framework).glob("*/custom_allreduce_perf.parquet"))
    raw = pd.concat(pd.read_parquet(p) for p in path)
    raw = raw[(raw["num_gpus"] == 8) & raw["kernel_source"].str.endswith("_graph")]
    elements = int(raw["message_size"].median())
    times = raw[raw["message_size"] == elements]["latency"].to_numpy(dtype=float) / 1000
    row = one(db, "h100-sxm", "all_reduce", 8, 2 * elements, phase="decode", framework=framework)
    assert row["evidence"] == "measured"
    assert np.isclose(times, row["time_s"], rtol=1e-6).any()


def test_time_never_falls_with_the_message(db):
    for group in (8, 64):
        times = [one(db, load_system("hgx-h100"), "all_gather", group, size)["time_s"]
                 for size in (100, 2**20, 2**26, 2**29, 2**31)]  # fmt: skip
        assert times == sorted(times)


def test_a_message_larger_than_the_table_is_its_measured_parts(db):
    whole = one(db, "h100-sxm", "all_gather", 8, 2**30)
    half = one(db, "h100-sxm", "all_gather", 8, 2**29)
    assert whole["evidence"] == "modelled"
    assert whole["time_s"] == pytest.approx(2 * half["time_s"])


def test_sends_between_stages_take_the_link_they_cross(db):
    system = load_system("hgx-h100")
    near = one(db, system, "send_recv", 2, 10**9)
    far = one(db, system, "send_recv", 2, 10**9, group_stride=64)
    assert near["evidence"] == far["evidence"] == "assumed"
    assert 1e9 / 450e9 < near["time_s"] < 1e9 / 300e9
    assert 1e9 / 50e9 < far["time_s"] < 1e9 / 30e9


@pytest.mark.perfdb
@pytest.mark.parametrize("kind", ["dispatch", "combine"])
def test_one_network_under_two_labels_takes_the_same_time(db, kind):
    """H200's rows over several nodes are H100's: no gain, and no measurement of the H200."""
    row = op(op_class="collective", phase="forward", collective=kind, message_bytes=234_881_024,
             group_size=32, topk=8, precision="bf16")  # fmt: skip
    first, second = (db.measure(row, load_system(s)).iloc[0] for s in ("hgx-h100", "hgx-h200"))
    assert second["time_s"] == first["time_s"]
    assert first["evidence"] in ("measured", "interpolated")
    assert second["evidence"] == "assumed"
    said = "table equal to h100-sxm's, row for row: one measurement under two labels"
    assert said in second["source"]
    assert said not in first["source"]


@pytest.mark.perfdb
def test_inside_a_node_the_h200_has_its_own_exchange(db):
    row = op(op_class="collective", phase="forward", collective="combine", topk=8,
             message_bytes=234_881_024, group_size=8)  # fmt: skip
    found = db.measure(row, load_system("hgx-h200")).iloc[0]
    assert found["evidence"] in ("measured", "interpolated")
    assert "h100-sxm" not in found["source"]
