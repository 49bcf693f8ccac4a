"""Makes the CPU the device of a trace that has none, so that one reader serves both.

A GPU trace has kernels, each launched inside an op. A CPU trace has only ops, which do the
work themselves. Every op that does work of its own gets a kernel of the same length beside
it; ops that only make views, allocate or call other ops do not, as on a GPU. What Gloo runs
becomes a collective. The original events stay.
"""

from __future__ import annotations

import gzip
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from codesign._common.errors import DataError

Event = dict[str, Any]
_DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_NO_WORK = re.compile(
    r"^aten::(empty\w*|new_empty\w*|as_strided\w*|_?unsafe_view|view\w*|_?reshape\w*|t|numpy_T"
    r"|transpose|permute|expand\w*|slice\w*|select|narrow|unsqueeze_?|squeeze_?|detach_?|alias"
    r"|resize\w*|lift_fresh|resolve_(conj|neg)|result_type|item|_local_scalar_dense|is_\w+|set_"
    r"|unbind|_?split\w*|chunk|unflatten|flatten|size|stride|numel|movedim|diagonal|unfold|mT"
    r"|to|type_as|contiguous|dropout|requires_grad_|_version|_has_\w+|can_cast|broadcast_tensors|rename_?)$"
)
_WHOLE = re.compile(
    r"^aten::(_?addmm\w*|mm|bmm|baddbmm|addmv|mv|addbmm|_?grouped_mm|_scaled_(grouped_)?mm(_v2)?"
    r"|_fused_\w+|_scaled_dot_product_flash_attention_for_cpu(_backward)?|mkldnn_\w+|_?slow_conv\w*"
    r"|_(log_)?softmax\w*|native_\w+_norm(_backward)?|nll_loss\w*_(forward|backward)|sort|topk"
    r"|embedding_dense_backward|_?index_put\w*|masked_select|multinomial|linalg_vector_norm)$"
)
"""Ops that count as one, though they call others inside."""
_HOST = re.compile(r"^(autograd::|torch::autograd::|c10d::|profiler::|inductor::)")
_ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"
_OVERHANG = 0.1
"""Share of a collective by which its end is noted late at most."""
_COLLECTIVES = {
    "all_reduce": "allreduce", "all_gather": "_allgather_base", "broadcast": "broadcast",
    "reduce_scatter": "_reduce_scatter_base", "all_to_all": "all_to_all", "send": "send",
    "recv": "recv", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
}  # fmt: skip


def has_device(trace: Event) -> bool:
    """Whether the trace holds work of a device."""
    return any(e.get("cat") in _DEVICE_CATEGORIES for e in trace.get("traceEvents", ()))


