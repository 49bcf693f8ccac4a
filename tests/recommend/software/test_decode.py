from __future__ import annotations

from typing import Any

import pytest

from codesign.hardware import load_system
from tests.recommend.software.cases import compute, found, look, nothing, silence, without_model
from tests.recommend.software.test_recompute import composed


def weights(m: int, time_s: float, **more: Any) -> dict[str, Any]:
    """m tokens by an 8192 x 8192 weight in bf16."""
    return {
        "op_class": "gemm", "name": "mlp", "precision": "bf16", "phase": "decode", "m": m,
        "n": 8192, "k": 8192, "flops": 2.0 * m * 8192**2,
        "bytes": 2.0 * (8192**2 + 2 * m * 8192), "time_s": time_s, **more,
    }  # fmt: skip


def moved_s(m: int) -> float:
    """At 1 TB/s, and a launch of 1 us."""
    return 2.0 * (8192**2 + 2 * m * 8192) / 1e12 + 1e-6


def test_twice_the_sequences_read_the_weights_once() -> None:
    finding = found("decode_batching", look([weights(16, moved_s(16))]))
    ratio = moved_s(32) / moved_s(16) / 2
    assert finding.bound_s == pytest.approx(moved_s(16) * ratio)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.9 * (1 - ratio)))
    # Weights are most of what moves: nearly twice the tokens for the same time.
    assert 1.9 < finding.gain.hi < 2.0


def test_gemms_that_wait_for_tensor_cores_or_train_gain_nothing_by_batch() -> None:
    assert nothing("decode_batching", look([weights(8192, 1.2e-3)]))
    assert nothing("decode_batching", look([weights(16, moved_s(16), phase="forward")]))


def test_a_batch_that_does_not_fit_is_not_advised() -> None:
    head = {**composed("qwen3-235b-a22b-rollout-decode"), "phase": "rollout"}
    rows = [weights(16, 2 * moved_s(16), phase="rollout")]
    at = look(rows, base=load_system("hgx-h100"), system="hgx-h100", model=None, **head)
    assert "of HBM and has 80.0 GB" in silence("decode_batching", at)


def test_where_nobody_knows_the_free_memory_the_advice_says_so_and_is_believed_less() -> None:
    captured = found("decode_batching", look([weights(16, moved_s(16))]))
    assert captured.confidence == "low"
    assert "a capture does not record it" in captured.evidence
    head = {**composed("qwen3-235b-a22b-rollout-decode"), "notes": ("recipe sha256 0000",)}
    rows = [weights(16, moved_s(16), phase="rollout")]
    changed = found("decode_batching", look(rows, **head, phase="rollout"))
    assert changed.confidence == "low"
    assert "compose it again" in changed.evidence


def test_without_a_model_nothing_is_said_of_a_larger_batch() -> None:
    assert "no model" in silence("decode_batching", without_model([weights(16, moved_s(16))]))


def cached(time_s: float, **more: Any) -> dict[str, Any]:
    """16 sequences, 8 heads of 128 with their own cache of 4096 tokens."""
    return {
        "op_class": "attention", "name": "attention", "precision": "bf16", "phase": "decode",
        "batch": 16, "heads": 8, "kv_heads": 8, "q_len": 1, "kv_len": 4096, "head_dim": 128,
        "causal": True, "flops": 4.0 * 16 * 8 * 4096 * 128,
        "bytes": 2.0 * 2 * 16 * 8 * 4096 * 128, "time_s": time_s, **more,
    }  # fmt: skip


def test_an_fp8_cache_has_half_the_bytes() -> None:
    # Keys and values, 268 MB, are nearly all that is read.
    finding = found("kv_precision", look([cached(270e-6)]))
    assert finding.bound_s == pytest.approx(135e-6, rel=0.01)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.8 * 0.5), rel=0.01)


@pytest.mark.parametrize("change", [{"kv_precision": "fp8"}, {"phase": "prefill"}])
def test_narrow_caches_and_prefill_are_no_finding(change: dict[str, str]) -> None:
    assert nothing("kv_precision", look([cached(270e-6, **change), compute(1e-4)]))
