"""Characterizations of a portfolio's workloads: found on disk, else made on the fly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.workload.characterization import Characterization

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.portfolio import Portfolio, WorkloadEntry
    from codesign.sources.perfdb import PerfDB
    from codesign.workload.recipe import Recipe


def load_characterizations(
    portfolio: Portfolio,
    base: System,
    folder: str | Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Characterization], tuple[Path, ...]]:
    """Characterizations by workload name, and the files that were read.

    A recipe is looked up as ``folder/<recipe>.parquet`` and composed on ``base`` from
    measured kernels if it is not there. Other paths are relative to the portfolio's
    file. ``note`` is told what is read. Raises UsageError for a folder that does not exist or
    holds none of them, or a missing extra, DataError (portfolio, key) for what the portfolio
    names in vain.
    """
    where = None if folder is None else Path(folder)
    if where is not None and not where.is_dir():
        raise UsageError(f"{where}: no such folder of characterizations")
    # All that is cheap to check first: a misspelt name must not wait for the work of others.
    found: list[Recipe | list[Path]] = []
    for index, entry in enumerate(portfolio.workloads):
        kind = next(k for k in ("recipe", "characterization", "trace") if getattr(entry, k))
        try:
            found.append(_found(entry, portfolio.folder, where))
        except CodesignError as error:
            place = portfolio.place(f"workloads[{index}].{kind}")
            raise DataError(f"{place}: {error}") from error
    recipes = {e.name: f for e, f in zip(portfolio.workloads, found, strict=True) if e.recipe}
    if where is not None and recipes and not any(isinstance(f, list) for f in recipes.values()):
        raise UsageError(f"{where}: expected files of the workloads, such as "
                         f"{next(iter(recipes))}.parquet; there is none")  # fmt: skip
    chars: dict[str, Characterization] = {}
    database: list[PerfDB] = []
    for entry, source in zip(portfolio.workloads, found, strict=True):
        if isinstance(source, list):
            note(f"reading {entry.name}")
            chars[entry.name] = _read(source, base)
        else:
            note(f"composing {entry.name} from measured kernels")
            chars[entry.name] = _composed(source, base, database)
    return chars, tuple(path for source in found if isinstance(source, list) for path in source)


def _found(entry: WorkloadEntry, here: Path, folder: Path | None) -> Recipe | list[Path]:
    """The files of a workload, or the recipe to compose."""
    if entry.recipe is None:
        return _paths(entry, here)
    made = None if folder is None else folder / f"{entry.name}.parquet"
    if made is not None and made.is_file():
        return [made]
    from codesign.workload.recipe import load_recipe

    beside = here / entry.recipe
    is_path = entry.recipe.endswith((".yaml", ".yml"))
    return load_recipe(beside if is_path and beside.is_file() else entry.recipe)


def _composed(recipe: Recipe, base: System, database: list[PerfDB]) -> Characterization:
    from codesign.sources.compose import compose
    from codesign.sources.perfdb import PerfDB

    if not database:
        database.append(PerfDB())
    return compose(recipe, database[0], base)


def _paths(entry: WorkloadEntry, here: Path) -> list[Path]:
    if entry.characterization is not None:
        path = here / entry.characterization
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        return [path]
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
