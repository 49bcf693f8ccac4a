"""A GPU as NVML shows one, for machines without: copied beside a script as ``pynvml``.

Writes what is done to clocks into the file that FAKE_NVML_LOG names.
"""

import os
from types import SimpleNamespace

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0


class NVMLError(Exception):
    pass


def _log(text):
    if os.environ.get("FAKE_NVML_LOG"):
        with open(os.environ["FAKE_NVML_LOG"], "a") as stream:  # noqa: PTH123
            stream.write(text + "\n")


def nvmlInit():
    if os.environ.get("FAKE_NVML_DENIED"):
        raise NVMLError("Insufficient Permissions")


def nvmlShutdown():
    pass


def nvmlDeviceGetCount():
    return 2


def nvmlDeviceGetHandleByIndex(index):
    return index


def nvmlDeviceGetUUID(handle):
    return f"GPU-{handle}{handle}"


def nvmlDeviceGetName(handle):
    return b"NVIDIA H200"


def nvmlSystemGetDriverVersion():
    return "570.124"


def nvmlDeviceGetClockInfo(handle, kind):
    return 1755 if kind == NVML_CLOCK_SM else 3201


def nvmlDeviceGetMaxClockInfo(handle, kind):
    return 1980


def nvmlDeviceGetPowerUsage(handle):
    return 640_500


def nvmlDeviceGetEnforcedPowerLimit(handle):
    return 700_000


def nvmlDeviceGetTemperature(handle, kind):
    return 61


def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    return int(os.environ.get("FAKE_NVML_THROTTLE", "0"), 16)


def nvmlDeviceGetEccMode(handle):
    return (1, 1)


def nvmlDeviceGetMigMode(handle):
    raise NVMLError("Not Supported")


def nvmlDeviceGetNvLinkState(handle, link):
    return 1


def nvmlDeviceGetTopologyCommonAncestor(first, second):
    return 50


def nvmlDeviceGetComputeRunningProcesses(handle):
    pids = filter(None, os.environ.get("FAKE_NVML_PIDS", "").split(","))
    return [SimpleNamespace(pid=int(pid)) for pid in pids]


def nvmlDeviceSetGpuLockedClocks(handle, low, high):
    if os.environ.get("FAKE_NVML_REFUSES"):
        raise NVMLError("Insufficient Permissions")
    _log(f"lock {handle} {low} {high}")


def nvmlDeviceResetGpuLockedClocks(handle):
    _log(f"reset {handle}")
