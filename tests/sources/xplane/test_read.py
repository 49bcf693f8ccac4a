"""Profiles of JAX: times, calls and work against values worked out by hand."""

from __future__ import annotations

import pytest

from codesign._common.errors import DataError
from codesign.sources import read
from codesign.sources.xplane import read_xplane
from tests.sources.xplane.spaces import (
    Plane,
    blob,
    hlo_plane,
    instruction,
    number,
    pair,
    shape,
    space,
    varint,
)

BF16, F32, S8 = 16, 11, 2
LAUNCH = "cuLaunchKernel"


@pytest.fixture
def saved(tmp_path):
    def save(*planes, name="run.xplane.pb"):
        path = tmp_path / name
        path.write_bytes(space(*planes))
        return path

    return save


def gpu(*events, name="/device:GPU:0"):
    plane = Plane(name)
    plane.line("Stream #7(Compute)", list(events))
    return plane


def row(char, **wanted):
    found = char.ops
    for column, value in wanted.items():
        found = found[found[column] == value]
    assert len(found) == 1, char.ops[["op_class", "name", "kernel"]]
    return found.iloc[0]


def test_kernels_of_a_real_profile(shared_data):
    char = read(shared_data / "xplane" / "tw003.xplane.pb")
    assert char.header.totals["kernels"] == 60  # 9 + 9 + 34 + 8 on four streams
    assert {s.device for s in char.header.steps} == {f"GPU:{i}" for i in range(8)}
    second = [s for s in char.header.steps if s.device == "GPU:1"]
    assert [s.kernels for s in second] == [5] * 5
    # Durations in the file, picoseconds: five kernels of the first call.
    first_ps = 4_800_000 + 6_960_000 + 16_960_000 + 301_040_000 + 342_081_000
    assert second[0].kernel_time_s == pytest.approx(first_ps * 1e-12, rel=1e-3)


def test_flops_of_a_real_convolution(shared_data):
    char = read(shared_data / "xplane" / "tw003.xplane.pb")
    # bf16[1,5120,34,31,53] from 16 channels and a kernel of 1 x 2 x 2.
    flops = 2 * (5120 * 34 * 31 * 53) * (16 * 1 * 2 * 2)
    conv = char.ops[(char.ops["op_class"] == "conv") & char.ops["flops"].notna()].iloc[0]
    assert conv["flops"] / conv["count"] == flops
    assert conv["precision"] == "bf16"
    # 1.22e8 FLOP/s-seconds: within the peak of the part.
    assert conv["flops"] / conv["time_s"] < 1307e12


def gemm_program():
    """gemm(bf16[64,128], bf16[128,256]) by a library, and a fusion that adds."""
    config = ('{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
              '"rhs_contracting_dimensions":["0"]}}}')  # fmt: skip
    return hlo_plane(
        7,
        (1, [
            instruction(1, "x", "parameter", shape(BF16, 64, 128)),
            instruction(2, "w", "parameter", shape(BF16, 128, 256)),
            instruction(3, "gemm.1", "custom-call",
                        pair(shape(BF16, 64, 256), shape(S8, 4_000_000)), (1, 2),
                        blob(28, "__cublas$lt$matmul") + blob(43, config),
                        "jit(step)/jvp(Model)/layers_3/dot_general"),
            instruction(4, "add_fusion", "fusion", shape(F32, 1000), (5,), blob(38, varint(9)),
                        "jit(step)/transpose(jvp(Model))/add_any"),
            instruction(5, "p", "parameter", shape(F32, 1000)),
        ]),
        (9, [instruction(6, "p0", "parameter", shape(F32, 1000)),
             instruction(8, "a", "add", shape(F32, 1000), (6, 6))]),
    )  # fmt: skip


def step(hlo, ident):
    return {"hlo_op": hlo, "program_id": 7, "correlation_id": ident}


def test_dims_and_work_come_from_the_program(saved):
    device = gpu(
        ("sm90_xmma_gemm_bf16", 0, 10, step("gemm.1", 1)),
        ("loop_add_fusion", 20, 5, step("add_fusion", 2)),
    )
    char = read_xplane(saved(gemm_program(), device))
    gemm = row(char, op_class="gemm")
    assert (gemm["m"], gemm["n"], gemm["k"]) == (64, 256, 128)
    assert gemm["flops"] == 2 * 64 * 256 * 128
    assert gemm["bytes"] == 2 * (64 * 128 + 128 * 256 + 64 * 256)  # the workspace is none of them
    assert gemm["name"] == "jit(step)/jvp(Model)/layers_#/dot_general"
    assert (gemm["precision"], gemm["phase"]) == ("bf16", "forward")
    add = row(char, op_class="elementwise")
    assert add["bytes"] == 2 * 4 * 1000
    assert add["phase"] == "backward"
    assert char.header.quality.known_work_share == 1.0


