from __future__ import annotations

import pytest

from codesign.recommend.software.gemm import causes
from tests.recommend.software.cases import (
    compute,
    cube,
    found,
    hopper,
    look,
    nothing,
    silence,
    unreliable,
    without_model,
)

# 8192^3 in bf16 at 1 PFLOP/s: 1.0995 ms, and 1 us of launch by the fake model.
ATTAINABLE_S = 2 * 8192**3 / 1e15 + 1e-6


def test_a_slow_gemm_gains_up_to_the_modelled_time() -> None:
    finding = found("slow_gemms", look([cube(8192, 4 * ATTAINABLE_S)]))
    # Three quarters can go, 85 % of them does.
    assert finding.bound_s == pytest.approx(ATTAINABLE_S)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.85 * 0.75))
    assert finding.gain.hi == pytest.approx(4.0)


def test_a_gemm_near_its_bound_is_no_finding() -> None:
    assert nothing("slow_gemms", look([cube(8192, 1.1 * ATTAINABLE_S)]))


def test_a_slow_gemm_of_no_weight_is_no_finding() -> None:
    rows = [cube(8192, 4 * ATTAINABLE_S), compute(1.0)]
    assert nothing("slow_gemms", look(rows))


def test_without_a_model_the_best_peer_of_like_intensity_is_the_bound() -> None:
    roof = 2 * 8192**3 / 1e15
    # Two reach 80 % of the peak, the third 20 %: a quarter of its time is attainable.
    rows = [cube(8192, roof / 0.8, name=f"peer{i}") for i in range(2)]
    rows.append(cube(8192, roof / 0.2, name="slow"))
    finding = found("slow_gemms", without_model(rows))
    assert [op.name for op in finding.ops] == ["slow"]
    assert finding.bound_s == pytest.approx(roof / 0.8)


def test_without_model_or_peers_nothing_is_said() -> None:
    at = without_model([cube(8192, 1.0)])
    assert "neither the model nor" in silence("slow_gemms", at)


def test_peers_of_another_intensity_set_no_bound() -> None:
    roof = 2 * 8192**3 / 1e15
    thin = {"m": 8, "n": 8192, "k": 8192, "flops": 2.0 * 8 * 8192**2, "bytes": 2.0 * 8192**2}
    # Thin GEMMs at a tenth of HBM's rate beside fat ones at 80 % of the peak.
    rows = [cube(8192, roof / 0.8, name=f"fat{i}") for i in range(2)]
    rows += [cube(8192, 1.4e-3, **thin, name=f"thin{i}") for i in range(2)]
    assert nothing("slow_gemms", without_model(rows))


def test_flops_that_are_not_reliable_are_no_evidence() -> None:
    at = look([cube(8192, 4 * ATTAINABLE_S)], quality=unreliable("flops"))
    assert silence("slow_gemms", at).startswith("flops not reliable")


def test_fp32_is_not_held_to_a_tensor_bound() -> None:
    assert nothing("slow_gemms", look([cube(8192, 1.0, precision="fp32")], model=None))


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"kernel": "cutlass_80_tensorop_bf16_align1", "n": 3137},
         "loads of 2 bytes (align1; 3137 is no multiple of 8)"),
        ({"kernel": "gemm_128x128_nn", "m": 130, "n": 8192}, "tiles that hang over the edge"),
        # 10 x 11 tiles on 100 SMs: a second wave of 10.
        ({"kernel": "gemm_128x128_nn", "m": 1280, "n": 1408}, "a last wave of tiles"),
        # Four tiles on 100 SMs.
        ({"kernel": "gemm_128x128_nn", "m": 256, "n": 256}, "fewer tiles than half the SMs"),
        ({"kernel": "ampere_sgemm_64x64"}, "kernels of an older architecture"),
    ],
)  # fmt: skip
def test_causes_are_read_from_dims_and_kernels(change: dict[str, object], cause: str) -> None:
    at = look([cube(8192, 1.0, **change)], base=hopper())
    assert any(found.startswith(cause) for found in causes(at, 0))


def test_whole_aligned_waves_have_no_cause() -> None:
    # 10 x 10 tiles of 128 on 100 SMs.
    row = cube(8192, 1.0, kernel="sm90_gemm_128x128_align8", m=1280, n=1280)
    assert causes(look([row], base=hopper()), 0) == []
