"""Pipeline schedules: the bubble, and the activations in flight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.plan import SCHEDULES, Plans

Array = NDArray[np.float64]


def bubble_s(
    plans: Plans, forward_s: Array, input_s: Array, weight_s: Array, others_s: Array
) -> Array:
    """(..., plans) idle time of the slowest stage in a step.

    ``forward_s, input_s, weight_s``: forward pass, gradients of inputs and of weights of
    the slowest stage for one micro-batch; ``others_s``: the whole pass of all other stages.

    - 1F1B, interleaved in v chunks: the other stages' passes once, divided by v; with p
      equal stages (p - 1)(F + B) / v, that is (p - 1) / (m v) of the m passes (Narayanan
      et al. 2021, arXiv:2104.04473, section 2.2).
    - ``zero_bubble`` (ZB-H1): (p - 1)(F + B - W), B the gradient of inputs alone (Qi et al.
      2023, arXiv:2401.10241, table 2).
    - ``dualpipe``: (p / 2 - 1)(FB + B' - 3 W), B' = B + W, FB = F + B' (DeepSeek-V3,
      arXiv:2412.19437, table 2).
    """
    p = plans.pp
    one = others_s / plans.vpp
    # Stages are taken to be equal here: the slowest one stands for all.
    zero = (p - 1) * np.maximum(forward_s + input_s - weight_s, 0.0)
    backward_s = input_s + weight_s
    dual = (p / 2 - 1) * np.maximum(forward_s + 2 * backward_s - 3 * weight_s, 0.0)
    chosen: Array = np.select(
        [plans.schedule == SCHEDULES.index("zero_bubble"),
         plans.schedule == SCHEDULES.index("dualpipe")],
        [zero, dual], one,
    )  # fmt: skip
    return np.where(p > 1, chosen, 0.0)


def chunks_in_flight(plans: Plans, micro_batches: Array) -> Array:
    """(plans,) model chunks whose activations the first stage holds at most.

    1F1B: p micro-batches. Interleaved: 2 (p - 1) + (v - 1) p + 1 chunks before the first
    backward pass (Megatron-LM's warm-up). DualPipe: p + 1. Never more than the step has.
    """
    p, v = plans.pp, plans.vpp
    interleaved = 2 * (p - 1) + (v - 1) * p + 1
    dual = plans.schedule == SCHEDULES.index("dualpipe")
    held = np.where(dual, p + 1, np.where(v > 1, interleaved, p))
    result: Array = np.minimum(held, micro_batches * v * np.where(dual, 2, 1)).astype(np.float64)
    return result
