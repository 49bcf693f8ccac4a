"""Converted tables of one GPU, cached, and the record of which were used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pandas as pd

from codesign._common.errors import UsageError, one_of
from codesign.sources.perfdb._catalog import GPUS, TABLES
from codesign.sources.perfdb._convert import convert
from codesign.sources.perfdb._locate import DISTRIBUTION
from codesign.sources.perfdb._tables import read_raw

ROW_FOR_ROW = "row for row: one measurement under two labels"
"""Words of every source that rests on such a table."""


@dataclass(frozen=True, eq=False)
class TableData:
    """One table on one GPU in the words of the ops contract, times in s a call."""

    rows: pd.DataFrame
    source: str
    """Such as ``aiconfigurator-core 0.12.0 trtllm 1.3.0rc20 gemm_perf``."""
    framework: str
    version: str
    paths: tuple[Path, ...]
    dropped: dict[str, int] = field(default_factory=dict)
    original: str | None = None
    """GPU that these rows are a copy of; they are no measurement of their own."""


def copy_text(original: str) -> str:
    """What a source says of a table that another GPU's file holds, too."""
    return f"table equal to {original}'s, {ROW_FOR_ROW}"


def folder_of(gpu: str) -> str:
    """Folder of a GPU's tables. Raises UsageError if it was never measured."""
    if gpu not in GPUS:
        raise UsageError(one_of("GPU with measured kernels", gpu, list(GPUS)))
    return GPUS[gpu]


# A GPU has about twenty, most of them small; a backtest of workloads goes to and fro among six.
@lru_cache(maxsize=128)
def table_data(
    root: Path, release: str, gpu: str, stem: str, framework: str, copies: bool = False
) -> TableData | None:
    """One table, or None if this GPU has none. Not to be changed by the caller: it is shared.

    With ``copies`` the rows that are another GPU's under this one's label, instead.
    """
    folder = folder_of(gpu)
    raw = read_raw(root, folder, stem, framework, copies)
    if raw is None:
        return None
    rows = convert(stem, raw.frame, folder)
    dropped = dict(raw.dropped)
    if len(rows) < len(raw.frame) and not stem.startswith("wideep"):
        dropped["form outside the ops contract"] = len(raw.frame) - len(rows)
    framework = TABLES[stem].framework or framework
    source = f"{DISTRIBUTION} {release} {framework} {raw.version} {stem}"
    if raw.original:
        source += f" ({copy_text(raw.original)})"
    return TableData(rows, source, framework, raw.version, raw.paths, dropped, raw.original)
