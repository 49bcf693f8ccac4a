"""The portfolio file: which workloads, what they weigh, which levers are studied."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from codesign._common.errors import CodesignError, DataError, UsageError, one_of
from codesign._common.files import data_dir, sha256
from codesign._common.records import convert
from codesign._common.yamlfiles import load_yaml
from codesign.hardware.lever_specs import NAMES
from codesign.hardware.levers import LEVERS, SMALLEST_FACTOR, read_change

if TYPE_CHECKING:
    from codesign.hardware.model import System

CostKind = Literal["money", "area", "power"]
COST_UNITS = {"money": "USD per GPU", "area": "mm2 per GPU", "power": "W per GPU"}
MAX_STEPS = 50
"""Steps of one lever; each costs a projection of every workload in every draw."""
MAX_WORKLOADS = 200
MAX_SCENARIOS = 20
MAX_GPUS = 100_000
LARGEST_STEP = 1000.0
"""Factor of a step; no shipped part is a thousand times another in anything."""
AMBIGUOUS_FACTOR = 10.0
"""From here on a bare number of SMs or of GPUs per domain is hardly meant as a factor."""
WEIGHTS_NOTE = "weights added up to"
_WEIGHT_TOLERANCE = 1e-6


class WorkloadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One workload: exactly one of ``recipe``, ``characterization`` and ``trace``."""

    weight: float
    """Share of the fleet's GPU-hours, on any scale: only its part of the sum counts."""
    recipe: str | None = None
    """Name of a shipped recipe, or path of one."""
    characterization: str | None = None
    """Path of a characterization file, relative to the portfolio."""
    trace: str | None = None
    """Path or pattern of trace files, relative to the portfolio."""
    title: str = ""
    gpus: int | None = None
    """Of a recipe that trains: how many GPUs it runs on, to be re-planned over them."""

    @property
    def source(self) -> str:
        """What was given."""
        return self.recipe or self.characterization or self.trace or ""

    @property
    def name(self) -> str:
        """Name by which the workload is spoken of: that of its recipe or file."""
        name = Path(self.source).name
        for suffix in (".yaml", ".yml", ".parquet", ".gz", ".json", ".pt.trace", ".sqlite"):
            name = name.removesuffix(suffix)
        return name or self.source


class Portfolio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is recommended for. See ``reports/portfolios/default.yaml`` for an example."""

    title: str
    baseline: str
    """System that all gains are against: a name, or a YAML file relative to the portfolio."""
    workloads: tuple[WorkloadEntry, ...]
    audience: str = ""
    levers: dict[str, tuple[float | str, ...]] = {}
    """Lever -> factors (1.5) or values as `hardware.levers.parse_lever` reads them; empty
    means every lever at the steps of ``hwspecs/levers.yaml``."""
    ranking: CostKind = "power"
    """Cost by which gains are divided to rank."""
    budgets: dict[CostKind, float] = {}
    """Most that a recommended step may cost per GPU: USD, mm2, W."""
    saturation_threshold: float = 0.005
    """A lever is saturated where another 10 % of it gains less than this."""
    min_gain: float = 0.02
    """Least gain, as a fraction, that makes a step worth recommending."""
    draws: int = 200
    seed: int = 0
    pairs: int = 6
    """Pairs of levers reported."""
    scenarios: dict[str, dict[str, float]] = {}
    """Name -> workload -> weight: other fleets, by which the levers are ranked once more."""
    notes: tuple[str, ...] = ()
    requested: dict[str, Any] = {}
    """What of it a command line set, by key; everything else is the file's or the default."""
    path: str = ""
    """File that it came from; set by `load_portfolio`."""
    sha256: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workloads, in order."""
        return tuple(entry.name for entry in self.workloads)

    @property
    def weights(self) -> dict[str, float]:
        """Workload -> weight."""
        return {entry.name: entry.weight for entry in self.workloads}

    @property
    def folder(self) -> Path:
        """What paths in the file are relative to."""
        return Path(self.path).parent if self.path else Path()

    def place(self, key: str) -> str:
        """File and key path, the opening of every message about a value of the portfolio."""
        return f"{self.path}: {key}" if self.path else f"portfolio: {key}"


_SET_BY_READING = ("path", "sha256", "requested")


def load_portfolio(name_or_path: str | Path) -> Portfolio:
    """Read a portfolio by its shipped name or from a file.

    Weights that do not add up to 1 are normalised, and a note says so. Raises
    UsageError for an unknown name, DataError (file, key path) for bad content.
    """
    path = portfolio_path(name_or_path)
    content = load_yaml(path)
    for key in _SET_BY_READING:
        if key in content:
            raise DataError(f"{path}: {key}: unknown key; it is set when the file is read")
    portfolio = convert(content, Portfolio, str(path), own=_SET_BY_READING)
    _check(portfolio, str(path))
    known = _normalised(msgspec.structs.replace(portfolio, path=str(path), sha256=sha256(path)))
    # Against the file's own weights, whatever a command line sets them to afterwards.
    whole = {name: in_scenario(known, name).weights for name in known.scenarios}
    return msgspec.structs.replace(known, scenarios=whole)


def baseline_of(portfolio: Portfolio) -> System:
    """The system that gains are against.

    Raises DataError, naming the file's key, if there is none of that name or file;
    UsageError for a portfolio that came from no file.
    """
    from codesign.hardware import load_system

    name = portfolio.baseline
    beside = portfolio.folder / name
    is_path = name.endswith((".yaml", ".yml"))
    try:
        return load_system(beside if is_path and beside.is_file() else name)
    except CodesignError as error:
        if not portfolio.path:
            raise
        raise DataError(f"{portfolio.place('baseline')}: {error}") from error


def portfolio_path(name_or_path: str | Path) -> Path:
    """File of a shipped portfolio's name, or the path itself. Raises UsageError for neither."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        return path
    shipped = data_dir("reports") / "portfolios" / f"{name_or_path}.yaml"
    if path.name == str(name_or_path) and shipped.is_file():
        return shipped
    raise UsageError(
        f"{one_of('portfolio', str(name_or_path), list_portfolios())}; or give a .yaml file"
    )


