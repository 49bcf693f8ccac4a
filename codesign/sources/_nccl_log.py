"""The text of nccl-tests: runs, their ranks and their rows, as printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign.sources._textlines import COLOUR, text_file

if TYPE_CHECKING:
    from collections.abc import Iterator

PRECISIONS = {
    "half": "fp16", "float16": "fp16", "fp16": "fp16", "float": "fp32", "float32": "fp32",
    "double": "fp64", "float64": "fp64", "bfloat16": "bf16", "bf16": "bf16", "int8": "int8",
    "uint8": "int8", "char": "int8", "f8e4m3": "fp8", "f8e5m2": "fp8", "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8", "float8_e4m3": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
"""Types that have a precision of the ops table; integers wider than 8 bits have none."""

_TYPES = (*sorted(PRECISIONS, key=len, reverse=True), "int32", "uint32", "int64", "uint64", "int")
_ROW = re.compile(rf"(?:^|[\s:>])(\d{{1,18}})\s+(\d{{1,18}})\s+({'|'.join(_TYPES)})\s(.*)")
_RANK = re.compile(
    r"#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+"
    r"\s+\[[^\]]*\]\s*(.*)"
)
_BINARY = re.compile(r"\b(\w{1,40})_perf\b")
_VERSION = re.compile(
    r"#\s*nccl-tests version\s+(\S+)(?:.*nccl-library=(\d+))?|NCCL version\s+(\d\S*)"
)
_MAX_LINE = 4096


@dataclass
class Run:
    """One run of a test binary: what its comment lines say, and its rows."""

    binary: str | None = None
    groups: dict[int, int] = field(default_factory=dict)
    """Group (color) by rank."""
    hosts: dict[int, str] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    columns: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    finished: bool = False
    failed: bool = False
    """The summary itself says that values were out of bounds."""

    @property
    def group(self) -> list[int]:
        """Ranks that communicate with rank 0, whose times are printed."""
        return [r for r, g in self.groups.items() if g == self.groups.get(0)]


@dataclass(frozen=True)
class Row:
    """One measurement: a size, out of place or in place."""

    line: int
    message_bytes: int
    type: str
    redop: str
    in_place: bool
    time: str
    busbw: str
    wrong: str


@dataclass
class Log:
    """Everything that the log holds."""

    runs: list[Run] = field(default_factory=list)
    zero_rows: int = 0
    garbled: list[int] = field(default_factory=list)
    software: dict[str, str] = field(default_factory=dict)


def _lines(path: Path) -> Iterator[str]:
    """Lines of the log; of an overlong one only the beginning, which holds no row."""
    with text_file(path) as stream:
        while line := stream.readline(_MAX_LINE):
            yield COLOUR.sub("", line.rstrip("\r\n"))
            while len(line) == _MAX_LINE and not line.endswith("\n"):
                line = stream.readline(_MAX_LINE)


def parse_log(path: Path) -> Log:
    """Every run that the log holds, rows as text.

    Raises DataError (file, line) if it cannot be read or a table's header is out of form.
    """
    log = Log()
    run, binary = Run(), None
    for number, line in enumerate(_lines(path), start=1):
        if (match := _ROW.search(line)) and "#" not in line[: match.start(1)]:
            _take_row(log, run, number, match)
        elif "nThread" in line and "nGpus" in line:
            run, binary = Run(binary=binary), None
            log.runs.append(run)
        elif match := _RANK.search(line):
            _take_rank(run, match)
        elif {"size", "count", "type", "busbw"} <= set(words := line.split()):
            _take_header(log, run, words, path, number)
        elif "# Avg bus bandwidth" in line:
            run.finished = True
        elif "Out of bounds values" in line:
            run.failed = "FAILED" in line
        elif match := _VERSION.search(line):
            known = zip(("nccl-tests", "nccl", "nccl"), match.groups(), strict=True)
            log.software.update({key: text for key, text in known if text})
        elif (match := _BINARY.search(line)) and "concluded" not in line:
            binary = match[1]
    return log


def _take_rank(run: Run, match: re.Match[str]) -> None:
    rank = int(match[1])
    run.groups[rank] = int(match[2] or 0)
    run.hosts[rank] = match[3]
    if match[4].strip():
        run.devices.add(match[4].strip())


def _take_header(log: Log, run: Run, words: list[str], path: Path, number: int) -> None:
    if "cputime" in words:
        raise DataError(
            f"{path}:{number}: the table holds CPU times (option -C); run the test without it"
        )
    columns = [w for w in words if w != "#"]
    halves = columns[columns.index("time") :] if "time" in columns else []
    if not halves or halves.count("time") != halves.count("busbw"):
        raise DataError(
            f"{path}:{number}: the header of the table is damaged: expected a time and a busbw "
            "for each of the out-of-place and in-place runs"
        )
    run.columns = columns
    if run not in log.runs:
        log.runs.append(run)


def _take_row(log: Log, run: Run, number: int, match: re.Match[str]) -> None:
    """Both measurements of a row, or a count of what could not be read."""
    if not run.columns:
        return
    if not int(match[1]):
        log.zero_rows += 1
        return
    words = match[4].split()
    if "timestamp" in run.columns:  # a date and a time of day after all else
        words = words[:-2]
    columns = [c for c in run.columns[run.columns.index("time") :] if c != "timestamp"]
    extra = len(words) - len(columns)  # redop and root, either of them blank in some tests
    redop = "".join(w for w in words[: max(extra, 0)] if w.isalpha())
    starts = [i for i, column in enumerate(columns) if column == "time"]
    if not 0 <= extra <= 2 or not all(map(_is_value, words[extra:])):
        log.garbled.append(number)
        return
    for start, end in pairwise([*starts, len(columns)]):
        cells = dict(zip(columns[start:end], words[extra + start : extra + end], strict=True))
        if cells["time"] == "N/A":
            continue
        wrong = cells.get("#wrong", cells.get("error", "N/A"))
        run.rows.append(
            Row(number, int(match[1]), match[3], redop, start > 0, cells["time"], cells["busbw"],
                 wrong)
        )  # fmt: skip


def _is_value(word: str) -> bool:
    return bool(re.fullmatch(r"\d{1,15}(\.\d{0,9})?(e[+-]?\d{1,3})?|N/A", word, re.IGNORECASE))
