"""From the device names that a profiler recorded to a system of the hardware library."""

from __future__ import annotations

from collections.abc import Iterable

from codesign._common.errors import UsageError
from codesign.hardware import gpu_of_device, load_system, system_of_gpu
from codesign.workload.notes import elsewhere


def system_name(
    given: str | None, devices: Iterable[str | None]
) -> tuple[str | None, tuple[str, ...]]:
    """Name of the system, and warnings if it stays unknown.

    ``given`` (a name or a path) wins. Otherwise the one shipped system built of the
    GPU that the device names say; an unknown, missing or mixed one is None with a
    warning, never a guess. Raises UsageError if ``given`` is no system.
    """
    names = sorted({d for d in devices if d})
    if given is not None:
        told = (contradiction(given, name) for name in names)
        return load_system(given).name, tuple(t for t in told if t is not None)
    if not names:
        return None, ("no device name was recorded; pass --system",)
    if len(names) > 1:
        listed = ", ".join(map(repr, names))
        return None, (f"devices of several kinds ({listed}): no one system; pass --system",)
    try:
        return system_of_gpu(_gpu_name(names[0])).name, ()
    except UsageError as error:
        return None, (str(error),)


def contradiction(system: str, device: str | None) -> str | None:
    """A warning if the device that was recorded is known and another than the system's."""
    if device is None:
        return None
    try:
        recorded = _gpu_name(device)
    except UsageError:
        return None
    stated = load_system(system)
    if stated.gpu.name == recorded:
        return None
    return elsewhere(device, stated.name, stated.gpu.name)


def _gpu_name(device: str) -> str:
    """Drivers before 2020 leave the vendor out; with it, the name still has to match exactly."""
    try:
        return gpu_of_device(device).name
    except UsageError:
        if device.startswith("NVIDIA "):
            raise
        try:
            return gpu_of_device(f"NVIDIA {device}").name
        except UsageError:
            return gpu_of_device(device).name
