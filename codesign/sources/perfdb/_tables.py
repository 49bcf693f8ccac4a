"""Reads table files: only the columns needed, checked, cleaned, cached."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from codesign._common.errors import DataError
from codesign.sources.perfdb._catalog import FOLDERS, TABLES, Table, files

_MIN_COPIED_ROWS = 10
"""Rows below which equal times may be chance."""


@dataclass(frozen=True)
class RawTable:
    """Rows of one table on one GPU, as measured; ``time`` columns in the file's own unit."""

    frame: pd.DataFrame
    paths: tuple[Path, ...]
    version: str
    """Version that the rows carry, which may differ from the folder's name."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows left out, by reason."""
    original: str | None = None
    """GPU whose file holds the same rows, if these are a copy."""


def read_raw(
    root: Path, folder: str, stem: str, framework: str, copies: bool = False
) -> RawTable | None:
    """One table on one GPU, or None if it was not measured there.

    Rows without a positive finite time, rows that another GPU measured, and files whose
    content is another GPU's are dropped and counted; repeats of one shape become their
    median. With ``copies`` it is the other way round: only files that are another GPU's.
    Raises DataError if a file is unreadable, lacks a column, or holds no row of this GPU.
    """
    table = TABLES[stem]
    dropped: dict[str, int] = {}
    frames, paths, originals = [], [], set()
    for path in files(root, folder, stem, framework):
        original = _copied_from(path, root, folder, table)
        if bool(original) == copies:
            frames.append(_read_file(path, table))
            paths.append(path)
            originals.add(original)
        elif original:
            dropped[f"a copy of {original}"] = _row_count(path)
    if not paths:
        return None
    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    frame = _keep(frame, _of_device(frame, folder), "measured on another GPU", dropped)
    times = frame[list(table.time)].to_numpy(dtype=float)
    good = np.isfinite(times).all(axis=1) & (times >= 0).all(axis=1) & (times.sum(axis=1) > 0)
    frame = _keep(frame, good, "time not positive", dropped)
    if frame.empty:
        raise DataError(f"{paths[0]}: no usable row of {FOLDERS[folder][1][0]}")
    version = _version(frame, tuple(paths))
    shape = [c for c in table.shape if c in frame]
    repeats = int(frame.duplicated(shape).sum())
    if repeats:
        dropped["repeated shape, median kept"] = repeats
        frame = frame.groupby(shape, as_index=False, sort=True)[list(table.time)].median()
    frame = frame[[*shape, *table.time]]
    original = " and ".join(sorted(FOLDERS[name][0] for name in originals if name)) or None
    return RawTable(frame, tuple(paths), version, dropped, original)


def _read_file(path: Path, table: Table) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        source = pq.ParquetFile(path)
        present = set(source.schema_arrow.names)
        supplied = {name: value for name, value in table.absent if name not in present}
        missing = [c for c in (*table.shape, *table.time) if c not in present | set(supplied)]
        if missing:
            raise DataError(f"{path}: no column {missing[0]!r}; the table's layout has changed")
        columns = [c for c in ("version", "device", *table.shape, *table.time) if c in present]
        frame: pd.DataFrame = source.read(columns=list(dict.fromkeys(columns))).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable: {str(error).splitlines()[0]}") from error
    if supplied and "version" in frame:
        # Goes where the version goes: into the source of every time read from it.
        said = ", ".join(f"{name} {value}" for name, value in supplied.items())
        frame["version"] = frame["version"].astype(str) + f" (no column: {said})"
    return frame.assign(**supplied)


@lru_cache(maxsize=256)
def _copied_from(path: Path, root: Path, folder: str, table: Table) -> str | None:
    """Folder of an earlier GPU whose file holds the same rows under other labels, or None.

    No two GPUs measure the same times in every row: such a file is one measurement given
    twice, and would be scored against itself. The earlier GPU of ``FOLDERS`` keeps it.
    """
    columns = [*table.shape, *table.time]
    size = _row_count(path)
    for other in FOLDERS:
        if other == folder:
            return None
        theirs = root / other / path.relative_to(root / folder)
        if size < _MIN_COPIED_ROWS or not theirs.is_file() or _row_count(theirs) != size:
            continue
        pair = [
            frame[columns].sort_values(columns).to_numpy()
            for frame in (_read_file(path, table), _read_file(theirs, table))
        ]
        if bool((pair[0] == pair[1]).all()):
            return other
    return None


def _row_count(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable: {str(error).splitlines()[0]}") from error


def _of_device(frame: pd.DataFrame, folder: str) -> np.ndarray:
    """Rows measured on the GPU that the folder names; old files do not say, and count as its."""
    if "device" not in frame:
        return np.ones(len(frame), dtype=bool)
    result: np.ndarray = (
        frame["device"].isin(FOLDERS[folder][1]) | frame["device"].isna()
    ).to_numpy(dtype=bool)
    return result


def _keep(
    frame: pd.DataFrame, good: np.ndarray, reason: str, dropped: dict[str, int]
) -> pd.DataFrame:
    bad = int((~good).sum())
    if not bad:
        return frame
    dropped[reason] = bad
    return frame[good].reset_index(drop=True)


def _version(frame: pd.DataFrame, paths: tuple[Path, ...]) -> str:
    if "version" in frame:
        found = sorted({str(v) for v in frame["version"].dropna().unique()})
        if found:
            return " + ".join(found)
    return " + ".join(path.parent.name for path in paths)