def test_work_is_counted_once_for_an_instruction_of_several_kernels(saved):
    events = []
    for i in range(3):
        events.append(("sm90_xmma_gemm_bf16", 100 * i, 10, step("gemm.1", 2 * i)))
        events.append(("splitKreduce_kernel", 100 * i + 12, 2, step("gemm.1", 2 * i + 1)))
    char = read_xplane(saved(gemm_program(), gpu(*events)))
    steps = char.header.quality.steps_found or 1
    assert char.ops["flops"].sum() * steps == 3 * 2 * 64 * 256 * 128
    assert char.ops["time_s"].sum() * steps == pytest.approx(36e-6)


def test_an_instruction_inside_a_while_loop_is_counted_each_time(saved):
    events = [("sm90_xmma_gemm_bf16", 20 * i, 10, step("gemm.1", i)) for i in range(4)]
    char = read_xplane(saved(gemm_program(), gpu(*events)))
    steps = char.header.quality.steps_found or 1
    assert row(char, op_class="gemm")["count"] * steps == 4


def test_a_dot_inside_a_fusion_is_a_gemm(saved):
    dot = blob(
        30, blob(1, varint(2)) + blob(2, varint(1)) + blob(3, varint(0)) + blob(4, varint(0))
    )
    program = hlo_plane(
        7,
        (1, [instruction(1, "a", "parameter", shape(BF16, 4, 32, 16)),
             instruction(2, "b", "parameter", shape(BF16, 4, 16, 8)),
             instruction(3, "gemm_fusion_dot.5", "fusion", shape(BF16, 4, 32, 8), (1, 2),
                         blob(38, varint(9)))]),
        (9, [instruction(11, "p", "parameter", shape(BF16, 4, 32, 16)),
             instruction(12, "q", "parameter", shape(BF16, 4, 16, 8)),
             instruction(13, "d", "dot", shape(BF16, 4, 32, 8), (11, 12), dot)]),
    )  # fmt: skip
    char = read_xplane(
        saved(program, gpu(("gemm_fusion_dot_5", 0, 9, step("gemm_fusion_dot.5", 1))))
    )
    gemm = row(char, op_class="gemm")
    assert [gemm[c] for c in ("batch", "m", "n", "k")] == [4, 32, 8, 16]
    assert gemm["flops"] == 2 * 4 * 32 * 8 * 16
    assert gemm["bytes"] == 2 * 4 * (32 * 16 + 16 * 8 + 32 * 8)


@pytest.mark.parametrize(
    ("target", "operands", "result", "out", "kernel"),
    [
        ("__cudnn$convForward", [(1, 8, 10, 10), (16, 8, 3, 3)], (1, 16, 8, 8), 16 * 64, 72),
        ("__cudnn$convBackwardInput", [(1, 16, 8, 8), (16, 8, 3, 3)], (1, 8, 10, 10), 16 * 64, 72),
        ("__cudnn$convBackwardFilter", [(1, 8, 10, 10), (1, 16, 8, 8)], (16, 8, 3, 3), 16 * 64, 72),
    ],
)
def test_the_three_convolutions_of_a_layer_do_the_same_work(
    saved, target, operands, result, out, kernel
):
    numbers = blob(16, number(3, 1) + number(4, 0) + number(8, 1) + number(10, 1))
    program = hlo_plane(
        7,
        (1, [instruction(0, "p0", "parameter", shape(F32, *operands[0])),
             instruction(1, "p1", "parameter", shape(F32, *operands[1])),
             instruction(9, "conv.1", "custom-call", pair(shape(F32, *result), shape(S8, 512)),
                         (0, 1), blob(28, target) + numbers)]),
    )  # fmt: skip
    char = read_xplane(saved(program, gpu(("cudnn::conv_kernel", 0, 9, step("conv.1", 1)))))
    assert row(char, op_class="conv")["flops"] == 2 * out * kernel


