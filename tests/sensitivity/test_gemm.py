from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.hardware import load_system
from codesign.sensitivity.gemm import LENT, TILE_PARAMETERS, GemmModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.workload.schema import ops_frame
from tests.sensitivity.laws import (
    CAPABILITIES,
    assert_monotone,
    assert_terms_agree,
    example_system,
    scaled,
)

THETA = np.array([p.initial for p in TILE_PARAMETERS])


def gemm(m: int, n: int, k: int, precision: str = "bf16", count: float = 1.0) -> pd.DataFrame:
    return ops_frame([{"op_class": "gemm", "name": "x", "precision": precision, "m": m, "n": n,
                       "k": k, "count": count, "evidence": "assumed"}])  # fmt: skip


def time(ops: pd.DataFrame, capability: str = "clock", factor: float = 1.0) -> float:
    hw = hardware_arrays([scaled(example_system(), capability, factor)])
    model = GemmModel()
    return float(model.times(THETA, model.features(ops), hw)[0, 0])


shapes = st.tuples(*[st.integers(1, 20_000)] * 3)
factors = st.lists(st.floats(0.25, 4.0), min_size=2, max_size=5)


@settings(max_examples=60)
@given(shapes, st.sampled_from(["bf16", "fp8", "fp8_block"]), st.sampled_from(CAPABILITIES),
       factors)  # fmt: skip
def test_time_never_rises_with_a_capability(shape, precision, capability, factors) -> None:
    assert_monotone(GemmModel(), gemm(*shape, precision), example_system(), capability, factors)


@settings(max_examples=60)
@given(shapes, st.integers(40, 300))
def test_one_more_sm_never_slows_a_gemm(shape, sm_count) -> None:
    system = example_system()
    steps = [(sm_count + extra) / system.gpu.sm_count for extra in range(6)]
    assert_monotone(GemmModel(), gemm(*shape), system, "sm_count", steps)


def test_fast_path_equals_the_combined_terms() -> None:
    ops = pd.concat([gemm(16, 8192, 8192), gemm(4096, 4096, 4096), gemm(1, 1, 1)])
    assert_terms_agree(GemmModel(), ops, example_system())


def test_no_faster_than_the_datasheet_allows() -> None:
    # 2 m n k / peak and weights / bandwidth: hand-derived lower limits of H100's rates.
    big = time(gemm(8192, 8192, 8192))
    assert big > 2 * 8192**3 / 989.4e12
    decode = time(gemm(1, 16384, 16384))
    assert decode > 2 * 16384**2 / 3.35e12
    assert decode < 2 * 2 * 16384**2 / 3.35e12


def test_hbm_moves_decode_and_not_prefill() -> None:
    decode = time(gemm(16, 16384, 16384), "hbm_bandwidth_bytes_per_s", 1.43)
    assert time(gemm(16, 16384, 16384)) / decode == pytest.approx(1.39, abs=0.05)
    prefill = time(gemm(8192, 8192, 8192), "hbm_bandwidth_bytes_per_s", 1.43)
    assert time(gemm(8192, 8192, 8192)) / prefill < 1.03


def test_tensor_rate_moves_prefill_and_not_decode() -> None:
    doubled = time(gemm(8192, 8192, 8192), "peaks_flops_per_s", 2.0)
    assert 1.5 < time(gemm(8192, 8192, 8192)) / doubled <= 2.0
    assert time(gemm(1, 16384, 16384)) / time(gemm(1, 16384, 16384), "peaks_flops_per_s", 2) < 1.05


def test_an_sm_lever_requantizes() -> None:
    # 132 tiles of 128 x 256 fill 132 SMs once: half as many again leave the wave whole,
    # so that a shape with one full wave gains less than one of very many waves.
    one_wave = gemm(128 * 12, 256 * 11, 8192)
    many = gemm(128 * 12 * 8, 256 * 11 * 8, 8192)
    gains = [time(x) / time(x, "sm_count", 1.25) for x in (one_wave, many)]
    assert gains[1] > 1.15
    assert gains[0] < gains[1]


def test_features_are_of_one_call() -> None:
    assert time(gemm(64, 4096, 4096, count=7.0)) == time(gemm(64, 4096, 4096))


def test_rows_without_dims_are_not_covered() -> None:
    ops = gemm(64, 64, 64)
    ops["k"] = pd.NA
    assert not GemmModel().applies(ops).any()


def _lasting(watts: float, m: int) -> float:
    """Time of an m x 4096 x 4096 multiply at so many watts, over that at a thousand times."""
    base = load_system("hgx-h100")
    parts = [replace(base, gpu=replace(base.gpu, power_w=w)) for w in (watts, 1000.0 * watts)]
    model = GemmModel()
    times = model.times(THETA, model.features(gemm(m, 4096, 4096)), hardware_arrays(parts))
    return float(times[0, 0] / times[1, 0])


def test_lasting_multiplies_lose_clock_where_watts_are_few() -> None:
    """The clock that 1/2.6 of the watts of a full one hold is its cube root: 1.375 times slower."""
    full = 1.3  # where `full_headroom` starts: 700 W are 1, so 350 W are 0.5
    assert _lasting(350.0, 10**8) == pytest.approx((full / 0.5) ** (1 / 3), rel=0.1)
    assert _lasting(350.0, 10**8) < (full / 0.5) ** (1 / 3)
    assert _lasting(350.0, 256) < 1.02
    assert _lasting(700.0 * full, 1e8) == 1.0


@pytest.mark.parametrize(("name", "faster"), [("hgx-h100", 1.0), ("hgx-b200", 2.0)])
def test_rates_are_lent_where_instructions_scale_the_blocks(name: str, faster: float) -> None:
    """Twice the share of the peak: half the time of a long multiply on Blackwell, not on Hopper."""
    names = [p.name for p in TILE_PARAMETERS]
    own = THETA.copy()
    own[names.index("tensor_efficiency")], own[names.index("full_headroom")] = 0.4, 0.3
    own[names.index("k_clocks")] = 0.01
    lent = own.copy()
    lent[names.index("tensor_efficiency")] = 0.8
    lent[names.index("quantize_s")] = 1.0  # a second, and not a rate: it is not lent
    model, hw = GemmModel(), hardware_arrays([load_system(name)])
    features = model.features(gemm(65536, 16384, 16384, "fp8_block"))
    alone = model.times(own, features, hw)[0, 0]
    with_lent = model.times(np.concatenate([own, lent]), features, hw)[0, 0]
    assert alone / with_lent == pytest.approx(faster, rel=0.1)
    assert set(names) >= LENT


def test_systems_of_both_kinds_are_timed_as_each_one_alone() -> None:
    theta = np.concatenate([THETA, 1.2 * THETA])
    both = [load_system(name) for name in ("hgx-h100", "hgx-b200")]
    model = GemmModel()
    features = model.features(gemm(4096, 4096, 4096, "fp8_block"))
    apart = [model.times(theta, features, hardware_arrays([s]))[0, 0] for s in both]
    assert model.times(theta, features, hardware_arrays(both))[:, 0].tolist() == apart