def list_portfolios() -> list[str]:
    """Names of the shipped portfolios."""
    return sorted(p.stem for p in (data_dir("reports") / "portfolios").glob("*.yaml"))


def reweighted(portfolio: Portfolio, weights: dict[str, float]) -> Portfolio:
    """The portfolio with some weights set; the others share the rest as they did before.

    Raises UsageError for an unknown workload or weights that leave the rest nothing.
    """
    for name, weight in weights.items():
        if name not in portfolio.names:
            raise UsageError(one_of("workload", name, list(portfolio.names)))
        if not (math.isfinite(weight) and 0 <= weight <= 1):
            raise UsageError(f"weight of {name}: {weight}, expected 0 to 1")
    fixed = sum(weights.values())
    rest = sum(e.weight for e in portfolio.workloads if e.name not in weights)
    if fixed > 1 + _WEIGHT_TOLERANCE or (rest == 0 and abs(fixed - 1) > _WEIGHT_TOLERANCE):
        expected = "at most 1" if rest else "1"
        raise UsageError(f"the weights given add up to {fixed:g}, expected {expected}")
    scale = max(1 - fixed, 0.0) / rest if rest else 0.0
    entries = tuple(
        msgspec.structs.replace(e, weight=weights.get(e.name, e.weight * scale))
        for e in portfolio.workloads
    )
    said = ", ".join(f"{name} = {weight:g}" for name, weight in sorted(weights.items()))
    note = f"weights set on request: {said}; the others share the rest in proportion"
    return msgspec.structs.replace(portfolio, workloads=entries, notes=(*portfolio.notes, note))


def in_scenario(portfolio: Portfolio, name: str) -> Portfolio:
    """The portfolio with the weights of one of its scenarios.

    A scenario that names every workload weighs them on any scale; what another leaves out
    shares the rest as `reweighted` has it, so that an empty one is the portfolio as
    weighted. Raises UsageError for an unknown scenario, DataError (file, key) for weights that
    cannot be.
    """
    if name not in portfolio.scenarios:
        raise UsageError(one_of("scenario", name, list(portfolio.scenarios)))
    place = portfolio.place(f"scenarios.{name}")
    weights = portfolio.scenarios[name]
    bad = [w for w in weights.values() if not (math.isfinite(w) and w >= 0)]
    if bad:
        raise DataError(f"{place}: weight {bad[0]}, expected a share of 0 or more")
    if set(weights) == set(portfolio.names):
        total = sum(weights.values())
        if not (math.isfinite(total) and total > 0):
            raise DataError(f"{place}: the weights add up to {total:g}, expected more than 0")
        weights = {workload: weight / total for workload, weight in weights.items()}
    try:
        made = reweighted(portfolio, weights)
    except UsageError as error:
        raise DataError(f"{place}: {error}") from error
    return msgspec.structs.replace(made, notes=portfolio.notes)


def _normalised(portfolio: Portfolio) -> Portfolio:
    total = sum(entry.weight for entry in portfolio.workloads)
    if abs(total - 1) <= _WEIGHT_TOLERANCE:
        return portfolio
    entries = tuple(
        msgspec.structs.replace(e, weight=e.weight / total) for e in portfolio.workloads
    )
    note = f"{WEIGHTS_NOTE} {total:g} and were divided by it"
    return msgspec.structs.replace(portfolio, workloads=entries, notes=(*portfolio.notes, note))


