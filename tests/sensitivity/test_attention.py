"""Attention models: shapes against hand counts, laws of the hardware, natural experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.hardware.model import System
from codesign.sensitivity.attention_decode import DecodeAttentionModel
from codesign.sensitivity.attention_prefill import PrefillAttentionModel
from codesign.sensitivity.attention_work import shape_of, tiled_keys
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.op_model import OpModel
from codesign.workload.schema import ops_frame
from tests.sensitivity.laws import (
    CAPABILITIES,
    assert_monotone,
    assert_terms_agree,
    example_gpu,
    example_system,
    scaled,
)

PREFILL, DECODE = PrefillAttentionModel(), DecodeAttentionModel()


def attention(**dims: object) -> pd.DataFrame:
    row = {"op_class": "attention", "name": "a", "precision": "bf16", "batch": 4, "heads": 32,
           "kv_heads": 8, "q_len": 2048, "kv_len": 2048, "head_dim": 128, "causal": True,
           "count": 1.0, "evidence": "measured"}  # fmt: skip
    return ops_frame([{**row, **dims}])


def time_of(model: OpModel, ops: pd.DataFrame, system: object = None) -> float:
    hw = hardware_arrays([system or example_system()])  # type: ignore[list-item]
    variant = str(model.variant(ops)[0])
    theta = np.array([p.initial for p in model.parameters(variant)])
    return float(model.times(theta, model.features(ops), hw)[0, 0])


def test_rows_go_to_exactly_one_model() -> None:
    ops = pd.concat([
        attention(), attention(q_len=1), attention(q_len=1, kv_len=1), attention(q_len=64),
    ])  # fmt: skip
    assert PREFILL.applies(ops).tolist() == [True, False, True, True]
    assert DECODE.applies(ops).tolist() == [False, True, False, False]


@pytest.mark.parametrize("missing", ["heads", "kv_heads", "q_len", "kv_len", "head_dim"])
def test_unknown_dims_are_not_covered(missing: str) -> None:
    ops = attention(**{missing: None})
    assert not PREFILL.applies(ops).any()
    assert not DECODE.applies(ops).any()


@settings(max_examples=40)
@given(st.integers(1, 1500), st.integers(0, 1500), st.booleans(), st.sampled_from([None, 64, 700]))
def test_tiles_cover_every_visible_pair(
    q_len: int, before: int, causal: bool, window: int | None
) -> None:
    """Each visible (query, key) pair lies in a visited tile; counted pair by pair."""
    kv_len = q_len + before
    shape = shape_of(attention(q_len=q_len, kv_len=kv_len, causal=causal, window=window))
    blocks, columns, longest = (float(v[0]) for v in tiled_keys(shape))
    row = np.arange(q_len) + before
    last = np.where(causal, row, kv_len - 1)
    width = np.minimum(last + 1, kv_len if window is None else window)
    assert blocks == -(-q_len // 128)
    assert columns * 128 >= width.sum()
    assert longest >= width.max()
    assert longest <= columns


def test_aligned_causal_tiles_by_hand() -> None:
    """512 queries and keys: blocks see 128, 256, 384 and 512 columns."""
    shape = shape_of(attention(q_len=512, kv_len=512))
    blocks, columns, longest = tiled_keys(shape)
    assert (blocks[0], columns[0], longest[0]) == (4, 1280, 512)


def of_architecture(architecture: str) -> System:
    """The example system with the kernels of another architecture."""
    return example_system(replace(example_gpu(), architecture=architecture))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("heads", [1, 8, 96])
@pytest.mark.parametrize("architecture", ["ampere", "hopper", "blackwell"])
def test_no_capability_slows_attention(capability: str, heads: int, architecture: str) -> None:
    factors = [0.25, 0.5, 0.9, 1.0, 1.03, 1.5, 2.0, 4.0]
    shapes = [(1, 128), (1, 8192), (16, 512), (200, 4096)]
    kv = max(1, heads // 8)
    prefill = pd.concat([attention(batch=b, q_len=s, kv_len=s, heads=heads, kv_heads=kv)
                         for b, s in shapes])  # fmt: skip
    decode = pd.concat([attention(batch=b, q_len=1, kv_len=s, heads=heads, kv_heads=kv)
                        for b, s in shapes])  # fmt: skip
    system = of_architecture(architecture)
    assert_monotone(PREFILL, prefill, system, capability, factors)
    assert_monotone(DECODE, decode, system, capability, factors)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_no_capability_slows_blocks_that_others_shorten(capability: str) -> None:
    """With tensor memory a block costs less than the kernels of older parts were fitted to."""
    prefill = pd.concat([attention(batch=b, q_len=s, kv_len=s) for b, s in [(1, 128), (64, 512)]])
    theta = np.array([p.initial for p in PREFILL.parameters("bf16")])
    theta[2] *= 5.0
    factors = [0.25, 0.5, 1.0, 1.5, 4.0]
    assert_monotone(PREFILL, prefill, of_architecture("blackwell"), capability, factors, theta)


def test_synchronous_parts_gain_nothing_from_a_narrow_cache_in_prefill() -> None:
    """A100's and L40S's tables: the same time with a bf16 and an fp8 cache, to 1 %."""
    dims = {"batch": 16, "q_len": 8192, "kv_len": 8192}
    wide, narrow = attention(**dims), attention(kv_precision="fp8", **dims)
    ampere, hopper = of_architecture("ampere"), of_architecture("hopper")
    ratio = time_of(PREFILL, narrow, ampere) / time_of(PREFILL, wide, ampere)
    assert ratio == pytest.approx(1.0, abs=0.02)
    assert time_of(PREFILL, narrow, hopper) / time_of(PREFILL, wide, hopper) < 0.85


def test_portable_kernels_visit_what_a_window_hides() -> None:
    """1,024 keys in sight of 16,384: a kernel that only masks visits eight times as many."""
    dims = {"batch": 8, "q_len": 16384, "kv_len": 16384, "window": 1024}
    full = time_of(PREFILL, attention(kernel="triton", **{**dims, "window": None}))
    portable, own = attention(kernel="triton", **dims), attention(kernel="fa3", **dims)
    assert time_of(PREFILL, portable) == pytest.approx(full)
    assert time_of(PREFILL, own) < 0.2 * full
    assert PREFILL.variant(portable).tolist() == ["bf16_triton"]
    assert DECODE.variant(attention(q_len=1, kernel="vllm_triton_attn")).tolist() == [
        "gqa_bf16_triton"
    ]


def test_queries_of_a_group_share_a_block_when_they_are_packed() -> None:
    """Sixteen tokens of eight heads fill one tile of 128: an eighth of the blocks."""
    features = PREFILL.features(attention(batch=64, heads=64, kv_heads=8, q_len=16, kv_len=16))
    assert features["blocks"][0] == 64 * 64
    assert features["packed_blocks"][0] == 64 * 8
    decode = PREFILL.features(
        attention(batch=64, heads=64, kv_heads=8, q_len=1, kv_len=1, kernel="trtllmdecode")
    )
    assert decode["blocks"][0] == decode["packed_blocks"][0] == 64 * 8


def test_a_window_straddles_one_tile_more_than_it_fills() -> None:
    """128 keys that start inside a tile of 128 lie in two."""
    features = DECODE.features(attention(q_len=1, kv_len=4096, window=128))
    assert (features["tiles"][0], features["whole_tiles"][0]) == (2, 32)
    short = DECODE.features(attention(q_len=1, kv_len=100, window=128))
    assert short["tiles"][0] == 1


def test_expanded_mla_writes_its_latent_alone_before_prefill() -> None:
    """576 columns a token, whatever the heads; full keys and values would be 128 x 320."""
    ops = attention(batch=1, heads=128, kv_heads=128, q_len=4096, kv_len=4096, head_dim=192,
                    head_dim_v=128)  # fmt: skip
    assert PREFILL.features(ops)["key_bytes"][0] == 4096 * 576 * 2


def test_terms_and_times_agree() -> None:
    assert_terms_agree(PREFILL, attention(), example_system())
    assert_terms_agree(DECODE, attention(q_len=1), example_system())


def test_large_decode_follows_hbm_and_small_decode_does_not() -> None:
    """Natural experiment H100 -> H200: bandwidth x1.43 shows in large caches alone."""
    system = example_system()
    faster = scaled(system, "hbm_bandwidth_bytes_per_s", 1.43)
    large = attention(batch=64, q_len=1, kv_len=16384)
    small = attention(batch=1, q_len=1, kv_len=128)
    assert 1.30 < time_of(DECODE, large) / time_of(DECODE, large, faster) <= 1.43
    assert time_of(DECODE, small) / time_of(DECODE, small, faster) < 1.02


def test_gqa_reads_a_cache_once_for_its_group() -> None:
    """Eight query heads a key head read an eighth of what eight key heads would."""
    shared = time_of(DECODE, attention(batch=64, q_len=1, kv_len=16384, heads=32, kv_heads=4))
    own = time_of(DECODE, attention(batch=64, q_len=1, kv_len=16384, heads=32, kv_heads=32))
    assert 6.0 < own / shared <= 8.5


def test_an_fp8_cache_halves_large_decode() -> None:
    dims = {"batch": 64, "q_len": 1, "kv_len": 16384}
    wide = time_of(DECODE, attention(**dims))
    narrow = time_of(DECODE, attention(kv_precision="fp8", **dims))
    assert 1.7 < wide / narrow <= 2.05


def test_absorbed_mla_reads_the_latent_once() -> None:
    """576 x 2 bytes a token: DeepSeek-V3's published 1,152 B of cache a layer and token."""
    ops = attention(batch=32, heads=128, kv_heads=1, q_len=1, kv_len=4096, head_dim=576,
                    head_dim_v=512)  # fmt: skip
    assert DECODE.variant(ops).tolist() == ["mla_bf16"]
    queries_and_outputs = 32 * 128 * (576 + 512) * 2
    assert DECODE.features(ops)["bytes"][0] == 32 * 4096 * 1152 + queries_and_outputs


