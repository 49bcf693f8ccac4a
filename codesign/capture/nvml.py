"""NVIDIA's management library, where it is: every question may go unanswered.

Needs the package nvidia-ml-py (it installs as ``pynvml``) and a driver. A question that this
GPU, driver or user may not ask answers None, never a value; only `open_nvml` says why nothing
works.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

THROTTLE_REASONS = {
    0x0000000000000002: "the setting of application clocks",
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""Bits of nvmlClocksEventReasons (nvml.h) that hold a busy GPU's clock down."""
SEVERE = frozenset({"hardware slowdown", "hardware thermal slowdown", "hardware power brake",
                    "software thermal slowdown"})  # fmt: skip
_MPS_SERVER = "nvidia-cuda-mps-server"
_TOPOLOGY = {0: "internal", 10: "one switch", 20: "several switches", 30: "host bridge",
             40: "node", 50: "system"}  # fmt: skip
"""nvmlGpuTopologyLevel_t."""
_NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""nvmlNvlinkVersion_t."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at one GPU; None where it does not tell."""

    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] | None = None
    processes: frozenset[int] | None = None
    """That compute on it, in the driver's own numbering."""


class Nvml:
    """The GPUs of this machine by their NVML index."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.errors: dict[str, str] = {}
        """Why each question that failed did, the last time."""
        self.count = int(self._ask("DeviceGetCount") or 0)
        self._handles = [self._ask("DeviceGetHandleByIndex", i) for i in range(self.count)]
        self._servers: dict[int, bool] = {}

    def _ask(self, what: str, *arguments: Any) -> Any:
        if arguments and arguments[0] is None:
            return None  # a GPU that gave no handle
        try:
            return getattr(self._library, f"nvml{what}")(*arguments)
        except (self._library.NVMLError, AttributeError, UnicodeDecodeError) as error:
            self.errors[what] = str(error) or type(error).__name__
            return None

    def _constant(self, name: str, default: int = 0) -> Any:
        return getattr(self._library, f"NVML_{name}", default)

    def text(self, what: str, *arguments: Any) -> str:
        """Answer to a question as text, empty if there is none."""
        value = self._ask(what, *arguments)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")

    def uuids(self) -> dict[str, tuple[int, bool]]:
        """(GPU, whether it is a MIG slice of it) by UUID, in lower case and without ``GPU-``."""
        found = {}
        for index, handle in enumerate(self._handles):
            found[plain_uuid(self.text("DeviceGetUUID", handle))] = (index, False)
            for i in range(int(self._ask("DeviceGetMaxMigDeviceCount", handle) or 0)):
                part = self._ask("DeviceGetMigDeviceHandleByIndex", handle, i)
                found[plain_uuid(self.text("DeviceGetUUID", part))] = (index, True)
        found.pop("", None)
        return found

    def reading(self, index: int) -> Reading:
        """Clocks, power, temperature, what slows the GPU down, who computes on it: now."""
        handle = self._handles[index]
        sm, memory = (
            None if mhz is None else float(mhz) * 1e6
            for kind, number in (("SM", 1), ("MEM", 2))
            for mhz in (self._ask("DeviceGetClockInfo", handle,
                                  self._constant(f"CLOCK_{kind}", number)),)
        )  # fmt: skip
        celsius = self._ask("DeviceGetTemperature", handle, self._constant("TEMPERATURE_GPU"))
        return Reading(
            sm, memory, self._power_w(handle), None if celsius is None else float(celsius),
            self._throttle(handle), self.processes(index),
        )  # fmt: skip

    def _power_w(self, handle: Any) -> float | None:
        """Power of this moment; the older question gives the mean of a second on most parts."""
        values = self._ask(
            "DeviceGetFieldValues", handle, [self._constant("FI_DEV_POWER_INSTANT", 186)]
        )
        if values and values[0].nvmlReturn == 0 and values[0].value.uiVal:
            return float(values[0].value.uiVal) / 1e3
        milliwatts = self._ask("DeviceGetPowerUsage", handle)
        return None if milliwatts is None else float(milliwatts) / 1e3

    def _throttle(self, handle: Any) -> tuple[str, ...] | None:
        mask = self._ask("DeviceGetCurrentClocksEventReasons", handle)
        if mask is None:  # an older driver's name for it
            mask = self._ask("DeviceGetCurrentClocksThrottleReasons", handle)
        if mask is None:
            return None
        return tuple(text for bit, text in THROTTLE_REASONS.items() if int(mask) & bit)

    def busy(self, index: int) -> float | None:
        """Share of the last moments in which the GPU computed."""
        rates = self._ask("DeviceGetUtilizationRates", self._handles[index])
        return None if rates is None else float(rates.gpu) / 100.0

    def facts(self, index: int) -> dict[str, str]:
        """What does not change: driver, limits, ECC, MIG, links."""
        handle = self._handles[index]
        found = {"gpu": self.text("DeviceGetName", handle),
                 "driver": self.text("SystemGetDriverVersion")}  # fmt: skip
        limit = self._ask("DeviceGetEnforcedPowerLimit", handle)
        if limit is not None:
            found["power limit"] = f"{limit / 1e3:.0f} W"
        highest = self._ask("DeviceGetMaxClockInfo", handle, self._constant("CLOCK_SM", 1))
        if highest is not None:
            found["highest SM clock"] = f"{highest} MHz"
        for key, what in (("ECC", "DeviceGetEccMode"), ("MIG", "DeviceGetMigMode")):
            mode = self._ask(what, handle)
            if mode is not None:
                found[key] = "on" if mode[0] else "off"
        return {k: v for k, v in (found | self._links(handle)).items() if v}

    def _links(self, handle: Any) -> dict[str, str]:
        """NVLink, where the GPU tells of it."""
        states = {i: self._ask("DeviceGetNvLinkState", handle, i)
                  for i in range(self._constant("NVLINK_MAX_LINKS", 18))}  # fmt: skip
        up = [i for i, state in states.items() if state]
        if all(state is None for state in states.values()):
            return {}
        found = {"NVLink links up": str(len(up))}
        if up:
            ends = self._ask("DeviceGetNvLinkRemoteDeviceType", handle, up[0])
            found["NVLink to"] = {0: "GPUs", 2: "switches"}.get(ends, "")
            version = self._ask("DeviceGetNvLinkVersion", handle, up[0])
            found["NVLink version"] = _NVLINK_VERSIONS.get(version, "")
        return found

    def topology(self) -> dict[str, str]:
        """How every GPU reaches the first one: by NVLink, and over PCIe."""
        found = {}
        for index in range(1, self.count):
            pair = self._handles[0], self._handles[index]
            if None in pair:
                continue
            level = self._ask("DeviceGetTopologyCommonAncestor", *pair)
            if level is not None:
                found[f"PCIe from GPU 0 to {index}"] = _TOPOLOGY.get(int(level), str(level))
            status = self._ask(
                "DeviceGetP2PStatus", *pair, self._constant("P2P_CAPS_INDEX_NVLINK", 2)
            )
            if status is not None:
                found[f"NVLink from GPU 0 to {index}"] = "no" if status else "yes"
        return found

    def processes(self, index: int) -> frozenset[int] | None:
        """Processes that compute on a GPU; the server of MPS is none, its clients are."""
        handle = self._handles[index]
        found = self._ask("DeviceGetComputeRunningProcesses", handle)
        if found is None:
            return None
        clients = self._ask("DeviceGetMPSComputeRunningProcesses", handle) or []
        pids = {int(p.pid) for p in (*found, *clients)}
        return frozenset(pid for pid in pids if not self._is_server(pid))

    def _is_server(self, pid: int) -> bool:
        if pid not in self._servers:
            self._servers[pid] = _MPS_SERVER in self.text("SystemGetProcessName", pid)
        return self._servers[pid]

    def lock_clock(self, index: int, clock_hz: float) -> str | None:
        """Hold the SM clock; returns why that failed, or None."""
        clock_mhz = round(clock_hz / 1e6)
        return self._set("DeviceSetGpuLockedClocks", index, clock_mhz, clock_mhz)

    def release_clock(self, index: int) -> str | None:
        """Let the SM clock go; returns why that failed, or None."""
        return self._set("DeviceResetGpuLockedClocks", index)

    def _set(self, what: str, index: int, *values: int) -> str | None:
        if self._handles[index] is None:
            return "it gives no handle"
        try:
            getattr(self._library, f"nvml{what}")(self._handles[index], *values)
        except (self._library.NVMLError, AttributeError) as error:
            return str(error) or type(error).__name__
        return None


def plain_uuid(uuid: str) -> str:
    """A UUID as all of NVML, CUDA and PyTorch write it: lower case, no ``GPU-`` or ``MIG-``."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


@contextmanager
def open_nvml() -> Iterator[Nvml | str]:
    """NVML with at least one GPU, or in one phrase why there is none."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        yield "the package nvidia-ml-py is not installed"
        return
    try:
        library.nvmlInit()
    except (library.NVMLError, OSError, AttributeError) as error:
        yield f"NVML does not answer ({str(error) or type(error).__name__})"
        return
    try:
        nvml = Nvml(library)
        reason = "".join(f" ({text})" for text in nvml.errors.values())
        yield nvml if nvml.count else f"NVML shows no GPU{reason}"
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()
