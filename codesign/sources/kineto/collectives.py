"""Messages of collectives, in the conventions of nccl-tests."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec

from codesign.sources.kineto.classification import TYPE_BYTES, TYPE_PRECISIONS
from codesign.sources.kineto.classify import collective_kind
from codesign.sources.kineto.events import CommArgs
from codesign.sources.kineto.shapes import Call, Dims

_MAX_RANKS = 10_000_000
_MAX_BYTES = 2.0**60


def collective_dims(comm: CommArgs | None, call: Call | None, kernel: str) -> Dims:
    """Columns of one collective call, from NCCL's arguments, else from the op around it.

    ``message_bytes``: all_reduce and all_to_all what a rank gives, all_gather and
    reduce_scatter the total over ranks. Only what was recorded; the rest is left out.
    """
    op = call.op if call is not None else ""
    name = comm.collective if comm is not None else ""
    kind = collective_kind(name, op, kernel)
    dims: Dims = {"collective": kind} if kind else {}
    if comm is not None:
        element = TYPE_BYTES.get(comm.dtype.lower())
        given, taken = comm.in_elements, comm.out_elements
        elements = {"all_gather": taken, "broadcast": max(given, taken)}.get(kind or "", given)
        if kind == "send_recv":
            elements = max(given, taken)
        if element is not None and elements >= 0:
            dims["message_bytes"] = math.ceil(elements * element)
        if 0 < comm.group_size <= _MAX_RANKS:
            dims["group_size"] = comm.group_size
        dims.update(_placement(comm))
        precision = TYPE_PRECISIONS.get(comm.dtype.lower())
        if precision:
            dims["precision"] = precision
    elif call is not None and kind in ("all_reduce", "all_to_all"):
        size = call.size_bytes(0)
        if size is not None and size < _MAX_BYTES:
            dims["message_bytes"] = math.ceil(size)
    return dims


def identity(comm: CommArgs | None, kernel: str) -> tuple[str, int]:
    """What a collective has in common on all of its ranks, and how many those are (0: unknown).

    Kind and group; the size of a message may differ between ranks.
    """
    kind = collective_kind(comm.collective if comm is not None else "", kernel) or "other"
    if comm is None:
        return kind, 0
    group = str(group_ranks(comm)) if group_ranks(comm) else f"{comm.group}:{comm.group_ranks}"
    return f"{kind}|{group}", max(comm.group_size, 0)


def group_ranks(comm: CommArgs) -> list[int]:
    """Global ranks of the group if all of them were recorded (long lists are cut)."""
    try:
        ranks = msgspec.json.decode(comm.group_ranks, type=list[int])
    except (msgspec.DecodeError, RecursionError):
        return []
    # Each of them another rank of a job that can be.
    possible = len(set(ranks)) == comm.group_size and all(0 <= r < _MAX_RANKS for r in ranks)
    return ranks if len(ranks) == comm.group_size and possible else []


def _placement(comm: CommArgs) -> Dims:
    ranks = group_ranks(comm)
    steps = {b - a for a, b in pairwise(ranks)}
    if len(steps) == 1 and (stride := steps.pop()) > 0:
        return {"group_stride": stride}
    return {}
