"""Captures as bytes, for the way from a worker process to its parent."""

from __future__ import annotations

import io
from typing import IO

import msgspec
import pandas as pd

from codesign.sources.kineto.capture import Capture
from codesign.sources.kineto.rank import DeviceView
from codesign.workload.characterization import Header, SourceFile
from codesign.workload.schema import ops_frame

_LENGTH_BYTES = 8


class Request(msgspec.Struct):
    """A file to read."""

    path: bytes
    allow_truncated: bool
    repair: bool
    system: str | None


class Reply(msgspec.Struct):
    """A capture, or the error that stands for it."""

    error: str = ""
    exit_code: int = 0
    recorded: int | None = None
    source: SourceFile | None = None
    header: Header | None = None
    ops: bytes = b""
    devices: tuple[DeviceView, ...] = ()


def send(stream: IO[bytes], message: Request | Reply) -> None:
    """Write one message. Raises OSError if nobody reads."""
    data = msgspec.msgpack.encode(message)
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message, None at the end of the stream."""
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(head, "little")
    data = stream.read(size)
    return data if len(data) == size else None


def pack(capture: Capture) -> Reply:
    """A capture to send."""
    import pyarrow as pa

    table = pa.Table.from_pandas(capture.ops, preserve_index=False)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Reply(
        recorded=capture.recorded, source=capture.source, header=capture.header,
        ops=sink.getvalue(), devices=capture.devices,
    )  # fmt: skip


def unpack(reply: Reply) -> Capture:
    """The capture that was sent."""
    import pyarrow as pa

    with pa.ipc.open_stream(reply.ops) as reader:
        ops: pd.DataFrame = reader.read_all().replace_schema_metadata(None).to_pandas()
    assert reply.source is not None
    assert reply.header is not None
    return Capture(reply.recorded, reply.source, reply.header, ops_frame(ops), reply.devices)
