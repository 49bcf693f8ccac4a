"""An XPlane file to a characterization: the public entry."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np

from codesign._common.errors import DataError
from codesign._common.files import require_ordinary, sha256
from codesign._common.text import encodable, printable
from codesign._common.units import format_si
from codesign.hardware import load_system
from codesign.sources._protobuf import Buffer, WireError
from codesign.sources.kineto.rank import characterize_rank
from codesign.sources.xplane._rows import named_rows
from codesign.sources.xplane._space import Space, read_space
from codesign.sources.xplane._trace import Columns, build, device_planes
from codesign.workload.characterization import Characterization, Header, Reliability, SourceFile

if TYPE_CHECKING:
    import pandas as pd

_MAX_MESSAGES = 5
_SUFFIXES = (".pb", ".xplane")


def read_xplane(
    path: str | Path,
    *,
    system: str | None = None,
    workload: str | None = None,
    allow_truncated: bool = False,
) -> Characterization:
    """Characterize a profile of JAX or TensorFlow, an XSpace in a ``.xplane.pb`` file.

    The ops are those of the busiest GPU or TPU; ``header.steps`` has every one by itself.
    Time, steps, exposed and idle follow the conventions of the Kineto reader, whose time
    line this uses. Dims, FLOPs and bytes come from the compiled programs (HLO) that the
    file carries, else from what the profiler states.

    Args:
        path: the file.
        system: name of the system; an XSpace does not name its GPUs.
        workload: name of the workload; by default the file's.
        allow_truncated: read the planes before the cut of a file that was cut short.

    Raises:
        DataError: the file is no XSpace, is damaged or cut, or holds no device activity.
        UsageError: an unknown system.
    """
    path = Path(path)
    if system is not None:
        system = load_system(system).name
    with _mapped(path) as data:
        try:
            space = read_space(data)
            _check(space, path, allow_truncated)
            columns = build(data, space)
        except WireError as error:
            raise DataError(
                f"{path}: not a readable XSpace (.xplane.pb): {error}; capture again"
            ) from error
        lead = characterize_rank(columns.trace, str(path), system)
        ops = named_rows(lead.ops, columns)
    ops["source"] = encodable(path.name)
    header = _header(lead.header, ops, space, columns)
    return Characterization(header, ops).with_header(
        workload=workload or _stem(path),
        sources=(SourceFile(encodable(path.name), sha256(path), path.stat().st_size),),
    )


@contextmanager
def _mapped(path: Path) -> Iterator[Buffer]:
    """The file's bytes without reading them all. Raises DataError."""
    require_ordinary(path)
    try:
        with path.open("rb") as stream:
            if path.stat().st_size == 0:
                raise DataError(f"{path}: empty; expected an XSpace (.xplane.pb)")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield cast("Buffer", data)
    except (OSError, ValueError) as error:
        if isinstance(error, WireError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error


def _check(space: Space, path: Path, allow_truncated: bool) -> None:
    if space.cut_at is not None and not allow_truncated:
        raise DataError(
            f"{path}: truncated at byte {space.cut_at} after {len(space.planes)} complete planes; "
            "capture again, or pass --allow-truncated to read those"
        )
    if not device_planes(space):
        names = ", ".join(printable(p.name)[:40] for p in space.planes[:6]) or "none"
        said = f"; it says: {printable(space.errors[0])[:200]}" if space.errors else ""
        raise DataError(
            f"{path}: no device activity: no GPU or TPU plane with ops (planes: {names}); "
            f"capture on a GPU or TPU with jax.profiler.trace{said}"
        )


def _stem(path: Path) -> str:
    name = path.name
    while name.endswith(_SUFFIXES):
        name = name.rpartition(".")[0]
    return name or path.name


# What the Kineto reader advises, in this profiler's words.
_ADVICE = {
    "coverage: 0 % of GPU time has shapes": "coverage: 0 % of device time has shapes, FLOPs are "
    "unknown: the file carries no HLO of its programs",
    "no steps are marked (": "no steps are marked by jax.profiler.StepTraceAnnotation: the whole "
    "capture counts as one step",
    "the trace names no device": "an XSpace names no GPU; pass --system to say what it ran on",
    "Python call stacks": "Python frames were traced, which slows the host: idle time is an upper "
    "bound; capture with python_tracer_level=0",
}
_STALE = "the work of "


def _header(header: Header, ops: pd.DataFrame, space: Space, columns: Columns) -> Header:
    known, shaped = _coverage(ops)
    warnings = [_reworded(w) for w in header.quality.warnings]
    reliability = {
        q: Reliability(r.reliable, tuple(_reworded(t) for t in r.reasons))
        for q, r in header.quality.reliability.items()
    }
    # The rows have gained their work since that was judged.
    warnings = [w for w in warnings if not w.startswith(_STALE)]
    warnings = [w for w in warnings if not (shaped and w.startswith("coverage: 0 %"))]
    reliability["flops"] = Reliability(True)
    if known < 0.5:
        text = f"the work of {1 - known:.0%} of device time is unknown"
        warnings.append(text)
        reliability["flops"] = Reliability(False, (text,))
    told = [*space.errors, *space.warnings]
    warnings += [f"the profiler says: {printable(m)[:200]}" for m in told[:_MAX_MESSAGES]]
    steps_by = columns.steps.by if columns.steps.windows else header.quality.steps_by
    quality = msgspec.structs.replace(
        header.quality, known_work_share=known, shape_coverage=shaped,
        warnings=tuple(dict.fromkeys(warnings)), reliability=reliability,
        steps_by=steps_by,
    )  # fmt: skip
    notes = [f"steps by {steps_by}"]
    notes += [_device_note(p.name, p.stats) for p in device_planes(space)[:1]]
    if space.hosts:
        notes.append(f"host: {printable(space.hosts[0])[:100]}")
    return msgspec.structs.replace(
        header, quality=quality, capture_method="xplane", notes=tuple(notes)
    )


def _device_note(name: str, stats: dict[str, int | float | str]) -> str:
    """What the file says of its devices, so that one can tell the system from it."""
    told = [str(stats.get("device_vendor", "")), str(stats.get("device_type_string", ""))]
    if isinstance(major := stats.get("compute_cap_major"), int):
        told.append(f"compute capability {major}.{stats.get('compute_cap_minor', 0)}")
    if isinstance(cores := stats.get("core_count"), int):
        told.append(f"{cores} SMs or CUs")
    if isinstance(memory := stats.get("memory_size"), int) and memory >= 0:
        told.append(f"{format_si(float(memory), 'B')} of memory")
    if isinstance(rate := stats.get("memory_bandwidth"), int) and rate >= 0:
        told.append(f"{format_si(float(rate), 'B/s')}")
    return printable(f"device {name.removeprefix('/device:')}: {', '.join(filter(None, told))}")[
        :300
    ]


def _reworded(text: str) -> str:
    return next((new for old, new in _ADVICE.items() if text.startswith(old)), text)


def _coverage(ops: pd.DataFrame) -> tuple[float, float]:
    """Shares of kernel time with known work and with shapes."""
    ran = ops[~ops["kernel"].str.startswith(("Memcpy", "Memset")).fillna(False)]
    time = ran["time_s"].to_numpy(dtype=float, na_value=0.0)
    total = float(time.sum()) or 1.0
    work = ran[["flops", "bytes", "wire_bytes"]].notna().any(axis=1).to_numpy(dtype=bool)
    dims = ran[["m", "message_bytes", "flops"]].notna().any(axis=1).to_numpy(dtype=bool)
    return float(np.sum(time[work])) / total, float(np.sum(time[dims])) / total
