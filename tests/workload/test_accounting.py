"""The table form: what is filled, what stays null, and conservation over rows."""

import numpy as np
import pandas as pd
import pytest

from codesign.workload.accounting import add_work, busbw, hardware_flops, model_flops
from codesign.workload.schema import ops_frame, validate_ops

BASE = {"count": 1.0, "evidence": "assumed", "precision": "bf16"}
ATTENTION = {**BASE, "op_class": "attention", "name": "a", "heads": 8, "kv_heads": 2,
             "q_len": 128, "kv_len": 128, "head_dim": 64, "causal": True, "batch": 2}  # fmt: skip


def work_of(**columns):
    ops = add_work(ops_frame([{**BASE, "name": "x", **columns}]))
    validate_ops(ops)
    return ops.iloc[0]


def test_gemm_per_step_is_count_times_a_call():
    once = work_of(op_class="gemm", m=4, n=8, k=16)
    often = work_of(op_class="gemm", m=4, n=8, k=16, count=2.5)
    assert once["flops"] == 2 * 4 * 8 * 16
    assert often["flops"] == 2.5 * once["flops"]
    assert often["bytes"] == 2.5 * once["bytes"]


@pytest.mark.parametrize("precision", ["fp8", "fp8_block", "nvfp4"])
def test_narrow_gemm_inputs_move_less_but_outputs_leave_as_bf16(precision):
    wide = work_of(op_class="gemm", m=1, n=4096, k=4096)
    narrow = work_of(op_class="gemm", m=1, n=4096, k=4096, precision=precision)
    assert narrow["flops"] == wide["flops"]
    assert narrow["bytes"] < 0.55 * wide["bytes"]
    # Tall output, tiny inner size: the output dominates and does not shrink.
    thin = work_of(op_class="gemm", m=4096, n=4096, k=1, precision=precision)
    assert thin["bytes"] > 4096 * 4096 * 2


@pytest.mark.parametrize(
    "row",
    [
        {"op_class": "gemm", "m": 4, "n": 8},
        {"op_class": "attention", "heads": 8, "q_len": 4},
        {"op_class": "conv", "m": 4, "n": 8, "k": 3},
        {"op_class": "elementwise", "m": 4, "n": 8},
        {"op_class": "other"},
        {"op_class": "collective", "collective": "all_reduce"},
        {"op_class": "norm", "m": 4},
    ],
)
def test_what_cannot_be_known_stays_null_and_is_never_zero(row):
    ops = work_of(**row)
    assert ops[["flops", "bytes", "wire_bytes"]].isna().all()


def test_attention_with_an_unrecorded_mask_is_unknown_but_decode_is_not():
    prefill = {**ATTENTION, "causal": None}
    assert pd.isna(work_of(**prefill)["flops"])
    decode = work_of(**{**prefill, "q_len": 1})
    assert decode["flops"] == 2 * 128 * 8 * 2 * (64 + 64)


def test_missing_precision_leaves_bytes_null_and_flops_known():
    ops = work_of(op_class="gemm", m=4, n=8, k=16, precision=None)
    assert ops["flops"] == 1024
    assert pd.isna(ops["bytes"])


def test_values_that_stand_there_are_kept():
    ops = work_of(op_class="gemm", m=4, n=8, k=16, flops=7.0, bytes=9.0)
    assert (ops["flops"], ops["bytes"]) == (7.0, 9.0)


def test_expert_weights_are_charged_for_the_experts_hit():
    columns = {"op_class": "grouped_gemm", "n": 4096, "k": 1024, "experts": 8, "topk": 2,
               "fused": "moe_gated"}  # fmt: skip
    one_expert = 3 * 1024 * 4096 * 2
    few = work_of(**columns, m=2, distribution="balanced")
    all_hit = work_of(**columns, m=64, distribution="balanced")
    drawn = work_of(**columns, m=8)
    assert 2 * one_expert < few["bytes"] < 2.1 * one_expert
    assert 8 * one_expert < all_hit["bytes"] < 8.5 * one_expert
    assert 5 * one_expert < drawn["bytes"] < 6 * one_expert
    assert all_hit["flops"] == 32 * few["flops"]


