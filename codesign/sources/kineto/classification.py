"""Classification tables: regular expressions in order, the first match decides. Data, no code.

Searched case-insensitively. Order carries meaning: a name may match several rows.
"""

from __future__ import annotations

KERNEL_CLASSES: tuple[tuple[str, str], ...] = (
    # Collectives: libraries, then custom kernels of inference engines.
    (r"nccl(dev)?kernel|nccl_|rccl|ncclsymk|\bnccl", "collective"),
    (r"nvshmem|deep_?ep::|internode::|intranode::|low_latency_(dispatch|combine)", "collective"),
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
    # Tensor-core and vector work.
    (r"fused_?moe|moe_?gemm|moe_\w*(mm|gemm)|grouped_?(gemm|mm)|group_?gemm|m_grouped|gemm_grouped"
     r"|matmul_ogs|ck_moe|fmoe|moe_mxgemm|bf16_moe|groupproblemshape|ptr_?array", "grouped_gemm"),
    (r"reshape_and_cache|kv_?cache_?(copy|store|write)|store_kv|concat_and_cache|set_kv", "copy"),
    (r"flash|fmha|attn|attention|\bmla_|_mla|sdpa|sdp_|splitkv", "attention"),
    (r"quantize|quant_|_quant|per_token_\w*fp8|scaled_fp8|float_to_hfp8|hfp8_to_float"
     r"|fp8rowwise|fp8_qparam|cast_transpose|to_fp8|to_mx", "quantize"),
    (r"fused_?adam|adam_?w?|lamb_|fusedoptimizer|sgd_?(momentum)?_?kernel|rowwise_adagrad\w*step"
     r"|lionkernel|muon", "optimizer"),
    (r"embedding|indexselect|index_select|gather_?embed", "embedding"),
    (r"nchwtonhwc|nhwctonchw|nchw2nhwc|nhwc2nchw", "copy"),
    (r"conv(?!ert)|dgrad|wgrad|fprop|winograd|scudnn|implicit_gemm|im2col|col2im"
     r"|computeoffsetskernel|igemm_|subtensorop|naive_conv", "conv"),
    (r"gemm|cijk_|nvjet|tensorop|xmma|matmul|cublas|splitk_?reduce|dot_kernel|gemv|wmma|wvsplitk"
     r"|_mm_kernel|machete|marlin|llmm1|hipblas|gemv2", "gemm"),
    (r"layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|\bbn_(fw|bw)|rowwisemoments"
     r"|gammabeta|ln_(fwd|bwd)|norm_kernel|_norm_|rsqrt", "norm"),
    (r"soft_?max", "softmax"),
    (r"direct_copy|catarray|copy_kernel|memcpy|memset|transpose|permute|tofloat|copydevice"
     r"|copybuffer|fillbuffer|batchedcopy|pad_kernel|index_put|index_copy|slice_kernel"
     r"|::copy<", "copy"),
    (r"elementwise|pointwise|multi_tensor_apply|activation|silu|gelu|relu|swiglu|rope|rotary"
     r"|fillfunctor|dropout|act_and_mul|scalepackedtensor|add_kernel|mul_kernel|tensorapply"
     r"|optensor|op_tensor|clamp", "elementwise"),
    (r"reduce|argmax|argmin|topk|top_k|sort|scan|cumsum|histogram|unique|cross_entropy|nll_loss"
     r"|pool|mean|sum", "reduction"),
)  # fmt: skip
"""Kernel name -> op class; what matches nothing is ``other``."""

KERNEL_PRECISIONS: tuple[tuple[str, str], ...] = (
    (r"bf16x\w*mxfp4", "bf16"),
    (r"nvfp4|fp4|e2m1|mxfp4", "nvfp4"),
    (r"mxfp8|mx_?f8", "mxfp8"),
    (r"e4m3|e5m2|fp8|_f8_|float8|f8f8|_q[a-z]{2,4}_|nvjet_(sm\d+_)?qq", "fp8"),
    (r"bf16|bfloat16|nvjet_(sm\d+_)?t|cijk_\w*?_B_?[BS]_?S?_", "bf16"),
    (r"tf32|nvjet_(sm\d+_)?s", "tf32"),
    (r"f16|fp16|half|hgemm|h884|h1688|h16816|nvjet_(sm\d+_)?h|cijk_\w*?_H_?[HS]_?S?_", "fp16"),
    (r"tensorop_s\d+|s1688gemm|s1688fprop|s1688(dgrad|wgrad)", "tf32"),
    (r"int8|imma|s8_|_i8|igemm|char", "int8"),
    (r"dgemm|double|f64", "fp64"),
    (r"sgemm|scudnn|f32|float|ffma|simt|cijk_\w*?_S_?S?_", "fp32"),
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
    "c10::float8_e5m2fnuz": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "signed char": 1, "unsigned char": 1, "char": 1, "byte": 1, "bool": 1,
    "long": 8, "long int": 8, "int": 4, "short": 2, "short int": 2, "c10::complex<float>": 8,
    "c10::float4_e2m1fn_x2": 1, "unsigned int": 4, "unsigned long": 8, "unsigned short": 2,
}  # fmt: skip
"""Element types in lower case, as ``Input type`` and NCCL's ``dtype`` write them."""

OP_CLASSES: tuple[tuple[str, str, str], ...] = (
    (r"aten::(mm|mm_out)$", "gemm", "mm"),
    (r"aten::(addmm|_addmm_activation)$", "gemm", "addmm"),
    (r"aten::(bmm|baddbmm)$", "gemm", "bmm"),
    (r"aten::_scaled_mm$", "gemm", "mm"),
    (r"aten::(linear|matmul)$|vllm::\w*unquantized_gemm\w*$|aiter::\w*gemm\w*$", "gemm", "linear"),
    (r"_C::\w*scaled_mm\w*$", "gemm", "out_mm"),
    (r"aten::(_scaled)?_?grouped_mm$", "grouped_gemm", "grouped"),
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
    r"^(train(ing)?|eval|inference|val(idation)?)?[\s_:/#-]*(step|iter(ation)?|batch)[\s_:/#-]*\d+$",
    r"^(train|training|model)[\s_]?step$",
    r"^execute_(context_)?\d+",
)
"""User annotations that mark steps where there is no ``ProfilerStep#N``."""

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
