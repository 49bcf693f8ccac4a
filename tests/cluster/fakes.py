"""A roofline in place of the fitted model: times that tests can work out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.cluster.efficiency import Efficiency
from codesign.hardware.model import System
from codesign.workload.accounting import add_work
from codesign.workload.schema import ops_frame

PLAIN = Efficiency(
    attention_backward=1.0, tp_exposed=1.0, ep_window=0.0, dp_window=0.0, slowdown=0.0,
    host_layer_s=0.0,
    host_moe_s=0.0, gap_s=0.0, step_s=0.0, ep_hybrid=1.0, power_exponent=0.5,
)  # fmt: skip
"""Nothing added to the ops, nothing hidden."""


class Roofline:
    """FLOPs over peak, bytes over HBM; collectives by bytes over the slowest link in the way."""

    def __init__(self, memory: float = 1.0, network: float = 1.0) -> None:
        self.memory, self.network = memory, network
        self.rows = 0

    def times(self, ops: pd.DataFrame, systems: Sequence[System], draws: Any = None) -> Any:
        """(systems, ops) seconds."""
        assert draws is None
        self.rows += len(ops)
        work = add_work(ops_frame(ops.assign(causal=True)))
        flops = work["flops"].to_numpy(dtype=float, na_value=0.0)
        moved = work["bytes"].to_numpy(dtype=float, na_value=0.0)
        wire = work["wire_bytes"].to_numpy(dtype=float, na_value=0.0)
        size = ops.get("group_size", pd.Series(np.ones(len(ops)))).fillna(1).to_numpy(float)
        stride = ops.get("group_stride", pd.Series(np.ones(len(ops)))).fillna(1).to_numpy(float)
        precision = ops.get("precision", pd.Series(["bf16"] * len(ops))).fillna("bf16")
        return np.stack([self._one(s, flops, moved, wire, size * stride, precision)
                         for s in systems])  # fmt: skip

    def _one(
        self, system: System, flops: NDArray[Any], moved: NDArray[Any], wire: NDArray[Any],
        reach: NDArray[Any], precision: pd.Series[str],
    ) -> NDArray[Any]:  # fmt: skip
        peaks = system.gpu.peak_dense_flops_per_s
        key = {"mxfp8": "fp8", "fp8_block": "fp8"}
        rate = np.array([peaks.get(key.get(p, p), peaks["bf16"]) for p in precision])
        inside = reach <= system.nvlink_domain
        link = np.where(inside, system.nvlink_bandwidth_bytes_per_s,
                        system.scaleout_bandwidth_bytes_per_s)  # fmt: skip
        compute = flops / rate
        return np.asarray(
            compute + self.memory * moved / system.gpu.hbm_bandwidth_bytes_per_s
            + self.network * wire / link
        )  # fmt: skip
