"""The time of one op on the device at hand, inputs random and in the device's memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

BLOCKS = 5
"""Times a block of calls is repeated; their median counts."""
_BLOCK_S = 2e-3
_MOST_CALLS = 200
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32,
           "fp64": torch.float64}  # fmt: skip
SKIPPED = (RuntimeError, NotImplementedError, ValueError, AttributeError, TypeError, MemoryError)
"""What an op raises that this device, or this version of PyTorch, cannot do: it is left out."""
Call = Callable[[], object]


def precisions(device: torch.device) -> list[str]:
    """Precisions of multiplies to measure; the first is that of everything else."""
    if device.type == "cpu":
        return ["fp32", "bf16"]
    narrow = torch.cuda.get_device_capability(device) >= (8, 9)
    return ["bf16", "fp16", *(["fp8"] if narrow else [])]


def call_of(point: dict[str, Any], device: torch.device, groups: dict[int, Any]) -> Call:
    """What runs a point once. Its inputs are normal random numbers: zeros draw less power."""
    kind = point["op_class"]
    dtype = _DTYPES.get(point["precision"], torch.bfloat16)
    if kind == "gemm":
        return _gemm(point, device, dtype)
    if kind == "attention":
        return _attention(point, device, dtype)
    if kind == "grouped_gemm":
        return _grouped(point, device, dtype)
    if kind == "collective":
        return _collective(point, device, dtype, groups)
    return _memory_bound(point, device, dtype)


def _gemm(p: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Call:
    a = torch.randn(p["m"], p["k"], device=device, dtype=dtype)
    b = torch.randn(p["n"], p["k"], device=device, dtype=dtype).t()
    if p["precision"] != "fp8":
        return lambda: torch.mm(a, b)
    one = torch.ones((), device=device)
    narrow = [x.to(torch.float8_e4m3fn) for x in (a, b)]
    return lambda: torch._scaled_mm(
        narrow[0], narrow[1], scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
        use_fast_accum=True,  # as inference and forward passes do; without it Hopper is slower
    )  # fmt: skip


def _attention(p: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Call:
    kind = {"device": device, "dtype": dtype}
    q = torch.randn(p["batch"], p["heads"], p["q_len"], p["head_dim"], **kind)
    k = torch.randn(p["batch"], p["kv_heads"], p["kv_len"], p["head_dim"], **kind)
    v = torch.randn_like(k)
    # One query sees every key, whatever the mask.
    return lambda: F.scaled_dot_product_attention(
        q, k, v, is_causal=p["q_len"] > 1, enable_gqa=p["heads"] != p["kv_heads"]
    )


def _grouped(p: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Call:
    rows = torch.randn(p["m"], p["k"], device=device, dtype=dtype)
    weights = torch.randn(p["experts"], p["k"], p["n"], device=device, dtype=dtype)
    ends = torch.arange(1, p["experts"] + 1, device=device) * p["m"] // p["experts"]
    offsets = ends.to(torch.int32)
    return lambda: torch._grouped_mm(rows, weights, offs=offsets)


def _memory_bound(p: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Call:
    x = torch.randn(p["m"], p["n"], device=device, dtype=dtype)
    other, out = torch.randn_like(x), torch.empty_like(x)
    weight = torch.randn(p["n"], device=device, dtype=dtype)
    narrow = torch.empty(x.shape, device=device, dtype=torch.float8_e4m3fn)
    calls: dict[str, Call] = {
        "rms_norm": lambda: F.rms_norm(x, (p["n"],), weight),
        "softmax": lambda: x.softmax(dim=-1),
        "copy": lambda: out.copy_(x),
        "add": lambda: torch.add(x, other, out=out),
        "sum": lambda: x.sum(dim=-1),
        "quantize": lambda: narrow.copy_(x),
    }
    return calls[p["name"]]


def _collective(p: dict[str, Any], device: torch.device, dtype: torch.dtype,
                groups: dict[int, Any]) -> Call:  # fmt: skip
    group, size = groups[p["group_size"]], p["group_size"]
    if group is None:  # this rank takes no part in it
        return lambda: None
    count = max(size, p["message_bytes"] // dtype.itemsize // size * size)
    whole = torch.randn(count, device=device, dtype=dtype)
    part = torch.randn(count // size, device=device, dtype=dtype)
    other = torch.empty_like(whole)
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    calls: dict[str, Call] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: gather(other, part, group=group),
        "reduce_scatter": lambda: scatter(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
    }
    return calls[p["name"]]


def timed(call: Call, device: torch.device) -> tuple[float, float]:
    """(median, standard deviation) in seconds of one call over blocks of calls.

    On a GPU the calls of a block are captured into a graph where that works, so that the
    host's time to launch small kernels does not count.
    """
    for _ in range(2):
        call()
    calls = calls_for(on_host_or_device(call, 1, device))
    replay = _graphed(call, calls) if device.type == "cuda" else None
    if replay is None:
        return summary([on_host_or_device(call, calls, device) / calls for _ in range(BLOCKS)])
    replay()
    return summary([on_host_or_device(replay, 1, device) / calls for _ in range(BLOCKS)])


def calls_for(one_s: float) -> int:
    """Calls that make a block of about two milliseconds."""
    return max(1, min(_MOST_CALLS, int(_BLOCK_S / max(one_s, 1e-9))))


def summary(times_s: list[float]) -> tuple[float, float]:
    """Median and standard deviation."""
    return statistics.median(times_s), statistics.stdev(times_s)


def on_host_or_device(call: Call, calls: int, device: torch.device) -> float:
    """Seconds of so many calls by the device's clock, the host's where that is the device."""
    if device.type == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def _graphed(call: Call, calls: int) -> Call | None:
    """Replay of a graph of ``calls`` calls, None where the op cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    replay: Call = graph.replay
    return replay