def _check(portfolio: Portfolio, where: str) -> None:
    if not portfolio.workloads:
        raise DataError(f"{where}: workloads: empty; expected at least one")
    if len(portfolio.workloads) > MAX_WORKLOADS:
        raise DataError(
            f"{where}: workloads: {len(portfolio.workloads)}, expected at most {MAX_WORKLOADS}"
        )
    for index, entry in enumerate(portfolio.workloads):
        key = f"{where}: workloads[{index}]"
        given = [n for n in ("recipe", "characterization", "trace") if getattr(entry, n)]
        if len(given) != 1:
            raise DataError(
                f"{key}: expected exactly one of recipe, characterization and trace, "
                f"got {' and '.join(given) or 'none'}"
            )
        if not (math.isfinite(entry.weight) and entry.weight >= 0):
            raise DataError(f"{key}.weight: {entry.weight}, expected a share of 0 or more")
        if entry.gpus is not None and not 1 <= entry.gpus <= MAX_GPUS:
            raise DataError(f"{key}.gpus: {entry.gpus}, expected 1 to {MAX_GPUS}")
        if entry.gpus is not None and not entry.recipe:
            raise DataError(f"{key}.gpus: only a recipe can be spread over more GPUs")
        if not entry.name:
            raise DataError(f"{key}: {entry.source!r} names no file")
    if not math.isfinite(sum(entry.weight for entry in portfolio.workloads)):
        raise DataError(f"{where}: workloads: the weights add up to more than can be counted")
    if sum(entry.weight for entry in portfolio.workloads) <= 0:
        raise DataError(f"{where}: workloads: all weights are 0")
    for name in portfolio.names:
        if portfolio.names.count(name) > 1:
            raise DataError(f"{where}: workloads: {name!r} stands there twice; merge the weights")
    _check_numbers(portfolio, where)
    _check_scenarios(portfolio, where)


def _check_scenarios(portfolio: Portfolio, where: str) -> None:
    if len(portfolio.scenarios) > MAX_SCENARIOS:
        raise DataError(
            f"{where}: scenarios: {len(portfolio.scenarios)}, expected at most {MAX_SCENARIOS}"
        )
    for name, weights in portfolio.scenarios.items():
        if not name:
            raise DataError(f"{where}: scenarios: expected a name before {weights}")
        in_scenario(msgspec.structs.replace(portfolio, path=where), name)


def _check_numbers(portfolio: Portfolio, where: str) -> None:
    for lever, steps in portfolio.levers.items():
        checked_steps(lever, steps, f"{where}: levers.{lever}")
    ranges = {"draws": (10, 100_000), "pairs": (0, 1_000), "seed": (0, 2**63 - 1),
              "saturation_threshold": (0, 1), "min_gain": (0, 1)}  # fmt: skip
    for key, (low, high) in ranges.items():
        if not low <= getattr(portfolio, key) <= high:
            raise DataError(
                f"{where}: {key}: {getattr(portfolio, key)}, expected {low:g} to {high:g}"
            )
    for kind, budget in portfolio.budgets.items():
        if not (math.isfinite(budget) and budget >= 0):
            raise DataError(f"{where}: budgets.{kind}: {budget}, expected 0 or more")


def checked_steps(lever: str, steps: tuple[float | str, ...], key: str) -> None:
    """Refuse steps of a lever that no part could make: DataError that opens with ``key``."""
    if lever not in NAMES:
        raise DataError(f"{key}: {one_of('lever', lever, NAMES)}")
    if not steps:
        raise DataError(
            f"{key}: empty; expected at least one step, such as [1.25, 1.5]; leave the lever out "
            "if it is not to be studied"
        )
    if len(steps) > MAX_STEPS:
        raise DataError(f"{key}: {len(steps)} steps, expected at most {MAX_STEPS}")
    for index, step in enumerate(steps):
        _check_step(lever, step, f"{key}[{index}]")


def _check_step(lever: str, step: float | str, key: str) -> None:
    """Refuse what no part could be; what this baseline cannot be is for the study to say."""
    if isinstance(step, str):
        try:
            change = read_change(f"{lever}={step}")
        except UsageError as error:
            raise DataError(f"{key}: {error}") from error
        if change.absolute:
            return
        step = change.number
    elif LEVERS[lever].counts and step >= AMBIGUOUS_FACTOR:
        raise DataError(
            f"{key}: {step:g} would be a factor, x{step:g}; write "
            f"'{step:.0f} {LEVERS[lever].unit}' for the value, or 'x{step:g}' for the factor"
        )
    if not SMALLEST_FACTOR <= step <= LARGEST_STEP:
        raise DataError(
            f"{key}: {step:g}, expected a factor of {SMALLEST_FACTOR:g} to {LARGEST_STEP:g}"
        )
