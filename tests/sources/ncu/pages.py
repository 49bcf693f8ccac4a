"""Pages of Nsight Compute made in the test."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

IDS = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
       "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
DETAILS = (*IDS, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name",
           "Rule Type", "Rule Description")  # fmt: skip
Metric = tuple[str, str, str]


def identity(number: int, kernel: str, grid: str = "(224, 1, 1)") -> list[str]:
    return [str(number), "4711", "python3.12", "127.0.0.1", kernel, "1", "7", "(32, 4, 1)", grid,
            "0", "12.0"]  # fmt: skip


def lines(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def details(kernels: Sequence[tuple[str, Sequence[Metric]]], grid: str = "(224, 1, 1)") -> str:
    """One line per metric; a unit in every line."""
    rows: list[list[str]] = [list(DETAILS)]
    for number, (kernel, metrics) in enumerate(kernels):
        who = identity(number, kernel, grid)
        rows += [[*who, "Section", name, unit, value, ""] for name, unit, value in metrics]
        rows.append([*who, "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", "Low, they say."])
    return lines(rows)


def raw(units: Mapping[str, str], kernels: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """One line per kernel; the units in a line of their own."""
    rows = [[*IDS, *units], ["" for _ in IDS] + list(units.values())]
    for number, (kernel, values) in enumerate(kernels):
        rows.append([*identity(number, kernel), *(values.get(name, "") for name in units)])
    return lines(rows)
