"""Lines of text files from outside: bounded memory, any bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from codesign._common.errors import DataError

MAX_LINE = 1 << 20


def csv_lines(path: Path) -> Iterator[str]:
    """Lines with their ends, for ``csv.reader``; bytes that are not UTF-8 are replaced.

    Raises DataError if the file cannot be read or a line is longer than ``MAX_LINE``.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
            number = 1
            while line := stream.readline(MAX_LINE):
                if len(line) == MAX_LINE:
                    raise DataError(f"{path}:{number}: a line of over {MAX_LINE} characters")
                yield line.replace("\0", "")
                number += 1
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
