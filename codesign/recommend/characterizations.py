"""Characterizations of a portfolio's workloads: found on disk, else made on the fly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError, UsageError
from codesign.workload.characterization import Characterization

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.portfolio import Portfolio, WorkloadEntry
    from codesign.sources.perfdb import PerfDB


def load_characterizations(
    portfolio: Portfolio, base: System, folder: str | Path | None = None
) -> tuple[dict[str, Characterization], tuple[Path, ...]]:
    """Characterizations by workload name, and the files that were read.

    A recipe is looked up as ``folder/<recipe>.parquet`` and composed on ``base`` from
    measured kernels if it is not there. Other paths are relative to the portfolio's
    file. Raises UsageError for a folder that does not exist or a missing extra,
    DataError for an unreadable file.
    """
    where = None if folder is None else Path(folder)
    if where is not None and not where.is_dir():
        raise UsageError(f"{where}: no such folder of characterizations")
    here = Path(portfolio.path).parent if portfolio.path else Path()
    chars: dict[str, Characterization] = {}
    files: list[Path] = []
    database: list[PerfDB] = []
    for entry in portfolio.workloads:
        if entry.recipe is not None:
            found = None if where is None else where / f"{entry.name}.parquet"
            if found is None or not found.is_file():
                chars[entry.name] = _composed(entry.recipe, base, here, database)
                continue
            paths = [found]
        else:
            paths = _paths(entry, here)
        chars[entry.name] = _read(paths, base)
        files += paths
    return chars, tuple(files)


def _composed(recipe: str, base: System, here: Path, database: list[PerfDB]) -> Characterization:
    from codesign.sources.compose import compose
    from codesign.sources.perfdb import PerfDB
    from codesign.workload.recipe import load_recipe

    beside = here / recipe
    is_path = recipe.endswith((".yaml", ".yml"))
    known = load_recipe(beside if is_path and beside.is_file() else recipe)
    if not database:
        database.append(PerfDB())
    return compose(known, database[0], base)


def _paths(entry: WorkloadEntry, here: Path) -> list[Path]:
    if entry.characterization is not None:
        return [here / entry.characterization]
    pattern = entry.trace or ""
    absolute = Path(pattern)
    root = Path(absolute.anchor) if absolute.is_absolute() else here
    parts = str(absolute.relative_to(root)) if absolute.is_absolute() else pattern
    found = sorted(root.glob(parts))
    if not found:
        raise DataError(f"{here / pattern}: no trace matches; expected at least one file")
    return found


def _read(paths: list[Path], base: System) -> Characterization:
    from codesign.sources import read

    if len(paths) == 1 and paths[0].suffix == ".parquet":
        return Characterization.load(paths[0])
    return read(paths, system=base.name)
