"""Pages of Nsight Compute (``ncu --csv``) as one table of kernels in SI units."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codesign._common.errors import DataError
from codesign.sources._textlines import csv_lines
from codesign.sources.ncu._kernel import DEVICE_NAME, IDENTITY, Kernel
from codesign.sources.ncu._text import text_kernels
from codesign.sources.ncu._values import DecimalComma

if TYPE_CHECKING:
    import pandas as pd

# Ours: the metrics that mean it, the most direct first, each with its unit.
DERIVED: dict[str, tuple[str, ...]] = {
    "duration_s": ("gpu__time_duration.sum [s]", "gpu__time_duration.avg [s]", "Duration [s]"),
    "dram_read_bytes": ("dram__bytes_read.sum [byte]",),
    "dram_write_bytes": ("dram__bytes_write.sum [byte]",),
    "dram_bytes_per_s": (
        "dram__bytes.sum.per_second [byte/s]", "Memory Throughput [byte/s]",
        "DRAM Throughput [byte/s]",
    ),
    "sm_percent": (
        "sm__throughput.avg.pct_of_peak_sustained_elapsed [%]", "Compute (SM) Throughput [%]",
        "SM [%]",
    ),
    "dram_percent": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed [%]",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed [%]", "DRAM Throughput [%]",
    ),
    "memory_percent": (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed [%]",
        "Memory Throughput [%]", "Memory [%]",
    ),
    "sm_clock_hz": (
        "smsp__cycles_elapsed.avg.per_second [hz]", "sm__cycles_elapsed.avg.per_second [hz]",
        "gpc__cycles_elapsed.avg.per_second [hz]", "SM Frequency [hz]",
    ),
    "dram_clock_hz": ("dram__cycles_elapsed.avg.per_second [hz]", "DRAM Frequency [hz]"),
}  # fmt: skip
_MAX_KERNELS = 200_000
_RESAVED = re.compile(r"(?:[^,\"\n]{0,100},)?ID,(?:.{0,8000},)?Kernel Name(?:,|\s*$)")
"""Header of a table that another program read and wrote again, quotes only where needed."""
_TROUBLE = re.compile(r"==(ERROR|WARNING)==\s*(.{1,300})")
_MAX_TROUBLES = 10
_CUT = "it was cut off; export it again"


@dataclass
class _Page:
    """A header line and what it says about the lines below."""

    columns: list[str]
    units: list[str] | None = None
    """Raw page only: the line below the header."""

    @property
    def is_raw(self) -> bool:
        """Whether each kernel is a line, each metric a column."""
        return "Metric Name" not in self.columns


def read_ncu(path: str | Path) -> pd.DataFrame:
    """Kernels of ``ncu --csv``, ``--page details`` or ``--page raw``, or of the details page
    as plain text: a row per launch.

    Columns: ``kernel, grid, block, device, compute_capability``... as text; ``duration_s,
    dram_bytes, dram_read_bytes, dram_write_bytes, dram_bytes_per_s, sm_percent,
    dram_percent, memory_percent, sm_clock_hz, dram_clock_hz`` (NaN if not collected);
    ``dram_bytes_by`` (``counter``, or ``rate x duration`` where bytes were not counted);
    and every numeric metric under its name and SI unit, ``dram__bytes_read.sum [byte]``.
    ``attrs`` holds ``warnings`` and ``device_name``. Program output and ``==PROF==``
    lines around the table are passed over.

    Raises DataError (file, and line where there is one) if no table or no kernel is
    there, or numbers have a decimal comma, which makes thousands ambiguous.
    """
    import pandas as pd

    path = Path(path)
    troubles: list[str] = []
    kernels = _kernels(path, troubles)
    if not kernels:
        said = f"; it says: {troubles[0]}" if troubles else ""
        raise DataError(f"{path}: no device activity: the table holds no kernel{said}")
    identity = pd.DataFrame([k.identity for k in kernels], columns=list(IDENTITY.values()))
    metrics = pd.DataFrame([k.metrics for k in kernels], dtype=float)
    frame = pd.concat([identity, _derived(metrics), metrics], axis=1)
    names = sorted({k.texts[DEVICE_NAME] for k in kernels if DEVICE_NAME in k.texts})
    frame.attrs["warnings"] = troubles
    frame.attrs["device_name"] = names[0] if len(names) == 1 else None
    return frame


def _kernels(path: Path, troubles: list[str]) -> list[Kernel]:
    found: dict[tuple[int, str, str], Kernel] = {}
    page, table, widest = None, 0, 0
    try:
        for line, cells, ended in _records(path, troubles):
            if "ID" in cells and "Kernel Name" in cells:
                page, table, widest = _Page(cells), table + 1, 0
            elif page is not None:
                widest = max(widest, len(cells))
                if not ended and len(cells) < widest:
                    raise DataError(
                        f"{path}:{line}: the file ends inside a row ({len(cells)} cells, the rows "
                        f"before have {widest}): {_CUT}"
                    )
                _take(page, table, cells, found, f"{path}:{line}")
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV table: {error}") from error
    if page is None and (kernels := text_kernels(path)):
        return kernels
    if page is None:
        said = f"; it says: {troubles[0]}" if troubles else ""
        raise DataError(
            f"{path}: no table of Nsight Compute (a line with ID and Kernel Name); make one with "
            f"`ncu --csv --page details --import REPORT.ncu-rep`{said}"
        )
    return list(found.values())


def _records(path: Path, troubles: list[str]) -> Iterator[tuple[int, list[str], bool]]:
    """Line number and cells of the lines that may belong to a table, and whether the line has
    its end. All cells are quoted, unless the header shows that another program saved the table.
    """
    width = 0  # cells of a header without quotes
    for line, text in enumerate(csv_lines(path), start=1):
        if _RESAVED.match(text):
            width = len(next(csv.reader([text])))
        if text.lstrip().startswith('"') or (width and "," in text):
            for cells in csv.reader([text.strip()]):
                ended = text.endswith(("\n", "\r"))
                if not ended and (text.count('"') % 2 or not (width or text.endswith('"'))):
                    raise DataError(f"{path}:{line}: the file ends inside a cell: {_CUT}")
                if 0 < width < len(cells):
                    raise DataError(
                        f"{path}:{line}: {len(cells)} cells, more than the header's {width}; "
                        "were quotes lost? Export it again"
                    )
                yield line, cells, ended
        elif (match := _TROUBLE.search(text)) and len(troubles) < _MAX_TROUBLES:
            troubles.append(" ".join(match[2].split()))


def _take(
    page: _Page, table: int, cells: list[str], found: dict[tuple[int, str, str], Kernel],
    where: str,
) -> None:  # fmt: skip
    row = dict(zip(page.columns, cells, strict=False))
    ident = row.get("ID", "").strip()
    if page.is_raw and page.units is None and not ident and not row.get("Kernel Name"):
        page.units = cells
        return
    if not ident.isdigit() or "Kernel Name" not in row:
        return  # output of the program that happens to be quoted
    if page.is_raw and page.units is None:
        raise DataError(f"{where}: expected a line with the units of the columns below the header")
    key = (table, row.get("Process ID", ""), ident)
    kernel = found.get(key)
    if kernel is None:
        if len(found) >= _MAX_KERNELS:
            raise DataError(f"{where}: over {_MAX_KERNELS} kernels; profile fewer launches")
        identity = {ours: row.get(theirs, "").strip() for theirs, ours in IDENTITY.items()}
        kernel = found[key] = Kernel(identity)
    try:
        if page.is_raw:
            _raw_metrics(page, cells, kernel)
        elif name := row.get("Metric Name", "").strip():
            kernel.add(name, row.get("Metric Unit", ""), row.get("Metric Value", ""))
    except DecimalComma as error:
        raise DataError(
            f"{where}: {error} has a decimal comma, so other commas are ambiguous; run ncu again "
            "with LC_ALL=C"
        ) from None


def _raw_metrics(page: _Page, cells: list[str], kernel: Kernel) -> None:
    units = page.units or []
    for i, (name, value) in enumerate(zip(page.columns, cells, strict=False)):
        if name not in IDENTITY:
            kernel.add(name, units[i] if i < len(units) else "", value)


def _derived(metrics: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    columns: dict[str, pd.Series[float]] = {}
    for ours, theirs in DERIVED.items():
        value = pd.Series(np.nan, index=metrics.index, dtype=float)
        for name in theirs:
            if name in metrics:
                value = value.fillna(metrics[name])
        columns[ours] = value
    counted = columns["dram_read_bytes"] + columns["dram_write_bytes"]
    if "dram__bytes.sum [byte]" in metrics:
        counted = metrics["dram__bytes.sum [byte]"].fillna(counted)
    by_rate = columns["dram_bytes_per_s"] * columns["duration_s"]
    frame = pd.DataFrame(columns)
    frame.insert(1, "dram_bytes", counted.fillna(by_rate))
    by = pd.Series(pd.NA, index=metrics.index, dtype="string")
    by[by_rate.notna()] = "rate x duration"
    by[counted.notna()] = "counter"
    frame.insert(2, "dram_bytes_by", by)
    return frame
