"""Kernels that Nsight Compute measured as a characterization, and what it cannot say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError
from codesign._common.files import sha256
from codesign._common.text import quoted
from codesign.sources._devices import system_name
from codesign.sources.kineto import classify
from codesign.sources.ncu.read import read_ncu
from codesign.workload.characterization import (
    Characterization,
    Header,
    Quality,
    Reliability,
    SourceFile,
)

if TYPE_CHECKING:
    import pandas as pd

_ALONE = Reliability(False, ("each kernel was replayed by itself: there is no time line",))
_CONDITIONS = (
    "Nsight Compute replays each kernel alone, by default with caches flushed and the clock "
    "locked to base: times are those of a cold kernel, not of the workload"
)
_TOLERATED_PERCENT = 101.0


def characterize_ncu(
    path: str | Path, *, system: str | None = None, workload: str | None = None
) -> Characterization:
    """The kernels of ``read_ncu`` as ops: a row per kernel, grid and block.

    ``count`` is the number of profiled launches, ``time_s`` their sum, ``bytes`` the DRAM
    traffic that was *measured* (other sources: the algorithmic minimum). No steps,
    idle or exposed time: those are null or unreliable. The device's name is in raw
    pages only; without it and without ``system`` the header's system is None.

    Raises DataError as ``read_ncu``, and if no kernel has a duration; UsageError for an
    unknown system.
    """
    from codesign.workload.schema import ops_frame

    path = Path(path)
    kernels = read_ncu(path)
    if kernels["duration_s"].isna().all():
        raise DataError(
            f"{path}: no durations; collect --section SpeedOfLight or "
            "--metrics gpu__time_duration.sum"
        )
    if (negative := kernels["duration_s"] < 0).any():
        first = kernels[negative].iloc[0]
        raise DataError(
            f"{path}: kernel {quoted(str(first['kernel']))} has a duration of "
            f"{first['duration_s']:.4g} s; expected 0 or more: the page is damaged"
        )
    name, unknown = system_name(system, [kernels.attrs["device_name"]])
    ops = ops_frame(_rows(kernels, path.name))
    total = float(ops["time_s"].sum())
    known = float(ops["time_s"].where(ops["bytes"].notna(), 0.0).sum()) / total if total else 0.0
    quality = Quality(
        known_work_share=known, shape_coverage=0.0, steps_found=0, steps_by="none",
        reliability=dict.fromkeys(("steps", "step_time", "idle", "exposed", "launch"), _ALONE)
        | {"flops": Reliability(False, ("no shapes: FLOPs are unknown",))},
        warnings=(_CONDITIONS, *unknown, *_doubts(kernels)),
    )  # fmt: skip
    header = Header(
        workload=workload or path.stem, system=name, capture_method="nsight-compute",
        sources=(SourceFile(path.name, sha256(path), path.stat().st_size),), quality=quality,
        totals={"kernels": float(len(kernels)), "kernel_time_s": total},
        notes=("bytes are DRAM traffic as counted by the hardware, not an algorithmic minimum",),
    )  # fmt: skip
    return Characterization(header, ops)


def _rows(kernels: pd.DataFrame, source: str) -> list[dict[str, object]]:
    keys = ["kernel", "grid", "block"]
    grouped = kernels.groupby(keys, sort=False, dropna=False)
    shapes = Counter(kernels.drop_duplicates(keys)["kernel"].astype(str))
    rows: list[dict[str, object]] = []
    for (kernel_key, grid, _), launches in grouped:
        kernel = str(kernel_key)
        op_class = classify.kernel_class(kernel)
        short = classify.short_name(kernel) or "unnamed"
        # One kernel on several grids is several ops, since its shapes differ.
        name = f"{short} {grid}" if shapes[kernel] > 1 else short
        row: dict[str, object] = {
            "op_class": op_class, "name": name, "kernel": kernel, "count": float(len(launches)),
            "time_s": _total(launches["duration_s"]), "bytes": _total(launches["dram_bytes"]),
            "dram_bytes": _total(launches["dram_bytes"]),
            **{c: _weighted(launches, c) for c in ("sm_percent", "dram_percent")},
            "evidence": "measured", "source": source,
            "precision": classify.kernel_precision(kernel),
        }  # fmt: skip
        if op_class == "collective":
            row["collective"] = classify.collective_kind(kernel)
        rows.append(row)
    return rows


def _total(values: pd.Series[float]) -> float | None:
    """The sum, None if a launch lacks the value: a part of a sum is not the sum."""
    return None if values.isna().any() else float(values.sum())


def _weighted(launches: pd.DataFrame, column: str) -> float | None:
    """Mean over launches by their duration, None if one lacks the value."""
    time, values = launches["duration_s"], launches[column]
    if values.isna().any() or time.isna().any() or not float(time.sum()) > 0:
        return None
    return float((values * time).sum() / time.sum())


def _doubts(kernels: pd.DataFrame) -> list[str]:
    found = [f"the profiler says: {text}" for text in kernels.attrs["warnings"]]
    for column in ("sm_percent", "dram_percent", "memory_percent"):
        over = kernels[column] > _TOLERATED_PERCENT
        if over.any():
            worst = int(kernels[column].to_numpy(dtype=float, na_value=0.0).argmax())
            share, kernel = float(kernels[column].max()), str(kernels["kernel"].iloc[worst])[:80]
            found.append(
                f"{column} {share:.4g} of {kernel} is above 100: {int(over.sum())} kernels have "
                "an invalid share of peak"
            )
    unknown = int(kernels["duration_s"].isna().sum())
    if unknown:
        found.append(f"{unknown} kernels have no duration")
    return found
