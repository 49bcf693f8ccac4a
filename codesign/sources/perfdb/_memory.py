"""Time of a memory-bound kernel by its bytes, from memory-bound kernels that were measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.sources.perfdb._curve import Answer, Curve
from codesign.sources.perfdb._store import TableData

_BINS_PER_DOUBLING = 2


@dataclass(frozen=True)
class MemoryTable:
    """Time over HBM bytes: the launch floor at one end, the attained bandwidth at the other."""

    curve: Curve
    source: str

    @classmethod
    def of_quantize(cls, data: TableData) -> MemoryTable:
        """From ``scale_matrix`` (read bf16, write fp8), which is on all GPUs but A100."""
        rows = data.rows
        return cls._of(rows["bytes"].to_numpy(dtype=float), rows["time_s"].to_numpy(dtype=float),
                       data.source)  # fmt: skip

    @classmethod
    def of_gemm(cls, data: TableData) -> MemoryTable:
        """From bf16 GEMMs of one row, which read a weight matrix and do little else."""
        rows = data.rows[(data.rows["m"] == 1) & (data.rows["precision"] == "bf16")]
        n, k = (rows[c].to_numpy(dtype=float) for c in "nk")
        return cls._of(2 * (n * k + n + k), rows["time_s"].to_numpy(dtype=float),
                       f"{data.source} at m = 1")  # fmt: skip

    @classmethod
    def _of(cls, size: np.ndarray, time_s: np.ndarray, source: str) -> MemoryTable:
        """Median time of each half-doubling of bytes, never falling with the bytes."""
        bins = np.round(np.log2(size) * _BINS_PER_DOUBLING)
        x, t = [], []
        for value in np.unique(bins):
            inside = bins == value
            x.append(np.exp(np.log(size[inside]).mean()))
            t.append(np.median(time_s[inside]))
        return cls(Curve.of(np.array(x), np.maximum.accumulate(np.array(t))), source)

    def time(self, size_bytes: float) -> Answer:
        """Time of a kernel that moves ``size_bytes``; beyond the table, at its end's bandwidth."""
        curve = self.curve
        time_s = curve.at(max(size_bytes, curve.x[0]))
        if size_bytes > curve.x[-1]:
            time_s *= size_bytes / curve.x[-1]
        rate = size_bytes / time_s / 1e9
        return Answer(
            time_s, "modelled", f"{size_bytes:.4g} B at {rate:.4g} GB/s, as {self.source}"
        )
