"""Memory-bound ops: norms, softmax, elementwise, reductions, optimizer, quantize, copies.

    time = launch + p-norm(HBM time, SM issue time)

HBM time is the algorithmic bytes over the bandwidth, at a fitted efficiency, less what
stays in L2 when the whole working set fits. Issue time is what the SMs can move at
their clock, whatever the memory: it is what bounds small cached tensors.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.op_model import (
    ON_CHIP,
    Features,
    OpModel,
    Parameter,
    Terms,
    numbers,
    p_norm,
    strings,
)
from codesign.workload.schema import MEMORY_BOUND_CLASSES

REFERENCE_CLOCK_HZ = 1.8e9
AMAX_NAMES = ("compute_scale", "amax")
"""Names of quantize kernels that find the scale of a tensor."""

_PARAMETERS = (
    Parameter("launches", 1.0, 0.2, 20.0, "smallest-kernel times that the op costs"),
    Parameter("overhead_s", 1e-6, 1e-8, 3e-5, "fixed on-chip time at 1.8 GHz"),
    Parameter("hbm_efficiency", 0.8, 0.2, 1.0, "reached share of the HBM bandwidth", prior_sd=0.1),
    Parameter("bytes_per_clock_sm", 32.0, 2.0, 256.0, "bytes that an SM moves per clock"),
    Parameter("l2_share", 0.3, 0.01, 1.5, "share of L2 that holds a working set", prior_sd=0.5),
    Parameter("overlap_p", 3.0, 1.0, 8.0, "p of the norm over HBM and issue time"),
)


class MemoryBoundModel(OpModel):
    """An op whose time is moving bytes. Features: ``bytes`` of one call."""

    name: ClassVar[str] = "memory"
    op_classes: ClassVar[tuple[str, ...]] = MEMORY_BOUND_CLASSES
    reads: ClassVar[frozenset[str]] = ON_CHIP - {"peaks_flops_per_s", "clock_ratio", "power_ratio"}

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows of a memory-bound class with known bytes and count."""
        known = (numbers(ops, "bytes") > 0) & (numbers(ops, "count") > 0)
        return np.isin(strings(ops, "op_class"), MEMORY_BOUND_CLASSES) & known

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """The op class; of the quantize kernels those that find the scale are ``amax``.

        They reduce over the whole tensor in several launches, which a cast does not.
        """
        amax = np.isin(strings(ops, "name"), AMAX_NAMES)
        op_class = strings(ops, "op_class").astype(np.dtype("<U16"))
        return np.where((op_class == "quantize") & amax, "amax", op_class)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """A measured cast stands in for any other streaming kernel."""
        return tuple(c for c in ("quantize", "elementwise", "amax") if c != variant)

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """The same for every class."""
        return _PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Bytes of one call."""
        return {"bytes": numbers(ops, "bytes") / numbers(ops, "count")}

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``launch``, ``hbm`` and ``sm``."""
        launches, overhead_s, efficiency, bytes_per_clock, l2_share, _ = theta
        size = features["bytes"]
        clock = hw.boost_clock_hz
        # Smooth share that must come from HBM: near 1 once the set is larger than L2.
        from_hbm = size / (size + l2_share * hw.l2_capacity_bytes)
        return {
            "launch": launches * hw.launch_latency_s
            + overhead_s * REFERENCE_CLOCK_HZ / clock
            + 0.0 * size,
            "hbm": from_hbm * size / (efficiency * hw.hbm_bandwidth_bytes_per_s),
            "sm": size / (bytes_per_clock * hw.sm_count * clock),
        }

    def combine(self, theta: Array, terms: Terms) -> Array:
        """Launch, then whichever of HBM and issue is slower, smoothly."""
        return terms["launch"] + p_norm(float(theta[5]), terms["hbm"], terms["sm"])
