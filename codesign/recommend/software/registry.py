"""Every software rule, as data. To add one: write its ``look`` and name it here.

The reach of a rule says how much of the gap to the attainable bound is taken to close
(low end, value, high end): an assumption that stands in the report and is changed here.
"""

from __future__ import annotations

from codesign.recommend.software.decode import decode_batching, kv_precision
from codesign.recommend.software.domain import crosses_domain
from codesign.recommend.software.draft import Reach, Rule
from codesign.recommend.software.fusion import unfused_attention, unfused_pointwise
from codesign.recommend.software.gemm import slow_gemms
from codesign.recommend.software.launch import host_stall, launch_bound
from codesign.recommend.software.overlap import exposed_communication, unhidden_copies
from codesign.recommend.software.precision import narrower
from codesign.recommend.software.ranks import moe_imbalance, stragglers
from codesign.recommend.software.recompute import recomputation

_MODELLED = Reach(0.6, 0.85, 1.0, "kernels of other libraries reach 60 to 100 % of the gap that "
                  "the fitted model, which saw the fastest ones, shows")  # fmt: skip

RULES: tuple[Rule, ...] = (
    Rule("overlap_communication", "Overlap exposed communication",
         "Start collectives as soon as their data are ready and let compute run beside them: "
         "smaller buckets, prefetched all-gathers, two micro-batches side by side for tensor and "
         "expert parallelism.",
         exposed_communication,
         "Capture the step again with the overlap on: the exposed time of these collectives has to "
         "fall by what is projected while the compute beside them does not grow.",
         Reach(0.3, 0.6, 0.9, "data dependencies and SMs lost to collectives leave a third or more "
               "of it exposed in tuned training runs"),
         "medium", "scheduling in the framework, no numerics", "medium",
         "the phases are known, the dependencies inside them are not",
         needs=("exposed",), captured=True),
    Rule("launch_bound", "Replay launches as CUDA graphs",
         "Capture the step or its static parts as CUDA graphs (torch.compile "
         'mode="reduce-overhead", or make_graphed_callables), or give each launch more work by a '
         "larger batch or fused kernels.",
         launch_bound,
         "Capture one step with graphs and without a profiler's hooks in the host's way: the idle "
         "time outside of long gaps has to fall to the launch latency of its kernels.",
         Reach(0.5, 0.8, 1.0, "parts with dynamic shapes or host logic stay outside of graphs"),
         "medium", "static shapes and no host logic inside the graph", "medium",
         "launches are known; a profiler slows the host, so the gaps are an upper bound",
         needs=("idle", "launch"), captured=True, kernel_side=False),
    Rule("host_stall", "Take data loading and synchronisation off the step",
         "Find what the host does in the long gaps: give the data loader workers and prefetching, "
         "remove .item(), .cpu() and other synchronising calls, log less often.",
         host_stall,
         "Capture with CPU activities and look at the longest gap of the step; run once with "
         "synthetic data that already lie on the device: the gap has to vanish.",
         Reach(0.3, 0.7, 1.0, "what the host does may depend on results of the step"),
         "low", "a setting of the loader, in most cases", "medium",
         "long gaps without launches are certain, what fills them on the host is not",
         needs=("idle", "launch"), captured=True, kernel_side=False),
    Rule("slow_gemms", "Bring slow GEMMs to their attainable time",
         "Pad dims to multiples that the kernels load whole, choose batch so that tiles fill the "
         "SMs, batch small GEMMs, and let the library pick again (newer cuBLASLt, autotuning).",
         slow_gemms,
         "Time these shapes alone, as they are and padded, on the same GPU.",
         _MODELLED, "low", "padding and library settings", "high",
         "shapes and times are measured", needs=("flops",)),
    Rule("fp8_gemms", "Multiply in FP8",
         "Switch the linear layers to FP8 (per-tensor or row scales) with the cast fused into the "
         "kernel before.",
         narrower("fp8"),
         "Time these shapes in both precisions with the cast on the same GPU, and compare the "
         "loss or an evaluation over a short run.",
         Reach(0.5, 0.8, 1.0, "some layers stay in BF16 for accuracy, scales cost kernels"),
         "high", "numerics have to be validated", "medium",
         "times are modelled from measured kernels; accuracy is not judged here",
         needs=("flops",), rivals=("mxfp8_gemms", "nvfp4_gemms")),
    Rule("mxfp8_gemms", "Multiply in MXFP8",
         "Switch the linear layers to MXFP8 (one scale for 32 elements, applied by the tensor "
         "cores).",
         narrower("mxfp8"),
         "Time these shapes in both precisions with the cast on the same GPU, and compare the "
         "loss or an evaluation over a short run.",
         Reach(0.5, 0.8, 1.0, "some layers stay in BF16 for accuracy, casts of both layouts cost"),
         "high", "numerics have to be validated", "medium",
         "times are modelled from measured kernels; accuracy is not judged here",
         needs=("flops",), rivals=("fp8_gemms", "nvfp4_gemms")),
    Rule("nvfp4_gemms", "Multiply in NVFP4",
         "Quantize the linear layers to NVFP4 (one FP8 scale for 16 elements).",
         narrower("nvfp4"),
         "Time these shapes in both precisions with the cast on the same GPU, and compare an "
         "evaluation of the quantized model.",
         Reach(0.4, 0.7, 1.0, "more layers stay wider than with 8 bits"),
         "high", "numerics have to be validated, in training above all", "low",
         "times are modelled from measured kernels; accuracy is not judged here",
         needs=("flops",), rivals=("fp8_gemms", "mxfp8_gemms")),
    Rule("unfused_pointwise", "Fuse pointwise chains and norms",
         "Compile the model (torch.compile) or use fused kernels: bias and activation in the "
         "GEMM's epilogue, addition with the norm, the optimizer in its fused or foreach form.",
         unfused_pointwise,
         "Capture the compiled step: these kernels have to be gone and none beside them slower.",
         Reach(0.3, 0.6, 0.9, "not every kernel stands beside one that can take it in"),
         "low", "a compiler switch, in most cases", "medium",
         "that the kernels run alone is measured, which neighbours they have is not",
         captured=True),
    Rule("unfused_attention", "Fuse attention",
         "Replace the explicit product of scores by scaled_dot_product_attention or "
         "FlashAttention, which keep the scores on chip.",
         unfused_attention,
         "Time the fused kernel at this shape on the same GPU.",
         Reach(0.7, 0.9, 1.0, "layout changes around the kernel may stay, and scores that "
               "someone asks for have to leave the chip"),
         "low", "one call in the model's code", "high",
         "the chain is recognised by dims that fit together",
         captured=True, rivals=("slow_gemms", "unfused_pointwise")),
    Rule("recomputation", "Keep activations instead of recomputing them",
         "Recompute less, as far as memory allows: only attention or only norms, fewer layers, "
         "or offload what is kept.",
         recomputation,
         "Run a step without recomputation and read its peak memory.",
         Reach(0.3, 0.6, 1.0, "part of it has to stay where memory is tight"),
         "low", "a setting of the framework", "medium", "time is measured, memory is estimated"),
    Rule("unhidden_copies", "Hide copies between host and device",
         "Pin the host's memory, copy on a stream of its own, and fetch the next batch while this "
         "one is computed.",
         unhidden_copies,
         "Capture the step with pinned memory and prefetching: the copies have to lie under "
         "kernels.",
         Reach(0.7, 0.95, 1.0, "the first batch has nothing to hide behind"),
         "low", "a setting of the loader", "high", "the copies and what runs beside them are "
         "measured", needs=("exposed",), captured=True),
    Rule("moe_imbalance", "Balance the load of the experts",
         "Balance the routing (auxiliary loss or bias), place popular experts on several ranks, "
         "or move them between ranks by load.",
         moe_imbalance,
         "Count token-expert rows of each rank over a few steps: the busiest over the mean is the "
         "factor at stake.",
         Reach(0.3, 0.6, 0.9, "routing moves from step to step"),
         "high", "routing or placement of experts changes", "medium",
         "waits are measured where ranks were captured together", needs=("wait",), captured=True),
    Rule("stragglers", "Bring the ranks into step",
         "Find why the last rank is late: uneven sequences or stages, a slower or throttled GPU, a "
         "busy host.",
         stragglers,
         "Capture all ranks at once: arrival times at the same collectives have to close in.",
         Reach(0.3, 0.6, 1.0, "part of the spread is noise that no placement removes"),
         "medium", "a search for the cause first", "medium",
         "waits are measured where ranks were captured together", needs=("wait", "exposed"),
         captured=True),
    Rule("crosses_domain", "Keep small groups inside the NVLink domain",
         "Order ranks so that the groups with the most traffic are neighbours (tensor and expert "
         "parallelism innermost).",
         crosses_domain,
         "Run the same step with the other rank order.",
         Reach(0.3, 0.7, 1.0, "what moves inside pushes another group outside"),
         "low", "an option of the launcher", "medium",
         "groups are recorded, what else moves is not", needs=("exposed",), captured=True),
    Rule("decode_batching", "Decode more sequences at once",
         "Raise the batch of decode (continuous batching with a larger limit), as far as the cache "
         "fits and the time for a token allows.",
         decode_batching,
         "Serve at twice the batch and read tokens per second and the time for a token.",
         Reach(0.7, 0.9, 1.0, "batches are not full at all times"),
         "low", "a setting of the server, if demand fills it", "medium",
         "times are modelled from measured kernels; demand and latency targets are not known",
         needs=("flops",)),
    Rule("kv_precision", "Keep the cache in FP8",
         "Store keys and values in FP8.",
         kv_precision,
         "Time attention over both caches at this shape, and compare an evaluation.",
         Reach(0.5, 0.8, 1.0, "the conversion costs time inside the kernel"),
         "medium", "a setting of the server; accuracy has to be validated", "medium",
         "times are modelled from measured kernels; accuracy is not judged here"),
)  # fmt: skip
