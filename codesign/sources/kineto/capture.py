"""One trace file, read whole: what a job keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pandas as pd

from codesign._common.text import encodable
from codesign.sources.kineto import metadata
from codesign.sources.kineto._bytestream import ByteStream
from codesign.sources.kineto._duplicates import drop_duplicates
from codesign.sources.kineto.events import load_trace
from codesign.sources.kineto.rank import DeviceView, examine_rank
from codesign.workload.characterization import Header, SourceFile

if TYPE_CHECKING:
    from codesign.sources.execution_trace import ExecutionTrace


@dataclass(frozen=True)
class Options:
    """How files are read; the same for all files of a job."""

    allow_truncated: bool = False
    repair: bool = False
    system: str | None = None


@dataclass(frozen=True)
class Capture:
    """One file: the ops of its busiest device, and every device for the job."""

    recorded: int | None
    """Rank as the file records it."""
    source: SourceFile
    header: Header
    ops: pd.DataFrame
    devices: tuple[DeviceView, ...]
    """The one that the ops are of comes first."""


def read_capture(
    path: Path, options: Options, execution: ExecutionTrace | None = None
) -> Capture:  # fmt: skip
    """Read one file. Raises DataError as ``read_kineto`` does."""
    with ByteStream(path) as stream:
        trace = load_trace(
            stream, allow_truncated=options.allow_truncated, repair=options.repair
        )  # fmt: skip
    trace.findings.duplicates = drop_duplicates(trace)
    shaped: tuple[str, ...] = ()
    if execution is not None:
        from codesign.sources.execution_trace import add_shapes

        shaped = add_shapes(trace, execution, str(path))
    char, devices = examine_rank(trace, str(path), options.system)
    # The job names the workload; a path may hold what is no text.
    header = msgspec.structs.replace(char.header, notes=char.header.notes + shaped, workload="")
    return Capture(
        metadata.distributed(trace.metadata).rank,
        SourceFile(encodable(path.name), trace.sha256, trace.size),
        header, char.ops, devices,
    )  # fmt: skip
