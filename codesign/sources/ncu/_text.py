"""The details page as plain text, which ``ncu`` prints without ``--csv``."""

from __future__ import annotations

import re
from pathlib import Path

from codesign._common.errors import DataError
from codesign.sources._textlines import csv_lines
from codesign.sources.ncu._kernel import IDENTITY, Kernel
from codesign.sources.ncu._values import DecimalComma

# "  gemm(float *, int) (196, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 7.5"
_TITLE = re.compile(
    r"^ {1,4}(?P<kernel>\S.*?)(?: (?P<grid>\(\d+, \d+, \d+\))x(?P<block>\(\d+, \d+, \d+\)))?,"
    r"(?: [^,]{1,40},)? Context (?P<context>\d+), Stream (?P<stream>\d+)"
    r"(?:, Device (?P<device>\d+))?(?:, CC (?P<compute_capability>[\d.]+))?\s*$"
)
_RULER = re.compile(r"^\s+(-{3,}) (-{3,}) (-{3,})\s*$")
_PROCESS = re.compile(r"^\[(\d+)\] (\S{1,200})@")
_MAX_TITLE = 8000
_MAX_KERNELS = 200_000


def text_kernels(path: Path) -> list[Kernel]:
    """Kernels of a text page, in its order; none if the file is no such page.

    The three columns of a section stand where its rulers do, so that a metric
    without a unit is not mistaken.
    """
    kernels: list[Kernel] = []
    spans: list[tuple[int, int]] = []
    process = ""
    for line, text in enumerate(csv_lines(path), start=1):
        if ruler := _RULER.match(text):
            spans = [ruler.span(i) for i in (1, 2, 3)]
        elif found := _PROCESS.match(text):
            process = found[1]
        elif len(text) < _MAX_TITLE and ", Context " in text and (title := _TITLE.match(text)):
            known = {**title.groupdict(""), "id": str(len(kernels)), "process": process}
            kernels.append(Kernel({ours: known.get(ours, "") for ours in IDENTITY.values()}))
            spans = []
            if len(kernels) > _MAX_KERNELS:
                raise DataError(f"{path}:{line}: over {_MAX_KERNELS} kernels; profile fewer")
        elif not text.strip() or text.lstrip().startswith("Section:"):
            spans = []
        elif spans and kernels:
            _take(kernels[-1], text, spans, f"{path}:{line}")
    return kernels


def _take(kernel: Kernel, text: str, spans: list[tuple[int, int]], where: str) -> None:
    name, unit, value = (text[low:high].strip() for low, high in spans)
    if name == "Metric Name":
        return
    # A value wider than its column runs over on the right.
    value = (value + text[spans[2][1] :].rstrip()).strip()
    try:
        kernel.add(name, unit, value)
    except DecimalComma as error:
        raise DataError(
            f"{where}: {error} has a decimal comma, so other commas are ambiguous; run ncu again "
            "with LC_ALL=C"
        ) from None
