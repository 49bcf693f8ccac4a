"""NVIDIA's management library, where it is: every question may go unanswered.

Needs the package nvidia-ml-py (it installs as ``pynvml``) and a driver. A question that this
GPU, driver or user may not ask answers None; only `open_nvml` says why nothing works.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

THROTTLE_REASONS = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""Bits of nvmlDeviceGetCurrentClocksThrottleReasons (nvml.h) that slow a busy GPU down."""
SEVERE = frozenset({"hardware slowdown", "hardware thermal slowdown", "hardware power brake",
                    "software thermal slowdown"})  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """One look at one GPU; None where it does not tell."""

    sm_clock_hz: float | None
    memory_clock_hz: float | None
    power_w: float | None
    temperature_c: float | None
    throttle: tuple[str, ...]


class Nvml:
    """The GPUs of this machine by their NVML index."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.count = int(self._ask("DeviceGetCount") or 0)
        self._handles = [self._ask("DeviceGetHandleByIndex", i) for i in range(self.count)]

    def _ask(self, what: str, *arguments: Any) -> Any:
        try:
            return getattr(self._library, f"nvml{what}")(*arguments)
        except (self._library.NVMLError, AttributeError):
            return None

    def _constant(self, name: str) -> Any:
        return getattr(self._library, f"NVML_{name}", 0)

    def find(self, uuid: str) -> int | None:
        """Index of the GPU with a UUID, with or without its ``GPU-``; None if there is none."""
        wanted = uuid.lower().removeprefix("gpu-")
        for index in range(self.count):
            if self.text("DeviceGetUUID", index).lower().removeprefix("gpu-") == wanted:
                return index
        return None

    def text(self, what: str, index: int) -> str:
        """Answer to a question about one GPU as text, empty if there is none."""
        value = self._ask(what, self._handles[index])
        return value.decode() if isinstance(value, bytes) else str(value or "")

    def name(self, index: int) -> str:
        """Name as the driver reports it."""
        return self.text("DeviceGetName", index)

    def reading(self, index: int) -> Reading:
        """Clocks, power, temperature and what slows the GPU down, now."""
        handle = self._handles[index]
        clocks = [
            self._ask("DeviceGetClockInfo", handle, self._constant(f"CLOCK_{kind}"))
            for kind in ("SM", "MEM")
        ]
        sm, memory = (None if c is None else float(c) * 1e6 for c in clocks)
        power = self._ask("DeviceGetPowerUsage", handle)
        mask = self._ask("DeviceGetCurrentClocksThrottleReasons", handle) or 0
        temperature = self._ask("DeviceGetTemperature", handle, self._constant("TEMPERATURE_GPU"))
        return Reading(
            sm, memory,
            None if power is None else float(power) / 1e3,
            None if temperature is None else float(temperature),
            tuple(text for bit, text in THROTTLE_REASONS.items() if mask & bit),
        )  # fmt: skip

    def facts(self, index: int) -> dict[str, str]:
        """What does not change: driver, limits, ECC, MIG, links."""
        handle = self._handles[index]
        found = {"gpu": self.name(index), "driver": str(self._ask("SystemGetDriverVersion") or "")}
        limit = self._ask("DeviceGetEnforcedPowerLimit", handle)
        if limit is not None:
            found["power limit"] = f"{limit / 1e3:.0f} W"
        highest = self._ask("DeviceGetMaxClockInfo", handle, self._constant("CLOCK_SM"))
        if highest is not None:
            found["highest SM clock"] = f"{highest} MHz"
        for key, what in (("ECC", "DeviceGetEccMode"), ("MIG", "DeviceGetMigMode")):
            mode = self._ask(what, handle)
            if mode is not None:
                found[key] = "on" if mode[0] else "off"
        links = sum(bool(self._ask("DeviceGetNvLinkState", handle, i)) for i in range(18))
        found["NVLink links up"] = str(links)
        return {k: v for k, v in found.items() if v}

    def topology(self) -> dict[str, str]:
        """How every GPU reaches the first one."""
        levels = {0: "internal", 10: "one switch", 20: "several switches", 30: "host bridge",
                  40: "node", 50: "system"}  # fmt: skip
        found = {}
        for index in range(1, self.count):
            level = self._ask(
                "DeviceGetTopologyCommonAncestor", self._handles[0], self._handles[index]
            )
            if level is not None:
                found[f"PCIe from GPU 0 to {index}"] = levels.get(int(level), str(level))
        return found

    def processes(self, index: int) -> frozenset[int]:
        """Processes that compute on a GPU, in the driver's own numbering."""
        found = self._ask("DeviceGetComputeRunningProcesses", self._handles[index]) or []
        return frozenset(int(p.pid) for p in found)

    def lock_clock(self, index: int, clock_hz: float) -> str | None:
        """Hold the SM clock; returns why that failed, or None."""
        clock_mhz = round(clock_hz / 1e6)
        try:
            self._library.nvmlDeviceSetGpuLockedClocks(self._handles[index], clock_mhz, clock_mhz)
        except (self._library.NVMLError, AttributeError) as error:
            return str(error) or type(error).__name__
        return None

    def release_clock(self, index: int) -> str | None:
        """Let the SM clock go; returns why that failed, or None."""
        try:
            self._library.nvmlDeviceResetGpuLockedClocks(self._handles[index])
        except (self._library.NVMLError, AttributeError) as error:
            return str(error) or type(error).__name__
        return None


@contextmanager
def open_nvml() -> Iterator[Nvml | str]:
    """NVML, or in one phrase why there is none."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        yield "the package nvidia-ml-py is not installed"
        return
    try:
        library.nvmlInit()
    except (library.NVMLError, OSError) as error:
        yield f"NVML does not answer ({str(error) or type(error).__name__})"
        return
    try:
        yield Nvml(library)
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()