def test_backward_costs_two_and_a_half_forwards() -> None:
    """Flash attention's five products against two, where compute binds."""
    forward = time_of(PREFILL, attention(batch=16, q_len=8192, kv_len=8192))
    backward = time_of(PREFILL, attention(batch=16, q_len=8192, kv_len=8192, phase="backward"))
    assert backward / forward == pytest.approx(2.5, rel=0.02)


def test_causal_prefill_nears_half_of_full() -> None:
    dims = {"batch": 8, "q_len": 16384, "kv_len": 16384}
    full = time_of(PREFILL, attention(causal=False, **dims))
    half = time_of(PREFILL, attention(causal=True, **dims))
    assert 1.85 < full / half < 2.0


def test_exponentials_bind_when_the_tensor_peak_grows() -> None:
    """A doubled peak alone cannot double attention: Hopper to Blackwell, same SM count."""
    ops = attention(batch=16, q_len=8192, kv_len=8192)
    doubled = scaled(example_system(), "peaks_flops_per_s", 2.0)
    assert 1.05 < time_of(PREFILL, ops) / time_of(PREFILL, ops, doubled) < 1.8


def test_sm_count_requantizes_waves() -> None:
    """132 full-length blocks fill 132 SMs once; the same work on 131 needs a second wave."""
    ops = attention(batch=1, heads=132, kv_heads=132, q_len=128, kv_len=128, causal=False)
    system = example_system()
    one_less = scaled(system, "sm_count", 131 / 132)
    assert time_of(PREFILL, ops, one_less) > time_of(PREFILL, ops) * 1.01


