"""A GPU as NVML shows one, for machines without: copied beside a script as ``pynvml``.

It takes and gives what nvidia-ml-py 13 does, and fails as it does. Told by environment
variables, since it is used from other processes too:

    FAKE_NVML_FAIL  NAME=CODE,...: what fails, without ``nvml``, and with which code of nvml.h
    FAKE_NVML_LOG   file that is told what is done to clocks
    FAKE_NVML_THROTTLE, FAKE_NVML_PIDS, FAKE_NVML_BUSY, FAKE_NVML_MIG, FAKE_NVML_CLOCK
"""

import os
from types import SimpleNamespace

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
NVML_FI_DEV_POWER_INSTANT, NVML_P2P_CAPS_INDEX_NVLINK, NVML_NVLINK_MAX_LINKS = 186, 2, 36
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 3, 4, 6, 13, 15
MPS_SERVER = 77


_TEXTS = {
    2: "Invalid Argument", 3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found",
    9: "Driver Not Loaded", 13: "Function Not Found", 15: "GPU is lost",
}  # fmt: skip


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value

    def __str__(self):
        return _TEXTS[self.value]


def _log(text):
    if os.environ.get("FAKE_NVML_LOG"):
        with open(os.environ["FAKE_NVML_LOG"], "a") as stream:  # noqa: PTH123
            stream.write(text + "\n")


def _fails(function):
    """Raise what the environment says, as the library does instead of an answer."""

    def wrapped(*arguments):
        for entry in filter(None, os.environ.get("FAKE_NVML_FAIL", "").split(",")):
            name, _, code = entry.partition("=")
            if f"nvml{name}" == function.__name__:
                raise NVMLError(int(code))
        return function(*arguments)

    return wrapped


@_fails
def nvmlInit():
    pass


def nvmlShutdown():
    pass


@_fails
def nvmlDeviceGetCount():
    return 2


@_fails
def nvmlDeviceGetHandleByIndex(index):
    return f"gpu {index}"


def nvmlDeviceGetUUID(handle):
    kind, _, number = handle.partition(" ")
    return f"{'GPU' if kind == 'gpu' else 'MIG'}-{number}{number}"


def nvmlDeviceGetName(handle):
    return "NVIDIA H200"


def nvmlSystemGetDriverVersion():
    return "570.124"


@_fails
def nvmlDeviceGetClockInfo(handle, kind):
    return int(os.environ.get("FAKE_NVML_CLOCK", "1755")) if kind == NVML_CLOCK_SM else 3201


def nvmlDeviceGetMaxClockInfo(handle, kind):
    return 1980


@_fails
def nvmlDeviceGetFieldValues(handle, fields):
    assert fields == [NVML_FI_DEV_POWER_INSTANT]
    return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=640_500))]


@_fails
def nvmlDeviceGetPowerUsage(handle):
    return 500_000


def nvmlDeviceGetEnforcedPowerLimit(handle):
    return 700_000


def nvmlDeviceGetTemperature(handle, kind):
    return 61


@_fails
def nvmlDeviceGetCurrentClocksEventReasons(handle):
    return int(os.environ.get(f"FAKE_NVML_THROTTLE_{handle[-1]}",
                              os.environ.get("FAKE_NVML_THROTTLE", "0")), 16)  # fmt: skip


@_fails
def nvmlDeviceGetCurrentClocksThrottleReasons(handle):
    return 0x8


@_fails
def nvmlDeviceGetEccMode(handle):
    return [1, 1]


def nvmlDeviceGetMigMode(handle):
    if os.environ.get("FAKE_NVML_MIG"):
        return [1, 1]
    raise NVMLError(NOT_SUPPORTED)


def nvmlDeviceGetMaxMigDeviceCount(handle):
    return 7 if os.environ.get("FAKE_NVML_MIG") else 0


def nvmlDeviceGetMigDeviceHandleByIndex(handle, index):
    if index > 1:
        raise NVMLError(NOT_FOUND)
    return f"mig {handle[-1]}-{index}"


@_fails
def nvmlDeviceGetNvLinkState(handle, link):
    if link >= 18:
        raise NVMLError(2)
    return 1


def nvmlDeviceGetNvLinkRemoteDeviceType(handle, link):
    return 2


def nvmlDeviceGetNvLinkVersion(handle, link):
    return 6


def nvmlDeviceGetTopologyCommonAncestor(first, second):
    return 50


@_fails
def nvmlDeviceGetP2PStatus(first, second, index):
    return 0 if index == NVML_P2P_CAPS_INDEX_NVLINK else 3


@_fails
def nvmlDeviceGetComputeRunningProcesses(handle):
    pids = filter(None, os.environ.get("FAKE_NVML_PIDS", "").split(","))
    return [SimpleNamespace(pid=int(pid)) for pid in pids]


def nvmlDeviceGetMPSComputeRunningProcesses(handle):
    raise NVMLError(NOT_SUPPORTED)


def nvmlSystemGetProcessName(pid):
    if pid == MPS_SERVER:
        return "/usr/bin/nvidia-cuda-mps-server"
    raise NVMLError(NOT_FOUND)


def nvmlDeviceGetUtilizationRates(handle):
    return SimpleNamespace(gpu=int(os.environ.get("FAKE_NVML_BUSY", "0")), memory=0)


@_fails
def nvmlDeviceSetGpuLockedClocks(handle, low, high):
    _log(f"lock {handle} {low} {high}")


@_fails
def nvmlDeviceResetGpuLockedClocks(handle):
    _log(f"reset {handle}")
