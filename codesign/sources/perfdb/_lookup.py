"""Dispatches each op to the table or formula that knows its time."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign.sources.perfdb._attention import AttentionTable, Config, pairs_ratio
from codesign.sources.perfdb._collective import CollectiveTables, collective_time
from codesign.sources.perfdb._curve import Answer, OutOfRangeError
from codesign.sources.perfdb._gemm import GemmTable
from codesign.sources.perfdb._memory import MemoryTable
from codesign.sources.perfdb._moe import MoeTable, Shape
from codesign.sources.perfdb._store import ROW_FOR_ROW
from codesign.sources.perfdb.assumed import ATTENTION_BACKWARD_EFFICIENCY

if TYPE_CHECKING:
    from collections.abc import Callable

    from codesign.hardware.model import System
    from codesign.sources.perfdb._op import Op
    from codesign.sources.perfdb._store import TableData

# Multiply precisions without a table, and the measured one that runs at the same rate.
_SAME_RATE = {"fp16": "bf16", "mxfp8": "fp8"}
_COLLECTIVE_TABLES = ("nccl_perf", "custom_allreduce_perf", "trtllm_alltoall_perf",
                      "wideep_deepep_normal_perf", "wideep_deepep_ll_perf",
                      "moe_a2a_perf")  # fmt: skip


class Lookup:
    """Times of ops on one GPU. ``table`` gives its tables by name, or None.

    ``copied`` gives those that are another GPU's row for row: they answer, as ``assumed``,
    where the GPU has no other. ``used`` collects the names of the tables that answered.
    """

    def __init__(
        self, gpu: str, table: Callable[[str], TableData | None], system: System | None,
        copied: Callable[[str], TableData | None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.gpu, self.system, self.used = gpu, system, set[str]()
        self._own, self._copied = table, copied
        self._gemm = cache(self._gemm_table)
        self._moe = cache(self._moe_table)
        self._attention = cache(self._attention_table)
        self._memory = cache(self._memory_table)
        self._collective = cache(self._collective_tables)

    def time(self, op: Op, allow_extrapolation: bool) -> Answer:
        """Time of one call of ``op``.

        Raises DataError naming op, shape and measured range where the shape lies
        outside it and extrapolation is not allowed.
        """
        find = {
            "gemm": self.gemm, "grouped_gemm": self.grouped_gemm, "attention": self.attention,
            "collective": self.collective,
        }.get(op.text("op_class"), self.memory_bound)  # fmt: skip
        try:
            answer = find(op)
            if ROW_FOR_ROW in answer.source:
                # Measured, but on which of the two GPUs nobody can tell.
                return Answer(answer.time_s, "assumed", answer.source)
            return answer
        except OutOfRangeError as outside:
            where = f"{self.gpu}: {op.label}: outside the measured range: {outside}"
            if math.isnan(outside.estimate_s):
                raise DataError(f"{where}; nothing near enough to extrapolate from") from None
            if not allow_extrapolation:
                raise DataError(
                    f"{where}; pass --allow-extrapolation (or set extrapolation: allow in "
                    "the recipe) to estimate it"
                ) from None
            return Answer(outside.estimate_s, "extrapolated", f"beyond {outside}")

    def gemm(self, op: Op) -> Answer:
        """A dense GEMM; a batched one runs its products one after another."""
        precision = op.text("precision", "bf16")
        batch = op.get("batch", 1)
        answer = self._gemm(precision).time(op.size("m"), op.size("n"), op.size("k"))
        if batch > 1:
            source = f"{batch} x {answer.source}"
            answer = Answer(batch * answer.time_s, "modelled", source)
        return _stand_in(answer, precision)

    def grouped_gemm(self, op: Op) -> Answer:
        """A fused MoE layer. A backward row is one of its two gradients: as long as forward."""
        precision, fused = op.text("precision", "bf16"), op.text("fused")
        if not fused:
            raise DataError(f"{self.gpu}: {op.label}: plain grouped GEMMs were not measured")
        distribution = op.text("distribution", "balanced")
        table = self._moe("moe_perf", precision, fused, distribution)
        if table is None:
            known = ", ".join(sorted(self._data("moe_perf").rows["precision"].unique()))
            raise DataError(
                f"{self.gpu}: no measured {precision} {fused} layer ({distribution}); "
                f"measured precisions: {known}"
            )
        m, experts = op.size("m"), op.size("experts")
        shape = Shape(op.size("n"), op.size("k"), experts, op.get("topk", 1),
                      op.get("experts_total", experts))  # fmt: skip
        try:
            answer = table.time(m, shape)
        except OutOfRangeError:
            # Large batches were measured apart, with DeepGEMM's kernels.
            large = self._moe("wideep_context_moe_perf", precision, fused, distribution)
            if large is None or not large.holds(m, shape):
                raise
            self.used.add("wideep_context_moe_perf")
            answer = large.time(m, shape)
        if op.backward:
            answer = Answer(answer.time_s, "modelled", f"forward's time: {answer.source}")
        return _stand_in(answer, precision)

    def attention(self, op: Op) -> Answer:
        """Prefill, decode or backward attention, plain or MLA."""
        q_len, kv_len, dim = op.size("q_len"), op.size("kv_len"), op.size("head_dim")
        dim_v = op.get("head_dim_v", dim)
        precision = op.text("precision", "bf16")
        near = _SAME_RATE.get(precision, precision)
        kv_precision = op.text("kv_precision", precision)
        window = op.get("window", 0)
        window = window if window < kv_len else 0
        config: Config = (op.size("heads"), op.size("kv_heads"), dim, dim_v, window, near,
                          _SAME_RATE.get(kv_precision, kv_precision))  # fmt: skip
        kind = "mla" if dim_v != dim else "attention"
        decode = q_len == 1 and kv_len > 1
        table = self._attention(f"{'generation' if decode else 'context'}_{kind}_perf")
        answer = _stand_in(table.time(config, op.get("batch", 1), kv_len), precision)
        if not decode:
            ratio = pairs_ratio(q_len, kv_len, op.causal, window)
            if ratio != 1.0:
                source = f"{ratio:.4g} (query-key pairs) x {answer.source}"
                answer = Answer(answer.time_s * ratio, "modelled", source)
        if op.backward:
            # Five products against two: see accounting.attention_backward_flops.
            work = (3 * dim + 2 * dim_v) / (dim + dim_v)
            rate = ATTENTION_BACKWARD_EFFICIENCY.value
            source = f"{work:.4g} (FLOPs) / {rate:g} (assumed rate) x forward: {answer.source}"
            answer = Answer(answer.time_s * work / rate, "modelled", source)
        return answer

    def collective(self, op: Op) -> Answer:
        """A collective by message, group and how much of it one domain holds."""
        return collective_time(op, self._collective(), self.system)

    def memory_bound(self, op: Op) -> Answer:
        """Anything else: its bytes at the bandwidth that measured kernels attain."""
        if op.bytes_a_call is None:
            raise DataError(f"{self.gpu}: {op.label}: its bytes are unknown, so is its time")
        return self._memory().time(op.bytes_a_call)

    def _table(self, stem: str) -> TableData | None:
        return self._own(stem) or self._copied(stem)

    def _data(self, stem: str) -> TableData:
        data = self._table(stem)
        if data is None:
            raise DataError(f"{self.gpu}: no measured {stem.removesuffix('_perf')}")
        self.used.add(stem)
        return data

    def _gemm_table(self, precision: str) -> GemmTable:
        data = self._data("gemm_perf")
        table = GemmTable.of(data.rows, _SAME_RATE.get(precision, precision), data.source)
        if table is None:
            known = ", ".join(sorted(data.rows["precision"].unique()))
            raise DataError(f"{self.gpu}: no measured {precision} GEMM; measured: {known}")
        return table

    def _moe_table(
        self, stem: str, precision: str, fused: str, distribution: str
    ) -> MoeTable | None:
        data = self._data(stem) if stem == "moe_perf" else self._table(stem)
        if data is None:
            return None
        near = _SAME_RATE.get(precision, precision)
        return MoeTable.of(data.rows, near, fused, distribution, data.source)

    def _attention_table(self, stem: str) -> AttentionTable:
        data = self._data(stem)
        return AttentionTable.of(data.rows, data.source)

    def _memory_table(self) -> MemoryTable:
        data = self._table("scale_matrix_perf")
        if data is not None:
            self.used.add("scale_matrix_perf")
            return MemoryTable.of_quantize(data)
        return MemoryTable.of_gemm(self._data("gemm_perf"))

    def _collective_tables(self) -> CollectiveTables:
        tables = {s: (self._own(s), self._copied(s)) for s in _COLLECTIVE_TABLES}
        found = {
            stem: [(data.rows, data.source) for data in pair if data is not None]
            for stem, pair in tables.items()
            if pair != (None, None)
        }
        self.used.update(found)
        return CollectiveTables.of(found)


def _stand_in(answer: Answer, precision: str) -> Answer:
    if precision not in _SAME_RATE:
        return answer
    source = f"{precision} as {_SAME_RATE[precision]}: {answer.source}"
    return Answer(answer.time_s, "modelled", source)
