"""The measured kernel database as the rest of codesign sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from codesign._common.errors import DataError, UsageError, one_of
from codesign._common.files import sha256
from codesign.sources.perfdb._catalog import GPUS, TABLES, files
from codesign.sources.perfdb._locate import DISTRIBUTION, locate
from codesign.sources.perfdb._store import TableData, folder_of, table_data
from codesign.workload.characterization import SourceFile
from codesign.workload.schema import ops_frame

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FRAMEWORKS = ("trtllm", "vllm", "sglang")
# Tables that hold the ops of a class, in the order in which their rows are given.
CLASS_TABLES: dict[str, tuple[str, ...]] = {
    "gemm": ("gemm_perf",),
    "attention": ("context_attention_perf", "generation_attention_perf", "context_mla_perf",
                  "generation_mla_perf"),
    "grouped_gemm": ("moe_perf",),
    "quantize": ("scale_matrix_perf", "computescale_perf"),
    "collective": ("nccl_perf", "custom_allreduce_perf", "trtllm_alltoall_perf",
                   "wideep_deepep_normal_perf", "wideep_deepep_ll_perf", "moe_a2a_perf"),
}  # fmt: skip


class PerfDB:
    """Kernels that NVIDIA's aiconfigurator project measured on nine GPUs.

    Tables are read on demand, only the columns needed, and kept in a bounded cache
    that all instances share. Raises UsageError if the package is not installed.
    """

    def __init__(self) -> None:
        self.root, self.release = locate()

    @property
    def name(self) -> str:
        """Distribution and version, such as ``aiconfigurator-core 0.12.0``."""
        return f"{DISTRIBUTION} {self.release}"

    def gpus(self) -> list[str]:
        """Names of the GPUs that have tables, as the hardware library spells them."""
        return [gpu for gpu, folder in GPUS.items() if (self.root / folder).is_dir()]

    def table(self, gpu: str, stem: str, framework: str = "trtllm") -> TableData | None:
        """One table of a GPU in the words of the ops contract, or None if not measured."""
        return table_data(self.root, self.release, gpu, stem, framework)

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        """Every measured row of an op class on one GPU, as an ops table.

        ``count`` is 1, so ``time_s`` is seconds a call; ``evidence`` is ``measured``.
        ``name`` tells the table and ``kernel`` the variant (``deepep sms=20``): rows of
        different tables are different implementations, not repeats. FLOPs and bytes are
        those of ``workload.accounting``. Raises UsageError for a class, GPU or framework
        without tables.
        """
        if op_class not in CLASS_TABLES:
            raise UsageError(one_of("op class with measured kernels", op_class, [*CLASS_TABLES]))
        if framework not in FRAMEWORKS:
            raise UsageError(one_of("framework", framework, FRAMEWORKS))
        parts = []
        for stem in CLASS_TABLES[op_class]:
            data = self.table(gpu, stem, framework)
            if data is not None and len(data.rows):
                parts.append(data.rows.assign(source=data.source))
        if not parts:
            return ops_frame([])
        rows = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
        rows = rows.assign(count=1.0, evidence="measured")
        rows["exposed_s"] = rows["time_s"]
        return _with_work(ops_frame(rows))

    def sources(self, used: Iterable[tuple[str, str, str]]) -> tuple[SourceFile, ...]:
        """Name, hash and size of the files behind (gpu, table, framework) triples."""
        found: dict[Path, None] = {}
        for gpu, stem, framework in used:
            for path in files(self.root, folder_of(gpu), stem, framework):
                found[path] = None
        return tuple(
            SourceFile(f"{self.name}: {path.relative_to(self.root)}", sha256(path),
                       path.stat().st_size)
            for path in sorted(found)
        )  # fmt: skip

    def dropped(self, gpu: str, framework: str = "trtllm") -> dict[str, dict[str, int]]:
        """Rows left out of each table of a GPU, by reason; tables without any are absent."""
        tables = {stem: self.table(gpu, stem, framework) for stem in TABLES}
        return {stem: data.dropped for stem, data in tables.items() if data and data.dropped}

    def required(self, gpu: str, stem: str, framework: str = "trtllm") -> TableData:
        """As ``table``, but raises DataError naming the table if this GPU lacks it."""
        data = self.table(gpu, stem, framework)
        if data is None:
            raise DataError(f"{gpu}: no table {stem} in {self.name} ({framework})")
        return data


def _with_work(ops: pd.DataFrame) -> pd.DataFrame:
    """FLOPs and bytes from shapes, keeping bytes that a table states itself."""
    try:
        from codesign.workload.accounting import add_work
    except ImportError:
        return ops
    stated = ops["bytes"]
    ops = add_work(ops)
    ops["bytes"] = stated.fillna(ops["bytes"])
    return ops


__all__ = ["CLASS_TABLES", "FRAMEWORKS", "PerfDB"]
