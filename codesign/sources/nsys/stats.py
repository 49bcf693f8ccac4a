"""CSV of ``nsys stats``: time by kernel over a whole capture, without a time line."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign._common.files import sha256
from codesign.hardware import load_system
from codesign.sources._textlines import csv_lines
from codesign.sources.kineto import classify
from codesign.sources.ncu._values import DecimalComma, number
from codesign.workload.characterization import (
    Characterization,
    Header,
    Quality,
    Reliability,
    SourceFile,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = {
    "s": 1.0, "sec": 1.0, "ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6, "ns": 1e-9,
    "nsec": 1e-9, "\N{MICRO SIGN}s": 1e-6, "\N{GREEK SMALL LETTER MU}s": 1e-6,
}  # fmt: skip
_TOTAL = re.compile(r"Total Time\s*(?:\((\w+)\))?")
_MEAN = re.compile(r"(?:Avg|Average)\s*(?:\((\w+)\))?")
_NUMERIC = re.compile(r"(Total )?Time\b|Avg|Average|Med|Min|Max|StdDev|Instances|Count")
_POINTS = re.compile(r"\d{1,3}(\.\d{3})+")
_COUNTS = ("Instances", "Count")
_HOST_COUNT = "Num Calls"
"""Of calls on the host (cuda_api_sum, osrt_sum): their time is no device time."""
_NAMES = ("Name", "Operation")
_NO_STEPS = Reliability(False, ("a summary over the whole capture: it has no time line",))
_MAX_ROWS = 1_000_000


@dataclass(frozen=True)
class _Layout:
    """Where the columns stand, and how many seconds the unit of the times is."""

    total: int
    unit_s: float
    mean: int | None
    mean_unit_s: float
    count: int
    name: int
    numbers: tuple[int, ...]
    category: int | None
    """Where calls of the host stand between the device's (cuda_api_gpu_sum)."""


def read_nsys_stats(
    path: str | Path, *, system: str | None = None, workload: str | None = None
) -> Characterization:
    """The rows of ``nsys stats --format csv`` (``cuda_gpu_kern_sum``, also ``cuda_gpu_sum``,
    ``cuda_gpu_mem_time_sum``) as ops, the whole capture counted as one step.

    The table has totals only: exposed, idle and step time are null or unreliable, and
    its percentages, which are rounded, are not used. Lines before the table are passed over.

    Raises DataError (file and line) if there is no such table, a number is none, or a
    total contradicts count and average; UsageError for an unknown system.
    """
    from codesign.workload.schema import ops_frame

    path = Path(path)
    name = load_system(system).name if system is not None else None
    rows = [_op(count, kernel, total_s, path.name) for count, kernel, total_s in _table(path)]
    if not rows:
        raise DataError(f"{path}: no device activity: the table has no rows")
    ops = ops_frame(sorted(rows, key=lambda row: -float(row["time_s"])))  # type: ignore[arg-type]
    kernels = ops[~ops["kernel"].str.startswith(("Memcpy", "Memset", "[CUDA mem"))]
    quality = Quality(
        known_work_share=0.0, shape_coverage=0.0, steps_found=0, steps_by="none",
        reliability=dict.fromkeys(("steps", "step_time", "idle", "exposed", "launch"), _NO_STEPS)
        | {"flops": Reliability(False, ("the summary has no shapes",))},
        warnings=("a summary by kernel: no steps, no idle time, no overlap; read the .sqlite "
                  "export for those",),
    )  # fmt: skip
    header = Header(
        workload=workload or path.stem, system=name, capture_method="nsys stats", quality=quality,
        sources=(SourceFile(path.name, sha256(path), path.stat().st_size),),
        totals={"kernels": float(kernels["count"].sum()),
                "kernel_time_s": float(kernels["time_s"].sum())},
        notes=("counts and times are totals over the capture",),
    )  # fmt: skip
    return Characterization(header, ops)


def _op(count: float, kernel: str, total_s: float, source: str) -> dict[str, object]:
    copies = kernel.startswith(("[CUDA mem", "Memcpy", "Memset"))
    op_class = "copy" if copies else classify.kernel_class(kernel)
    row: dict[str, object] = {
        "op_class": op_class, "name": kernel if copies else classify.short_name(kernel),
        "kernel": kernel, "count": count, "time_s": total_s, "evidence": "measured",
        "source": source,
    }  # fmt: skip
    if op_class == "collective":
        kind = classify.collective_kind(kernel)
        row.update(collective=kind, name=kind or row["name"])
    elif not copies:
        row["precision"] = classify.kernel_precision(kernel)
    return row


def _table(path: Path) -> Iterator[tuple[float, str, float]]:
    """(count, kernel, seconds) of every row."""
    layout: _Layout | None = None
    host = False
    lines = _Lines(path)
    reader = csv.reader(lines)
    try:
        for cells in reader:
            inside = lines.inside_a_cell()
            if layout is None:
                host |= _HOST_COUNT in map(str.strip, cells)
                layout = _layout(cells, path, reader.line_num)
            elif len(cells) <= 1:
                break  # the table ends with an empty line; another report may follow
            elif reader.line_num > _MAX_ROWS:
                raise DataError(f"{path}: over {_MAX_ROWS} lines: not a summary by kernel")
            elif inside:
                raise DataError(
                    f"{path}:{reader.line_num}: a cell without its end; is the file cut?"
                )
            elif not _of_host(cells, layout):
                yield _row(cells, layout, path, reader.line_num)
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV table: {error}") from error
    if layout is None and host:
        raise DataError(
            f"{path}: a summary of calls on the host (cuda_api_sum, osrt_sum), which is no time of "
            "a device; make one of kernels with --report cuda_gpu_kern_sum"
        )
    if layout is None:
        raise DataError(
            f"{path}: no table of `nsys stats --format csv` (Total Time, Instances, Name); "
            "make one with --report cuda_gpu_kern_sum"
        )


