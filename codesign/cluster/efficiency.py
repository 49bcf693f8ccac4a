"""The few parameters that published steps calibrate; everything else comes from op models."""

from __future__ import annotations

import msgspec


class Efficiency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a whole step adds to its ops timed one by one. 1 and 0 mean: nothing."""

    gemm: float = 1.0
    """Linear layers in a step / as microbenchmarks time them: long steps run at the sustained
    clock, operands come from other kernels and not from L2, weight gradients accumulate."""
    gemm_narrow: float = 1.0
    """The same for fp8, one scale a tensor."""
    gemm_block: float = 1.0
    """The same for mxfp8 and fp8_block."""
    gemm_nvfp4: float = 1.0
    """The same for nvfp4."""
    grouped: float = 1.0
    """Experts' multiplies, beside the factor of their precision: rows are cast, padded and
    transposed expert by expert."""
    grouped_fused: float = 1.0
    """The same where casts and activation run inside the grouped GEMMs."""
    attention_forward: float = 1.0
    attention_backward: float = 1.15
    """Backward attention / 2.5 forwards: five products that share less than the two do."""
    memory: float = 1.0
    """Memory-bound kernels: those that are not fused as far as the op list takes them to be."""
    memory_fused: float = 1.0
    """The same for layers whose small kernels are fused or replayed as one graph."""
    tp_exposed: float = 0.3
    """Share of tensor-parallel collectives that chunked overlap leaves exposed."""
    ep: float = 1.0
    """Dispatch and combine in training / as DeepEP's kernels were timed on Hopper."""
    ep_hybrid: float = 0.5
    """The same by HybridEP: multicast and reduction close to the rate of the wire."""
    ep_window: float = 0.7
    """Share of another micro-batch's compute that hides them where they overlap."""
    dp_window: float = 0.8
    """Share of a pass's compute that hides gradients and parameters in flight."""
    slowdown: float = 1.0
    """Compute lost to hidden collectives / the SMs and bandwidth that they take."""
    host_layer_s: float = 1.2e-3
    """Host time of a dense layer, forward and backward, launched kernel by kernel."""
    host_moe_s: float = 8e-3
    """What a layer of experts adds to it: many small kernels, and waits for token counts."""
    gap_s: float = 5e-4
    """GPU time lost between the kernels of a layer, forward and backward: launches, and waits
    of ranks for each other. Graphs take it away."""
    step_s: float = 5e-3
    """Fixed time of a step: data, norms, optimizer launches, reports."""
    power_exponent: float = 1 / 3
    """Sustained clock of large multiplies ~ power^exponent, between 1/3 (voltage follows
    frequency, as in the op models) and 1 (voltage at its floor). Assumed; left free, published
    runs give 0.38, but cannot tell power from what else moved with it (docs/cluster.md)."""


UNCALIBRATED = Efficiency()
"""Where calibration starts, and what it is held to."""
DEFAULT = Efficiency(
    gemm=1.40, gemm_narrow=0.990, gemm_block=1.16, gemm_nvfp4=0.706, grouped=1.66,
    grouped_fused=0.944, attention_forward=1.01, attention_backward=1.52, memory=0.954,
    memory_fused=0.970, tp_exposed=0.289, ep=1.11, ep_hybrid=0.290, ep_window=0.764,
    dp_window=0.790, slowdown=1.51, host_layer_s=0.00175, host_moe_s=0.00964, gap_s=0.000778,
    step_s=0.00548, power_exponent=1 / 3,
)  # fmt: skip
"""Shipped: calibrated on the H100 and GB200 rows of Megatron Bridge's table and half of the B200
steps, the other rows unseen: `benchmarks/cluster.py` prints it with the scores that it reaches."""

PRIOR_SD = {
    "gemm": 0.3, "gemm_narrow": 0.3, "gemm_block": 0.3, "gemm_nvfp4": 0.3, "grouped": 0.3,
    "grouped_fused": 0.3,
    "attention_forward": 0.15, "attention_backward": 0.35, "memory": 0.4, "memory_fused": 0.3,
    "tp_exposed": 0.5,
    "ep": 0.5, "ep_hybrid": 0.5, "ep_window": 0.2, "dp_window": 0.3, "slowdown": 0.5,
    "host_layer_s": 0.5, "host_moe_s": 0.15, "gap_s": 0.7, "step_s": 0.5}  # fmt: skip
"""Standard deviations of the logs of what is fitted, around the values above."""
RESIDUAL_SD = 0.12
"""Log error of a step on a system that the calibration has not seen: median error / 0.67."""
