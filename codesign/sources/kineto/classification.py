"""Classification tables: regular expressions in order, the first match decides. Data, no code.

Names and patterns are compared in lower case, so that a pattern must not use an escape such as
``\\W``. Order carries meaning: a name may match several rows.
"""

from __future__ import annotations

KERNEL_CLASSES: tuple[tuple[str, str], ...] = (
    # Collectives: libraries, then custom kernels of inference engines.
    (r"nccl(dev)?kernel|nccl_|rccl|ncclsymk|\bnccl", "collective"),
    (r"nvshmem|deep_?ep::|internode::|intranode::|low_latency_(dispatch|combine)|hybrid_?ep|pplx"
     r"|mori::|\bep(dispatch|combine)|\bdispatchkernel|symmetric_memory::", "collective"),
    (r"cross_device_reduce|multimem_\w*(reduce|gather)|(one|two)_?shot_?\w*(all_?)?reduce"
     r"|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|quickreduce|mscclpp|userbuffers"
     r"|moe_?(a2a|dispatch|combine)\w*kernel|lamport", "collective"),
    # Inductor's names list every op that they fuse, so they go before the names of ops.
    (r"triton_tem_fused_\w*(flex_attention|attention)", "attention"),
    (r"triton_tem_fused_\w*(grouped_mm)", "grouped_gemm"),
    (r"triton_tem_fused_\w*(mm|bmm|addmm|matmul)", "gemm"),
    (r"triton_(red|per)_fused_\w*(layer_norm|rms_norm|rsqrt|batch_norm|group_norm)", "norm"),
    (r"triton_(red|per)_fused_\w*softmax", "softmax"),
    (r"triton_(red|per)_", "reduction"),
    (r"triton_poi_fused_\w*(embedding)", "embedding"),
    (r"triton_poi_fused_(clone|copy|_to_copy|cat|slice|transpose|view|_unsafe_view)+_?\d*$",
     "copy"),
    (r"triton_(poi|for)_", "elementwise"),
    # Routing of tokens to experts; scans of state-space models are no reductions.
    (r"moe_align|moe_fused_gate|combined_routing|moe::dev::(routing|finalize)|finalizemoerouting"
     r"|routing(main|indices|init|cluster)\w*kernel", "reduction"),
    (r"expandinputrows|\bep_(gather|scatter)|_ep_(gather|scatter)|sort_chunks_by|req_to_token",
     "copy"),
    (r"selective_(scan|state)|chunk_(scan|state)_|state_passing", "other"),
    # Tensor-core and vector work. Batched kernels that TensorRT-LLM generates are its experts'.
    (r"fused_?moe|moe_?gemm|moe_\w*(mm|gemm)|grouped\w*?(gemm|mm_|mm\b|matmul)|group_?gemm"
     r"|m_grouped|gemm_grouped|matmul_ogs|ck_moe|fmoe|moe_mxgemm|bf16_moe|marlin_moe|moe_wna16"
     r"|(group|moe)problemshape|ptr_?array|gemmtype(\)|e)[123]"
     r"|\bbmm_\w+_t\d+x\d+x\d+(u\d)?_s\d+_et", "grouped_gemm"),
    (r"reshape_and_cache|kv_?cache_?(copy|store|write)|store_kv|concat_and_cache|set_kv"
     r"|(set|write|copy|store)_\w*kv_?(buffer|cache)", "copy"),
    # FlashInfer's name space holds more than attention.
    (r"flash(?!infer)|fmha|attn|attention|(?<![a-z])mla_|_mla|sdpa|sdp_|splitkv|mqa_logits"
     r"|(prefill|decode)_?with\w*kv|(?<![a-z])mm?ha(?![a-z])|mergestates|_fwd_(grouped_)?kernel_stage|delta_rule"
     r"|chunk_scaled_dot_kkt|chunk_fwd_kernel_o", "attention"),
    (r"rotary|apply_?rope|_rope|rope_", "elementwise"),
    (r"(layer|rms)_?norm\w*quant", "norm"),
    (r"quantize|quant_|_quant|per_token_\w*fp8|scaled_fp8|float_to_hfp8|hfp8_to_float"
     r"|fp8rowwise|fp8_qparam|cast_transpose|cast_(fp8|mxfp|nvfp)|to_fp[468]|to_mx|delayed_scaling",
     "quantize"),
    (r"fused_?adam|adam_?w?|lamb_|lambstage|fusedoptimizer|koptimizer|sgd_?(momentum)?_?kernel"
     r"|rowwise_adagrad\w*step|lionkernel|muon", "optimizer"),
    (r"embedding|indexselect|index_select|gather_?embed|vectorized_gather", "embedding"),
    (r"nchwtonhwc|nhwctonchw|nchw2nhwc|nhwc2nchw", "copy"),
    (r"conv(?!ert)|dgrad|wgrad|fprop|winograd|scudnn|implicit_gemm|im2col|col2im"
     r"|compute\w?offsetskernel|igemm_|subtensorop|naive_conv", "conv"),
    (r"gemm|cijk_|nvjet|tensorop|xmma|matmul|cublas|splitk_?reduce|dot_kernel|gemv|wmma|wvsplitk"
     r"|_mm_kernel|mm_persistent|(?<![a-z])bmm_|mul_mat_|machete|marlin|llmm1|hipblas", "gemm"),
    (r"(l2|lp|max)normfunctor", "reduction"),
    (r"layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|\bbn_(fw|bw)|rowwisemoments"
     r"|gammabeta|(?<![a-z])l2norm|cucomputegradinput|ln_(fwd|bwd)|norm_kernel|_norm_|rsqrt",
     "norm"),
    (r"soft_?max", "softmax"),
    (r"direct_copy|catarray|copy_kernel|memcpy|memset|transpose|permute|tofloat|copydevice"
     r"|copybuffer|fillbuffer|batchedcopy|pad_kernel|index_put|index_copy|slice_kernel"
     r"|index_elementwise|gpu_index_kernel|scatter_gather_elementwise"
     r"|::copy<", "copy"),
    (r"elementwise|pointwise|multi_tensor_apply|activation|silu|gelu|relu|swiglu|geglu|rope|gated_act"
     r"|fillfunctor|dropout|act_and_mul|scalepackedtensor|add_kernel|mul_kernel|tensorapply"
     r"|optensor|op_tensor|clamp|triu_?tril|upsample", "elementwise"),
    (r"reduce|amax|argmax|argmin|topk|top_k|sort|scan|cumsum|histogram|unique|cross_entropy|nll_?(loss|criterion)"
     r"|_jsd_|radixfind|pool|mean|sum", "reduction"),
)  # fmt: skip
"""Kernel name -> op class; what matches nothing is ``other``."""

