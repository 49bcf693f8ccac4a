"""Several files on all cores, each core one file at a time: memory is bounded by the cores."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.sources.kineto._wire import Reply, Request, receive, send, unpack
from codesign.sources.kineto.capture import Capture, Options, read_capture

if TYPE_CHECKING:
    from codesign.sources.execution_trace import ExecutionTrace

Progress = Callable[[int, int], None]
"""Called with how many files are read, and of how many."""
# A worker takes about a second to start.
_WORTH_BYTES = 40_000_000
_ERRORS: dict[int, type[CodesignError]] = {
    c.exit_code: c for c in (CodesignError, UsageError, DataError)
}


def read_captures(
    files: Sequence[Path],
    options: Options,
    executions: Mapping[Path, ExecutionTrace],
    progress: Progress | None = None,
) -> list[Capture]:
    """Read files in the order given, on as many cores as there are if that is worth it.

    Raises what reading any of them raises, for the first that fails.
    """
    workers = min(cores(), len(files))
    if workers < 2 or executions or _size_bytes(files) < _WORTH_BYTES:
        captures = []
        for path in files:
            captures.append(read_capture(path, options, executions.get(path)))
            if progress is not None:
                progress(len(captures), len(files))
        return captures
    return _Pool(files, options, workers).read(progress)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size_bytes(files: Sequence[Path]) -> int:
    """Size of the files, packed ones taken as ten times as large."""
    total = 0
    for path in files:
        try:
            total += path.stat().st_size * (10 if path.suffix == ".gz" else 1)
        except OSError:
            continue  # reading it says what is wrong
    return total


class _Pool:
    """A thread for each worker process; the first error stops all."""

    def __init__(self, files: Sequence[Path], options: Options, workers: int) -> None:
        self._files = files
        self._options = options
        self._workers = workers
        self._open: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, Capture | BaseException]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopped = False
        for index in range(len(files)):
            self._open.put(index)

    def read(self, progress: Progress | None) -> list[Capture]:
        found: dict[int, Capture] = {}
        threads = []
        try:
            for _ in range(self._workers):
                process = _start()
                self._processes.append(process)
                thread = threading.Thread(target=self._serve, args=(process,), daemon=True)
                thread.start()
                threads.append(thread)
            while len(found) < len(self._files):
                index, result = self._done.get()
                if isinstance(result, BaseException):
                    raise result
                found[index] = result
                if progress is not None:
                    progress(len(found), len(self._files))
        finally:
            self._stopped = True
            for process in self._processes:
                process.kill()
            for thread in threads:
                thread.join()
            for process in self._processes:
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    with contextlib.suppress(OSError):  # what was not sent is not wanted
                        if pipe is not None:
                            pipe.close()
        return [found[i] for i in range(len(self._files))]

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Hand files to one worker until none is left."""
        while not self._stopped:
            try:
                index = self._open.get_nowait()
            except queue.Empty:
                return
            try:
                result: Capture | BaseException = self._ask(process, self._files[index])
            except BaseException as error:  # noqa: BLE001 - raised again by the reading thread
                result = error
            self._done.put((index, result))

    def _ask(self, process: subprocess.Popen[bytes], path: Path) -> Capture:
        assert process.stdin is not None
        assert process.stdout is not None
        options = self._options
        try:
            send(
                process.stdin,
                Request(os.fsencode(path), options.allow_truncated, options.repair, options.system),
            )
            data = receive(process.stdout)
        except OSError:
            data = None
        if data is None:
            raise DataError(
                f"{path}: the process that read it ended (exit status {process.wait()}); "
                "out of memory? read fewer files at a time"
            )
        reply = msgspec.msgpack.decode(data, type=Reply)
        if reply.exit_code:
            raise _ERRORS.get(reply.exit_code, CodesignError)(reply.error)
        return unpack(reply)


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([root, *([inherited] if inherited else [])])
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "codesign.sources.kineto._worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
    except OSError as error:
        raise CodesignError(f"cannot start {sys.executable!r} to read files: {error}") from error
