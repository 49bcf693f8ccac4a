"""Names of the field, and what an engineer would call them."""

from __future__ import annotations

import pytest

from codesign.sources.kineto import classification
from codesign.sources.kineto.classify import (
    collective_kind,
    kernel_class,
    kernel_precision,
    op_rule,
    precision,
    short_name,
)
from codesign.sources.kineto.shapes import READERS
from codesign.workload.schema import COLLECTIVES, OP_CLASSES, PRECISIONS

_KERNELS = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "collective",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long)": "collective",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)": "collective",
    "multimem_all_reduce_kernel": "collective",
    "void multimem_all_reduce_kernel<c10::BFloat16, 4>(...)": "collective",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)": "collective",
    "void deep_ep::internode_ll::combine<true, 7168>(void*)": "collective",
    "nvshmemi_transfer_kernel": "collective",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas": "gemm",
    "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT": "gemm",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn>": "gemm",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN": "gemm",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>": "gemm",
    "volta_sgemm_64x64_nt": "gemm",
    "triton_tem_fused_addmm_relu_3": "gemm",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": "grouped_gemm",
    "fused_moe_kernel": "grouped_gemm",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>": "attention",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128": "attention",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)": "attention",
    "_ZN5aiter37fmha_fwd_hd128_bf16_causal_rtne_groupE": "attention",
    "void ck_tile::kentry<ck_tile::FmhaFwdKernel<>>": "attention",
    "kernel_unified_attention_3d": "attention",
    "attn_fwd": "attention",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16>": "norm",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>": "norm",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_2": "norm",
    "void vllm::rms_norm_kernel<c10::BFloat16>": "norm",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16>": "softmax",
    "triton_poi_fused_mul_silu_0": "elementwise",
    "triton_poi_fused__scaled_dot_product_flash_attention_add_4": "elementwise",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>": "elementwise",
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)>>": "copy",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>": "copy",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>": "reduction",
    "void (anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>":
        "optimizer",
    "void scaled_fp8_quant_kernel_strided<c10::BFloat16>": "quantize",
    "per_token_group_quant_8bit_kernel": "quantize",
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16>": "embedding",
    "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1>": "conv",
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": "conv",
    "batch_decode_with_paged_kv_cache_kernel": "attention",
    "kernel_mha": "attention",
    "void mmha::masked_multihead_attention_kernel<__half, 128>": "attention",
    "l2norm_fwd_kernel": "norm",
    "some_vendor_thing": "other",
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), _KERNELS.items())
def test_kernel_class(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", "bf16"),
        ("nvjet_hsh_128x64_64x8_2x1_v_bz_TNN", "fp16"),
        ("nvjet_qqtst_128x128_128x6_1x2_h_bz_TNT", "fp8"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bf16"),
        ("sm90_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n", "fp8"),
        ("sm80_xmma_gemm_tf32tf32_tf32f32_f32_tn_n", "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1", "tf32"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn", "fp16"),
        ("volta_sgemm_64x64_nt", "fp32"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64", "bf16"),
        ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32", "fp16"),
        ("cutlass3x_sm100_bstensorop_s256x128x64gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1", "nvfp4"),
        ("attn_fwd", None),
        (
            "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, "
            "(vllm::Fp8KVCacheDataType)0, 1, 128, 256, false>",
            "bf16",
        ),
        ("_ZN19cutlass_cudnn_train6KernelINS_4gemm9GemmShapeILi128EEENS_10tfloat32_tE", "tf32"),
    ],
)
def test_kernel_precision(name: str, expected: str | None) -> None:
    assert kernel_precision(name) == expected


def test_types_of_inputs_beat_the_name_except_for_tf32() -> None:
    assert precision("gemm", ["c10::BFloat16"], "volta_sgemm") == "bf16"
    assert precision("gemm", ["float"], "cutlass_80_tensorop_s1688gemm_128x64") == "tf32"
    assert precision("gemm", ["float"], "volta_sgemm_64x64_nt") == "fp32"
    assert precision("norm", ["float"], "x_tf32") == "fp32"
    assert precision("gemm", ["Float8_e4m3fn", "Float8_e4m3fn", "float"], "x") == "fp8"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("allreduce", "all_reduce"), ("_allgather_base", "all_gather"),
     ("all_gather_into_tensor_coalesced", "all_gather"), ("_reduce_scatter_base", "reduce_scatter"),
     ("reduce_scatter_tensor_coalesced", "reduce_scatter"), ("all_to_allv", "all_to_all"),
     ("nccl:all_to_all", "all_to_all"), ("broadcast", "broadcast"), ("send", "send_recv"),
     ("ncclDevKernel_SendRecv(...)", "send_recv"), ("deep_ep::intranode::dispatch", "dispatch"),
     ("deep_ep::intranode::combine", "combine"), ("barrier", None)],
)  # fmt: skip
def test_collective_kind(name: str, expected: str | None) -> None:
    assert collective_kind(name) == expected


def test_the_callers_name_tells_an_all_to_all_from_a_send() -> None:
    kernel = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"
    assert collective_kind("", "nccl:all_to_all", kernel) == "all_to_all"
    assert collective_kind("", "", kernel) == "send_recv"


def test_tables_hold_only_words_of_the_contract() -> None:
    assert {c for _, c in classification.KERNEL_CLASSES} <= set(OP_CLASSES)
    assert {c for _, c, _ in classification.OP_CLASSES} <= set(OP_CLASSES)
    assert {r for _, _, r in classification.OP_CLASSES} <= {"", *READERS}
    assert {p for _, p in classification.KERNEL_PRECISIONS} <= set(PRECISIONS)
    assert set(classification.TYPE_PRECISIONS.values()) <= set(PRECISIONS)
    assert {c for _, c in classification.COLLECTIVE_NAMES} <= set(COLLECTIVES)


def test_a_hostile_name_costs_little() -> None:
    for name in ("a" * 100_000, "triton_red_fused_" + "_to_copy_clone" * 10_000, "(" * 50_000):
        assert kernel_class(name) in OP_CLASSES
        assert len(short_name(name)) <= 120
        op_rule(name)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("void at::native::(anonymous namespace)::foo<int, 3>(int)", "at::native::_::foo"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, __nv_bfloat16, 7>"
         "(cublasGemvParamsEx<int>)", "internal::gemvx::kernel"),
        ("std::enable_if<(A > B), void>::type foo::bar<(1>2), float>(int)", "foo::bar"),
        ("decltype(auto) ns::thing<int>(int*) const", "ns::thing"),
        ("void ns::each<ns::run<{lambda(int)#1}::operator()(int) const::{lambda()#1}>>(int, x)",
         "ns::each"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        ("void (anonymous namespace)::indexed<int, f(long)::{lambda(long)#1}>(int, f)",
         "_::indexed"),
        ("Cijk_Alik_Bljk_BBS_BH.kd", "Cijk_Alik_Bljk_BBS_BH"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEEvPT0_",
         "aiter::add_rmsnorm_quant_kernel"),
        ("_ZN12_GLOBAL__N_13fooEv", "_::foo"),
        ("_Z6kernelPf", "kernel"),
        ("_ZN", "_ZN"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("a name with blanks", "a name with blanks"),
        ("void", "void"),
        ("<<<", "<<<"),
    ],
)  # fmt: skip
def test_short_name(kernel: str, expected: str) -> None:
    assert short_name(kernel) == expected
