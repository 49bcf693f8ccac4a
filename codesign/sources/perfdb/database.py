"""The measured kernel database as the rest of codesign sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from codesign._common.errors import DataError, UsageError, one_of
from codesign._common.files import sha256
from codesign.sources.perfdb._catalog import GPUS, TABLES, files
from codesign.sources.perfdb._locate import DISTRIBUTION, locate
from codesign.sources.perfdb._lookup import Lookup
from codesign.sources.perfdb._op import ops_of
from codesign.sources.perfdb._store import TableData, copy_text, folder_of, table_data
from codesign.sources.perfdb.assumed import ASSUMPTIONS
from codesign.workload.accounting import add_work
from codesign.workload.characterization import SourceFile
from codesign.workload.schema import COLUMNS, ops_frame

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codesign.hardware.model import System

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


@dataclass(frozen=True)
class Measured:
    """Ops with their times, and everything that those times rest on."""

    ops: pd.DataFrame
    software: dict[str, str]
    """Framework and version that each table's rows carry, by table."""
    sources: tuple[SourceFile, ...]
    assumptions: dict[str, str]
    notes: tuple[str, ...]


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

    def copied(self, gpu: str, stem: str, framework: str = "trtllm") -> TableData | None:
        """Rows of a table that are another GPU's under this one's label, or None.

        No test of this GPU and nothing to fit: ``table`` and ``training_ops`` leave them out.
        """
        return table_data(self.root, self.release, gpu, stem, framework, copies=True)

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
        _check(framework)
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
        # Nulls of the right type from the start: converting objects takes longer than reading.
        absent = {name: pd.Series(pd.NA, index=rows.index, dtype=column.dtype)
                  for name, column in COLUMNS.items() if name not in rows}  # fmt: skip
        return add_work(ops_frame(rows.assign(**absent)))

    def measure(
        self, ops: pd.DataFrame, gpu: str | System, allow_extrapolation: bool = False,
        framework: str = "trtllm",
    ) -> pd.DataFrame:  # fmt: skip
        """The ops with ``time_s`` (per step), ``evidence`` and ``source`` filled in.

        ``gpu`` is a name, or the system whose domain and network the collectives
        meet. A measured shape is ``measured``, one between measured ones
        ``interpolated``; ops without a table are ``modelled`` or ``assumed`` by the
        formula that ``source`` names. A table equal to another GPU's is used where there is
        no other, as ``assumed``. Raises DataError (op, shape, measured range) for
        a shape outside unless ``allow_extrapolation``, which labels it ``extrapolated``;
        UsageError for an unknown ``framework``.
        """
        return self.measured(ops, gpu, allow_extrapolation, framework).ops

    def measured(
        self, ops: pd.DataFrame, gpu: str | System, allow_extrapolation: bool = False,
        framework: str = "trtllm",
    ) -> Measured:  # fmt: skip
        """As ``measure``, with the tables, versions, hashes and assumptions behind it."""
        system = None if isinstance(gpu, str) else gpu
        name = gpu if isinstance(gpu, str) else gpu.gpu.name
        _check(framework)
        folder_of(name)  # An unknown GPU is refused before anything is read.
        if system is not None:
            ops = _with_domains(ops, system)
        lookup = Lookup(name, lambda stem: self.table(name, stem, framework), system,
                        lambda stem: self.copied(name, stem, framework))  # fmt: skip
        answers = [lookup.time(op, allow_extrapolation) for op in ops_of(ops)]
        count = ops["count"].to_numpy(dtype=float)
        times = np.array([a.time_s for a in answers], dtype=float) * count
        text = {"evidence": [a.evidence for a in answers], "source": [a.source for a in answers]}
        done = ops.assign(
            time_s=pd.array(times, dtype="Float64"),
            **{c: pd.Series(v, index=ops.index, dtype="string") for c, v in text.items()},
        )
        used = sorted(lookup.used)
        said = " ".join(a.source for a in answers)
        software, notes = {}, []
        for stem in used:
            data = self.table(name, stem, framework)
            copy = self.copied(name, stem, framework)
            found = [d for d in (data, copy) if d is not None]
            software[stem] = " + ".join(f"{d.framework} {d.version}" for d in found)
            left_out = [item for d in found for item in d.dropped.items()]
            notes += [f"{stem}: {n} rows left out: {why}" for why, n in left_out
                      if copy is None or "copy of" not in why]  # fmt: skip
            if copy is not None and copy.source in said:
                notes.append(f"{stem}: {copy_text(str(copy.original))}; used as assumed")
        assumptions = {k: str(v) for k, v in ASSUMPTIONS.items() if _SAID_BY[k] in said}
        return Measured(done, software, self.sources((name, stem, framework) for stem in used),
                        assumptions, tuple(notes))  # fmt: skip

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


def _check(framework: str) -> None:
    if framework not in FRAMEWORKS:
        raise UsageError(one_of("framework", framework, FRAMEWORKS))


# Words in a row's source that show which assumption its time rests on.
_SAID_BY = {
    "attention backward efficiency": "(assumed rate)",
    "scale-out efficiency": "scale-out",
    "scale-out base latency": "scale-out",
    "scale-out hop latency": "scale-out",
    "peer copy efficiency": "of the NVLink rate",
}


def _with_domains(ops: pd.DataFrame, system: System) -> pd.DataFrame:
    """``domain_span`` where it is null: ranks of the group that one domain holds.

    Ranks fill domains in order, so every stride-th of a domain's GPUs is a member.
    """
    group = ops["group_size"].to_numpy(dtype=float, na_value=np.nan)
    stride = ops["group_stride"].to_numpy(dtype=float, na_value=1.0)
    inside = np.minimum(group, np.maximum(system.nvlink_domain // stride, 1.0))
    given = ops["domain_span"]
    filled = pd.array(np.where(np.isnan(inside), np.nan, inside), dtype="Float64").astype("Int64")
    return ops.assign(domain_span=given.fillna(pd.Series(filled, index=ops.index)))


__all__ = ["CLASS_TABLES", "FRAMEWORKS", "Measured", "PerfDB"]
