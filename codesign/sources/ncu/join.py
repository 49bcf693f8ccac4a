"""Counters of Nsight Compute put to the ops of a characterization as evidence."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from codesign._common.errors import DataError
from codesign._common.files import sha256
from codesign._common.text import encodable, printable
from codesign.sources.kineto import classify
from codesign.sources.ncu.read import read_ncu
from codesign.workload.characterization import Characterization, SourceFile
from codesign.workload.schema import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

_SAME = 0.1
"""Launches of one kernel whose counters differ by more than this share ran other shapes."""
_SPACE = re.compile(r"\s+")
_SHARES = ("sm_percent", "dram_percent")


@dataclass(frozen=True)
class _Counters:
    """Means over the profiled launches of one kernel; None where not collected."""

    launches: int
    dram_bytes: float | None
    sm_percent: float | None
    dram_percent: float | None
    alike: bool
    """Whether all launches moved about the same bytes."""


def join_ncu(char: Characterization, paths: Sequence[str | Path]) -> Characterization:
    """``char`` with ``dram_bytes``, ``sm_percent`` and ``dram_percent`` of the kernels that
    Nsight Compute profiled, ``dram_bytes`` in B a step.

    A row's kernel is found by its whole name; by its name without template arguments and
    parameters where the page has no more and that is one kernel only. Where the launches of
    a kernel differ, as of other shapes, and several rows run it, which is whose is unknown:
    those rows stay null and are counted. Times and work stay those of ``char``.

    Raises DataError as ``read_ncu``, and if no kernel of ``char`` was profiled.
    """
    by_name: dict[str, list[dict[str, float]]] = defaultdict(list)
    devices, sources = set(), []
    for path in map(Path, paths):
        kernels = read_ncu(path)
        if kernels.attrs["device_name"]:
            devices.add(kernels.attrs["device_name"])
        sources.append(SourceFile(encodable(path.name), sha256(path), path.stat().st_size))
        for record in kernels[["kernel", "dram_bytes", *_SHARES]].to_dict("records"):
            by_name[_whole(str(record.pop("kernel")))].append(
                {str(k): float(v) for k, v in record.items()}
            )
    counters = {name: _counters(found) for name, found in by_name.items()}
    ops, joined, unclear = _joined(char.ops, counters)
    if not joined:
        names = ", ".join(printable(n)[:60] for n in list(counters)[:3])
        raise DataError(
            f"{', '.join(map(str, paths))}: none of its {len(counters)} kernels ({names}) is one "
            f"of {char.header.workload}; profile the kernels of the same run"
        )
    time = ops["time_s"].to_numpy(dtype=float, na_value=0.0)
    total = float(time.sum()) or 1.0
    has = ops[["dram_bytes", *_SHARES]].notna().any(axis=1).to_numpy(dtype=bool)
    note = (
        f"Nsight Compute: counters of {len(joined)} of {len(counters)} profiled kernels, "
        f"{float(time[has].sum()) / total:.0%} of op time"
    )
    warnings = list(char.header.quality.warnings)
    if unclear:
        warnings.append(
            f"{unclear} ops have no counters: their kernel was profiled with launches that differ, "
            "and which is whose is unknown"
        )
    quality = msgspec.structs.replace(char.header.quality, warnings=tuple(warnings))
    notes = (*char.header.notes, note, *(f"counters from {printable(d)}" for d in sorted(devices)))
    header = msgspec.structs.replace(
        char.header, quality=quality, notes=notes, sources=(*char.header.sources, *sources)
    )
    return Characterization(header, ops)


def _whole(name: str) -> str:
    """A kernel's name as profilers agree on it: no return type, single spaces."""
    return _SPACE.sub(" ", name).strip().removeprefix("void ").strip()


def _counters(launches: list[dict[str, float]]) -> _Counters:
    moved = [v for x in launches if not math.isnan(v := x["dram_bytes"])]
    mean = _mean(moved)
    alike = not moved or max(moved) - min(moved) <= _SAME * (mean or 0.0)
    shares = [_mean([v for x in launches if not math.isnan(v := x[k])]) for k in _SHARES]
    return _Counters(len(launches), mean, shares[0], shares[1], alike)


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _joined(
    ops: pd.DataFrame, counters: dict[str, _Counters]
) -> tuple[pd.DataFrame, set[str], int]:
    """The ops, the profiled kernels that were found, and how many ops stay unclear."""
    kernels = [_whole(str(k)) if isinstance(k, str) else "" for k in ops["kernel"]]
    rows_of: dict[str, int] = defaultdict(int)
    by_short: dict[str, set[str]] = defaultdict(set)
    for kernel in kernels:
        rows_of[kernel] += 1
        by_short[classify.short_name(kernel)].add(kernel)
    values: dict[str, list[float | None]] = {c: [] for c in ("dram_bytes", *_SHARES)}
    joined: set[str] = set()
    unclear = 0
    for kernel, count in zip(kernels, ops["count"], strict=True):
        name = kernel
        if name not in counters and kernel:
            short = classify.short_name(kernel)
            bare = next((n for n in (short, short.rpartition("::")[2]) if n in counters), "")
            name = bare if len(by_short[short]) == 1 else ""
            unclear += bool(bare and not name)
        known = counters.get(name) if name else None
        if known is not None and not known.alike and rows_of[kernel] > 1:
            known, unclear = None, unclear + 1
        if known is not None:
            joined.add(name)
        bytes_per_call = known.dram_bytes if known else None
        values["dram_bytes"].append(
            None if bytes_per_call is None else bytes_per_call * float(count)
        )
        for share in _SHARES:
            values[share].append(getattr(known, share) if known else None)
    out = ops.copy()
    for column, found in values.items():
        out[column] = _column(found, COLUMNS[column].dtype)
    return out, joined, unclear


def _column(values: list[float | None], dtype: str) -> pd.Series[float]:
    import pandas as pd

    made: pd.Series[float] = pd.Series(values, dtype="object").astype(dtype)  # type: ignore[call-overload]
    return made
