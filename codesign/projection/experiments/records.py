"""The experiments that come as data: ``hwspecs/experiments/*.yaml``, read strictly.

A file holds ``experiments:``, a list of records. What a record claims is checked when it is
read: every quantity that differs between the two systems must be named under ``moved`` with
its factor, so that no experiment hides what else changed.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from codesign._common.errors import CodesignError, DataError, UsageError, one_of
from codesign._common.files import data_dir
from codesign._common.records import convert
from codesign._common.yamlfiles import load_yaml
from codesign.hardware import load_system
from codesign.hardware.lever_specs import NAMES as LEVER_NAMES
from codesign.hardware.levers import lever_value
from codesign.hardware.load import SEARCH_VARIABLE
from codesign.hardware.load import check_file as check_specification
from codesign.hardware.model import System
from codesign.workload.recipe import Recipe, decode_recipe, recipe_path
from codesign.workload.schema import COLUMNS

SOFTWARE_LEVERS = ("precision", "communication_sms", "ranks", "generation")
"""What else an experiment may move: no single quantity of the hardware."""
DERIVED = ("weight_elements", "expert_ranks", "comm_sms")
"""Columns that a filter may name beside those of the ops table: n x k, experts_total / experts,
and the SMs given to communication."""
MOVED_TOLERANCE = 0.01


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers from ``min`` to ``max``, both included."""

    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        if self.min is None and self.max is None:
            raise ValueError("expected min, max or both")


Condition = str | float | int | Range


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side of an experiment."""

    system: str
    where: dict[str, Condition] = {}
    """Rows of the kernel tables that belong to this side alone."""
    recipe: str | None = None
    set: dict[str, Any] = {}
    """Keys of the recipe that this side has otherwise."""


class Kernels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows of the kernel tables are compared; the same ops on both sides."""

    op_class: str
    framework: Literal["trtllm", "vllm", "sglang"] = "trtllm"
    table: str | None = None
    """One table by name; by default all those of the op class that models are fitted to."""
    where: dict[str, Condition] = {}
    statistic: Literal["median", "p90"] = "median"
    """Over the ratios of single ops. Medians hide a lever that few rows feel: then p90."""


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time before / time after, as measured: above 1 is faster."""

    by: Literal["kernels", "composed", "published"]
    """``kernels``: the ratio of the tables' own rows. ``composed``: of whole workloads put
    together from them. ``published``: a number that the source states."""
    ratio: float
    spread: tuple[float, float] | None = None
    """10th to 90th percentile over ops; lowest to highest of published results."""
    n: int | None = None
    """Ops, or published pairs."""
    tolerance: float = 0.02
    """How far, relatively, the ratio may be from what the tables give today."""

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1000:
            raise ValueError(f"ratio = {self.ratio:g}, expected above 0 and below 1000")
        if not 0 < self.tolerance <= 0.2:
            raise ValueError(f"tolerance = {self.tolerance:g}, expected above 0, at most 0.2")
        if self.spread is not None and not self.spread[0] <= self.ratio <= self.spread[1]:
            raise ValueError("spread does not hold the ratio")


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One lever moved, one ratio measured."""

    name: str
    title: str
    lever: str
    """What it tests: a hardware lever, or one of `SOFTWARE_LEVERS`."""
    before: Side
    after: Side
    measured: Measured
    hold_out: tuple[str, ...]
    """GPUs that the model must not have seen: that of the system after, and its siblings."""
    source: str
    moved: dict[str, float] = {}
    """Every quantity that differs by more than 1 %, with after / before."""
    role: Literal["test", "control"] = "test"
    """A control moves the same hardware under work that the lever should hardly move."""
    kernels: Kernels | None = None
    confounders: tuple[str, ...] = ()
    """What else differed, so that the ratio is not the lever's alone."""

    @property
    def where(self) -> tuple[str, ...]:
        """Columns by which the ops of the two sides differ."""
        return tuple(sorted({*self.before.where, *self.after.where} - {"time_s"}))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    experiments: tuple[Experiment, ...]


def load_experiments(names: tuple[str, ...] = ()) -> tuple[Experiment, ...]:
    """The shipped experiments and those of `SEARCH_VARIABLE`, in order; or ``names`` of them.

    Raises UsageError for an unknown name, DataError (file, key) for a bad record.
    """
    known: dict[str, Experiment] = {}
    for path in experiment_files():
        for experiment in read_experiments(path):
            if experiment.name in known:
                raise DataError(f"{path}: experiment {experiment.name}: the name is taken")
            known[experiment.name] = experiment
    for name in names:
        if name not in known:
            raise UsageError(one_of("experiment", name, [*known]))
    return tuple(known[name] for name in names or known)


