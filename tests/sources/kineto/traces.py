"""Tiny traces built in code. Times in microseconds, as exporters write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def kernel(
    ts: object, dur: object, name: str = "gemm_kernel", corr: int | None = None, stream: int = 7,
    device: int = 0, **args: object,
) -> Event:  # fmt: skip
    found: Event = {"device": device, "stream": stream, **args}
    if corr is not None:
        found["correlation"] = corr
    return _x("kernel", name, ts, dur, found, pid=device, tid=stream)


def launch(
    ts: float, corr: int, name: str = "cudaLaunchKernel", cat: str = "cuda_runtime",
    dur: float = 5, pid: int = 100, **args: object,
) -> Event:  # fmt: skip
    return _x(cat, name, ts, dur, {"correlation": corr, **args}, pid=pid, tid=pid)


def op(
    ts: float, dur: float, name: str, external: int | None = None, dims: object = None,
    types: object = None, concrete: object = None, tid: int = 100,
) -> Event:  # fmt: skip
    given = {"External id": external, "Input Dims": dims, "Input type": types,
             "Concrete Inputs": concrete}  # fmt: skip
    args = {key: value for key, value in given.items() if value is not None}
    return _x("cpu_op", name, ts, dur, args, pid=100, tid=tid)


def annotation(ts: float, dur: float, name: str, cat: str = "user_annotation") -> Event:
    return _x(cat, name, ts, dur, {}, pid=100, tid=100)


def _x(cat: str, name: str, ts: object, dur: object, args: Event, pid: int, tid: int) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def document(events: Sequence[Event], **keys: object) -> str:
    return json.dumps({"schemaVersion": 1, **keys, "traceEvents": list(events)})


def write(folder: Path, events: Sequence[Event], name: str = "trace.json", **keys: object) -> Path:
    path = folder / name
    path.write_text(document(events, **keys), encoding="utf-8")
    return path
