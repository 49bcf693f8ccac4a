"""Lints: each slip that has cost somebody a wrong number."""

from __future__ import annotations

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.hardware import list_gpus, load_gpu, load_system
from codesign.hardware.load import check_library, read_gpu, read_system, spec_files
from tests.hardware.conftest import Writer

# The L40S as published in two conventions: dense BF16 beside sparse FP8.
L40S_MIXED = {
    "architecture": "ada",
    "sm_count": 142,
    "clocks": {"tensor": "2520 MHz", "boost": "2520 MHz"},
    "peak_dense": {"bf16": "362.05 TFLOP/s", "fp8": "1466 TFLOP/s", "fp32": "91.6 TFLOP/s"},
}


def test_the_shipped_library_passes() -> None:
    for kind, path in spec_files():
        (read_gpu if kind == "gpus" else read_system)(path)
    assert check_library() == []


def test_sparse_fp8_beside_dense_bf16(gpu_file: Writer) -> None:
    with pytest.raises(DataError, match=r"peak_dense\.fp8: fp8/bf16 = 4\.05, expected 2"):
        load_gpu(gpu_file(L40S_MIXED))


def test_sparse_figures_throughout_do_not_close(gpu_file: Writer) -> None:
    # Twice the dense peaks everywhere: the ratio is 2, the arithmetic of the SMs is not.
    sparse = {"peak_dense.bf16": "819.2 TFLOP/s", "peak_dense.fp8": "1638.4 TFLOP/s"}
    with pytest.raises(DataError, match=r"peak_dense\.bf16.*100 SMs x 4096.*ratio 2\.00"):
        load_gpu(gpu_file(sparse))


def test_base_clock_in_place_of_boost(gpu_file: Writer) -> None:
    # 68 SMs x 64 lanes x 2 x 1.545 GHz = 13.4 TFLOP/s, where 15.9 was claimed: 118 %.
    turing = {
        "architecture": "turing", "sm_count": 68, "peak_dense": {"fp32": "15.9 TFLOP/s"},
        "flop_per_clock_per_sm": {"fp32": 128},
        "clocks": {"tensor": "1545 MHz", "boost": "1545 MHz"},
    }  # fmt: skip
    with pytest.raises(DataError, match=r"13\.4 TFLOP/s \(ratio 1\.18"):
        load_gpu(gpu_file(turing))


def test_tensor_clock_above_boost(gpu_file: Writer) -> None:
    with pytest.raises(DataError, match=r"clocks\.tensor.*clock above declared"):
        load_gpu(gpu_file({"clocks.boost": "900 MHz", "peak_dense.fp32": "23.04 TFLOP/s"}))


def test_both_directions_added(gpu_file: Writer, system_file: Writer) -> None:
    with pytest.raises(DataError, match=r"nvlink\.bandwidth_per_direction.*ratio 2\.00"):
        load_gpu(gpu_file({"nvlink.bandwidth_per_direction": "900 GB/s"}))
    with pytest.raises(DataError, match=r"nvlink_bandwidth_per_direction.*ratio 2\.00"):
        load_system(system_file({"nvlink_bandwidth_per_direction": "900 GB/s"}))


def test_busbw_against_the_link_is_per_direction() -> None:
    # all_reduce of 1e9 bytes over 8 GPUs in 5 ms: algbw 200, busbw 200 x 2 x 7 / 8 = 350 GB/s.
    busbw = 1e9 / 5e-3 * 2 * 7 / 8
    link = load_system("hgx-h100").nvlink_bandwidth_bytes_per_s
    assert busbw / link == pytest.approx(0.778, abs=5e-4)


def test_nic_in_bytes_where_bits_were_meant(system_file: Writer) -> None:
    with pytest.raises(DataError, match=r"scaleout.*3\.20 Tb/s.*quoted in bits"):
        load_system(system_file({"scaleout_bandwidth_per_direction": "400 GB/s"}))