@pytest.mark.perfdb
def test_hopper_fit_projects_h200_decode() -> None:
    """Fitted without the H200: large decode rows within 15 % at the median, both ways."""
    pytest.importorskip("aiconfigurator_core")
    from codesign.hardware import system_of_gpu
    from codesign.sensitivity import fit
    from codesign.sources.perfdb import PerfDB

    db = PerfDB()
    model = fit(db, gpus=["a100-80gb-sxm", "h100-sxm"], models=(DECODE,))
    ops = db.training_ops("h200-sxm", "attention")
    ops = ops[DECODE.applies(ops) & (ops.time_s > 2e-4).to_numpy() & (ops.heads > ops.kv_heads)]
    ops = ops[ops.heads <= 32 * ops.kv_heads].iloc[::17]
    predicted = model.predict(ops, system_of_gpu("h200-sxm"))
    error = predicted.time_s.to_numpy() / ops.time_s.to_numpy(dtype=float) - 1.0
    assert len(ops) > 50
    assert np.median(np.abs(error)) < 0.15


@pytest.mark.parametrize(("name", "ratio"), [("hgx-h100", 1.0), ("hgx-b200", 2.0)])
def test_mla_over_an_fp8_cache_multiplies_in_fp8_with_tensor_memory(name, ratio) -> None:
    """TensorRT-LLM's kernel exceeds the bf16 peak there (1.2 of it), on Hopper it reaches 0.76."""
    from codesign.hardware import load_system

    model = DecodeAttentionModel()
    row = {"op_class": "attention", "name": "x", "precision": "bf16", "phase": "decode",
           "batch": 128, "heads": 128, "kv_heads": 1, "q_len": 1, "kv_len": 65536,
           "head_dim": 576, "head_dim_v": 512, "count": 1.0, "evidence": "assumed"}  # fmt: skip
    ops = ops_frame([row | {"kv_precision": cache} for cache in ("bf16", "fp8")])
    theta = np.array([p.initial for p in model.parameters("mla_fp8")])
    terms = model.terms(theta, model.features(ops), hardware_arrays([load_system(name)]))
    before, after = terms["tensor"][0]
    assert before / after == pytest.approx(ratio, rel=0.01)