KERNEL_PRECISIONS: tuple[tuple[str, str], ...] = (
    (r"bf16x\w*mxfp4", "bf16"),
    (r"nvfp4|fp4|e2m1|mxfp4|nvjet_(sm\d+_)?oo", "nvfp4"),
    (r"mxfp8|mx_?f8|vec32ue8m0", "mxfp8"),
    (r"e4m3|e5m2|fp8(?!kvcachedatatype)|_f8_|float8|f8f8"
     r"|cijk_\w*?_[fb]8|_qq[a-z]{1,3}_|nvjet_(sm\d+_)?qq", "fp8"),
    (r"bf16|bfloat16|df16b|nvjet_(sm\d+_)?t|cijk_\w*?_B_?[BS]_?S?_"
     r"|cijk_[a-z]+_[a-z]+_bbh?_", "bf16"),
    (r"tf32|tfloat32|nvjet_(sm\d+_)?s", "tf32"),
    (r"f16|fp16|half|(?<![a-z])hgemm|h884|h1688|h16816|nvjet_(sm\d+_)?h|cijk_\w*?_H_?[HS]_?S?_"
     r"|cijk_[a-z]+_[a-z]+_hbh?_", "fp16"),
    (r"tensorop_s\d+|s1688gemm|s1688fprop|s1688(dgrad|wgrad)", "tf32"),
    # Letters before the mark are another word's: "GroupedGemm" is no dgemm.
    (r"int8|imma|4xi8|(?<![a-z])s8_|_i8|(?<![a-z])igemm|\bchar\b(?!\s*\*)", "int8"),
    (r"(?<![a-z])dgemm|double(?!_?buf)|(?<![a-z])f64|cijk_[a-z]+_[a-z]+_d[bd]_",
     "fp64"),
    (r"(?<![a-z])sgemm|scudnn|f32|float|ffma|simt|cijk_\w*?_S_?S?_|cijk_[a-z]+_[a-z]+_sb_",
     "fp32"),
)  # fmt: skip
"""Kernel name -> precision of the multiply inputs, where the op's types do not say."""

TYPE_PRECISIONS: dict[str, str] = {
    "float": "fp32", "double": "fp64", "c10::bfloat16": "bf16", "c10::half": "fp16",
    "bfloat16": "bf16", "half": "fp16", "c10::float8_e4m3fn": "fp8", "c10::float8_e5m2": "fp8",
    "c10::float8_e4m3fnuz": "fp8", "c10::float8_e5m2fnuz": "fp8", "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2fnuz": "fp8",
    "signed char": "int8", "char": "int8", "c10::float4_e2m1fn_x2": "nvfp4",
}  # fmt: skip
TYPE_BYTES: dict[str, float] = {
    "float": 4, "double": 8, "c10::bfloat16": 2, "c10::half": 2, "bfloat16": 2, "half": 2,
    "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1, "c10::float8_e4m3fnuz": 1,
    "c10::float8_e8m0fnu": 1, "c10::float8_e5m2fnuz": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "signed char": 1, "unsigned char": 1, "char": 1, "byte": 1, "bool": 1,
    "long": 8, "long int": 8, "int": 4, "short": 2, "short int": 2, "c10::complex<float>": 8,
    "c10::float4_e2m1fn_x2": 1, "unsigned int": 4, "unsigned long": 8, "unsigned short": 2,
}  # fmt: skip
"""Element types in lower case, as ``Input type`` and NCCL's ``dtype`` write them."""

