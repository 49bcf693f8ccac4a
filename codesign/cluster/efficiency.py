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
    """Experts' multiplies, beside the factor of their precision."""
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
    ep_fused: float = 0.7
    """The same where the exchange is part of a graph, with counts that the host never reads."""
    ep_window: float = 0.7
    """Share of another micro-batch's compute that hides them where they overlap."""
    dp_window: float = 0.8
    """Share of a pass's compute that hides gradients and parameters in flight."""
    slowdown: float = 0.15
    """Compute lost per second of hidden collective: SMs and bandwidth that it takes."""
    host_layer_s: float = 1.2e-3
    """Host time of a dense layer, forward and backward, launched kernel by kernel."""
    host_moe_s: float = 8e-3
    """What a layer of experts adds to it: many small kernels, and waits for token counts."""
    gap_s: float = 5e-4
    """GPU time lost between the kernels of a layer, forward and backward: launches, and waits
    of ranks for each other. Graphs take it away."""
    step_s: float = 5e-3
    """Fixed time of a step: data, norms, optimizer launches, reports."""
    power_exponent: float = 2 / 3
    """Sustained clock of large multiplies ~ power^exponent within a silicon family; between
    1/3 (voltage follows frequency) and 1 (voltage at its floor). Assumed: the middle, not
    fitted, since published runs cannot tell it from what else moved (docs/cluster.md)."""


UNCALIBRATED = Efficiency()
"""Where calibration starts, and what it is held to."""
DEFAULT = Efficiency()

PRIOR_SD = {
    "gemm": 0.3, "gemm_narrow": 0.3, "gemm_block": 0.3, "gemm_nvfp4": 0.3, "grouped": 0.3,
    "attention_forward": 0.15, "attention_backward": 0.35, "memory": 0.4, "memory_fused": 0.3,
    "tp_exposed": 0.5,
    "ep": 0.5, "ep_fused": 0.5, "ep_window": 0.2, "dp_window": 0.3, "slowdown": 0.5,
    "host_layer_s": 0.5, "host_moe_s": 0.15, "gap_s": 0.7, "step_s": 0.5}  # fmt: skip
"""Standard deviations of the logs of what is fitted, around the values above."""
RESIDUAL_SD = 0.14
"""Log error of a step on a system that the calibration has not seen: median error / 0.67."""
