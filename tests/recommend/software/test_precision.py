from __future__ import annotations

import pytest

from codesign.hardware import load_system
from tests.projection.fakes import FakeModel
from tests.recommend.software.cases import (
    compute,
    cube,
    found,
    hopper,
    look,
    nothing,
    of_architecture,
    silence,
    without_model,
)

FLOPS = 2 * 8192**3
BF16_S = FLOPS / 1e15 + 1e-6
FP8_S = FLOPS / 2e15 + 1e-6


def test_fp8_takes_half_the_tensor_time_of_a_bound_gemm() -> None:
    finding = found("fp8_gemms", look([cube(8192, BF16_S), compute(BF16_S)], base=hopper()))
    # Half the step is the GEMM; 80 % of what FP8 saves of it is taken.
    saved = 0.5 * (1 - FP8_S / BF16_S)
    assert finding.bound_s == pytest.approx(FP8_S)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.8 * saved))
    # Casting 8192 x 8192 from 2 bytes to 1 moves 201 MB: 201 us at 1 TB/s.
    assert "201 µs" in finding.bound


@pytest.mark.parametrize(
    "change", [{"k": 8200}, {"n": 8190}, {"name": "lm_head"}, {"batch": 4}, {"precision": "fp32"}]
)
def test_gemms_that_do_not_qualify(change: dict[str, object]) -> None:
    assert nothing("fp8_gemms", look([cube(8192, BF16_S, **change)], base=hopper()))


def test_a_part_without_a_faster_rate_gains_nothing_and_the_reason_is_given() -> None:
    rows = [cube(8192, BF16_S)]
    # The toy's BF16 peak is 1 PFLOP/s; an FP8 peak of as much halves no time.
    said = silence("fp8_gemms", look(rows, base=hopper(fp8=1e15)))
    assert said == "toy multiplies in FP8 at its BF16 rate: FP8 gains x1.00"
    assert nothing("fp8_gemms", look(rows, base=of_architecture("ampere")))
    assert nothing("mxfp8_gemms", look(rows, base=hopper()))


@pytest.mark.parametrize(
    ("rule", "part", "key"),
    [("fp8_gemms", "hgx-a100", "fp8"), ("nvfp4_gemms", "hgx-h100", "fp4"),
     ("nvfp4_gemms", "hgx-h200", "fp4")],
)  # fmt: skip
def test_a_rate_that_a_spec_lacks_is_named_by_its_key(rule: str, part: str, key: str) -> None:
    """A100 has no FP8 and Hopper no FP4 tensor cores: no data sheet gives a peak."""
    base = load_system(part)
    at = look([cube(8192, 1.0)], base=base, system=part)
    assert f"{base.gpu.name} has no dense {key.upper()} peak (peak_dense.{key} of its spec)" in (
        silence(rule, at)
    )


class CastsCost(FakeModel):
    """Narrow GEMMs pay 2 ms a call, as a cast that nothing fuses might."""

    def times(self, ops, systems, draws=None):  # type: ignore[no-untyped-def]
        cast = ops["precision"].isin(["fp8", "mxfp8", "nvfp4"]).to_numpy(dtype=bool)
        return super().times(ops, systems, draws) + 2e-3 * cast


def test_an_op_that_the_cast_would_slow_down_stays() -> None:
    rows = [cube(8192, BF16_S, name="small"), cube(32768, 64 * BF16_S, name="large")]
    finding = found("fp8_gemms", look(rows, base=hopper(), model=CastsCost()))
    assert [op.name for op in finding.ops] == ["large"]


def test_without_a_model_nothing_is_said() -> None:
    at = without_model([cube(8192, BF16_S)], base=hopper())
    assert "no model" in silence("fp8_gemms", at)


def test_blackwell_offers_three_formats_and_fp4_the_most() -> None:
    base = of_architecture("blackwell", fp4=4e15)
    at = look([cube(8192, BF16_S)], base=base)
    gains = [found(f"{key}_gemms", at).gain.hi for key in ("fp8", "mxfp8", "nvfp4")]
    assert gains[0] == pytest.approx(BF16_S / FP8_S)
    assert gains[1] == pytest.approx(gains[0])
    assert gains[2] == pytest.approx(BF16_S / (FLOPS / 4e15 + 1e-6))
