"""Single ops over sizes: GEMMs, copies, collectives. Inputs are random: zeros run cooler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from codesign._common.errors import UsageError
from codesign.capture.workloads.catalog import Sizes
from codesign.capture.workloads.program import Program, dtype_of

_SMALLEST_BYTES = 1 << 12


def build(name: str, sizes: Sizes, device: torch.device) -> Program:
    """``gemm-sweep``, ``copy-sweep`` or ``collective-sweep``."""
    make = {"gemm-sweep": _gemms, "copy-sweep": _copies, "collective-sweep": _collectives}[name]
    calls = make(sizes, device, dtype_of(sizes, device))

    def step() -> None:
        for call in calls:
            call()

    return Program(step)


def _doubling(low: int, high: int) -> list[int]:
    found = []
    while low <= high:
        found.append(low)
        low *= 4
    return found


def gemm_shapes(largest: int) -> list[tuple[int, int, int]]:
    """(m, n, k): square ones, and few rows against a large weight, as in decoding."""
    square = [(s, s, s) for s in (largest // 8, largest // 4, largest // 2, largest)]
    return square + [(m, largest, largest) for m in (1, 16, 128) if m < largest]


def _gemms(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> list[Callable[[], object]]:
    calls: list[Callable[[], object]] = []
    for m, n, k in gemm_shapes(sizes.largest):
        a = torch.randn(m, k, device=device, dtype=dtype)
        b = torch.randn(k, n, device=device, dtype=dtype)
        calls.append(partial(torch.mm, a, b))
    return calls


def _copies(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> list[Callable[[], object]]:
    calls: list[Callable[[], object]] = []
    for size in _doubling(_SMALLEST_BYTES, sizes.largest_bytes):
        source = torch.randn(size // dtype.itemsize, device=device, dtype=dtype)
        target, other = torch.empty_like(source), torch.randn_like(source)
        calls.append(partial(target.copy_, source))
        calls.append(partial(torch.add, source, other, out=target))
    return calls


def _collectives(
    sizes: Sizes, device: torch.device, dtype: torch.dtype
) -> list[Callable[[], object]]:
    if not dist.is_initialized():
        raise UsageError("collective-sweep needs several ranks; give --nproc 2 or more")
    world = dist.get_world_size()
    # The older names are deprecated where the newer ones exist.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    calls: list[Callable[[], object]] = []
    for size in _doubling(_SMALLEST_BYTES, sizes.largest_bytes):
        count = max(world, size // dtype.itemsize // world * world)
        whole = torch.randn(count, device=device, dtype=dtype)
        part = torch.randn(count // world, device=device, dtype=dtype)
        other = torch.empty_like(whole)
        calls += [
            partial(dist.all_reduce, whole),
            partial(gather, other, part),
            partial(scatter, part, whole),
            partial(dist.all_to_all_single, other, whole),
        ]
    return calls