def test_an_unknown_part_of_an_operand_leaves_the_bytes_unknown(saved):
    program = hlo_plane(
        7,
        (1, [instruction(1, "p", "parameter", shape(F32, 1_000_000)),
             instruction(2, "slice_fusion", "fusion", shape(F32, 10), (1,), blob(38, varint(9)))]),
        (9, [instruction(3, "q", "parameter", shape(F32, 1_000_000)),
             instruction(4, "s", "dynamic-slice", shape(F32, 10), (3,))]),
    )  # fmt: skip
    char = read_xplane(saved(program, gpu(("loop_slice_fusion", 0, 9, step("slice_fusion", 1)))))
    assert char.ops["bytes"].isna().all()
    assert char.header.quality.known_work_share == 0.0
    assert not char.header.quality.reliable("flops")


def test_steps_by_annotation_and_exposed_communication(saved):
    host = Plane("/host:CPU")
    host.line("python", [("train", 0, 100, {"step_num": 4}), ("train", 100, 100, {"step_num": 5}),
                         (LAUNCH, 1, 1, {"correlation_id": 1}),
                         (LAUNCH, 5, 1, {"correlation_id": 2}),
                         (LAUNCH, 101, 1, {"correlation_id": 3})])  # fmt: skip
    device = Plane("/device:GPU:0")
    device.line("Stream #7(Compute)", [("loop_add_fusion", 10, 40, {"correlation_id": 1}),
                                       ("loop_add_fusion", 110, 20, {"correlation_id": 3})],
                )  # fmt: skip
    device.line("Stream #9(Compute)", [("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 30, 40,
                                        {"correlation_id": 2})])  # fmt: skip
    header = read_xplane(saved(device, host)).header
    assert header.quality.steps_by == "step_num"
    assert [s.name for s in header.steps] == ["step 4", "step 5"]
    assert header.steps[0].exposed_comm_s == pytest.approx(20e-6)
    assert header.steps[0].idle_s == pytest.approx(40e-6)
    assert header.steps[1].idle_s == pytest.approx(80e-6)
    assert header.quality.launch_coverage == 1.0


def test_collectives_carry_their_message(saved):
    groups = blob(49, blob(1, b"".join(map(varint, range(8)))))
    program = hlo_plane(
        7,
        (1, [instruction(1, "p", "parameter", shape(BF16, 1000)),
             instruction(2, "all-gather-start.1", "all-gather-start",
                         pair(shape(BF16, 1000), shape(BF16, 8000)), (1,), groups)]),
    )  # fmt: skip
    kernel = "ncclDevKernel_AllGather_RING_LL"
    char = read_xplane(saved(program, gpu((kernel, 0, 9, step("all-gather-start.1", 1)))))
    gather = row(char, op_class="collective")
    # nccl-tests count an all_gather by its total.
    assert (gather["collective"], gather["message_bytes"], gather["group_size"]) == (
        "all_gather", 16000, 8,
    )  # fmt: skip


def tpu():
    plane = Plane("/device:TPU:0")
    plane.line("Steps", [("0", 0, 100, {}), ("1", 100, 100, {})])
    plane.line("XLA Ops", [
        ("while.3", 0, 60, {}), ("fusion.7", 0, 40, {}), ("loop_fusion.2", 40, 20, {}),
        ("while.3", 100, 60, {}), ("fusion.7", 100, 40, {}), ("loop_fusion.2", 140, 20, {}),
        ("all-reduce.1", 70, 10, {}),
    ])  # fmt: skip
    plane.event_stats = {
        "fusion.7": {"hlo_category": "convolution fusion", "flops": 4_000_000,
                     "bytes_accessed": 900, "tf_op": "jit(step)/dot_general:"},
        "loop_fusion.2": {"hlo_category": "loop fusion", "flops": 77, "bytes_accessed": 500,
                          "tf_op": "jit(step)/mul:"},
        "while.3": {"hlo_category": "while"},
        "all-reduce.1": {"hlo_category": "all-reduce", "bytes_accessed": 4096},
    }  # fmt: skip
    return plane


def test_ops_of_a_tpu(saved):
    char = read_xplane(saved(tpu()))
    # The loop encloses its ops: counted with them it would be 120 us of 80.
    assert not char.ops["name"].str.contains("while").any()
    gemm = row(char, op_class="gemm")
    assert (gemm["count"], gemm["flops"], gemm["bytes"]) == (1.0, 4_000_000, 900)
    assert gemm["name"] == "jit(step)/dot_general"
    loop = row(char, op_class="elementwise")
    assert loop["bytes"] == 500
    assert loop["flops"] is None or loop.isna()["flops"]  # of matrix products only
    assert row(char, op_class="collective")["collective"] == "all_reduce"
    assert [s.time_s for s in char.header.steps] == pytest.approx([100e-6, 100e-6])
    assert char.header.steps[0].idle_s == pytest.approx(30e-6)
    assert char.header.steps[0].exposed_comm_s == pytest.approx(10e-6)


