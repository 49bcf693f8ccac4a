"""Find and read GPU and system files, by name, by device name or by path."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from codesign._common.errors import CodesignError, DataError, UsageError, one_of
from codesign._common.files import data_dir, read_bytes
from codesign._common.text import quoted
from codesign._common.yamlfiles import MAX_YAML_BYTES, load_yaml
from codesign.hardware import validate
from codesign.hardware._section import Section
from codesign.hardware.model import Gpu, System

SEARCH_VARIABLE = "CODESIGN_HWSPECS"
"""Environment variable: folders like ``hwspecs/`` that are searched before the shipped one."""

PEAKS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8")
STATUSES = ("shipping", "announced", "hypothetical")
HOSTS = ("x86", "grace", "vera")
LABELS = ("recalled", "disputed", "derived", "assumed", "measured")
_COMMENTARY = ("sources", "labels", "notes", "exceptions")
_GPU_KEYS = (
    "name", "title", "vendor", "aliases", "architecture", "status", "sm_count", "dies", "clocks",
    "peak_dense", "flop_per_clock_per_sm", "memory", "l2", "die", "nvlink", "power", *_COMMENTARY,
)  # fmt: skip
_SYSTEM_KEYS = (
    "name", "title", "gpu", "status", "nvlink_domain", "nvlink_bandwidth_per_direction",
    "scaleout_bandwidth_per_direction", "launch_latency", "in_switch_reduction", "host",
    *_COMMENTARY,
)  # fmt: skip


def load_gpu(name: str | os.PathLike[str]) -> Gpu:
    """The GPU called ``name``: a spec name, an exact device name, or a path to a YAML file.

    Raises UsageError for an unknown name, DataError (file, key path, what was
    expected) for a file out of contract.
    """
    text = os.fspath(name)
    if _is_path(text):
        return read_gpu(Path(text))
    paths = _paths("gpus")
    if text in paths:
        return read_gpu(paths[text])
    devices = _devices()
    if text in devices:
        return read_gpu(paths[devices[text]])
    raise UsageError(f"{one_of('GPU', text, list(paths))}; or give the path of a YAML file")


def load_system(name: str | os.PathLike[str]) -> System:
    """The system called ``name``, or described by the YAML file at that path.

    The file's ``gpu`` is a name, or a path relative to the file. Raises as `load_gpu`.
    """
    text = os.fspath(name)
    if _is_path(text):
        return read_system(Path(text))
    paths = _paths("systems")
    if text not in paths:
        hint = _system_hint(text)
        raise UsageError(
            f"{one_of('system', text, list(paths))}; or give the path of a YAML file{hint}"
        )
    return read_system(paths[text])


def list_gpus() -> list[str]:
    """Names of the known GPUs, sorted."""
    return sorted(_paths("gpus"))


def list_systems() -> list[str]:
    """Names of the known systems, sorted."""
    return sorted(_paths("systems"))


def gpu_of_device(device: str) -> Gpu:
    """The GPU whose driver reports ``device``, by exact match: an unknown one is an error.

    Raises UsageError, since a guess would silently take another part's peaks.
    """
    # Most files never mention the device and need no parsing; YAML may write it with escapes,
    # so that where none does all are read.
    devices = _devices(device)
    if device not in devices:
        devices = _devices()
    if device not in devices:
        raise UsageError(
            f"device {device!r} is not in the hardware library; pass --system with a name from "
            f"`codesign hw list`, or a YAML file that describes it and lists it under aliases"
        )
    return load_gpu(devices[device])


def system_of_gpu(gpu: str) -> System:
    """The one known system built of ``gpu`` (a spec name).

    Raises UsageError if there is none or more than one.
    """
    near = [name for name, path in sorted(_paths("systems").items()) if _mentions(path, gpu)]
    found = [s for s in map(load_system, near) if s.gpu.name == gpu]
    if not found:
        found = [s for s in map(load_system, list_systems()) if s.gpu.name == gpu]
    if len(found) != 1:
        names = ", ".join(s.name for s in found) or "none"
        raise UsageError(f"systems with GPU {gpu!r}: {names}; pass --system to say which")
    return found[0]


def spec_files() -> list[tuple[str, Path]]:
    """Every known file as (``gpus`` or ``systems``, path), sorted."""
    return [(kind, p) for kind in ("gpus", "systems") for _, p in sorted(_paths(kind).items())]


def read_gpu(path: Path, check: bool = True) -> Gpu:
    """The GPU described by the file at ``path``; ``check=False`` leaves the lints out."""
    return _read_gpu(path, _stamp(path), check)


def read_system(path: Path, check: bool = True) -> System:
    """The system described by the file at ``path``; ``check=False`` leaves the lints out."""
    return _read_system(path, _stamp(path), check)


def is_system_file(name: str) -> bool:
    """Whether ``name`` is a path to a file that describes a system: it names its GPU."""
    return _is_path(name) and "gpu" in load_yaml(Path(name))


def check_file(path: Path) -> None:
    """Read one GPU or system file with every lint. Raises DataError with all its problems."""
    if is_system_file(os.fspath(path)):
        read_system(path)
    else:
        read_gpu(path)


def check_library() -> list[str]:
    """Problems between files: a device that two of them claim, levers, costs."""
    from codesign.hardware.costs import load_costs
    from codesign.hardware.lever_specs import shipped_levers

    problems = []
    for check in (shipped_levers, load_costs, _devices):
        try:
            check()
        except DataError as error:
            problems.append(str(error))
    return problems


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or os.sep in text


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does, so that the cache never serves an old spec."""
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
    return status.st_mtime_ns, status.st_size


