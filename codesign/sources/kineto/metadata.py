"""What stands around the events: devices, ranks, versions. Anything odd is left out."""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

T = TypeVar("T")
_MAX_RANKS = 10_000_000

_VERSIONS = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "roctracer_version",
    "hip_runtime_version", "hip_driver_version", "schemaVersion",
)  # fmt: skip


class DeviceProperties(msgspec.Struct):
    """One entry of ``deviceProperties``."""

    id: int | str | float | None = None
    name: str = ""


_NO_DEVICE = DeviceProperties()


class DistributedInfo(msgspec.Struct):
    """``distributedInfo``."""

    rank: int | None = None
    world_size: int | None = None
    nccl_version: str = ""


def read(metadata: dict[str, msgspec.Raw], key: str, kind: type[T], default: T) -> T:
    """Value of a metadata key, or ``default`` if it is absent or of another form."""
    raw = metadata.get(key)
    if raw is None:
        return default
    try:
        return msgspec.json.decode(raw, type=kind, strict=False)
    except (msgspec.DecodeError, RecursionError):
        return default


def device_name(metadata: dict[str, msgspec.Raw], device: str) -> str | None:
    """Name of a device as its driver reports it.

    ROCm numbers devices in events apart from ``deviceProperties``; there the name is
    known only if all devices have the same.
    """
    device = device.partition(" of process ")[0]
    entries = read(metadata, "deviceProperties", list[msgspec.Raw], [])
    # One by one: an odd entry takes no other with it.
    read_ones = (read({"": e}, "", DeviceProperties, _NO_DEVICE) for e in entries)
    devices = [d for d in read_ones if d is not _NO_DEVICE]
    for entry in devices:
        if str(entry.id).removesuffix(".0") == device:
            return entry.name.strip() or None
    names = {entry.name.strip() for entry in devices}
    return (names.pop() or None) if len(names) == 1 else None


def distributed(metadata: dict[str, msgspec.Raw]) -> DistributedInfo:
    """Rank and world of the process that was captured."""
    # Field by field: an odd one takes no other with it.
    fields = read(metadata, "distributedInfo", dict[str, msgspec.Raw], {})
    info = DistributedInfo(
        _whole(fields, "rank"), _whole(fields, "world_size"), read(fields, "nccl_version", str, "")
    )
    # -1 stands for none, and no job is that large.
    if info.rank is not None and not 0 <= info.rank < _MAX_RANKS:
        info.rank = None
    if info.world_size is not None and not 0 < info.world_size <= _MAX_RANKS:
        info.world_size = None
    return info


def _whole(fields: dict[str, msgspec.Raw], key: str) -> int | None:
    """A whole number, be it written as text or with a point."""
    number = read(fields, key, float, math.nan)
    return int(number) if number.is_integer() else None


def software(metadata: dict[str, msgspec.Raw]) -> dict[str, str]:
    """Versions that the trace states."""
    found = {}
    for key in _VERSIONS:
        value = read(metadata, key, int | str | float, "")  # type: ignore[arg-type]
        if value != "":
            found[key] = str(value)[:100]
    nccl = distributed(metadata).nccl_version
    return {**found, "nccl_version": nccl[:100]} if nccl else found