def test_devices_are_never_added_up(saved):
    one = ("loop_add_fusion", 0, 100, {})
    header = read_xplane(saved(gpu(one), gpu(one, name="/device:GPU:1"))).header
    assert [(s.device, s.compute_s) for s in header.steps] == [
        ("GPU:0", pytest.approx(100e-6)), ("GPU:1", pytest.approx(100e-6)),
    ]  # fmt: skip


def test_copies_have_their_bytes(saved):
    details = {"memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"}
    char = read_xplane(saved(gpu(("MemcpyH2D", 0, 3, details), ("loop_add_fusion", 5, 1, {}))))
    assert row(char, op_class="copy")["bytes"] == 4096
    assert char.header.totals["kernels"] == 1


def test_picoseconds_become_nanoseconds_without_gaps(saved):
    device = gpu(("loop_add_fusion", 0.0, 1.0004, {}), ("loop_mul_fusion", 1.0004, 1.0004, {}))
    header = read_xplane(saved(device)).header
    assert header.totals["busy_s"] == header.totals["span_s"] == pytest.approx(2.001e-6)


@pytest.mark.parametrize("planes", [[Plane("/host:CPU")], [Plane("/device:GPU:0")]])
def test_no_device_activity_says_so(saved, planes):
    with pytest.raises(DataError, match="no device activity"):
        read_xplane(saved(*planes))


def test_a_profile_that_was_cut(saved, tmp_path):
    whole = saved(
        gpu(("loop_add_fusion", 0, 5, {})), gpu(("loop_add_fusion", 0, 9, {}), name="/device:GPU:1")
    )
    short = tmp_path / "short.xplane.pb"
    short.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"truncated at byte \d+ after 1 complete planes"):
        read_xplane(short)
    char = read_xplane(short, allow_truncated=True)
    assert not char.header.quality.complete
    assert not char.header.quality.reliable("idle")


def test_the_kind_is_told_by_content(saved):
    assert read(saved(gpu(("loop_add_fusion", 0, 5, {})), name="profile.bin")).header.totals


def test_nothing_of_a_program_is_needed(saved):
    char = read_xplane(saved(gpu(("loop_add_fusion", 0, 5, {"hlo_op": "add.1", "program_id": 99}))))
    assert row(char, op_class="elementwise")["name"] == "add"
    assert any("no HLO" in w or "unknown" in w for w in char.header.quality.warnings)


def test_faults_of_recording_are_handled_as_in_other_traces(saved):
    """A duration over the next slice is clipped, a kernel before its launch has no latency."""
    host = Plane("/host:CPU")
    host.line("t", [(LAUNCH, 0, 1, {"correlation_id": 1}), (LAUNCH, 105, 1, {"correlation_id": 2})])
    device = gpu(
        ("loop_add_fusion", 0, 1_000_000, {"correlation_id": 1}),
        ("loop_mul_fusion", 100, 10, {"correlation_id": 2}),
        ("loop_sub_fusion", 120, 10, {"correlation_id": 3}),
    )
    header = read_xplane(saved(device, host)).header
    assert header.totals["busy_s"] == pytest.approx(120e-6)
    assert header.totals["span_s"] == pytest.approx(130e-6)
    assert header.quality.clipped_events == 1
    assert header.quality.skewed_launches == 1
    assert header.quality.orphan_kernels == 1


def test_a_nameless_gpu_stays_unknown_and_says_what_is_told_of_it(saved, shared_data):
    header = read(shared_data / "xplane" / "tw003.xplane.pb").header
    assert header.system is None
    assert any("AMD, compute capability 9.4, 304 SMs or CUs, 206 GB" in n for n in header.notes)
    assert any("--system" in w for w in header.quality.warnings)


def test_hostile_names_are_printable(saved):
    char = read_xplane(saved(gpu(("evil\x01\x1b[2J\n", 0, 5, {"hlo_op": "a\x01b"}))))
    assert char.ops["name"].iloc[0].isprintable()
    assert char.ops["kernel"].iloc[0].isprintable()
