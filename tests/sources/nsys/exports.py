"""Tiny Nsight Systems exports made in the test; times in ns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

Row = Mapping[str, object]
_INTEGERS = {"bytes", "start", "end"}


def pid(process: int) -> int:
    """Serialized process id: the thread bits are zero."""
    return process << 24


def tid(process: int, thread: int = 1) -> int:
    return pid(process) | thread


class Export:
    """Rows by table; a table exists only if it has rows, as in real exports."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {}
        self._strings: dict[str, int] = {}

    def add(self, table: str, **row: object) -> None:
        self.tables.setdefault(table, []).append(row)

    def text(self, value: str) -> int:
        return self._strings.setdefault(value, 100 + len(self._strings))

    def gpu(self, device: int, name: str = "NVIDIA H100 80GB HBM3") -> None:
        self.add("TARGET_INFO_GPU", id=device, name=name, smCount=132)

    def kernel(
        self, start: int, end: int, *, name: str = "sgemm_128x64", device: int = 0, stream: int = 7,
        corr: int | None = None, process: int = 1, table: str = "CUPTI_ACTIVITY_KIND_KERNEL",
    ) -> None:  # fmt: skip
        self.add(table, start=start, end=end, deviceId=device, contextId=1, streamId=stream,
                 correlationId=corr, globalPid=pid(process), demangledName=self.text(name),
                 shortName=self.text(name[:5]))  # fmt: skip

    def launch(
        self, start: int, *, corr: int, process: int = 1, thread: int = 1,
        name: str = "cudaLaunchKernel_v7000", length: int = 5, returned: int = 0,
    ) -> None:  # fmt: skip
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=start + length, eventClass=0,
                 globalTid=tid(process, thread), correlationId=corr, nameId=self.text(name),
                 returnValue=returned)  # fmt: skip

    def copy(self, start: int, end: int, size: int, kind: int = 1, device: int = 0) -> None:
        self.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, deviceId=device, contextId=1,
                 streamId=8, correlationId=None, globalPid=pid(1), bytes=size,
                 copyKind=kind)  # fmt: skip

    def range(
        self, start: int, end: int | None, text: str, *, kind: int = 59, process: int = 1,
        thread: int = 1, by_id: bool = False,
    ) -> None:  # fmt: skip
        self.add("NVTX_EVENTS", start=start, end=end, eventType=kind,
                 text=None if by_id else text, textId=self.text(text) if by_id else None,
                 globalTid=tid(process, thread))  # fmt: skip

    def save(self, path: Path) -> Path:
        if self._strings:
            self.tables["StringIds"] = [{"id": i, "value": v} for v, i in self._strings.items()]
        connection = sqlite3.connect(path)
        for table, rows in self.tables.items():
            _write(connection, table, rows)
        connection.commit()
        connection.close()
        return path


def _write(connection: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    rows = list(rows)
    columns = list(rows[0])
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'[{c}]' for c in columns)})")
    marks = ",".join("?" * len(columns))
    connection.executemany(
        f"INSERT INTO {table} VALUES ({marks})", [[r[c] for c in columns] for r in rows]
    )