def load(path: Path) -> Event:
    """A trace as plain values. Raises DataError if it is none."""
    try:
        raw = path.read_bytes()
        found = msgspec.json.decode(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{path}: not a readable trace: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: not a trace of PyTorch's profiler")
    return found


def add_device(trace: Event) -> int:
    """Add the CPU as device 0 to ``trace``; returns how many kernels that made."""
    events: list[Event] = trace["traceEvents"]
    world = trace.get("distributedInfo") or {}
    made: list[Event] = []
    for thread in _threads(events):
        for event in _working(thread):
            _make(made, event, event["name"], {})
            _as_on_gpu(event)
    marks = (e for e in events if e.get("cat") == "user_annotation")
    talks = [e for e in marks if str(e["name"]).startswith("gloo:")]
    _end_in_step(talks, [e for e in events if str(e["name"]).startswith("ProfilerStep#")])
    # What runs side by side is on streams of its own; the time in Gloo's queue counts.
    free: list[float] = []
    for event in sorted(talks, key=lambda e: (e["ts"], e["dur"])):
        lane = next((i for i, at in enumerate(free) if at <= event["ts"]), len(free))
        free[lane : lane + 1] = [event["ts"] + event["dur"]]
        _make(made, event, event["name"], {"stream": f"gloo {lane}", **_message(event, world)})
    events.extend(made)
    return len(made) // 2


def _end_in_step(talks: list[Event], steps: list[Event]) -> None:
    """Cut what hangs over a step's end a little.

    Gloo's thread wakes whoever waits before it notes its own end; that is no work that lags.
    """
    ends = sorted(e["ts"] + e["dur"] for e in steps)
    for event in talks:
        border = next((end for end in ends if end > event["ts"]), math.inf)
        over = event["ts"] + event["dur"] - border
        if 0 < over <= _OVERHANG * event["dur"]:
            event["dur"] -= over


def _threads(events: list[Event]) -> Iterator[list[Event]]:
    """Ops of each thread, outer before inner."""
    by_thread: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event.get("cat") == "cpu_op":
            by_thread[event["pid"], event["tid"]].append(event)
    for thread in by_thread.values():
        yield sorted(thread, key=lambda e: (e["ts"], -e["dur"]))


def _working(thread: list[Event]) -> Iterator[Event]:
    """Ops that do work of their own; they never hold each other."""
    ends: list[float] = []
    open_ops: list[int] = []
    holds = [False] * len(thread)  # an op inside it works
    inside_whole: list[bool] = [False] * len(thread)
    parents: list[int] = []
    for i, event in enumerate(thread):
        while ends and event["ts"] >= ends[-1]:
            ends.pop()
            open_ops.pop()
        parent = open_ops[-1] if open_ops else -1
        parents.append(parent)
        if parent >= 0:
            inside_whole[i] = inside_whole[parent] or bool(_WHOLE.match(thread[parent]["name"]))
        ends.append(event["ts"] + event["dur"])
        open_ops.append(i)
    works = [False] * len(thread)
    for i in range(len(thread) - 1, -1, -1):  # inner before outer
        name = thread[i]["name"]
        can = "::" in name and not _HOST.match(name) and not _NO_WORK.match(name)
        works[i] = can and not inside_whole[i] and (not holds[i] or bool(_WHOLE.match(name)))
        if parents[i] >= 0 and (works[i] or holds[i]):
            holds[parents[i]] = True
    return (event for event, does in zip(thread, works, strict=True) if does)


def _make(made: list[Event], event: Event, kernel: str, arguments: Event) -> None:
    """A launch inside ``event`` and a kernel as long as it."""
    number = len(made) // 2 + 1
    joined = {"correlation": number, "External id": event.get("args", {}).get("External id")}
    place = {"pid": event["pid"], "tid": event["tid"], "ts": event["ts"]}
    made.append({"ph": "X", "cat": "cuda_runtime", "name": "cpuLaunchKernel", **place, "dur": 0.0,
                 "args": joined})  # fmt: skip
    made.append({
        "ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": event["tid"],
        "ts": event["ts"], "dur": event["dur"],
        "args": {"device": 0, "stream": event["tid"], **joined, **arguments},
    })  # fmt: skip


def _as_on_gpu(event: Event) -> None:
    """Give attention the name and the places of arguments that it has on a GPU."""
    name = str(event["name"])
    if not name.startswith(_ATTENTION):
        return
    arguments = event.get("args", {})
    backward = name.endswith("_backward")
    mask = 8 if backward else 5
    dims = arguments.get("Input Dims") or []
    if len(dims) > mask and dims[mask]:
        return  # what an arbitrary mask leaves is not known
    event["name"] = name.replace("_for_cpu", "")
    if backward:
        # The GPU's has the borders and lengths of packed sequences before the dropout.
        for key, empty in (("Input Dims", []), ("Input type", ""), ("Concrete Inputs", "")):
            if isinstance(arguments.get(key), list):
                arguments[key][6:6] = [empty] * 4


def _message(event: Event, world: Event) -> Event:
    """NCCL's arguments of what Gloo did, as far as it recorded them."""
    kind = str(event["name"]).removeprefix("gloo:")
    arguments = event.get("args", {})
    dims, types = arguments.get("Input Dims") or [], arguments.get("Input type") or []
    shapes = [d for d in dims if isinstance(d, list) and d]
    found: Event = {"Collective name": _COLLECTIVES.get(kind, kind)}
    # The group is not recorded; it is known where there is only one.
    group = int(world.get("world_size") or 0) if world.get("pg_count") == 1 else 0
    if group:
        ranks = list(range(group))
        found |= {"Group size": group, "Process Group Ranks": str(ranks), "Process Group Name": "0"}
    if shapes and types and all(isinstance(d, int) for s in shapes for d in s):
        elements = sum(math.prod(s) for s in shapes)
        total = elements * group if kind == "all_gather" and group else elements
        found |= {"In msg nelems": elements, "Out msg nelems": total, "dtype": str(types[0])}
    return found