OP_CLASSES: tuple[tuple[str, str, str], ...] = (
    (r"aten::(mm|mm_out)$", "gemm", "mm"),
    (r"aten::(addmm|_addmm_activation)$", "gemm", "addmm"),
    (r"aten::(bmm|baddbmm)$", "gemm", "bmm"),
    (r"aten::mv$", "gemm", "mv"),
    (r"aten::addmv_?$", "gemm", "addmv"),
    (r"aten::_scaled_mm(_v2)?$", "gemm", "mm"),
    (r"aten::(linear|matmul)$|vllm::\w*unquantized_gemm\w*$|aiter::\w*gemm\w*$", "gemm", "linear"),
    (r"_C::\w*scaled_mm\w*$", "gemm", "out_mm"),
    (r"aten::((_scaled)?_?grouped_mm|_scaled_grouped_mm_v2)$", "grouped_gemm", "grouped"),
    (r"aten::(cudnn|miopen|mkldnn)_convolution_backward_(input|weight)$", "conv", "conv_grad"),
    (r"aten::convolution_backward$", "conv", "conv_backward"),
    (r"aten::(cudnn|miopen|mkldnn)?_?_?(depthwise_)?conv(olution|[123]d)(_add)?(_relu)?$",
     "conv", "conv"),
    (r"(flash|efficient|cudnn)_attention(_forward|_backward)?$|flash_attn::_flash_attn_(for|back)",
     "attention", "attention"),
    (r"flash_attn|unified_attention|fused_attention|flashattn|paged_attention", "attention", ""),
    (r"aten::(native_|cudnn_|miopen_|_fused_)?(layer|rms|batch|group)_norm(_backward|_out)?$",
     "norm", "rows"),
    (r"(_C|vllm|sgl_kernel|aiter)::\w*rms_?norm\w*$", "norm", "rows"),
    (r"aten::_?(log_)?softmax(_backward_data)?$|aten::_safe_softmax$", "softmax", "rows"),
    (r"aten::(embedding|index_select)$", "embedding", "lookup"),
    (r"aten::embedding_dense_backward$|aten::_embedding_bag", "embedding", ""),
    (r"aten::_fused_(adamw?|sgd|adagrad)_?$", "optimizer", "parameters"),
    (r"aten::(copy_|clone|contiguous|_to_copy)$", "copy", "copy"),
    (r"aten::(cat|index|index_put_|_index_put_impl_|gather|scatter_?|masked_fill_?|_foreach_copy_)$",
     "copy", ""),
    (r"aten::(sum|mean|max|min|amax|amin|argmax|argmin|prod|var|std|norm|all|any|cumsum)$"
     r"|aten::linalg_vector_norm$", "reduction", "read"),
    (r"aten::(sort|topk|nll_loss_forward|nll_loss_backward|_local_scalar_dense)$"
     r"|aten::(max|avg)_pool\w*$|aten::adaptive_avg_pool\w*$", "reduction", ""),
    (r"aten::(add|sub|rsub|mul|div|neg|exp|log|sqrt|rsqrt|pow|tanh|sigmoid|silu|gelu|relu|abs|sin"
     r"|cos|clamp|clamp_min|clamp_max|where|eq|ne|lt|gt|le|ge|logical_and|logical_not|maximum"
     r"|minimum|addcmul|addcdiv|erf|bitwise_and|bitwise_not|reciprocal|square|lerp|dropout"
     r"|native_dropout|silu_backward|gelu_backward|tanh_backward|sigmoid_backward"
     r"|threshold_backward|threshold|hardtanh|leaky_relu)_?$", "elementwise", "pointwise"),
    (r"aten::(fill_|zero_|arange|full|zeros|ones|normal_|uniform_|bernoulli_)$", "elementwise",
     "written"),
)  # fmt: skip
"""Op name -> op class, and how its dims are read from shapes (empty: they are not).

All kernels of one call of such an op are one op of the characterization.
"""

STEP_ANNOTATIONS: tuple[str, ...] = (
    r"^(train(ing)?|eval(uation)?|inference|val(idation)?|global|engine|generat(e|ion)|decode|prefill)?"
    r"[\s_:/#-]*(step|iter(ation)?|batch)[\s_:/#=-]*\d+$",
    r"^(train|training|model)[\s_]?step$",
    r"^execute_(context_)?\d+",
    r"^step\[\w",
)
"""User annotations that mark steps where there is no ``ProfilerStep#N``; the first pattern that
any of a trace's names matches decides."""

COLLECTIVE_NAMES: tuple[tuple[str, str], ...] = (
    (r"dispatch", "dispatch"),
    (r"combine", "combine"),
    (r"all_?reduce|cross_device_reduce|multimem_all|(one|two)_?shot|quickreduce", "all_reduce"),
    (r"all_?gather", "all_gather"),
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?to_?all|alltoallv|a2a", "all_to_all"),
    (r"broad_?cast", "broadcast"),
    (r"send_?recv|\bsend\b|\brecv\b|^send|^recv|p2p", "send_recv"),
)
"""Collective from NCCL's ``Collective name``, the annotation's or the kernel's name."""
