"""Lines of text files from outside: bounded memory, any bytes, plain or gzip."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from codesign._common.errors import DataError
from codesign._common.files import require_ordinary

MAX_LINE = 1 << 20
COLOUR = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]")
"""Colours, and what clears a line: control sequences of terminals."""
# What ``mpirun --tag-output`` puts before each line: [1,0]<stdout>:
_TAG = re.compile(r"\[[^\]\s]{1,200}\]<std(?:out|err)>: ?")
# And ``srun -l``. Only where the first line has it, since other text may look like it.
_LABEL = re.compile(r" {0,8}\d{1,7}: ")
_GZIP = b"\x1f\x8b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def as_utf8(head: bytes) -> bytes:
    """The first bytes of a text in UTF-8, where it is UTF-16 as PowerShell redirects it."""
    if not head.startswith(_UTF16):
        return head
    return head.decode("utf-16", "ignore").encode("utf-8", "ignore")


@contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """The file's text with its line ends as they are; what is no text is replaced.

    Raises DataError if the file cannot be read, or what it is packed in is damaged.
    """
    require_ordinary(path)
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP
            binary = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
            encoding = "utf-16" if binary.peek(2)[:2] in _UTF16 else "utf-8-sig"
            with io.TextIOWrapper(binary, encoding, errors="replace", newline="") as stream:
                yield stream
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error


def csv_lines(path: Path) -> Iterator[str]:
    """Lines with their ends, for ``csv.reader``; bytes that are not UTF-8 are replaced.

    Colours and what a launcher puts before each line are taken away.

    Raises DataError if the file cannot be read or a line is longer than ``MAX_LINE``.
    """
    with text_file(path) as stream:
        number, labelled = 1, False
        while line := stream.readline(MAX_LINE):
            if len(line) == MAX_LINE:
                raise DataError(f"{path}:{number}: a line of over {MAX_LINE} characters")
            line = COLOUR.sub("", line.replace("\0", ""))
            labelled = labelled or (number == 1 and _LABEL.match(line) is not None)
            found = (_TAG.match(line) if line[:1] == "[" else None) or (
                _LABEL.match(line) if labelled else None
            )
            yield line[found.end() :] if found else line
            number += 1
