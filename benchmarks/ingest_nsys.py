"""Speed of reading an Nsight Systems export: a synthetic one of a million kernels.

    python benchmarks/ingest_nsys.py [--kernels 1000000] [--runs 3]

From file to saved characterization, CPU time of one core. Each run is a process of its own, as
a user's is, so that memory is touched for the first time; imports are not counted.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - imported before the clock runs

from codesign.sources.nsys import read_nsys

_KERNEL = ("start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId",
           "globalPid", "demangledName", "shortName", "mangledName", "launchType", "cacheConfig",
           "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
           "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal",
           "gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig")  # fmt: skip
_RUNTIME = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue",
            "callchainId")  # fmt: skip
_NVTX = ("start", "end", "eventType", "text", "globalTid", "textId")
_PID = 77 << 24
_ORIGIN_NS, _PERIOD_NS, _STEP = 10**9, 10_000, 1000


def export(path: Path, kernels: int) -> None:
    """A table of kernels with its launches, and a range for every thousand of them."""
    names = [f"void cutlass::Kernel{i}<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64>(int)"
             for i in range(40)] + ["cudaLaunchKernel_v7000"]  # fmt: skip
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names, 100))
        _fill(connection, "CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, _kernels(kernels))
        _fill(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", _RUNTIME, _launches(kernels))
        _fill(connection, "NVTX_EVENTS", _NVTX, _steps(kernels // _STEP))
    connection.close()


def _fill(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...],
    rows: Iterator[tuple[object, ...]],
) -> None:  # fmt: skip
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{c} INTEGER' for c in columns)})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def _kernels(count: int) -> Iterator[tuple[object, ...]]:
    for i in range(count):
        start, name = _ORIGIN_NS + i * _PERIOD_NS, 100 + i % 40
        yield (start, start + 8000, 0, 1, None, 7, i + 1, _PID, name, name, name, 0, 0, 96, 128, 1,
               1, 256, 1, 1, 0, 49152, 0, 0, i, 1, None, 0)  # fmt: skip


def _launches(count: int) -> Iterator[tuple[object, ...]]:
    for i in range(count):
        start = _ORIGIN_NS + i * _PERIOD_NS - 6000
        yield start, start + 4000, 0, _PID | 5, i + 1, 140, 0, None


def _steps(count: int) -> Iterator[tuple[object, ...]]:
    length = _STEP * _PERIOD_NS
    for i in range(count):
        start = _ORIGIN_NS + i * length - 7000
        yield start, start + length - 1, 59, f"step {i}", _PID | 5, None


def read(path: Path) -> float:
    """CPU seconds from the file to a saved characterization."""
    begun = time.process_time()
    read_nsys(path).save(path.with_suffix(".parquet"))
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", type=Path, metavar="FILE", help="read FILE once, print seconds")
    arguments = parser.parse_args()
    if arguments.read is not None:
        print(read(arguments.read))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        export(path, arguments.kernels)
        print(f"{arguments.kernels:,} kernels, {path.stat().st_size / 1e6:.0f} MB")
        for _ in range(arguments.runs):
            command = [sys.executable, __file__, "--read", str(path)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            took = float(done.stdout)
            print(f"{took:.2f} s of CPU, {arguments.kernels / took:,.0f} kernels a second")


if __name__ == "__main__":
    main()