def test_an_exception_silences_one_lint_only(gpu_file: Writer) -> None:
    reason = {"exceptions": {"peak_dense.fp8": "runs FP8 at the BF16 rate"}}
    part = load_gpu(gpu_file({"peak_dense.fp8": "409.6 TFLOP/s", **reason}))
    assert part.peak_flops_per_s("fp8") == part.peak_flops_per_s("bf16")
    with pytest.raises(DataError, match=r"fp8/bf16 = 1\.00, expected 2"):
        load_gpu(gpu_file({"peak_dense.fp8": "409.6 TFLOP/s"}))
    with pytest.raises(DataError, match=r"peak_dense\.bf16"):
        load_gpu(gpu_file({"peak_dense.bf16": "819.2 TFLOP/s", **reason}))


def test_a_left_out_rate_is_named(gpu_file: Writer) -> None:
    with pytest.raises(DataError, match=r"peak_dense\.fp8: missing, though hopper parts have it"):
        load_gpu(gpu_file({"peak_dense.fp8": None}))
    with pytest.raises(UsageError, match=r"a100-80gb-sxm has no peak_dense\.fp8"):
        load_gpu("a100-80gb-sxm").peak_flops_per_s("fp8")


def test_an_architecture_of_ones_own_states_its_rates(gpu_file: Writer) -> None:
    with pytest.raises(DataError, match=r"architecture: 'next' is not known.*flop_per_clock"):
        load_gpu(gpu_file({"architecture": "next"}))
    own = {"architecture": "next", "flop_per_clock_per_sm": {"bf16": 4096}}
    assert load_gpu(gpu_file(own)).architecture == "next"


def test_all_problems_are_told_at_once(gpu_file: Writer) -> None:
    with pytest.raises(DataError) as error:
        load_gpu(gpu_file({"nvlink.bandwidth_per_direction": "900 GB/s",
                           "peak_dense.bf16": "819.2 TFLOP/s"}))  # fmt: skip
    assert "nvlink" in str(error.value)
    assert "peak_dense.bf16" in str(error.value)


def test_one_die_of_a_package() -> None:
    # 147 TFLOP/s measured on one die of the MI250X is 76.8 % of a die, not 38 % of the package.
    gpu = load_gpu("mi250x")
    assert gpu.dies == 2
    assert 147e12 / (gpu.peak_flops_per_s("bf16") / gpu.dies) == pytest.approx(0.768, abs=5e-4)
    assert [name for name in list_gpus() if load_gpu(name).dies > 1] == ["mi250x"]


def test_b300_fp4_closes_arithmetically() -> None:
    # 148 SMs x 49152 FLOP/clock x 1856 MHz = 13.50 PFLOP/s, of five published figures.
    gpu = load_gpu("b300-sxm")
    assert gpu.peak_flops_per_s("nvfp4") == pytest.approx(148 * 49152 * 1856e6, rel=1e-3)
    assert gpu.labels["peak_dense.fp4"] == "disputed"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # bf16 of the fixture is 409.6 TFLOP/s: FP16 runs at that rate, TF32 at half, INT8 at twice.
        ({"peak_dense.fp16": "819.2 TFLOP/s"}, r"peak_dense\.fp16: .* is 2\.00 x bf16, no part"),
        ({"peak_dense.tf32": "409.6 TFLOP/s"}, r"peak_dense\.tf32: .* is 1\.00 x bf16, no part"),
        ({"peak_dense.int8": "1638.4 TFLOP/s"}, r"peak_dense\.int8: .* is 4\.00 x bf16, no part"),
        ({"memory.capacity": "141 TB"}, r"memory\.capacity: 141 TB, more than any package"),
        ({"power": "700 kW"}, r"power: 700 kW, more than any package"),
    ],
)
def test_figures_that_no_part_has(gpu_file: Writer, changes: dict[str, str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        load_gpu(gpu_file(changes))