def experiment_files() -> list[Path]:
    """Every file of experiments, the shipped ones first."""
    extra = [Path(p) for p in os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep) if p]
    folders = [data_dir("hwspecs"), *extra]
    return [path for f in folders for path in sorted((f / "experiments").glob("*.yaml"))]


def read_experiments(path: Path) -> tuple[Experiment, ...]:
    """The records of one file. Raises DataError naming the file, the record and the key."""
    return _read(path, path.stat().st_mtime_ns)


def check_file(path: Path) -> None:
    """Check one file of experiments, or of a GPU or system. Raises DataError with its problems."""
    if "experiments" in load_yaml(path):
        read_experiments(path)
    else:
        check_specification(path)


@lru_cache(maxsize=64)
def _read(path: Path, stamp: int) -> tuple[Experiment, ...]:  # noqa: ARG001
    found = convert(load_yaml(path), _File, str(path)).experiments
    for index, experiment in enumerate(found):
        try:
            _check(experiment)
        except CodesignError as error:
            place = f"{path}: experiments[{index}] ({experiment.name})"
            raise DataError(f"{place}: {error}") from error
    return found


def _check(e: Experiment) -> None:
    """Raise DataError, beginning with the key, for a record that contradicts itself."""
    for key in ("name", "title", "source"):
        if not getattr(e, key).strip():
            raise DataError(f"{key}: empty")
    if e.lever not in (*LEVER_NAMES, *SOFTWARE_LEVERS):
        raise DataError(f"lever: {one_of('lever', e.lever, [*LEVER_NAMES, *SOFTWARE_LEVERS])}")
    before, after = _system(e.before, "before"), _system(e.after, "after")
    if after.gpu.name not in e.hold_out:
        raise DataError(f"hold_out: lacks {after.gpu.name}, the GPU of the system after")
    _check_moved(e, before, after)
    if (e.kernels is not None) != (e.measured.by == "kernels"):
        raise DataError("measured.by: 'kernels' goes with a 'kernels' section, and only with one")
    if e.measured.by == "composed" and not (e.before.recipe and e.after.recipe):
        raise DataError("measured.by: 'composed' needs a recipe before and after")
    if (e.before.recipe is None) != (e.after.recipe is None):
        raise DataError("after.recipe: name a recipe on both sides, or on neither")
    for key, side in (("before", e.before), ("after", e.after)):
        _check_columns(side.where, f"{key}.where")
        if side.recipe is not None:
            recipe_of(side)
    if e.kernels is not None:
        _check_columns(e.kernels.where, "kernels.where")


def _system(side: Side, key: str) -> System:
    try:
        return load_system(side.system)
    except CodesignError as error:
        raise DataError(f"{key}.system: {error}") from error


def _check_columns(where: dict[str, Condition], key: str) -> None:
    for column in where:
        if column not in COLUMNS and column not in DERIVED:
            raise DataError(f"{key}: {one_of('column', column, [*COLUMNS, *DERIVED])}")


def _check_moved(e: Experiment, before: System, after: System) -> None:
    """``moved`` must say what the hardware library says of the two systems, and all of it."""
    factors = moved_factors(before, after)
    for key, factor in e.moved.items():
        if key in SOFTWARE_LEVERS:
            continue
        if key not in LEVER_NAMES:
            known = [*LEVER_NAMES, *SOFTWARE_LEVERS]
            raise DataError(f"moved: {one_of('quantity', key, known)}")
        actual = factors.get(key, 1.0)
        if abs(factor / actual - 1.0) > MOVED_TOLERANCE:
            raise DataError(
                f"moved.{key}: {factor:g}, but from {before.name} to {after.name} it moves by "
                f"{actual:.3f}"
            )
    for key, factor in factors.items():
        if key not in e.moved:
            raise DataError(
                f"moved.{key}: missing; it differs by x{factor:.3f} between {before.name} and "
                f"{after.name}"
            )


def moved_factors(before: System, after: System) -> dict[str, float]:
    """After / before of every quantity that both have and that differs by more than 1 %."""
    found = {}
    for lever in LEVER_NAMES:
        try:
            factor = lever_value(after, lever) / lever_value(before, lever)
        except UsageError:  # One of the two has no such rate.
            continue
        if abs(factor - 1.0) > MOVED_TOLERANCE:
            found[lever] = factor
    return found


def recipe_of(side: Side) -> Recipe:
    """The recipe of a side with its own keys set. Raises DataError or UsageError."""
    if side.recipe is None:
        raise DataError("recipe: missing")
    path = recipe_path(side.recipe)
    return decode_recipe(_merged(load_yaml(path), side.set), f"{path} with its 'set'")


def _merged(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(content)
    for key, value in changes.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged
