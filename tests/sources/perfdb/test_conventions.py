"""What the tables' numbers mean, held against facts from outside the tables."""

import pandas as pd
import pytest

from .conftest import op

pytestmark = pytest.mark.perfdb

MIB = 2**20


def collective(db, gpu, kind, ranks, message_bytes, phase=None):
    ops = op(op_class="collective", collective=kind, group_size=ranks, domain_span=ranks,
             message_bytes=message_bytes, phase=phase)  # fmt: skip
    row = db.measure(ops, gpu).iloc[0]
    assert row["evidence"] == "measured"
    return row["time_s"]


# Published nccl-tests runs: 8 x H100 about 480 at 8 GB and 445 at 512 MiB, 8 x B200 704, 8 x A100
# 222. Read as bytes, elements would give half of that; read as ms, us a thousandth.
@pytest.mark.parametrize(
    ("gpu", "busbw"),
    [("h100-sxm", 445e9), ("b200-sxm", 704e9), ("a100-80gb-sxm", 222e9)],
)
def test_nccl_messages_count_elements_of_two_bytes(db, gpu, busbw):
    time_s = collective(db, gpu, "all_reduce", 8, 512 * MIB)
    assert 2 * 7 / 8 * 512 * MIB / time_s == pytest.approx(busbw, rel=0.01)


@pytest.mark.parametrize("framework", ["sglang", "vllm"])
def test_tables_without_a_window_column_attend_to_every_key(db, framework):
    # A window of 8,192 keys, the longest in use, would leave the time of a longer cache as it is.
    ops = db.training_ops("a100-80gb-sxm", "attention", framework=framework)
    long = ops[(ops["phase"] == "decode") & (ops["kv_len"] >= 16384)]
    keys = ["batch", "heads", "kv_heads", "kv_len"]
    half = long[[*keys, "time_s"]].assign(kv_len=long["kv_len"] * 2)
    pairs = long[[*keys, "time_s"]].merge(half, on=keys, suffixes=("", "_of_half"))
    pairs = pairs[pairs["time_s"] > 1e-3]
    growth = (pairs["time_s"] / pairs["time_s_of_half"]).astype(float)
    assert len(growth) > 20
    assert growth.between(1.6, 2.2).all()
    assert ops["window"].isna().all()
    assert "no column: window_size 0" in ops["source"].iloc[0]


def test_absorbed_prefill_stays_below_the_tensor_peak(db):
    # DeepSeek's 128 heads at 32k tokens: by full heads H100 would reach 178 of its 989 TFLOP/s, a
    # third of what the same library reaches on any other head; absorbed, 60 %.
    ops = db.training_ops("h100-sxm", "attention", framework="sglang")
    row = ops[(ops["head_dim_v"] == 512) & (ops["heads"] == 128) & (ops["q_len"] == 32768)
              & (ops["batch"] == 1) & (ops["kv_precision"] == "bf16")].iloc[0]  # fmt: skip
    assert row["kv_heads"] == 1
    pairs = 32768 * 32769 / 2
    assert 0.5 < 2 * 128 * pairs * (576 + 512) / row["time_s"] / 989e12 < 0.75


def test_the_same_attention_by_two_kernels_stays_two_rows(db):
    ops = db.training_ops("b200-sxm", "attention", framework="sglang")
    shape = ["phase", "precision", "kv_precision", "batch", "heads", "kv_heads", "q_len", "kv_len",
             "head_dim", "window"]  # fmt: skip
    twice = ops[ops.duplicated(shape, keep=False)]
    assert set(twice["kernel"]) >= {"triton", "trtllm_mha"}
    assert not ops.duplicated([*shape, "kernel", "name"]).any()


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_to_all"])
def test_gathered_messages_are_totals(db, kind):
    # By total, 7/8 of the message leaves each GPU: below the 450 GB/s of NVLink. By shard the
    # rate would be eight times that, which no link carries.
    rate = 7 / 8 * 512 * MIB / collective(db, "h100-sxm", kind, 8, 512 * MIB)
    assert 0.6 * 450e9 < rate < 450e9


