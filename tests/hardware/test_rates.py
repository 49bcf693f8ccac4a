"""Rates of multiplies, of data sheets: a part without a format runs it at a wider type's."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign._common.errors import UsageError
from codesign.hardware import load_gpu
from codesign.hardware.model import PEAK_OF_PRECISION
from codesign.hardware.rates import rate_of

H100 = load_gpu("h100-sxm")
KEYS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")


@pytest.mark.parametrize(
    ("part", "precision", "key", "tflops"),
    [
        # A100 has no FP8 tensor cores, V100 no BF16 ones, H100 no FP4 ones.
        ("a100-80gb-sxm", "fp8", "bf16", 312.0),
        ("a100-80gb-sxm", "mxfp8", "bf16", 312.0),
        ("a100-80gb-sxm", "nvfp4", "bf16", 312.0),
        ("v100", "bf16", "fp16", 125.0),
        ("v100", "fp8", "fp16", 125.0),
        ("h100-sxm", "nvfp4", "fp8", 1978.9),
        ("h100-sxm", "fp8_block", "fp8", 1978.9),
        ("h100-sxm", "bf16", "bf16", 989.4),
    ],
)
def test_rates_of_data_sheets(part: str, precision: str, key: str, tflops: float) -> None:
    found, rate = rate_of(load_gpu(part), precision)
    assert found == key
    assert rate == pytest.approx(tflops * 1e12, rel=2e-3)


def test_a_format_that_no_type_of_the_part_holds_has_no_rate() -> None:
    gpu = replace(H100, peak_dense_flops_per_s={"fp32": 67e12})
    key, rate = rate_of(gpu, "bf16")
    assert key == ""
    assert math.isnan(rate)
    # And nothing wider is taken for a format of twice the digits.
    assert rate_of(replace(H100, peak_dense_flops_per_s={"bf16": 1e15}), "fp32")[0] == ""


@given(
    keys=st.sets(st.sampled_from(KEYS), min_size=1), precision=st.sampled_from([*PEAK_OF_PRECISION])
)
def test_its_own_rate_or_a_wider_one_and_never_another(keys: set[str], precision: str) -> None:
    peaks = {key: float(index + 1) for index, key in enumerate(sorted(keys))}
    gpu = replace(H100, peak_dense_flops_per_s=peaks)
    key, rate = rate_of(gpu, precision)
    bits = {"fp64": 64, "fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8,
            "fp4": 4}  # fmt: skip
    own = PEAK_OF_PRECISION[precision]
    if own in peaks:
        assert (key, rate) == (own, peaks[own])
        assert gpu.peak_flops_per_s(precision) == rate
        return
    with pytest.raises(UsageError, match=rf"no peak_dense\.{own} \(needed for {precision}\)"):
        gpu.peak_flops_per_s(precision)
    assert key == "" or bits[key] >= bits[own]
