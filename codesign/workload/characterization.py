"""The characterization: one workload on one system, in one Parquet file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd

from codesign._common.errors import DataError
from codesign._common.files import atomic_path, require_ordinary
from codesign._common.text import encodable, quoted
from codesign.workload.caveat import Caveat
from codesign.workload.schema import ops_frame, validate_ops

SCHEMA_VERSION = 2
MAX_ROWS = 1_000_000
"""Ops of a file; a year of kernels has far fewer distinct ones."""
_METADATA_KEY = b"codesign"

if TYPE_CHECKING:
    import pyarrow as pa


class SourceFile(msgspec.Struct, frozen=True):
    """A file that the characterization was made from."""

    name: str
    sha256: str
    bytes: int


class Reliability(msgspec.Struct, frozen=True):
    """Whether a derived quantity may be used, and if not, why."""

    reliable: bool
    reasons: tuple[str, ...] = ()


class Quality(msgspec.Struct, frozen=True):
    """What the capture is worth. ``None`` means that the count does not apply."""

    known_work_share: float | None = None
    """Share of op time whose FLOPs or bytes are known."""
    shape_coverage: float | None = None
    """Share of op time that has dims."""
    launch_coverage: float | None = None
    """Launches that have their kernel / launches."""
    orphan_kernels: int | None = None
    """Kernels without a launch record."""
    clipped_events: int = 0
    repaired_events: int = 0
    dropped_events: int = 0
    skewed_launches: int = 0
    steps_found: int | None = None
    steps_by: str | None = None
    """How steps were found: ``ProfilerStep``, ``annotation``, ``periodicity``, ``none``."""
    complete: bool = True
    """False if the input was cut short and read all the same."""
    reliability: dict[str, Reliability] = {}
    """By derived quantity: ``idle, launch, exposed, flops, steps, step_time``."""
    warnings: tuple[str, ...] = ()

    def reliable(self, quantity: str) -> bool:
        """Whether ``quantity`` may be relied upon; one never judged is reliable."""
        entry = self.reliability.get(quantity)
        return entry is None or entry.reliable


class StepTimes(msgspec.Struct, frozen=True):
    """Wall time of one step on one device; the parts add up to ``time_s``."""

    name: str
    device: str
    time_s: float
    compute_s: float
    """While any compute kernel runs."""
    comm_s: float
    """While any collective runs, hidden or not."""
    exposed_comm_s: float
    """While collectives run and no compute."""
    exposed_copy_s: float
    """While copies run and neither compute nor collectives."""
    idle_s: float
    kernels: int
    kernel_time_s: float
    """Sum over kernels; may exceed the wall time where streams overlap."""
    host_bound_s: float | None = None
    """Part of ``idle_s`` in which nothing was launched: the device waits for the host. The
    rest of it is launch latency and waiting on events. None where launches are unknown."""
    stall_s: float | None = None
    """Part of ``idle_s`` in gaps of a millisecond or more, which no launch takes: the device
    waits for data, a synchronisation or other work of the host."""


class RankTimes(msgspec.Struct, frozen=True):
    """One rank of a job beside the others; times are means over its steps."""

    rank: int
    device: str
    source: str
    """File that it was read from."""
    steps: int
    step_time_s: float
    compute_s: float
    comm_s: float
    exposed_comm_s: float
    exposed_copy_s: float
    idle_s: float
    host_bound_s: float | None = None
    wait_s: float | None = None
    """Part of the time of its matched collectives before the last known rank arrived; None
    if none could be matched."""
    transfer_s: float | None = None
    """The rest of the time of its matched collectives."""
    collectives: int = 0
    """In the whole capture."""
    matched: int = 0
    """Of these, how many were found on another rank, too."""
    last_share: float | None = None
    """Share of the matched ones at which this rank arrived last: it held the others up."""
    clock_offset_s: float | None = None
    """Its clock less that of the first rank, by the ends of collectives that both were in."""


class Header(msgspec.Struct, frozen=True):
    """Everything about a characterization that is not a row of its table."""

    workload: str
    system: str | None
    """Name of the system, or None if the device is unknown."""
    title: str = ""
    phase: str | None = None
    schema_version: int = SCHEMA_VERSION
    model: dict[str, Any] | None = None
    parallelism: dict[str, int] | None = None
    gpus: int = 1
    ranks: tuple[int, ...] = (0,)
    tokens_per_step: float | None = None
    """Tokens per step over all GPUs."""
    software: dict[str, str] = {}
    capture_method: str = ""
    sources: tuple[SourceFile, ...] = ()
    quality: Quality = Quality()
    step_time_s: float | None = None
    """Mean wall time of a step: the sum of ``exposed_s`` plus ``idle_s``."""
    step_time_sd_s: float | None = None
    idle_s: float = 0.0
    """Time of the step during which this GPU runs nothing, ``bubble_s`` included."""
    bubble_s: float = 0.0
    """Part of ``idle_s`` that is pipeline bubble and scales with the busy time."""
    steps: tuple[StepTimes, ...] = ()
    """Every step of every device that was captured, where the source has a time line."""
    rank_times: tuple[RankTimes, ...] = ()
    """Every rank of a job of which several were captured."""
    totals: dict[str, float] = {}
    """Over the whole capture of the device: ``kernels, kernel_time_s, busy_s, span_s``..."""
    conditions: dict[str, str] = {}
    """What a live run was under: GPU, driver, clocks, power, ECC, MIG, links, environment."""
    assumptions: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    """Doubts that a report shows where gains rest on the ops that they name."""


@dataclass(frozen=True)
class Characterization:
    """One workload on one system: a header and the ops table (see ``schema.COLUMNS``)."""

    header: Header
    ops: pd.DataFrame

    def __post_init__(self) -> None:
        validate_ops(self.ops, self.header.workload)

    def __repr__(self) -> str:
        step = self.header.step_time_s
        return (
            f"<Characterization of {self.header.workload} on "
            f"{self.header.system or 'an unknown system'}: {len(self.ops)} ops, "
            f"{'step unknown' if step is None else f'step {step:.4g} s'}>"
        )

    def with_header(self, **changes: object) -> Characterization:
        """The same ops under a header with ``changes`` applied."""
        return replace(self, header=msgspec.structs.replace(self.header, **changes))

    def save(self, path: str | Path) -> None:
        """Write one Parquet file, wholly or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(self.ops, preserve_index=False)
        header = _encode_header(self.header)
        table = table.replace_schema_metadata({_METADATA_KEY: header})
        # Opened here: Arrow takes no path that is not UTF-8.
        with atomic_path(Path(path)) as temporary, temporary.open("wb") as sink:
            pq.write_table(table, sink, compression="zstd")

    @classmethod
    def load(cls, path: str | Path) -> Characterization:
        """Read and check one Parquet file.

        Raises DataError if the file is not Parquet, is not a characterization,
        has another schema version or breaks the ops contract.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        require_ordinary(Path(path))
        try:
            # What the file says of itself first: its rows may be many more than its bytes.
            with Path(path).open("rb") as stream, pq.ParquetFile(stream) as file:
                header = _decode_header(file.schema_arrow.metadata, str(path))
                _check_shape(file.schema_arrow, file.metadata.num_rows, str(path))
                frame = file.read().replace_schema_metadata(None).to_pandas()
        except FileNotFoundError as error:
            raise DataError(f"{path}: no such file") from error
        except (pa.ArrowException, OSError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"{path}: not a readable Parquet file: {reason}") from error
        ops = ops_frame(frame, str(path))
        validate_ops(ops, str(path))
        return cls(header, ops)


def _encode_header(header: Header) -> bytes:
    try:
        return msgspec.json.encode(header, order="deterministic")
    except UnicodeEncodeError:  # a file name that is no UTF-8
        return msgspec.json.encode(_encodable(msgspec.to_builtins(header)), order="deterministic")


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    return [_encodable(v) for v in value] if isinstance(value, list | tuple) else value


def _check_shape(schema: pa.Schema, rows: int, where: str) -> None:
    """Raise DataError for what no ops table looks like, before any of it is read."""
    import pyarrow as pa

    if rows > MAX_ROWS:
        raise DataError(f"{where}: {rows} rows, expected at most {MAX_ROWS} ops")
    for name, kind in zip(schema.names, schema.types, strict=True):
        if schema.names.count(name) > 1:
            raise DataError(f"{where}: column {quoted(name)} stands there twice")
        if pa.types.is_nested(kind):
            raise DataError(f"{where}: column {quoted(name)} holds {kind}, expected single values")


def _decode_header(metadata: dict[bytes, bytes] | None, where: str) -> Header:
    raw = (metadata or {}).get(_METADATA_KEY)
    if raw is None:
        raise DataError(
            f"{where}: not a characterization (no {_METADATA_KEY.decode()!r} metadata); "
            "make one with `codesign characterize`"
        )
    try:
        version = msgspec.json.decode(raw, type=dict[str, Any]).get("schema_version")
        if version != SCHEMA_VERSION:
            raise DataError(
                f"{where}: schema version {quoted(version)}, this codesign reads {SCHEMA_VERSION}; "
                "characterize again or install the matching version"
            )
        header = msgspec.json.decode(raw, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{where}: header: {error}") from error
    for name in ("step_time_s", "step_time_sd_s", "idle_s", "bubble_s", "tokens_per_step"):
        value = getattr(header, name)
        if value is not None and value < 0:
            raise DataError(f"{where}: header: {name} = {value} is negative")
    if header.gpus < 1:
        raise DataError(f"{where}: header: gpus = {header.gpus}, expected 1 or more")
    return header
