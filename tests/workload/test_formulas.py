"""Work per call, against hand sums, other tools' counts and brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign._common.errors import UsageError
from codesign.workload import accounting as work


def brute_force_pairs(q_len, kv_len, window):
    """Count cell by cell: query i stands at key position kv_len - q_len + i."""
    seen = 0
    for i in range(q_len):
        position = kv_len - q_len + i
        seen += sum(1 for j in range(kv_len) if position - window < j <= position)
    return seen


@given(st.integers(1, 24), st.integers(1, 24), st.one_of(st.just(np.inf), st.integers(1, 30)))
def test_causal_pairs_equal_a_count_cell_by_cell(q_len, kv_len, window):
    expected = brute_force_pairs(q_len, kv_len, window)
    assert work.attention_pairs(q_len, kv_len, True, window) == expected


def test_pairs_without_a_mask_are_the_rectangle_and_a_window_then_is_unknown():
    assert work.attention_pairs(12, 64, False) == 768
    assert np.isnan(work.attention_pairs(12, 64, False, 8))


def test_sliding_window_pairs_and_flops():
    pairs = work.attention_pairs(8192, 8192, True, 4096)
    assert pairs == 25_167_872
    assert work.attention_flops(pairs, 1.0, 128.0, 128.0) == 12_885_950_464


def test_attention_without_mask_as_pytorch_counts_it_on_the_meta_device():
    # q = k = v of shape (1, 12, 64, 64)
    pairs = work.attention_pairs(64, 64, False)
    assert work.attention_flops(pairs, 12.0, 64.0, 64.0) == 12_582_912


def test_grouped_queries_keep_the_flops_and_cut_the_bytes():
    pairs = work.attention_pairs(4096, 4096, False)
    assert work.attention_flops(pairs, 32.0, 128.0, 128.0) == 274_877_906_944

    def moved(kv_heads):
        return work.attention_bytes(
            q_len=4096.0, kv_read=4096.0, heads=32.0, kv_heads=kv_heads, head_dim=128.0,
            head_dim_v=128.0, io_bytes=2.0, kv_bytes=2.0,
        )  # fmt: skip

    # 32 - 8 heads fewer, keys and values, 4096 tokens of 128 bf16 numbers.
    assert moved(32.0) - moved(8.0) == 24 * 2 * 4096 * 128 * 2


def test_backward_attention_is_two_and_a_half_times_the_forward():
    pairs = work.attention_pairs(1024, 1024, True)
    forward = work.attention_flops(pairs, 8.0, 128.0, 128.0)
    assert work.attention_backward_flops(pairs, 8.0, 128.0, 128.0) == 2.5 * forward


def test_grouped_gemm_counts_every_group():
    assert work.grouped_gemm_flops(100.0 + 200.0 + 700.0, 1000.0, 1000.0) == 2.0e9


def test_moe_flops_follow_the_chosen_experts_only():
    # 1024 tokens, top-2 of 8, hidden 1024, intermediate 4096, SwiGLU
    assert work.grouped_gemm_flops(2048.0, 4096.0, 1024.0, 3.0) == 51_539_607_552


def test_moe_weight_bytes_are_those_of_the_experts_hit():
    def moved(hit):
        return work.moe_bytes(
            8.0, 4096.0, 1024.0, experts_hit=hit, matrices=3.0, weight_bytes=2.0, io_bytes=2.0
        )

    one_expert = 3 * 1024 * 4096 * 2
    assert moved(8.0) - moved(3.0) == 5 * one_expert
    assert 3 * one_expert < moved(3.0) < 3.05 * one_expert


@given(st.integers(1, 300), st.integers(1, 64))
def test_expected_experts_are_at_most_those_held_and_those_drawn(rows, experts):
    hit = work.expected_experts(float(rows), float(experts))
    assert 1 - 1e-9 <= hit <= min(rows, experts) + 1e-9


def test_expected_experts_against_a_simulation_of_distinct_choices():
    rng = np.random.default_rng(0)
    draws = [
        len({int(e) for _ in range(4) for e in rng.choice(8, 2, replace=False)})
        for _ in range(4000)
    ]
    # The estimate draws rows one by one and so lies below, by 5 % at most.
    assert 0.95 * np.mean(draws) <= work.expected_experts(8.0, 8.0) <= np.mean(draws)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        # nccl-tests doc/PERFORMANCE.md, n = 8
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("all_to_all", 0.875),
        ("broadcast", 1.0),
        ("send_recv", 1.0),
        ("dispatch", 0.875),
        ("combine", 0.875),
    ],
)
def test_bytes_each_rank_sends(collective, factor):
    assert work.wire_bytes(collective, 1e9, 8.0) == factor * 1e9


def test_bus_bandwidth_is_held_against_one_direction():
    # 1 GB all-reduce over 8 in 5 ms on NVLink of 450 GB/s each way ("900 GB/s").
    assert work.algorithm_bandwidth(1e9, 5e-3) == pytest.approx(200e9)
    busbw = work.bus_bandwidth("all_reduce", 1e9, 8.0, 5e-3)
    assert busbw == pytest.approx(350e9)
    assert busbw / 450e9 == pytest.approx(0.778, abs=5e-4)


def test_a_group_of_one_sends_nothing():
    assert work.wire_bytes("all_reduce", 1e9, 1.0) == 0


def test_unknown_collective_is_refused():
    with pytest.raises(UsageError, match="all_reduce"):
        work.wire_factor("all_scatter", 8.0)


def test_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    n = np.array([2.0, 4.0, 8.0, 72.0])
    parts = work.wire_bytes("reduce_scatter", 1.0, n) + work.wire_bytes("all_gather", 1.0, n)
    assert work.wire_bytes("all_reduce", 1.0, n) == pytest.approx(parts)


def test_adamw_bytes_a_parameter():
    # read and write fp32 m, v, master (24), read fp32 gradient (4), write bf16 weight (2)
    assert work.adamw_bytes(1.0) == 30
    assert work.adamw_bytes(1.0, moment_bytes=2.0) == 22


def test_gemm_by_hand():
    # (2, 3) x (3, 5): 30 multiply-adds; 6 + 15 inputs, 10 outputs of 2 bytes
    assert work.gemm_flops(2.0, 5.0, 3.0) == 60
    assert work.gemm_bytes(2.0, 5.0, 3.0, input_bytes=2.0, output_bytes=2.0) == 62
    assert work.gemm_flops(2.0, 5.0, 3.0, 4.0) == 240


def test_formulas_take_arrays():
    m = np.array([1.0, 2.0])
    assert work.gemm_flops(m, m, m).tolist() == [2.0, 16.0]
    assert work.attention_pairs([4, 4], [4, 8], [True, False]).tolist() == [10.0, 32.0]