class _Lines:
    """Lines of the file, and whether those of a row end inside a quoted cell."""

    def __init__(self, path: Path) -> None:
        self._lines = csv_lines(path)
        self._quotes = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._quotes += line.count('"')
        return line

    def inside_a_cell(self) -> bool:
        """Of the lines since the last call."""
        quotes, self._quotes = self._quotes, 0
        return quotes % 2 == 1


def _layout(cells: list[str], path: Path, line: int) -> _Layout | None:
    """Columns by their headers, None if this is no header line."""
    titles = [c.strip() for c in cells]
    total = next((i for i, t in enumerate(titles) if _TOTAL.fullmatch(t)), None)
    count = next((titles.index(c) for c in _COUNTS if c in titles), None)
    name = next((titles.index(c) for c in _NAMES if c in titles), None)
    if total is None or count is None or name is None:
        return None
    if titles[count] == "Count" and titles[name] == "Name":
        return None  # of OpenMP regions; copies are operations
    unit_s = _unit(_TOTAL, titles[total], path, line)
    mean = next((i for i, t in enumerate(titles) if _MEAN.fullmatch(t)), None)
    # Old versions write the unit once, at the total.
    mean_unit_s = unit_s
    if mean is not None and "(" in titles[mean]:
        mean_unit_s = _unit(_MEAN, titles[mean], path, line)
    return _Layout(
        total, unit_s, mean, mean_unit_s, count, name,
        tuple(i for i, t in enumerate(titles) if _NUMERIC.match(t)),
        titles.index("Category") if "Category" in titles else None,
    )  # fmt: skip


def _of_host(cells: list[str], layout: _Layout) -> bool:
    place = layout.category
    return place is not None and place < len(cells) and cells[place].strip().endswith("_API")


def _unit(pattern: re.Pattern[str], title: str, path: Path, line: int) -> float:
    match = pattern.fullmatch(title)
    unit = match[1] if match else None
    if unit is None or unit.lower() not in _SECONDS:
        raise DataError(
            f"{path}:{line}: column {title!r}: expected a unit in parentheses, one of "
            f"{', '.join(_SECONDS)}"
        )
    return _SECONDS[unit.lower()]


def _row(cells: list[str], layout: _Layout, path: Path, line: int) -> tuple[float, str, float]:
    where = f"{path}:{line}"
    if len(cells) <= max(layout.total, layout.count, layout.name):
        raise DataError(f"{where}: {len(cells)} columns, fewer than the header; is the file cut?")
    _require_decimal_point(cells, layout, where)
    total = _number(cells[layout.total], where)
    count = _number(cells[layout.count], where)
    name = " ".join(cells[layout.name].split())
    if count < 1 or count != int(count):
        raise DataError(f"{where}: {cells[layout.count]!r} calls; expected a whole number above 0")
    if layout.mean is not None and layout.mean < len(cells):
        text = cells[layout.mean]
        decimals = len(text.partition(".")[2])
        # Both are rounded to the digits printed; the total to whole nanoseconds at best.
        slack = (0.5 * 10.0**-decimals * layout.mean_unit_s * count
                 + _half_unit(cells[layout.total]) * layout.unit_s)  # fmt: skip
        expected = _number(text, where) * layout.mean_unit_s * count
        if abs(expected - total * layout.unit_s) > 1.01 * slack + 1e-9 * total * layout.unit_s:
            raise DataError(
                f"{where}: total {cells[layout.total]} is not {cells[layout.count]} calls of "
                f"{text}: the row is damaged"
            )
    return count, name or "unnamed", total * layout.unit_s


def _require_decimal_point(cells: list[str], layout: _Layout, where: str) -> None:
    """Raise DataError where a comma or a point cannot be what it is taken for."""
    numbers = [cells[i] for i in layout.numbers if i < len(cells)]
    text = next((c for c in numbers if _has_decimal_comma(c)), None)
    total = cells[layout.total].strip()
    if text is None and layout.unit_s == _SECONDS["ns"] and _POINTS.fullmatch(total):
        text = total  # nanoseconds are whole, so that the point is one between thousands
    if text is not None:
        raise DataError(
            f"{where}: {text.strip()[:40]!r} is of a locale with a decimal comma, so other points "
            "and commas are ambiguous; run `nsys stats` again with LC_ALL=C"
        )


def _has_decimal_comma(text: str) -> bool:
    try:
        number(text)
    except DecimalComma:
        return True
    return False


def _half_unit(text: str) -> float:
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def _number(text: str, where: str) -> float:
    plain = text.strip().replace(",", "")
    if not re.fullmatch(r"\d{1,25}(\.\d{0,12})?(e[+-]?\d{1,3})?", plain, re.IGNORECASE):
        raise DataError(f"{where}: {text[:40]!r} is not a number of 0 or more")
    return float(plain)