def test_absorbed_mla_reads_the_latent_once():
    columns = {**ATTENTION, "heads": 128, "kv_heads": 1, "q_len": 1, "kv_len": 4096,
               "head_dim": 576, "head_dim_v": 512, "batch": 1}  # fmt: skip
    ops = work_of(**columns)
    assert ops["flops"] == 2 * 4096 * 128 * (576 + 512)
    queries = 128 * (576 + 512) * 2
    assert ops["bytes"] == 4096 * 576 * 2 + queries


def test_fp8_cache_halves_what_decode_reads():
    columns = {**ATTENTION, "q_len": 1, "kv_len": 8192}
    wide = work_of(**columns)["bytes"]
    narrow = work_of(**columns, kv_precision="fp8")["bytes"]
    assert narrow / wide == pytest.approx(0.5, abs=0.01)


def test_a_window_bounds_what_decode_reads():
    columns = {**ATTENTION, "q_len": 1, "heads": 2, "batch": 1}
    short = work_of(**columns | {"kv_len": 4096})
    windowed = work_of(**columns | {"kv_len": 100_000, "window": 4096})
    assert windowed["bytes"] == short["bytes"]
    assert windowed["flops"] == short["flops"]


@pytest.mark.parametrize(
    ("name", "phase", "ratio"),
    [
        ("attention", "forward", 1.0),
        ("attention.backward", "backward", 2.5),
        ("attention.recompute", "backward", 1.0),
        ("aten::_flash_attention_forward", "backward", 1.0),
        ("aten::_flash_attention_backward", None, 2.5),
        ("flash_bwd_kernel", None, 2.5),
        ("sdpa", "backward", 2.5),
    ],
)
def test_backward_attention_is_told_by_name_then_phase(name, phase, ratio):
    forward = work_of(**{**ATTENTION, "name": "attention"})["flops"]
    assert work_of(**{**ATTENTION, "name": name, "phase": phase})["flops"] == ratio * forward


def test_recomputation_is_in_hardware_flops_and_not_in_model_flops():
    # Layers of 10, 20 and 30, all recomputed: 60 more, not the running totals' 100.
    rows = [{**BASE, "op_class": "gemm", "name": f"l{f}{s}", "flops": float(f)}
            for f in (10, 20, 30) for s in ("", ".recompute")]  # fmt: skip
    ops = ops_frame(rows)
    assert model_flops(ops) == 60
    assert hardware_flops(ops) == 120


def test_model_flops_leave_out_what_flash_attention_recomputes():
    ops = add_work(ops_frame([
        {**ATTENTION, "name": "attention"},
        {**ATTENTION, "name": "attention.backward", "phase": "backward"},
    ]))  # fmt: skip
    forward = ops["flops"].iloc[0]
    assert hardware_flops(ops) == 3.5 * forward
    assert model_flops(ops) == 3.0 * forward


def test_bus_bandwidth_of_a_table():
    ops = ops_frame([
        {**BASE, "op_class": "collective", "name": "c", "collective": "all_reduce", "count": 2.0,
         "message_bytes": 10**9, "group_size": 8, "time_s": 10e-3},
        {**BASE, "op_class": "gemm", "name": "g", "time_s": 1.0},
    ])  # fmt: skip
    assert busbw(ops).iloc[0] == pytest.approx(350e9)
    assert pd.isna(busbw(ops).iloc[1])


def test_an_empty_table_stays_empty():
    assert len(add_work(ops_frame([]))) == 0


def test_splitting_rows_keeps_the_work():
    whole = work_of(op_class="gemm", m=512, n=1024, k=768)["flops"]
    parts = add_work(ops_frame([
        {**BASE, "op_class": "gemm", "name": "x", "m": m, "n": 1024, "k": 768}
        for m in (100, 200, 212)
    ]))  # fmt: skip
    assert np.isclose(float(parts["flops"].sum()), whole)