def _folders() -> list[Path]:
    extra = [Path(p) for p in os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep) if p]
    for folder in extra:
        if not folder.is_dir():
            raise UsageError(f"{SEARCH_VARIABLE}: {folder} is not a folder")
    return [*extra, data_dir("hwspecs")]


def _paths(kind: str) -> dict[str, Path]:
    """File by name; an earlier folder wins over a later one."""
    found: dict[str, Path] = {}
    for folder in _folders():
        for path in sorted((folder / kind).glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def _mentions(path: Path, text: str) -> bool:
    return text.encode("utf-8", "replace") in read_bytes(path, MAX_YAML_BYTES)


def _devices(wanted: str | None = None) -> dict[str, str]:
    """Spec name by device name, of all files or of those that mention the one ``wanted``.

    Raises DataError if two files claim one device.
    """
    owner: dict[str, str] = {}
    for name, path in _paths("gpus").items():
        if wanted is not None and not _mentions(path, wanted):
            continue
        for alias in read_gpu(path).aliases:
            if owner.setdefault(alias, name) != name:
                raise DataError(f"{path}: aliases: {alias!r} is also claimed by {owner[alias]}")
    return owner


def _system_hint(text: str) -> str:
    """If a GPU was named where a system belongs, which systems have it."""
    if text not in _paths("gpus"):
        return ""
    names = [s for s in list_systems() if load_system(s).gpu.name == text]
    return f" ({text} is a GPU, found in: {', '.join(names)})" if names else ""


@cache
def _read_gpu(path: Path, stamp: tuple[int, int], check: bool) -> Gpu:  # noqa: ARG001
    top = Section(str(path), load_yaml(path))
    top.allow(_GPU_KEYS)
    clocks, memory, l2, nvlink = (top.section(k) for k in ("clocks", "memory", "l2", "nvlink"))
    clocks.allow(("tensor", "boost"))
    memory.allow(("capacity", "bandwidth", "kind", "stacks"))
    l2.allow(("capacity",))
    die = top.section("die", required=False)
    die.allow(("area_mm2", "count"))
    nvlink.allow(("kind", "generation", "links", "bandwidth_per_direction"))
    if top.values.get("peak_dense") is None:
        raise DataError(f"{top.place('peak_dense')}: missing; expected dense peaks by precision")
    peaks = top.section("peak_dense")
    peaks.allow(PEAKS)
    memory.text("kind")
    gpu = Gpu(
        name=_name(top, path),
        vendor=top.text("vendor"),
        architecture=top.text("architecture"),
        sm_count=top.integer("sm_count", 1, 100_000),
        tensor_clock_hz=clocks.quantity("tensor", "hertz"),
        boost_clock_hz=clocks.quantity("boost", "hertz"),
        peak_dense_flops_per_s={
            key: peaks.quantity(key, "flop/s") for key in PEAKS if key in peaks.values
        },
        hbm_capacity_bytes=memory.quantity("capacity", "byte", bits=False),
        hbm_bandwidth_bytes_per_s=memory.quantity("bandwidth", "byte/s", bits=False),
        l2_capacity_bytes=l2.quantity("capacity", "byte", bits=False),
        nvlink_bandwidth_bytes_per_s=nvlink.quantity("bandwidth_per_direction", "byte/s"),
        power_w=top.quantity("power", "watt"),
        hbm_stacks=memory.optional_integer("stacks", 0, 64),
        nvlink_links=nvlink.optional_integer("links", 0, 1024),
        dies=top.integer("dies", 1, 64) if "dies" in top.values else 1,
        die_area_mm2=_die_area(die),
        die_count=die.optional_integer("count", 1, 64) or 1,
        aliases=_aliases(top),
        status=top.choice("status", STATUSES, "shipping"),
        sources=_by_leaf(top, "sources"),
        labels=_by_leaf(top, "labels"),
        notes=top.texts("notes"),
    )
    if check:
        _raise(validate.gpu_problems(gpu, top))
    return gpu


@cache
def _read_system(path: Path, stamp: tuple[int, int], check: bool) -> System:  # noqa: ARG001
    content = load_yaml(path)
    if "gpu" not in content and "sm_count" in content:
        raise DataError(
            f"{path}: describes a GPU, and a system is expected: a file beside it with "
            f"`gpu: {path.name}`, the NVLink domain and the network, like those in hwspecs/systems"
        )
    top = Section(str(path), content)
    top.allow(_SYSTEM_KEYS)
    name = _name(top, path)
    gpu_name = top.text("gpu")
    # A path in the file is relative to the file; a name is looked up like any other.
    try:
        gpu = load_gpu(path.parent / gpu_name if _is_path(gpu_name) else gpu_name)
    except CodesignError as error:
        raise DataError(f"{top.place('gpu')}: {error}") from error
    system = System(
        name=name,
        gpu=gpu,
        nvlink_domain=top.integer("nvlink_domain", 1, 100_000),
        nvlink_bandwidth_bytes_per_s=top.quantity("nvlink_bandwidth_per_direction", "byte/s"),
        scaleout_bandwidth_bytes_per_s=top.quantity("scaleout_bandwidth_per_direction", "byte/s"),
        launch_latency_s=top.quantity("launch_latency", "second"),
        in_switch_reduction=top.flag("in_switch_reduction", False),
        host=top.choice("host", HOSTS, "") if "host" in top.values else "",
        title=top.text("title", ""),
        status=top.choice("status", STATUSES, "shipping"),
        base=name,
        sources=_by_leaf(top, "sources"),
        labels=_by_leaf(top, "labels"),
        notes=top.texts("notes"),
    )
    if check:
        _raise(validate.system_problems(system, top))
    return system


class ProblemsError(DataError):
    """All that is wrong with one file; each of ``problems`` is a line of its own."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def _raise(problems: list[str]) -> None:
    if problems:
        raise ProblemsError(problems)


def _name(top: Section, path: Path) -> str:
    """The name, which a file in a library folder bears too: look-ups go by file name."""
    name = top.text("name")
    if path.parent.name in ("gpus", "systems") and name != path.stem:
        raise DataError(f"{top.place('name')}: {quoted(name)}; the file's name says {path.stem!r}")
    return name


def _die_area(die: Section) -> float | None:
    value = die.values.get("area_mm2")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 10 <= value <= 2000:
        raise DataError(
            f"{die.place('area_mm2')}: expected a number from 10 to 2000, got {quoted(value)}"
        )
    return float(value)


def _aliases(top: Section) -> tuple[str, ...]:
    value = top.values.get("aliases", [])
    if not isinstance(value, list) or not all(isinstance(a, str) and a for a in value):
        raise DataError(f"{top.place('aliases')}: expected a list of exact device names")
    return tuple(value)


def _by_leaf(top: Section, key: str) -> dict[str, str]:
    """``sources`` or ``labels`` by the key path of each single value.

    In the file an entry for a section (``memory``) stands for every value under
    it that has no entry of its own.
    """
    given = top.texts(key)
    known = leaf_paths(top)
    result: dict[str, str] = {}
    for path, value in given.items():
        if key == "labels" and value not in LABELS:
            raise DataError(
                f"{top.place(f'labels.{path}')}: {quoted(value)}; allowed: {', '.join(LABELS)}"
            )
        leaves = [leaf for leaf in known if leaf == path or leaf.startswith(f"{path}.")]
        if not leaves:
            raise DataError(f"{top.place(f'{key}.{path}')}: there is no such key in this file")
        for leaf in leaves:
            if leaf == path or leaf not in given:
                result[leaf] = value
    return result


def leaf_paths(top: Section) -> list[str]:
    """Key paths of the single values of a file, without its commentary."""
    paths: list[str] = []
    for key, value in top.values.items():
        if key in (*_COMMENTARY, "name", "title", "aliases", "vendor", "status"):
            continue
        paths += [f"{key}.{inner}" for inner in value] if isinstance(value, dict) else [key]
    return paths
