"""A GPU specification as its YAML file holds it, checked and turned into a `Gpu`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from codesign._common.errors import DataError
from codesign._common.units import parse_quantity
from codesign._common.yamlfiles import load_yaml
from codesign.hardware.model import Gpu

STATUSES = ("shipping", "announced", "hypothetical")
LABELS = ("recalled", "disputed", "derived", "assumed")
PEAK_KEYS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8")
RATIO_TOLERANCE = 0.05
CLOCK_TOLERANCE = 0.03

_KEYS = {
    "name", "vendor", "architecture", "aliases", "status", "sm_count", "clocks",
    "flop_per_clock_per_sm", "peak_dense", "memory", "l2", "nvlink", "power", "dies",
    "exceptions", "labels", "notes", "sources",
}  # fmt: skip
_SECTIONS = {
    "clocks": {"tensor", "boost"},
    "memory": {"capacity", "bandwidth", "kind", "stacks"},
    "l2": {"capacity"},
    "nvlink": {"kind", "links", "bandwidth_per_direction"},
}


class Reader:
    """Typed access to a mapping; each error names file, key path and what was expected."""

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self.content = content
        self.where = where

    def get(self, path: str) -> Any:
        """Value at a dotted path, or None."""
        value: Any = self.content
        for key in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def require(self, path: str) -> Any:
        """Value at a dotted path; DataError if it is missing."""
        value = self.get(path)
        if value is None:
            raise self.error(path, "is missing")
        return value

    def error(self, path: str, message: str) -> DataError:
        """The error for a key path."""
        return DataError(f"{self.where}: {path}: {message}")

    def known_keys(self, path: str, allowed: set[str]) -> None:
        """Refuse keys of a section that nobody would read."""
        section = self.content if not path else self.get(path)
        if section is None:
            return
        if not isinstance(section, dict):
            raise self.error(path, "expected a mapping of keys")
        for key in section:
            if key not in allowed:
                place = f"{path}.{key}" if path else str(key)
                raise self.error(place, f"unknown key; allowed: {', '.join(sorted(allowed))}")

    def text(self, path: str, allowed: tuple[str, ...] = ()) -> str:
        """A string, one of ``allowed`` if given."""
        value = self.require(path)
        if not isinstance(value, str) or not value.strip():
            raise self.error(path, f"expected text, got {value!r}")
        if allowed and value not in allowed:
            raise self.error(path, f"{value!r} is not one of: {', '.join(allowed)}")
        return value

    def whole(self, path: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self.get(path)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
            raise self.error(path, f"expected a whole number from 1 to 1000000, got {value!r}")
        return value

    def quantity(self, path: str, unit: str) -> float:
        """A positive quantity with its unit, in SI."""
        value = parse_quantity(self.require(path), unit, f"{self.where}: {path}")
        if value <= 0:
            raise self.error(path, f"{self.get(path)!r} is not positive")
        return value

    def strings(self, path: str) -> dict[str, str]:
        """A mapping of text to text, empty if absent."""
        value = self.get(path) or {}
        if not isinstance(value, dict) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in value.items()
        ):
            raise self.error(path, "expected a mapping of text to text")
        return value


def read_gpu(path: Path) -> Gpu:
    """Read and check one GPU file.

    Raises DataError naming file, key path and what was expected, the physical checks
    of `lint` included.
    """
    reader = Reader(load_yaml(path), str(path))
    gpu = _build(reader)
    problems = lint(reader)
    if problems:
        raise DataError(f"{path}: {problems[0].key}: {problems[0].message}")
    return gpu


def _build(reader: Reader) -> Gpu:
    reader.known_keys("", _KEYS)
    for section, keys in _SECTIONS.items():
        reader.require(section)
        reader.known_keys(section, keys)
    reader.require("peak_dense")
    reader.known_keys("peak_dense", set(PEAK_KEYS))
    for path, label in reader.strings("labels").items():
        if label not in LABELS:
            raise reader.error(
                f"labels.{path}", f"{label!r} is not one of: {', '.join(sorted(LABELS))}"
            )
    aliases = reader.get("aliases") or []
    if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise reader.error("aliases", "expected a list of device names as drivers report them")
    nvlink = reader.get("nvlink.links")
    stacks = reader.get("memory.stacks")
    return Gpu(
        name=reader.text("name"),
        vendor=reader.text("vendor"),
        architecture=reader.text("architecture"),
        aliases=tuple(aliases),
        status=reader.text("status", STATUSES),
        sm_count=reader.whole("sm_count"),
        tensor_clock_hz=reader.quantity("clocks.tensor", "hertz"),
        boost_clock_hz=reader.quantity("clocks.boost", "hertz"),
        peak_dense_flops_per_s={
            key: reader.quantity(f"peak_dense.{key}", "flop/s")
            for key in PEAK_KEYS
            if reader.get(f"peak_dense.{key}") is not None
        },
        hbm_capacity_bytes=reader.quantity("memory.capacity", "byte"),
        hbm_bandwidth_bytes_per_s=_memory_bandwidth(reader),
        hbm_stacks=None if stacks is None else reader.whole("memory.stacks"),
        l2_capacity_bytes=reader.quantity("l2.capacity", "byte"),
        nvlink_bandwidth_bytes_per_s=reader.quantity("nvlink.bandwidth_per_direction", "byte/s"),
        nvlink_links=None if nvlink is None else reader.whole("nvlink.links"),
        power_w=reader.quantity("power", "watt"),
        dies=reader.whole("dies", default=1),
        sources=reader.strings("sources"),
        labels=reader.strings("labels"),
        notes=reader.strings("notes"),
    )


def _memory_bandwidth(reader: Reader) -> float:
    path = "memory.bandwidth"
    text = str(reader.require(path))
    # Memory is always quoted in bytes: a figure in bits is a slip of eight.
    if "b/s" in text or "bit" in text:
        raise reader.error(path, f"{text!r} is in bits; memory bandwidth is given in bytes (TB/s)")
    return reader.quantity(path, "byte/s")


class Problem(NamedTuple):
    """A physical check that does not hold, and no exception says why."""

    key: str
    message: str


def lint(reader: Reader) -> list[Problem]:
    """Physical checks: dense against sparse, peak against units x rate x clock."""
    exceptions = reader.strings("exceptions")
    found = [*_precision_ratio(reader), *_peak_closes(reader), *_clock_order(reader)]
    return [problem for problem in found if problem.key not in exceptions]


def _precision_ratio(reader: Reader) -> list[Problem]:
    peaks = {
        key: reader.quantity(f"peak_dense.{key}", "flop/s")
        for key in ("bf16", "fp8")
        if reader.get(f"peak_dense.{key}") is not None
    }
    if len(peaks) < 2:
        return []
    ratio = peaks["fp8"] / peaks["bf16"]
    # 1.0 is a part whose fp8 runs at the bf16 rate: real, and not the sparse slip.
    if min(abs(ratio - 2) / 2, abs(ratio - 1)) <= RATIO_TOLERANCE:
        return []
    return [
        Problem(
            "peak_dense.fp8",
            f"fp8/bf16 = {ratio:.2f}, expected 2: a sparse peak among dense ones? "
            "If it is right, say why under exceptions",
        )
    ]


def _peak_closes(reader: Reader) -> list[Problem]:
    rate = reader.get("flop_per_clock_per_sm")
    if rate is None:
        return []
    per_clock = reader.whole("flop_per_clock_per_sm")
    key = "bf16" if reader.get("peak_dense.bf16") is not None else "fp16"
    if reader.get(f"peak_dense.{key}") is None:
        return []
    peak = reader.quantity(f"peak_dense.{key}", "flop/s")
    built = reader.whole("sm_count") * per_clock * reader.quantity("clocks.tensor", "hertz")
    if abs(built / peak - 1) <= CLOCK_TOLERANCE:
        return []
    return [
        Problem(
            f"peak_dense.{key}",
            f"SMs x FLOP/clock x tensor clock = {built / 1e12:.1f} TFLOP/s, "
            f"{built / peak - 1:+.1%} from the peak; expected within 3 %",
        )
    ]


def _clock_order(reader: Reader) -> list[Problem]:
    tensor = reader.quantity("clocks.tensor", "hertz")
    boost = reader.quantity("clocks.boost", "hertz")
    if tensor <= boost * 1.001:
        return []
    return [Problem("clocks.tensor", "is above the boost clock")]
