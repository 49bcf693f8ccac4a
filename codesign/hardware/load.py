"""The library by name: GPUs and systems, shipped ones and the user's own files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from codesign._common.errors import DataError, UsageError, one_of
from codesign._common.files import data_dir
from codesign._common.yamlfiles import load_yaml
from codesign.hardware.model import Gpu, System
from codesign.hardware.spec import LABELS, STATUSES, Reader, read_gpu

_SYSTEM_KEYS = {
    "name", "title", "gpu", "nvlink_domain", "nvlink_bandwidth_per_direction",
    "scaleout_bandwidth_per_direction", "launch_latency", "in_switch_reduction", "status",
    "labels", "notes", "sources",
}  # fmt: skip


def list_gpus() -> list[str]:
    """Names of the shipped GPUs."""
    return sorted(path.stem for path in (data_dir("hwspecs") / "gpus").glob("*.yaml"))


def list_systems() -> list[str]:
    """Names of the shipped systems."""
    return sorted(path.stem for path in (data_dir("hwspecs") / "systems").glob("*.yaml"))


def load_gpu(name_or_path: str | Path) -> Gpu:
    """A GPU by its name, by the exact name its driver reports, or from a YAML file.

    Raises UsageError for an unknown name, DataError for a bad file.
    """
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")):
        return read_gpu(Path(text))
    if text in list_gpus():
        return _shipped_gpu(text)
    if text in _devices():
        return _shipped_gpu(_devices()[text])
    raise UsageError(f"{one_of('GPU', text, list_gpus())}; or give the path of a .yaml file")


def gpu_of_device(device: str) -> Gpu:
    """The GPU that a driver calls ``device``: an exact match, never a part of the name.

    Raises UsageError for an unknown device: guessing a GPU would guess its peak.
    """
    name = _devices().get(device)
    if name is None:
        raise UsageError(
            f"unknown GPU {device!r}: no file of the hardware library has it among its aliases; "
            "say which system it is with --system, or describe it in a .yaml file"
        )
    return _shipped_gpu(name)


def load_system(name_or_path: str | Path) -> System:
    """A system by its name or from a YAML file.

    Raises UsageError for an unknown name, DataError for a bad file.
    """
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")):
        return read_system(Path(text))
    if text in list_systems():
        return read_system(data_dir("hwspecs") / "systems" / f"{text}.yaml")
    hint = f"; {text!r} is a GPU, a system holds it" if text in list_gpus() else ""
    raise UsageError(
        f"{one_of('system', text, list_systems())}; or give the path of a .yaml file{hint}"
    )


def system_of_gpu(gpu_name: str) -> System:
    """The shipped system that holds a GPU; the first by name where several do."""
    for name in list_systems():
        system = load_system(name)
        if system.gpu.name == gpu_name:
            return system
    raise UsageError(f"no shipped system holds the GPU {gpu_name!r}")


def read_system(path: Path) -> System:
    """Read and check one system file. Raises DataError naming file and key path."""
    reader = Reader(load_yaml(path), str(path))
    reader.known_keys("", _SYSTEM_KEYS)
    for key, label in reader.strings("labels").items():
        if label not in LABELS:
            raise reader.error(f"labels.{key}", f"{label!r} is not one of: {', '.join(LABELS)}")
    switch = reader.get("in_switch_reduction")
    if switch is not None and not isinstance(switch, bool):
        raise reader.error("in_switch_reduction", f"expected true or false, got {switch!r}")
    name = reader.text("name")
    return System(
        name=name,
        title=reader.text("title"),
        gpu=_gpu_of(reader, path),
        nvlink_domain=reader.whole("nvlink_domain"),
        nvlink_bandwidth_bytes_per_s=reader.quantity("nvlink_bandwidth_per_direction", "byte/s"),
        scaleout_bandwidth_bytes_per_s=reader.quantity(
            "scaleout_bandwidth_per_direction", "byte/s"
        ),
        launch_latency_s=reader.quantity("launch_latency", "second"),
        in_switch_reduction=bool(switch),
        status=reader.text("status", STATUSES),
        base=name,
        sources=reader.strings("sources"),
        labels=reader.strings("labels"),
        notes=reader.strings("notes"),
    )


def _gpu_of(reader: Reader, path: Path) -> Gpu:
    text = reader.text("gpu")
    try:
        # A file of one's own may stand beside the system that uses it.
        return load_gpu(path.parent / text if text.endswith((".yaml", ".yml")) else text)
    except UsageError as error:
        raise reader.error("gpu", str(error)) from error


@cache
def _shipped_gpu(name: str) -> Gpu:
    return read_gpu(data_dir("hwspecs") / "gpus" / f"{name}.yaml")


@cache
def _devices() -> dict[str, str]:
    """Exact device name -> GPU name."""
    devices: dict[str, str] = {}
    for name in list_gpus():
        for alias in _shipped_gpu(name).aliases:
            if alias in devices:
                raise DataError(f"{alias!r} is an alias of both {devices[alias]} and {name}")
            devices[alias] = name
    return devices
