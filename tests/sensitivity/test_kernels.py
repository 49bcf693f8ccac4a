"""Kernel families: told apart by name, pooled across frameworks, and wide where never run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import UsageError
from codesign.hardware import system_of_gpu
from codesign.sensitivity import SensitivityModel, fit
from codesign.sensitivity.attention_decode import DecodeAttentionModel
from codesign.sensitivity.grouped_gemm import GroupedGemmModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.kernels import FAMILIES, joined, kernel_families, split_kernel
from codesign.workload.schema import ops_frame

MODEL = GroupedGemmModel()
OLD = ("a100-80gb-sxm", "h100-sxm")
SLOWER = {"moe_torch_flow_cutlass": 1.0, "sglang_fused_moe_triton": 2.0,
          "sglang_flashinfer_trtllm_moe": 0.6}  # fmt: skip
"""Each kernel's time over the law."""


def moe(kernel: str, rows: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return ops_frame(pd.DataFrame({
        "op_class": "grouped_gemm", "name": "moe", "precision": "bf16", "count": 1.0,
        "m": 2 ** rng.integers(3, 14, rows), "n": 2 ** rng.integers(8, 12, rows),
        "k": 2 ** rng.integers(10, 13, rows), "experts": 2 ** rng.integers(2, 6, rows),
        "topk": 4, "fused": "moe_gated", "distribution": "balanced", "kernel": kernel,
        "evidence": "measured",
    }))  # fmt: skip


def measured(kernel: str, gpu: str) -> pd.DataFrame:
    ops = moe(kernel)
    theta = np.array([p.initial for p in MODEL.parameters("")])
    law = MODEL.times(theta, MODEL.features(ops), hardware_arrays([system_of_gpu(gpu)]))[0]
    return ops.assign(time_s=SLOWER[kernel] * law)


class KernelDB:
    """SGLang ran Triton's kernels, TensorRT-LLM its own; trtllm-gen only on what is new."""

    name = "kernels"

    def gpus(self) -> list[str]:
        return [*OLD, "b200-sxm"]

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        if op_class != "grouped_gemm" or framework == "vllm":
            raise UsageError("no such table")
        own = "moe_torch_flow_cutlass" if framework == "trtllm" else "sglang_fused_moe_triton"
        return measured(own, gpu)


@pytest.fixture(scope="module")
def model() -> SensitivityModel:
    return fit(KernelDB(), gpus=OLD, framework="sglang", models=(MODEL,), rows_per_gpu=120)


def predicted(model: SensitivityModel, kernel: str) -> tuple[pd.DataFrame, np.ndarray]:
    """(prediction on B200, log of it over the truth)."""
    truth = measured(kernel, "b200-sxm")
    out = model.predict(truth.assign(time_s=pd.NA), system_of_gpu("b200-sxm"))
    return out, np.log(out["time_s"].to_numpy(float) / truth["time_s"].to_numpy(float))


def half_width(out: pd.DataFrame) -> float:
    return float(np.median(np.log(out["time_hi_s"] / out["time_s"]).to_numpy(float)))


def test_families_are_told_by_the_names_that_frameworks_give() -> None:
    names = {
        "sglang_fused_moe_triton": "triton", "vllm_fused_moe": "triton",
        "vllm_fp8moe_flashinfer_trtllm_trtllmfp8expertsmonolithic": "trtllmgen",
        "vllm_fp8moe_flashinfer_cutlass_flashinferexperts": "flashinfer",
        "vllm_flashinfer_trtllmdecode": "trtllmgen", "vllm_flash_attn_fa3": "flash",
        "fa3": "flash", "trtllm_mla": "trtllmgen", "moe_torch_flow_cutlass": "",
        "moe_torch_flow_min_latency": "minlatency", "deepgemm": "deepgemm", "default": "",
    }  # fmt: skip
    found = kernel_families(ops_frame([{"op_class": "other", "kernel": k} for k in names]))
    assert dict(zip(names, found.tolist(), strict=True)) == names
    assert kernel_families(ops_frame([{"op_class": "other"}])).tolist() == [""]


@pytest.mark.parametrize("family", ["", *FAMILIES])
def test_a_variant_falls_apart_as_it_was_joined(family: str) -> None:
    assert split_kernel(joined("mla_bf16_kv8", family)) == ("mla_bf16_kv8", family)


def test_what_stands_in() -> None:
    # The same family in another precision, before another family; Triton's for no other.
    found = MODEL.fallbacks("fp8_block_trtllmgen")
    assert found.index("fp8_trtllmgen") < found.index("fp8_block")
    assert found.index("fp8_block") < found.index("bf16_flashinfer")
    assert not any("triton" in v for v in found)
    assert "bf16_triton" in MODEL.fallbacks("fp8_triton")
    # TensorRT-LLM times the pass over the operands with its attention: last of all.
    decode = DecodeAttentionModel().fallbacks("gqa_bf16_trtllmgen")
    assert decode.index("gqa_bf16_flash") < decode.index("gqa_bf16")


def test_the_vendors_kernels_come_from_the_framework_that_ran_them(model) -> None:
    frameworks = {u.variant: u.framework for u in model.content.units}
    assert frameworks == {"bf16": "trtllm", "bf16_triton": "sglang"}
    assert set(model.trained_on) == set(OLD)


def test_each_family_is_predicted_by_its_own_rows(model) -> None:
    for kernel in ("moe_torch_flow_cutlass", "sglang_fused_moe_triton"):
        out, error = predicted(model, kernel)
        assert abs(np.median(error)) < 0.2
        assert set(out["evidence"]) == {"modelled"}


def test_a_row_without_a_kernel_is_the_frameworks_own(model) -> None:
    ops = moe("x").assign(kernel=pd.NA)
    both = [model.times(o, [system_of_gpu("h100-sxm")])[0]
            for o in (ops, moe("sglang_fused_moe_triton"))]  # fmt: skip
    np.testing.assert_allclose(*both, rtol=1e-12)


def test_a_family_never_run_is_assumed_like_the_vendors_and_its_interval_holds_it(model) -> None:
    known, _ = predicted(model, "moe_torch_flow_cutlass")
    out, error = predicted(model, "sglang_flashinfer_trtllm_moe")
    assert set(out["evidence"]) == {"assumed"}
    # 0.6 of the vendor's time.
    assert np.median(error) == pytest.approx(-np.log(0.6), abs=0.1)
    # The two families that were seen are a factor of 2 apart: with 0.4 assumed as one pair
    # beside theirs, of two parts and both ways, sd is sqrt((4 x 0.48 + 0.16) / 5) = 0.64.
    assert half_width(out) > 1.645 * 0.55
    assert half_width(out) > 2.0 * half_width(known)
    inside = (out["time_lo_s"] < out["time_s"] / np.exp(error)).to_numpy(bool)
    assert inside.mean() > 0.95
