"""Levers: what each one moves, what is refused, and laws that hold for any factor."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import DataError, UsageError
from codesign.hardware import load_system
from codesign.hardware.lever_specs import NAMES, read_levers
from codesign.hardware.levers import (
    LEVERS,
    apply_lever,
    lever_value,
    parse_lever,
    step_label,
)
from codesign.hardware.model import System

BLACKWELL = load_system("gb200-nvl72")
HOPPER = load_system("hgx-h100")
SMOOTH = [name for name in NAMES if name not in ("sm_count", "nvlink_domain")]
factors = st.floats(0.3, 1.6)  # their product stays within every bound


def quantities(system: System) -> dict[str, float]:
    gpu = system.gpu
    return {
        "sms": gpu.sm_count, "tensor": gpu.tensor_clock_hz, "boost": gpu.boost_clock_hz,
        "hbm": gpu.hbm_bandwidth_bytes_per_s, "capacity": gpu.hbm_capacity_bytes,
        "l2": gpu.l2_capacity_bytes, "power": gpu.power_w,
        "nvlink": system.nvlink_bandwidth_bytes_per_s, "domain": system.nvlink_domain,
        "scaleout": system.scaleout_bandwidth_bytes_per_s, "launch": system.launch_latency_s,
        **gpu.peak_dense_flops_per_s,
    }  # fmt: skip


PEAKS = set(BLACKWELL.gpu.peak_dense_flops_per_s)
MOVES = {
    "hbm_bandwidth": {"hbm"}, "hbm_capacity": {"capacity"}, "l2_capacity": {"l2"},
    "sm_count": {"sms"} | PEAKS, "sm_clock": {"tensor", "boost"} | PEAKS,
    "bf16_throughput": {"bf16", "fp16", "tf32"}, "fp8_throughput": {"fp8", "fp6"},
    "fp4_throughput": {"fp4"}, "nvlink_bandwidth": {"nvlink"}, "nvlink_domain": {"domain"},
    "scaleout_bandwidth": {"scaleout"}, "launch_latency": {"launch"}, "power": {"power"},
}  # fmt: skip


@pytest.mark.parametrize("lever", NAMES)
def test_a_lever_doubles_what_it_names_and_nothing_else(lever: str) -> None:
    doubled = apply_lever(BLACKWELL, lever, 2.0)
    assert doubled.host == BLACKWELL.host == "grace"
    before, after = quantities(BLACKWELL), quantities(doubled)
    moved = {key for key in before if after[key] != before[key]}
    assert moved == MOVES[lever]
    for key in moved:
        assert after[key] == pytest.approx(2 * before[key])


@pytest.mark.parametrize("lever", NAMES)
def test_times_one_is_the_identity(lever: str) -> None:
    same = apply_lever(BLACKWELL, lever, 1.0)
    assert quantities(same) == quantities(BLACKWELL)
    assert same.gpu == BLACKWELL.gpu
    assert replace(same, levers=(), base=BLACKWELL.base) == BLACKWELL


@settings(max_examples=60)
@given(lever=st.sampled_from(SMOOTH), a=factors, b=factors)
def test_two_factors_compose_to_their_product(lever: str, a: float, b: float) -> None:
    twice = quantities(apply_lever(apply_lever(BLACKWELL, lever, a), lever, b))
    once = quantities(apply_lever(BLACKWELL, lever, a * b))
    assert twice == pytest.approx(once, rel=1e-12)


@settings(max_examples=60)
@given(lever=st.sampled_from(["sm_count", "nvlink_domain"]), factor=st.floats(0.05, 10.0))
def test_counts_stay_whole_and_the_kept_factor_is_the_real_one(lever: str, factor: float) -> None:
    after = apply_lever(BLACKWELL, lever, factor)
    old, new = lever_value(BLACKWELL, lever), lever_value(after, lever)
    assert new == int(new) >= 1
    assert abs(new - old * factor) <= 0.5
    assert after.levers == ((lever, pytest.approx(new / old)),)
    if lever == "sm_count":
        # The peak of one SM does not change when SMs are added.
        per_sm = after.gpu.peak_flops_per_s("bf16") / after.gpu.sm_count
        assert per_sm == pytest.approx(BLACKWELL.gpu.peak_flops_per_s("bf16") / 152)


@settings(max_examples=40)
@given(order=st.randoms(use_true_random=False), a=factors, b=factors)
def test_different_levers_commute(order: random.Random, a: float, b: float) -> None:
    first, second = order.sample(SMOOTH, 2)
    one = quantities(apply_lever(apply_lever(BLACKWELL, first, a), second, b))
    other = quantities(apply_lever(apply_lever(BLACKWELL, second, b), first, a))
    assert one == pytest.approx(other, rel=1e-12)


@settings(max_examples=60)
@given(factor=st.floats(allow_nan=True, allow_infinity=True), lever=st.sampled_from(NAMES))
def test_any_factor_gives_a_sound_system_or_a_usage_error(factor: float, lever: str) -> None:
    try:
        after = apply_lever(BLACKWELL, lever, factor)
    except UsageError:
        assert not math.isfinite(factor) or factor < 0.01 or factor > 2
        return
    assert all(math.isfinite(v) and v > 0 for v in quantities(after).values())


def test_provenance_of_a_hypothetical_system() -> None:
    after = apply_lever(apply_lever(HOPPER, "hbm_bandwidth", 1.5), "power", 1.25)
    assert after.base == "hgx-h100"
    assert after.levers == (("hbm_bandwidth", 1.5), ("power", 1.25))
    assert after.gpu.name == "h100-sxm"
    assert after.status == "hypothetical"
    assert after.name == "hgx-h100[hbm_bandwidth=x1.5,power=x1.25]"
    assert HOPPER.levers == ()


def test_h100_memory_lever_lands_on_h200() -> None:
    # 4.8 / 3.35 is what the next part did: the lever alone makes its memory system.
    lever, factor = parse_lever("hbm_bandwidth=4.8 TB/s", HOPPER)
    h200 = load_system("hgx-h200")
    after = apply_lever(HOPPER, lever, factor)
    assert after.gpu.hbm_bandwidth_bytes_per_s == h200.gpu.hbm_bandwidth_bytes_per_s
    assert after.gpu.peak_dense_flops_per_s == h200.gpu.peak_dense_flops_per_s


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("hbm_bandwidth=+50%", 1.5),
        ("hbm_bandwidth = -25 %", 0.75),
        ("hbm_bandwidth=x1.5", 1.5),
        ("hbm_bandwidth=1.5x", 1.5),
        ("hbm_bandwidth=6.7 TB/s", 2.0),
        ("nvlink_domain=72", 9.0),
        ("nvlink_domain=72 GPUs", 9.0),
        ("sm_count=264", 2.0),
        ("launch_latency=1.25 us", 0.5),
        ("scaleout_bandwidth=800 Gb/s", 2.0),
        ("fp8_throughput=3957.8 TFLOP/s", 2.0),
    ],
)
def test_ways_to_say_a_step(text: str, factor: float) -> None:
    assert parse_lever(text, HOPPER)[1] == pytest.approx(factor)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hbm_bandwidth", "expected LEVER=CHANGE"),
        ("hbm=+50%", "unknown lever 'hbm' (did you mean hbm_bandwidth or hbm_capacity?); known: "),
        ("hbm_bandwidth=5", "is not a number with a unit"),
        ("hbm_bandwidth=50%", "or a change, such as"),
        ("hbm_bandwidth=-100%", "leaves nothing"),
        ("hbm_bandwidth=x0", "a factor is a finite number"),
        ("hbm_bandwidth=-5 TB/s", "must be positive"),
        ("hbm_bandwidth=5 GHz", "converts to byte/s"),
        ("hbm_bandwidth=500 TB/s", "beyond 200 TB/s"),
        ("nvlink_domain=7.5", "whole number of GPUs"),
        ("nvlink_domain=0", "must be positive"),
        ("nvlink_domain=5000", "beyond 1024 GPUs"),
        ("fp4_throughput=x2", "h100-sxm has no peak_dense.fp4"),
        ("hbm_bandwidth=__import__('os')", "is not a number with a unit"),
    ],
)
def test_impossible_steps_are_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_lever(text, HOPPER)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_a_rate_that_is_not_there_cannot_be_scaled() -> None:
    with pytest.raises(UsageError, match=r"a100-80gb-sxm has no peak_dense\.fp8"):
        apply_lever(load_system("hgx-a100"), "fp8_throughput", 2.0)
    v100 = load_system("dgx-v100")
    doubled = apply_lever(v100, "bf16_throughput", 2.0)
    assert doubled.gpu.peak_flops_per_s("fp16") == pytest.approx(250e12)


def test_fp8_at_the_bf16_rate_is_allowed() -> None:
    gpu = replace(HOPPER.gpu, peak_dense_flops_per_s={"bf16": 1e14, "fp8": 1e14})
    system = replace(HOPPER, gpu=gpu)
    assert apply_lever(system, "fp8_throughput", 2.0).gpu.peak_flops_per_s("fp8") == 2e14


def test_step_label() -> None:
    assert step_label(HOPPER, "hbm_bandwidth", 1.5) == "+50 %: 5.03 TB/s"
    assert step_label(HOPPER, "nvlink_domain", 9.0) == "x9: 72 GPUs"
    assert step_label(HOPPER, "launch_latency", 0.5) == "-50 %: 1.25 µs"
    assert step_label(HOPPER, "nvlink_bandwidth", 1.5) == "+50 %: 675 GB/s per direction"


def test_default_steps_are_possible_on_an_eight_gpu_baseline() -> None:
    system = load_system("hgx-b200")
    for name, lever in LEVERS.items():
        for factor in lever.steps:
            apply_lever(system, name, factor)
    assert [name for name, lever in LEVERS.items() if lever.better == "down"] == ["launch_latency"]


def test_a_lever_file_with_steps_the_wrong_way(tmp_path) -> None:
    from codesign._common.files import data_dir

    text = (data_dir("hwspecs") / "levers.yaml").read_text()
    path = tmp_path / "levers.yaml"
    path.write_text(text.replace("[0.75, 0.5, 0.25]", "[1.5, 2.0]"))
    with pytest.raises(DataError, match=r"launch_latency\.steps"):
        read_levers(path)
