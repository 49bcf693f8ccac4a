"""What is said of ops whose format a system has no rate for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.hardware import load_system
from codesign.projection.rates import borrowed_rates
from tests.projection.fakes import characterization, collective, gemm

A100, H100 = load_system("hgx-a100"), load_system("hgx-h100")
CHAR = characterization([
    gemm(3.0, 1e15, 1e9, precision="fp8"), gemm(1.0, 1e15, 1e9, precision="mxfp8"),
    gemm(2.0, 1e15, 1e9), collective(4.0, 1e9, precision="fp8"),
])  # fmt: skip
SHARE = np.array([0.3, 0.1, 0.2, 0.4])


def test_the_format_its_share_and_the_rate_taken_are_named() -> None:
    # 0.3 + 0.1 of the step multiply in FP8; what a collective carries multiplies nothing.
    (said,) = borrowed_rates(CHAR, SHARE, A100)
    assert said == (
        "hgx-a100: a100-80gb-sxm has no peak_dense.fp8; ops of 40.0 % of the measured step "
        "multiply in fp8, taken to run at its bf16 rate of 312 TFLOP/s, an assumption"
    )


def test_nothing_is_said_of_a_part_that_has_the_rates() -> None:
    assert borrowed_rates(CHAR, SHARE, H100) == ()
    assert borrowed_rates(CHAR, SHARE * 0.0, A100) == ()


def test_a_part_without_any_wider_rate() -> None:
    bare = replace(H100, gpu=replace(H100.gpu, peak_dense_flops_per_s={"fp32": 1e12}))
    said = borrowed_rates(CHAR, SHARE, bare)
    assert len(said) == 2
    assert all(line.endswith("and it has no wider rate for them") for line in said)
