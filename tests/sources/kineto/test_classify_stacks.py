"""Kernel names of newer stacks, as profiles that their users published show them."""

from __future__ import annotations

import re

import pytest

from codesign.sources.kineto import classification
from codesign.sources.kineto.classify import collective_kind, kernel_class, kernel_precision

_BY_CLASS: dict[str, tuple[str, ...]] = {
    "attention": (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash:"
        ":CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>>, cutlass::bfloat16_t, float, cut"
        "lass::arch::Sm90>, flash::CollectiveEpilogueFwd<cutlass::bfloat16_t>>>>",
        "_ZN7cutlass13device_kernelIN5flash12FlashAttnBwdINS1_21CollectiveMainloopBwdILi2EN4cut"
        "e5tuple",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>>, float,"
        " cutlass::bfloat16_t>>",
        "void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int, int const*)",
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_a"
        "t__tensor0000o11101213_0",
        "kernel_cutlass_kernel_flash_attncuteflash_bwd_postprocessFlashAttentionBackwardPostpro"
        "cess_object_at__0",
        "void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8, c"
        "utlass::bfloat16_t, 512>>",
        "void sm90::flash_fwd_splitkv_mla_kernel<cutlass::bfloat16_t>(DecodingParams)",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<1, 128, 2>>",
        "void flashinfer::PrefillWithKVCacheKernel<flashinfer::KernelTraits<192, 128>>",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2, 4>",
        "void flashinfer::PersistentVariableLengthMergeStatesKernel<8, 16, 8, 8, __nv_bfloat16>",
        "void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<true>>",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext",
        "fmhaSm100aKernel_QkvE4m3OBfloat16HQk576HV512HVPerCta256PagedKvDenseStaticTokenSparse",
        "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128_4x1x1_kernel0_0",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_30_64x128x128_4x1x1_k"
        "ernel0_0",
        "void masked_multihead_attention_kernel<__nv_bfloat16, __nv_bfloat16, 128>",
        "void vllm::paged_attention_v2_kernel<__hip_bfloat16, 128, 16>",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, __hip_fp8_e4m3>",
        "_fwd_kernel_stage2",
        "_fwd_grouped_kernel_stage1",
        "void tensorrt_llm::kernels::fmhaReductionKernel<128>",
        "_ZN5aiter41fmha_bwd_hd128_bf16_causal_a32_rtne_psskE",
        "mla_a8w8_qh16_qseqlen1_gqaratio16_ps",
        "_ZN5aiter32mla_dec_stage1_bf16_a16w16_subQ16_mqa16E",
        "void unified_attention_with_output",
        "triton_tem_fused_flex_attention_backward_2",
        "void merge_attn_states_kernel<__nv_bfloat16, unsigned int, 128>",
        "void sm100_fmha_mla_reduction",
        "void sparse_attn_fwd_kernel",
        "void sm90_fp8_mqa_logits<64u, 128u>",
        "void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u, 128u, 64u>",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        "fused_recurrent_gated_delta_rule_fwd_kernel",
        "chunk_fwd_kernel_o",
        "fused_sigmoid_gating_delta_rule_update_kernel",
    ),
    "gemm": (
        "nvjet_sm100_tst_mma_128x256x64_2_64x128x64_tmaAB_bz_TNT",
        "nvjet_sm100_qqtst_mma_128x64x128_2_64x64x128_tmaAB_bz_TNT",
        "nvjet_sm100_ootst_mma_256x128x256_2CTA_bz_Avec16UE4M3_Bvec16UE4M3_TNT",
        "nvjet_sm103_ooscale",
        "void deep_gemm::fp8_gemm_kernel<0u, 2112u, 7168u, 128u, 128u, 128u, 1u, 8u, 2u, 4u, tr"
        "ue, (deep_gemm::GemmType)0>",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 24576u, 1536u, 1u, 1"
        "28u, 128u, 128u, (deep_gemm::GemmType)0>",
        "void deep_gemm::sm90_bf16_gemm_impl<(cute::UMMA::Major)0, 0u, 4096u, 7168u, (deep_gemm"
        "::GemmType)0>",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int,"
        " int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmm"
        "aWarpSpecializedFP8<8>>, cutlass::float_e4m3_t>>",
        "kernel_cutlass_kernel_PersistentDenseGemmKernel_object_at__TiledMMA_ThrLayoutVMNK11110"
        "000_0",
        "kernel_cutlass_kernel_flashinfergemmkernelsdense_blockscaled_gemm_sm100Sm100BlockScale"
        "dPersistentDenseGemmKernel_object_at_",
        "kernel_cutlass_kernel_quackgemm_sm90GemmSm90_object_at_",
        "matmul_kernel_persistent",
        "matmul_kernel_tma_persistent",
        "matmul_kernel_descriptor_persistent",
        "triton_mm_persistent_tma",
        "triton_tem_fused__scaled_mm_mm_1",
        "_w8a8_block_fp8_matmul",
        "_scaled_mm_kernel",
        "_gemm_a16_w16_kernel_BLOCK_SIZE_M_16",
        "_gemm_afp4wfp4_kernel_BLOCK_SIZE_M_32",
        "Cijk_Ailk_Bjlk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64",
        "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_NTD_UserArgs_shortname0_gfx942",
        "Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HA_S_SAB_SAV_UserArgs_MT256x256x128",
        "Cijk_Alik_Bljk_F8F8S_BH",
        "_ZN5aiter43bf16gemm_fp32bf16_tn_96x64_splitk_cleanE",
        "_ZN5aiter37f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256E",
        "void ck::kernel_gemm_xdl_cshuffle_v3_multi_d_blockscale_b_preshuffle<ck::GridwiseGemmM"
        "ultiD_blockscale_xdl_cshuffle_v3>",
        "void ck_tile::kentry<1, ck_tile::QuantGemmKernel<ck_tile::GemmTilePartitioner>>",
        "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 1, 16, 8, 2, 1>",
        "void marlin::Marlin<__nv_bfloat16, 1125899906842628l, 128, 1, 8, 4, false>",
        "void gptq_gemm_half_q_half_gptq_4bit_kernel",
        "awq_gemm_kernel",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_al"
        "ign8>",
        "void internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, fl"
        "oat, false>",
        "void gemv2T_kernel_val<int, int, float, float, float>",
        "void cublasLt::epilogue::impl::globalKernel<8, 32, __nv_bfloat16, __nv_bfloat16, __nv_"
        "bfloat16>",
        "void kgemm_4bit_inference_naive<__nv_bfloat16, 128, 16>",
        "void dsv3_fused_a_gemm_kernel<1, 2112, 7168>",
        "void router_gemm_kernel<__nv_bfloat16, 128, 8, 4, 256, 7168>",
        "void tinygemm_kernel<16, 8, 64, 16>",
        "void mul_mat_q<(ggml_type)12, 64, false>",
        "void mul_mat_vec_q<(ggml_type)12, 1>",
        "void machete::kernel",
        "gemm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s7_et128x8",
        "_bmm_chunk_fwd_kernel",
    ),
    "grouped_gemm": (
        "void deep_gemm::sm100_fp8_gemm_1d1d_impl<(cute::UMMA::Major)0, 0u, 4096u, 7168u, (deep"
        "_gemm::GemmType)1>",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupP"
        "roblemShape<cute::tuple<int, int, int>>, cutlass::float_e4m3_t>>",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::MoEPro"
        "blemShape<cute::tuple<int, int, int>>, cutlass::bfloat16_t>>",
        "kernel_cutlass_kernel_Sm100GroupedBlockScaledGemmKernel_object_at_",
        "void marlin_moe_wna16::Marlin<__nv_bfloat16, 1125899906909960l>",
        "bmm_E2m1_E2m1E2m1_Fp32_t128x8x512u2_s6_et128x8_m128x8x64_cga1x1x1_16dp256b_rM_TN_trans"
        "Out_schedS_biasM_bN_ldgstsSf_rgTma_clmp_swiGlu_dynBatch_sm100f",
        "bmm_Bfloat16_E2m1E2m1_Fp32_t128x16x256u2_s6_et128x16_m128x16x64_cga1x1x1_16dp256b_rM_T"
        "N_transOut_schPd2x1x2x3_bN_dynB_sm100f",
        "_ZN5aiter45fmoe_bf16_blockscaleFp8_g1u1_novs_silu_1tg_32x256E",
        "void ck::kernel_moe_gemm_2lds<ck::GridwiseMoeGemm>",
        "fused_moe_kernel_gptq_awq",
        "invoke_fused_moe_kernel",
        "_grouped_matmul_kernel",
    ),
    "collective": (
        "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
        "ncclSymDevKernel_AllGather_LLMC(ncclSymDevArgs)",
        "ncclDevKernel_ReduceScatter_Sum_bf16_NVLS",
        "ncclDevFunc_AllGather_RING_LL",
        "void deep_ep::internode::dispatch<false, 4, true, 16384>",
        "void deep_ep::internode_ll::dispatch<true, false, 7168>",
        "void deep_ep::intranode::notify_dispatch<8>",
        "void deep_ep::internode::cached_notify<true>",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 256>",
        "void hybrid_ep::dispatch_kernel<8>",
        "nvshmemi_barrier_on_stream_kernel",
        "void nvshmemi_reduce_kernel",
        "void mscclpp_allreduce_kernel",
        "void allreduce_nvls_packet<mscclpp::DeviceHandle>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<8>",
        "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<1, __nv"
        "_bfloat16, 8>",
        "void tensorrt_llm::kernels::mnnvl::oneshotAllreduceFusionKernel<8, __nv_bfloat16>",
        "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel",
        "void tensorrt_llm::kernels::moe_prepare::moeAllToAllKernel",
        "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop",
        "void userbuffers_fp16_sum_inplace_gpu_mc_ag<4>",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::CodecQ4>",
        "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>",
        "void aiter::allreduce_prototype_twoshot",
        "void c10d::symmetric_memory::one_shot_all_reduce_kernel",
        "two_shot_all_reduce_kernel_inplace",
        "multimem_one_shot_all_reduce_kernel",
        "void c10d::symmetric_memory::barrier_kernel",
        "pplx_dispatch_kernel",
        "void dispatchKernel<8, 1, false>",
        "rcclGenericKernel",
        "oneccl_allreduce_small",
        "void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>",
        "void mori::moe::EpCombineInterNodeKernel",
        "void flux::bsr_reduce_scatter",
    ),
    "norm": (
        "kernel_cutlass_kernel_quackrmsnormRMSNorm_object_at_",
        "void transformer_engine::normalization::ln_bwd_tuned_kernel<transformer_engine::normal"
        "ization::Kernel_traits<__nv_bfloat16>>",
        "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<transformer_engine::n"
        "ormalization::Kernel_traits<__nv_bfloat16>>",
        "void cuApplyLayerNorm<float, float, __nv_bfloat16>",
        "void cuComputeGradInput<float, __nv_bfloat16>",
        "void cuComputePartGradGammaBeta<float>",
        "_rms_norm_forward_kernel",
        "layer_norm_gated_fwd_kernel",
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>",
        "void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn>",
        "void aiter::add_rmsnorm_quant_kernel<opus::bf16_t>",
    ),
    "quantize": (
        "void transformer_engine::multi_cast_transpose_kernel<128, __nv_bfloat16, __nv_fp8_e4m3>",
        "transformer_engine::(anonymous namespace)::cast_transpose_fused_kernel_notma",
        "void transformer_engine::dispatch::mxfp8::quantize_kernel::quantize_mxfp8_kernel<true>",
        "void transformer_engine::cast_mxfp8_2D_kernel<false>",
        "block_scaled_cast_transpose_kernel_notaligned",
        "void transformer_engine::delayed_scaling_recipe::kernel_bulk",
        "void transformer_engine::gated_kernels::cast_fp8_gated_kernel<false>",
        "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>",
        "void kQuantizeBlockwise<__nv_bfloat16, 64, 2, 0, 2>",
        "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn, true, false,"
        " float>",
        "_per_token_group_quant_fp8",
        "void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>",
        "void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantiza"
        "tionType)0, __nv_bfloat16, 16>",
        "void silu_and_mul_post_quant_kernel",
        "_silu_and_mul_post_quant_kernel",
        "void vllm::silu_and_mul_per_block_quant_kernel",
    ),
    "optimizer": (
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctorMaster<__nv_bfloat16,"
        " float, int>>",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymo"
        "us namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace):"
        ":FusedAdamMathFunctor<float, 4>>",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float>>",
        "void kOptimizerStatic8bit2StateBlockwise<float, 0, 256, 1>",
        "void kOptimizer32bit2State<float, 1>",
    ),
    "copy": (
        "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>",
        "ep_gather",
        "_fwd_kernel_ep_scatter_2",
        "void permute_kernel<__nv_bfloat16>",
        "_permute_kernel",
        "_unpermute_kernel",
        "_sort_chunks_by_map_kernel",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>",
        "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16>",
        "set_mla_kv_buffer_kernel",
        "write_req_to_token_pool_triton",
        "void store_kv_cache<128>",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::nat"
        "ive::index_kernel_impl<at::native::OpaqueType<2>>>",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>",
        "void at::native::bfloat16_copy_kernel_cuda",
        "__amd_rocclr_copyBuffer",
        "__amd_rocclr_fillBufferAligned",
    ),
    "reduction": (
        "void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16>",
        "void moe::dev::finalize::finalizeKernelVecLoad<__nv_bfloat16>",
        "void moe::dev::routing::routingDeepSeek::routingMainKernel",
        "void moe_align_block_size_kernel<int>",
        "void moe_fused_gate_kernel<float, 32>",
        "void vllm::moe::count_and_sort_expert_tokens_kernel<int>",
        "moe_sum_reduce_kernel",
        "void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>",
        "void transformer_engine::(anonymous namespace)::amax_kernel<8, true, __nv_bfloat16>",
        "void transformer_engine::fused_router::fused_topk_with_score_function_forward_kernel<f"
        "loat>",
        "void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float>, float*>",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymo"
        "us namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor"
        "<float, (at::native::NormType)1, float, 1, 1, 0>>",
        "liger_cross_entropy_kernel",
        "_jsd_kernel",
        "fused_linear_cross_entropy",
        "_chunk_cumsum_fwd_kernel",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>",
        "void at::native::mbtopk::radixFindKthValues<float>",
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRad"
        "ixSortPolicy>",
        "void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::DeviceScanPolicy<long>>",
    ),
    "softmax": (
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>",
        "void transformer_engine::scaled_aligned_causal_masked_softmax_warp_forward<__nv_bfloat16>",
        "void flashinfer::sampling::OnlineSoftmaxFusedKernel<1024u>",
        "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 11, "
        "true, false>",
    ),
    "elementwise": (
        "void transformer_engine::gated_act_kernel",
        "void fused_rope_forward_kernel<__nv_bfloat16>",
        "void multi_tensor_apply_kernel<TensorListMetadata<2>, ScaleFunctor<float, float>, float>",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymo"
        "us namespace)::TensorListMetadata<3>, at::native::(anonymous namespace)::PointwiseOpLi"
        "stFunctor<float, 3>>",
        "_swiglu_forward_kernel",
        "_geglu_tanh_forward_kernel",
        "_triton_rope",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BF"
        "loat16>(c10::BFloat16 const&)), true>",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>",
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128>",
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(float silu<float>(flo"
        "at const&))>",
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<fl"
        "oat, 4>",
        "void at::native::triu_tril_kernel<bool, int, false, 8, true>",
        "void split_qkv_rope",
    ),
    "embedding": ("void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>",),
    "conv": (
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, c10::BFloa"
        "t16>>",
        "_causal_conv1d_update_kernel",
    ),
    "other": (
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1>>",
        "_chunk_scan_fwd_kernel",
        "_chunk_state_fwd_kernel",
        "_state_passing_fwd_kernel",
        "_selective_scan_update_kernel",
        "create_flashinfer_kv_indices_triton",
    ),
}


@pytest.mark.parametrize(
    ("name", "expected"), [(n, c) for c, names in _BY_CLASS.items() for n in names]
)
def test_class(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_sm100_tst_mma_128x256x64_2_64x128x64_tmaAB_bz_TNT",
         "bf16"),
        ("nvjet_sm100_qqtst_mma_128x64x128_2_64x64x128_tmaAB_bz_TNT",
         "fp8"),
        ("nvjet_sm100_ootst_mma_256x128x256_2CTA_bz_Avec16UE4M3_Bvec16UE4M3_TNT",
         "nvfp4"),
        ("_gemm_afp4wfp4_kernel_BLOCK_SIZE_M_32",
         "nvfp4"),
        ("Cijk_Ailk_Bjlk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64",
         "fp16"),
        ("Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HA_S_SAB_SAV_UserArgs_MT256x256x128",
         "fp8"),
        ("Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_NTD_UserArgs_shortname0_gfx942",
         "bf16"),
        ("_ZN5aiter37f4gemm_bf16_per1x32Fp4_BpreShuffle_256x256E",
         "nvfp4"),
        ("bmm_Bfloat16_E2m1E2m1_Fp32_t128x16x256u2_s6_et128x16",
         "nvfp4"),
        ("_ZN5aiter41fmha_bwd_hd128_bf16_causal_a32_rtne_psskE",
         "bf16"),
        ("void transformer_engine::cast_mxfp8_2D_kernel<false>",
         "mxfp8"),
        ("void sm90_fp8_mqa_logits<64u, 128u>",
         "fp8"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
         "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
         "fp32"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<double>, "
         "at::detail::Array<char *, 1> >(int)", "fp64"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, "
         "at::detail::Array<char*, 1> >(int)", None),
        ("void scale_kernel<signed char, 4>(signed char const*)", "int8"),
        ("sm80_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize128x128x64", "int8"),
        ("kernel_cutlass_kernel_Sm100GroupedBlockScaledGemmKernel_object_at_", None),
        ("PersistentBatchGemmKernel", None),
        ("ampere_dgemm_64x64_nn", "fp64"),
        ("ampere_hgemm_128x64_tn", "fp16"),
        ("nvjet_sm100_qqtst_128x128x128_Avec32UE8M0_Bvec32UE8M0_TNT", "mxfp8"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0E", "bf16"),
        # Tensile before data types of inputs and outputs stood apart: B batched, H accumulates
        # in a higher precision.
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_APM1_AF0EM1", "fp32"),
        ("Cijk_Ailk_Bljk_DB_MT64x64x8_SE", "fp64"),
        ("Cijk_Ailk_Bljk_HB_MT64x64x16_SE", "fp16"),
        ("Cijk_Alik_Bljk_HBH_MT128x128x16_MI32x32x8x1_SE", "fp16"),
        ("Cijk_Alik_Bljk_BBH_MT128x128x16_MI32x32x4x2_SE", "bf16"),
        ("Cijk_Ailk_Bljk_4xi8BH_MT64x64x8_SE", "int8"),
        ("Cijk_Ailk_Bljk_ZB_MT64x64x8_SE", None),
    ],
)  # fmt: skip
def test_precision(name: str, expected: str | None) -> None:
    assert kernel_precision(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>", "dispatch"),
        ("void mori::moe::EpCombineInterNodeKernel", "combine"),
        ("void hybrid_ep::dispatch_kernel<8>", "dispatch"),
        ("ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
         "all_reduce"),
        ("ncclSymDevKernel_AllGather_LLMC(ncclSymDevArgs)", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_NVLS", "reduce_scatter"),
        ("void tensorrt_llm::kernels::mnnvl::oneshotAllreduceFusionKernel<8, __nv_bfloat16>",
         "all_reduce"),
        ("nvshmemi_barrier_on_stream_kernel", None),
    ],
)  # fmt: skip
def test_kind_of_collective(name: str, expected: str | None) -> None:
    assert collective_kind(name) == expected


def test_case_does_not_matter() -> None:
    for names in _BY_CLASS.values():
        for name in names:
            assert kernel_class(name.lower()) == kernel_class(name)
    patterns = [row[0] for table in (classification.KERNEL_CLASSES, classification.OP_CLASSES,
                classification.KERNEL_PRECISIONS, classification.COLLECTIVE_NAMES)
                for row in table]  # fmt: skip
    # An escape in capitals would change its meaning in lower case.
    assert not [p for p in patterns if re.search(r"\\[A-Z]", p)]
