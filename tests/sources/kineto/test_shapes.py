"""Dims and work of op calls, against sums by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from codesign.sources.kineto import read_kineto
from codesign.sources.kineto.classify import op_rule
from codesign.sources.kineto.shapes import Call, Dims, read_dims
from tests.sources.kineto.traces import Event, kernel, launch, op, write

BF16 = "c10::BFloat16"


def dims_of(
    name: str, dims: object, types: list[str] | None = None, concrete: object = None
) -> Dims:
    rule = op_rule(name)
    assert rule is not None
    texts = (json.dumps(x).encode() for x in (dims, types or [], concrete or []))
    return read_dims(rule[1], Call(name, *texts))


def test_matrix_products() -> None:
    assert dims_of("aten::mm", [[3, 5], [5, 7]]) == {"m": 3, "n": 7, "k": 5}
    assert dims_of("aten::addmm", [[7], [3, 5], [5, 7]]) == {"m": 3, "n": 7, "k": 5}
    assert dims_of("aten::_scaled_mm", [[3, 5], [5, 7], [], []]) == {"m": 3, "n": 7, "k": 5}
    assert dims_of("aten::bmm", [[2, 3, 5], [2, 5, 7]]) == {"batch": 2, "m": 3, "n": 7, "k": 5}
    expected = {"batch": 2, "m": 3, "n": 7, "k": 5}
    assert dims_of("aten::baddbmm", [[2, 3, 7], [2, 3, 5], [2, 5, 7]]) == expected
    assert dims_of("aten::linear", [[2, 3, 5], [7, 5], [7]]) == {"m": 6, "n": 7, "k": 5}
    assert dims_of("aten::matmul", [[2, 3, 5], [5, 7]]) == {"m": 6, "n": 7, "k": 5}

    assert dims_of("aten::mv", [[3, 5], [5]]) == {"m": 3, "n": 1, "k": 5}
    assert dims_of("aten::addmv_", [[3], [3, 5], [5], [], []]) == {"m": 3, "n": 1, "k": 5}
    assert dims_of("aten::mv", [[3, 5], [4]]) == {}


FP4, FP8, E8M0 = "c10::Float4_e2m1fn_x2", "c10::Float8_e4m3fn", "c10::Float8_e8m0fnu"


def test_elements_that_hold_two_numbers_double_the_inner_size() -> None:
    """A product of (128, 256) and (256, 64) in FP4, as tensors of bytes with two numbers each."""
    assert dims_of("aten::_scaled_mm", [[128, 128], [128, 64], [2048], [1024]],
                   [FP4, FP4, FP8, FP8]) == {"m": 128, "n": 64, "k": 256}  # fmt: skip
    grouped = dims_of("aten::_scaled_grouped_mm", [[96, 128], [3, 128, 64]], [FP4, FP4])
    assert grouped == {"m": 96, "n": 64, "k": 256, "experts": 3}
    assert dims_of("aten::_scaled_mm", [[128, 256], [256, 64]], [FP8, FP8])["k"] == 256


def test_work_and_precision_are_those_of_what_is_multiplied(tmp_path: Path) -> None:
    """2 x 128 x 64 x 256 FLOPs each, whatever the output or the bias is stored in."""
    bf16, fp32 = "c10::BFloat16", "float"
    calls: list[tuple[str, list[list[int]], list[str], str]] = [
        ("_C::cutlass_scaled_mm", [[128, 64], [128, 256], [256, 64]], [bf16, FP8, FP8], "fp8"),
        ("aten::addmm", [[64], [128, 256], [256, 64]], [fp32, bf16, bf16], "bf16"),
        ("aten::_scaled_mm", [[128, 256], [256, 64], [1024], [512]], [FP8, FP8, E8M0, E8M0],
         "mxfp8"),
        ("aten::_scaled_mm", [[128, 256], [256, 64], [], []], [FP8, FP8, fp32, fp32], "fp8"),
        ("aten::_scaled_mm", [[128, 128], [128, 64], [2048], [1024]], [FP4, FP4, FP8, FP8],
         "nvfp4"),
    ]  # fmt: skip
    events = []
    for i, (name, dims, types, _) in enumerate(calls):
        events += [op(100 * i, 50, name, i, dims, types), launch(100 * i + 5, i),
                   kernel(100 * i + 20, 10, f"k{i}", corr=i)]  # fmt: skip
    ops = read_kineto(write(tmp_path, events)).ops.set_index("kernel")
    assert [ops.loc[f"k{i}", "precision"] for i in range(5)] == [c[3] for c in calls]
    assert ops["flops"].tolist() == [4_194_304.0] * 5


@pytest.mark.parametrize(("name", "moved"), [("eq", 18), ("add", 24), ("eq_", 24)])
def test_a_comparison_writes_a_byte_each(name: str, moved: int) -> None:
    """Two arrays of two floats are read: 16 bytes; written are two answers, or two floats."""
    assert dims_of(f"aten::{name}", [[2], [2]], ["float", "float"])["bytes"] == moved


def test_grouped_products() -> None:
    # 1000 tokens over 3 groups: 100 + 200 + 700.
    found = dims_of("aten::_grouped_mm", [[1000, 64], [3, 64, 32], [3]])
    assert found == {"m": 1000, "n": 32, "k": 64, "experts": 3}
    gradient = dims_of("aten::_grouped_mm", [[64, 1000], [1000, 32], [3]])
    # 2 x 64 x 32 x 1000 FLOPs either way.
    assert 2 * gradient["m"] * gradient["n"] * gradient["k"] == 2 * 64 * 32 * 1000


@pytest.mark.parametrize(
    "dims",
    [[], [[3, 5]], [[3, 5], []], [[3, 5], [4, 7]], [[3], [3, 7]], [[-3, 5], [5, 7]], "x",
     [["a", 5], [5, 7]], [[3.5, 5], [5, 7]], [[10**30, 5], [5, 7]], [None, None], {"a": 1}],
)  # fmt: skip
def test_what_cannot_be_read_is_left_out(dims: object) -> None:
    assert dims_of("aten::mm", dims) == {}


def test_attention_layouts() -> None:
    q, kv = [2, 4096, 32, 128], [2, 4096, 8, 128]
    concrete = [""] * 8 + ["True"]
    expected = {"batch": 2, "heads": 32, "kv_heads": 8, "q_len": 4096, "kv_len": 4096,
                "head_dim": 128, "head_dim_v": 128, "causal": True}  # fmt: skip
    assert dims_of("aten::_flash_attention_forward", [q, kv, kv], [], concrete) == expected
    q, kv = [2, 32, 1, 128], [2, 8, 777, 128]
    found = dims_of("aten::_scaled_dot_product_flash_attention", [q, kv, kv], [], ["", "", "", "0"])
    assert (found["q_len"], found["kv_len"], found["heads"]) == (1, 777, 32)
    assert "causal" not in found
    # Packed sequences: lengths are values, which shapes do not tell.
    assert dims_of("aten::_flash_attention_forward", [[8192, 32, 128]] * 3) == {}


FLASH_ATTN = "flash_attn::_flash_attn_forward"


def attention_flops(folder: Path, name: str, dims: object, concrete: list[str]) -> float:
    call = op(0, 100, name, 3, dims, [BF16] * 3, concrete)
    (row,) = rows(folder, linked(call, kernel(10, 50, "flash_fwd_kernel"))).to_dict("records")
    return float(row["flops"])


def test_attention_counts_query_heads_for_flops(tmp_path: Path) -> None:
    # 4 x 32 heads x 4096 x 4096 pairs x 128, whatever the number of heads of the cache.
    dims = [[1, 4096, 32, 128], [1, 4096, 8, 128], [1, 4096, 8, 128]]
    concrete = [""] * 8 + ["False"]
    assert attention_flops(tmp_path, "aten::_flash_attention_forward", dims, concrete) == (
        274_877_906_944
    )


@pytest.mark.parametrize(
    ("name", "concrete"),
    [
        ("aten::_flash_attention_forward", [""] * 8 + ["True", "", "", "4095", "0"]),
        (FLASH_ATTN, ["", "", "", "0.0", "0.088", "True", "4095", "0"]),
        (FLASH_ATTN, ["", "", "", "0.0", "0.088", "False", "4095", "0"]),
        ("aten::_efficient_attention_forward", [""] * 9 + ["1", "", "", "", "4096"]),
    ],
)
def test_a_sliding_window_counts_the_pairs_inside(
    tmp_path: Path, name: str, concrete: list[str]
) -> None:
    # 8192 queries with at most 4096 keys each: 25,167,872 pairs, 4 x 128 FLOPs a pair.
    dims = [[1, 8192, 1, 128]] * 3
    assert attention_flops(tmp_path, name, dims, concrete) == 25_167_872 * 512


def test_no_window_and_bands_to_both_sides() -> None:
    q = [1, 64, 1, 128]
    open_ended = dims_of(FLASH_ATTN, [q] * 3, [], ["", "", "", "0", "1", "True", "-1", "-1"])
    assert open_ended["causal"] is True
    assert "window" not in open_ended
    band = ["", "", "", "0", "1", "False", "16", "16"]
    assert dims_of(FLASH_ATTN, [q] * 3, [], band) == {}


def test_convolution_by_hand() -> None:
    # ResNet's first layer: 7x7, stride 2, padding 3, 224 -> 112.
    x, w = [32, 3, 224, 224], [64, 3, 7, 7]
    flops = 2 * 32 * 112 * 112 * 64 * 3 * 7 * 7
    found = dims_of(
        "aten::conv2d", [x, w], [BF16, BF16], ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]"]
    )
    assert found["flops"] == flops
    moved = (32 * 3 * 224 * 224 + 64 * 3 * 49 + 32 * 64 * 112 * 112) * 2
    assert found["bytes"] == moved
    concrete = ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1"]
    assert dims_of("aten::cudnn_convolution", [x, w], [], concrete)["flops"] == flops
    grad = [32, 64, 112, 112]
    concrete = [""] * 10 + ["[True, True, False]"]
    back = dims_of("aten::convolution_backward", [grad, x, w], [], concrete)
    assert back["flops"] == 2 * flops
    assert dims_of("aten::conv2d", [x, w]) == {}


def test_memory_bound_ops() -> None:
    assert dims_of("aten::native_layer_norm", [[4, 8, 16], [], [16]]) == {"m": 32, "n": 16}
    assert dims_of("aten::_softmax", [[4, 8, 16]]) == {"m": 32, "n": 16}
    # Read (4, 8) and (8,), write (4, 8), two bytes each.
    found = dims_of("aten::add", [[4, 8], [8]], [BF16, BF16])
    assert found == {"bytes": (32 + 8 + 32) * 2}
    assert dims_of("aten::copy_", [[4, 8], [4, 8]], ["float", BF16]) == {"bytes": 32 * 6}
    assert dims_of("aten::embedding", [[1000, 64], [2, 7]]) == {"m": 14, "n": 64}
    assert dims_of("aten::index_select", [[1000, 64], [], [9]]) == {"m": 9, "n": 64}
    assert dims_of("aten::_fused_adamw_", [[[4, 8], [3]], [[4, 8], [3]]]) == {"m": 35}
    assert dims_of("aten::add", [[4, 8], [8]], ["mystery", BF16]) == {}


def linked(call: Event, *kernels: Event) -> list[Event]:
    """The call, its launches inside of it, and their kernels."""
    external = call["args"]["External id"]
    events = [call]
    for i, k in enumerate(kernels):
        corr = external * 100 + i
        k["args"].update({"correlation": corr, "External id": external})
        events += [launch(call["ts"] + 1 + i, corr, **{"External id": external}), k]
    return events


def rows(folder: Path, events: list[Event], **keys: object) -> pd.DataFrame:
    return read_kineto(write(folder, events, **keys)).ops


def test_work_of_a_call_is_counted_once_over_its_kernels(tmp_path: Path) -> None:
    call = op(0, 50, "aten::mm", 1, [[8192, 4096], [4096, 1024]], [BF16, BF16])
    events = linked(call, kernel(100, 90, "nvjet_tst_splitK"), kernel(200, 10, "splitKreduce"))
    (row,) = rows(tmp_path, events).to_dict("records")
    assert row["flops"] == 2 * 8192 * 4096 * 1024
    assert row["count"] == 1
    assert row["time_s"] == pytest.approx(100e-6)
    assert row["kernel"] == "nvjet_tst_splitK"
    assert (row["op_class"], row["precision"]) == ("gemm", "bf16")


def test_enclosing_op_links_where_external_ids_do_not(tmp_path: Path) -> None:
    events = [
        op(0, 100, "aten::linear", 1, [[8, 16], [32, 16]], ["float"] * 2),
        op(10, 80, "aten::mm", 2, [[8, 16], [16, 32]], ["float"] * 2),
        # This exporter writes the correlation id as External id: it names another op.
        op(500, 10, "aten::bmm", 77, [[1, 2, 3], [1, 3, 4]], ["float"] * 2),
        launch(20, 77, **{"External id": 77}),
        kernel(200, 10, "volta_sgemm", corr=77, **{"External id": 77}),
        # On another thread.
        op(0, 900, "aten::addmm", 3, [[1], [2, 3], [3, 4]], tid=5),
    ]
    (row,) = rows(tmp_path, events).to_dict("records")
    assert (row["name"], row["m"], row["n"], row["k"]) == ("aten::mm", 8, 32, 16)


def test_collectives_follow_nccl_tests(tmp_path: Path) -> None:
    def nccl(ts: float, name: str, given: int, taken: int, dtype: str) -> Event:
        return kernel(
            ts, 10, "ncclDevKernel_X", stream=20, **{
                "Collective name": name, "In msg nelems": given, "Out msg nelems": taken,
                "dtype": dtype, "Group size": 8,
                "Process Group Ranks": "[0, 4, 8, 12, 16, 20, 24, 28]",
            },
        )  # fmt: skip

    events = [
        nccl(0, "allreduce", 1000, 1000, "BFloat16"),
        nccl(100, "_allgather_base", 1000, 8000, "Float"),
        nccl(200, "_reduce_scatter_base", 8000, 1000, "Float"),
        nccl(300, "all_to_all", 8000, 8000, "Byte"),
    ]
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    found = rows(tmp_path, events, deviceProperties=devices).set_index("collective")
    assert found["message_bytes"].to_dict() == {
        "all_reduce": 2000, "all_gather": 32000, "reduce_scatter": 32000, "all_to_all": 8000,
    }  # fmt: skip
    assert (found["group_size"] == 8).all()
    assert (found["group_stride"] == 4).all()
    # Ranks 0 and 4 share a node of eight.
    assert (found["domain_span"] == 2).all()
    # nccl-tests: all_reduce sends 2 (n - 1) / n of the message, the others (n - 1) / n.
    assert found["wire_bytes"].to_dict() == pytest.approx(
        {"all_reduce": 3500, "all_gather": 28000, "reduce_scatter": 28000, "all_to_all": 7000}
    )


def test_phases_of_a_training_step(tmp_path: Path) -> None:
    node = op(100, 50, "autograd::engine::evaluate_function: MmBackward0", 2)
    events = [
        *linked(op(0, 20, "aten::mm", 1, [[2, 2], [2, 2]], ["float"] * 2), kernel(10, 5, "sgemm")),
        node,
        *linked(op(110, 20, "aten::mm", 3, [[2, 2], [2, 2]], ["float"] * 2),
                kernel(120, 5, "sgemm")),
        {**node, "cat": "user_annotation", "name": "Optimizer.step#AdamW.step", "ts": 200},
        *linked(op(210, 20, "aten::_foreach_add_", 4),
                kernel(220, 5, "multi_tensor_apply_kernel<BinaryOp>")),
    ]  # fmt: skip
    found = rows(tmp_path, events)
    assert found.set_index("phase")["op_class"].to_dict() == {
        "forward": "gemm", "backward": "gemm", "optimizer": "optimizer",
    }  # fmt: skip


def test_copies_know_their_bytes(tmp_path: Path) -> None:
    copy = {**kernel(0, 10, "Memcpy HtoD (Pinned -> Device)", bytes=4096), "cat": "gpu_memcpy"}
    found = rows(tmp_path, [copy, kernel(100, 10)])
    row = found[found["op_class"] == "copy"].iloc[0]
    assert row["bytes"] == 4096
    assert row["exposed_s"] == pytest.approx(10e-6)