def test_latency_is_milliseconds(db, folder):
    path = folder / "h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.parquet"
    table = pd.read_parquet(path)
    row = table[(table["gemm_dtype"] == "bfloat16") & (table["m"] == 8192)
                & (table["n"] == 8192) & (table["k"] == 8192)].iloc[0]  # fmt: skip
    ours = db.measure(op(op_class="gemm", m=8192, n=8192, k=8192), "h100-sxm").iloc[0]
    assert ours["time_s"] == pytest.approx(row["latency"] / 1000)
    assert ours["evidence"] == "measured"
    # 989 TFLOP/s is the dense peak; MAMF's best on H100 is 80 % of it.
    assert 0.6 < 2 * 8192**3 / ours["time_s"] / 989.4e12 < 0.9


def test_decode_reads_the_cache_at_no_more_than_the_memory_bandwidth(db):
    # 64 sequences x 8192 tokens x 8 heads x 128 x 2 (K, V) x 2 B = 2.147 GB; HBM3 moves 3.35 TB/s.
    ops = op(op_class="attention", batch=64, heads=32, kv_heads=8, head_dim=128, q_len=1,
             kv_len=8192, causal=True, kv_precision="bf16")  # fmt: skip
    row = db.measure(ops, "h100-sxm").iloc[0]
    assert row["evidence"] == "measured"
    assert 0.8 < 64 * 8192 * 8 * 128 * 2 * 2 / row["time_s"] / 3.35e12 < 1.0


def test_prefill_is_causal(db):
    # Counted without the mask, this call would run above H100's dense peak of 989 TFLOP/s.
    ops = op(op_class="attention", batch=4, heads=32, kv_heads=8, head_dim=128, q_len=16384,
             kv_len=16384, causal=True, kv_precision="bf16")  # fmt: skip
    time_s = db.measure(ops, "h100-sxm").iloc[0]["time_s"]
    whole = 4 * 4 * 32 * 16384**2 * 128 / time_s
    assert whole > 989e12
    assert 0.4 < whole / 2 / 989e12 < 0.75


def test_moe_tokens_are_those_of_the_whole_group(db):
    ops = db.training_ops("h100-sxm", "grouped_gemm")
    fast = (ops["flops"] / ops["time_s"]).astype(float)
    peak = ops["precision"].map({"bf16": 989.4e12, "fp8": 1978.9e12, "fp8_block": 1978.9e12})
    # Taken as tokens of each rank, EP8 rows would reach 4,100 TFLOP/s.
    assert (fast < peak).all()
    assert (fast / peak).max() > 0.4


def test_expert_exchange_stays_below_the_link(db):
    ops = db.training_ops("h200-sxm", "collective")
    ops = ops[(ops["name"] == "deepep_normal") & (ops["group_size"] == 8) & (ops["topk"] == 8)]
    large = ops[ops["m"] == 65536]
    # A token goes once to each of the other ranks that it needs: of 8 choices over 8 ranks on
    # average 8 x (1 - (7/8)^8) = 5.25 ranks, 7/8 of them elsewhere.
    sent = large["message_bytes"] / 8 * 5.25 * 7 / 8
    rate = (sent / large["time_s"]).astype(float)
    assert rate.max() < 450e9
    assert rate.max() > 0.5 * 450e9


def test_scale_matrix_moves_three_bytes_an_element(db):
    ops = db.training_ops("h100-sxm", "quantize")
    large = ops[(ops["name"] == "scale_matrix") & (ops["bytes"] > 1e9)]
    # BabelStream's triad reaches 2.97 TB/s on H100.
    assert (large["bytes"] / large["time_s"]).median() == pytest.approx(2.97e12, rel=0.05)


def test_a_two_sided_dispatch_is_prepared_first(db):
    # Read from the table by hand: 14.368 us to prepare and 12.384 us to dispatch one token
    # of 7168 fp8 values to 8 of 256 experts over 32 ranks.
    rows = db.table("gb200", "trtllm_alltoall_perf").rows
    one = rows[(rows["m"] == 1) & (rows["k"] == 7168) & (rows["group_size"] == 32)]
    fp8 = one[(one["collective"] == "dispatch") & (one["precision"] == "fp8")]
    times = fp8.loc[(fp8["topk"] == 8) & (fp8["kernel"] == "NVLinkTwoSided"), "time_s"]
    assert (times.sub(26.752e-6).abs() < 1e-8).any()
