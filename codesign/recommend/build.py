"""The whole run: portfolio, characterizations and model to the recommendations file."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign._common.files import sha256
from codesign.hardware.cost_ranges import draw_inputs
from codesign.hardware.costs import cost_draws, cost_of, die_note, load_costs
from codesign.hardware.levers import system_title
from codesign.recommend.assumptions import assumptions
from codesign.recommend.at_scale import portfolio_at_scale
from codesign.recommend.blind_errors import blind_errors
from codesign.recommend.capture_warnings import capture_warnings, other_device
from codesign.recommend.caveats import ASSUMED_INTERVAL, Doubt, doubts, general_warnings, worthwhile
from codesign.recommend.compare import Older, compare
from codesign.recommend.contradiction import missed_together
from codesign.recommend.fingerprints import fingerprints, settings
from codesign.recommend.ledger import ledger
from codesign.recommend.other_costs import first_by
from codesign.recommend.packages import plan_packages
from codesign.recommend.pairs import pair_results, pair_systems
from codesign.recommend.portfolio import COST_UNITS, Portfolio, baseline_of
from codesign.recommend.rank import Pick, p_best, ranking_rule, recommendation
from codesign.recommend.rank_sensitivity import rank_sensitivity
from codesign.recommend.ranked import ranked
from codesign.recommend.scenarios import scenarios
from codesign.recommend.schema import (
    Backtest,
    Cost,
    CostItem,
    LeverResult,
    Provenance,
    Recommendation,
    Recommendations,
    WorkloadResult,
)
from codesign.recommend.software import software
from codesign.recommend.study import Evaluation, Study
from codesign.recommend.workloads import workload_result
from codesign.recommend.worth import verdict_rule, worth
from codesign.recommend.would_change import sentences

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_SOFTWARE = ("numpy", "pandas", "scipy", "statsmodels", "aiconfigurator-core")


@dataclass(frozen=True)
class Inputs:
    """Files that a run was made from, for its provenance."""

    model: str = ""
    files: tuple[Path, ...] = ()


def recommend(
    portfolio: Portfolio,
    chars: Mapping[str, Characterization],
    model: Any,
    backtest: Backtest | None = None,
    *,
    costs: Costs | None = None,
    base: System | None = None,
    inputs: Inputs | None = None,
    older: Older | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Recommendations:
    """Study every lever over the portfolio and rank them. The same input, the same result.

    ``chars`` hold a characterization by workload name, all on the portfolio's
    baseline. ``model`` is a `sensitivity.SensitivityModel`. ``costs`` default to those
    shipped. ``older`` is a file to compare with, which fills ``changes``. Raises UsageError for
    a missing characterization, one of another system, an unknown lever or baseline.
    """
    start = base or baseline_of(portfolio)
    _check(portfolio, chars, start)
    prices = costs or load_costs()
    study = Study(portfolio, start, chars, model, model.draws(portfolio.draws, portfolio.seed))

    def price(system: System) -> Cost | None:
        return cost_record(start, system, prices)

    found = ranked(study, price, backtest)
    evaluation, picks = found.evaluation, list(found.picks)
    results, firsts = list(found.results), list(found.firsts)
    candidates, planned = pair_systems(study, picks), plan_packages(study, picks, prices)
    # In one go, since what every draw needs first does not depend on the number of systems.
    both = study.evaluate([*(system for _, _, system in candidates), *planned.systems.values()])
    pairs = pair_results(study, evaluation, candidates, price, both)
    workloads = _workloads(study, evaluation)
    erring, minor = blind_errors(study, evaluation, picks, backtest)
    known = [*doubts(study, evaluation, picks), *erring]
    advised, silent = software(chars, study.weights, start, model)
    spread, moved, tried = rank_sensitivity(study, evaluation, picks, prices)
    made = Recommendations(
        title=portfolio.title, audience=portfolio.audience, generated_at=timestamp(),
        baseline=start.name, baseline_title=system_title(start),
        ranking_cost=COST_UNITS[portfolio.ranking],
        recommendations=_recommendations(
            study, evaluation, picks, [*known, *minor], prices),
        levers=_as_ranked(results, [p.result.lever for p in picks]),
        pairs=pairs, workloads=workloads, backtest=backtest or Backtest(),
        assumptions=assumptions(study, prices),
        warnings=_warnings(study, evaluation, picks, known, workloads, backtest),
        provenance=_provenance(study, inputs or Inputs(), prices, backtest),
        ranking_rule=ranking_rule(portfolio), verdict_rule=verdict_rule(portfolio),
        first_by=first_by(portfolio, results, firsts), software=advised, software_silent=silent,
        packages=planned.studies(both, len(candidates), price), rank_sensitivity=spread,
        first_moved=moved, first_changes_tried=tried, ledger=ledger(study, evaluation, picks),
        scenarios=scenarios(found, price, backtest),
        at_scale=portfolio_at_scale(study, evaluation, picks),
    )  # fmt: skip
    if older is None:
        return made
    changes = compare(older, made, found, price, backtest, note)
    return msgspec.structs.replace(made, changes=changes)


def _recommendations(
    study: Study, evaluation: Evaluation, picks: list[Pick], known: list[Doubt], prices: Costs
) -> tuple[Recommendation, ...]:
    drawn = _drawn_costs(study, evaluation, picks, prices)
    probability = p_best(study, evaluation, picks, drawn)
    return tuple(
        recommendation(
            study, evaluation, chosen, rank=place + 1, p=probability.get(chosen.result.lever),
            would_change=sentences(study, evaluation, picks, place, drawn),
            verdict=worth(study.portfolio, picks, place),
            caveats=_caveats(chosen, known),
        )
        for place, chosen in enumerate(picks)
    )  # fmt: skip


def _caveats(chosen: Pick, known: list[Doubt]) -> tuple[str, ...]:
    lever = chosen.result.lever
    found = [
        f"{doubt.text}: {how}" for doubt in known for name, _, how in doubt.levers if name == lever
    ]
    if chosen.result.status == "assumed" and chosen.point is not None:
        found.append(ASSUMED_INTERVAL)
    return tuple(found)


def _drawn_costs(
    study: Study, evaluation: Evaluation, picks: list[Pick], prices: Costs
) -> dict[str, Array]:
    """Lever -> (draws,) ranking cost of its step, on cost values that all levers share."""
    inputs = draw_inputs(prices.values, study.portfolio.draws, study.portfolio.seed)
    kind = study.portfolio.ranking
    found = {}
    for chosen in picks:
        if chosen.cost_value(study.portfolio) is None:
            continue
        drawn = cost_draws(study.base, evaluation.systems[chosen.index], kind, inputs)
        if drawn is not None:
            found[chosen.result.lever] = drawn
    return found


def _as_ranked(results: list[LeverResult], order: list[str]) -> tuple[LeverResult, ...]:
    return tuple(sorted(results, key=lambda r: order.index(r.lever)))


def _workloads(study: Study, evaluation: Evaluation) -> tuple[WorkloadResult, ...]:
    return tuple(
        workload_result(study, entry, evaluation.projections[entry.name])
        for entry in study.portfolio.workloads
    )


def cost_record(before: System, after: System, costs: Costs) -> Cost | None:
    """Cost of a step as the file holds it; None where no kind of cost is known."""
    cost = cost_of(before, after, costs)
    area, power, money = (CostItem(**asdict(i)) for i in (cost.area, cost.power, cost.money))
    if all(i.value is None for i in (area, power, money)):
        return None
    return Cost(area, power, money, die_note(before, cost.area, costs))


def timestamp() -> str:
    """Now in UTC to the second, or SOURCE_DATE_EPOCH for a reproducible file."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isdecimal() else int(time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _check(portfolio: Portfolio, chars: Mapping[str, Characterization], base: System) -> None:
    for entry in portfolio.workloads:
        char = chars.get(entry.name)
        if char is None:
            raise UsageError(f"workload {entry.name}: no characterization was given for it")
        if char.header.system not in (None, base.name, base.base or base.name):
            raise UsageError(
                f"workload {entry.name} was characterized on {char.header.system}, but the "
                f"portfolio's baseline is {base.name}; characterize it there, or set the baseline"
            )
        device = other_device(char.header)
        if device:
            raise UsageError(
                f"workload {entry.name} was recorded on {device}, but the portfolio's baseline "
                f"{base.name} is made of {base.gpu.name}; set the baseline to a system of that "
                "device, or give a capture of this one"
            )
        if not len(char.ops) or not char.ops["exposed_s"].sum() > 0:
            raise UsageError(f"workload {entry.name}: its characterization holds no op time")


def _warnings(
    study: Study, evaluation: Evaluation, picks: list[Pick], known: list[Doubt],
    workloads: tuple[WorkloadResult, ...], backtest: Backtest | None,
) -> tuple[str, ...]:  # fmt: skip
    found = list(study.portfolio.notes)
    if backtest is None or not (backtest.ops or backtest.workloads):
        found.append("no backtest was given: how far projections hold on unseen GPUs is not shown")
    found += capture_warnings(study, evaluation)
    matters = worthwhile(study, picks)
    found += [
        f"{p.result.title}: its projected effect is contradicted by {p.result.contradicted_by}. It "
        "ranks behind what measurements identify"
        for p in picks
        if p.result.lever in matters and p.result.contradicted_by
    ]
    found += [
        f"{p.result.title}: its projected effect is too small for {p.result.understated_by}. Its "
        "gains are likely understated"
        for p in picks
        if p.result.lever in matters and p.result.understated_by
    ]
    titles = {p.result.lever: p.result.title for p in picks if p.result.lever in matters}
    found += missed_together(backtest, titles)
    found += [text for doubt in known if (text := doubt.warning(matters))]
    modelled = {w.name: w.step_time_modelled.value / w.step_time_s for w in workloads}
    found += general_warnings(study, evaluation, picks, modelled)
    return tuple(found)


def _provenance(
    study: Study, inputs: Inputs, prices: Costs, backtest: Backtest | None
) -> Provenance:
    from importlib.metadata import PackageNotFoundError, version

    software = {"python": platform.python_version()}
    for package in _SOFTWARE:
        try:
            software[package] = version(package)
        except PackageNotFoundError:
            continue
    model_path = Path(inputs.model) if inputs.model else None
    return Provenance(
        codesign_version=version("codesign"),
        model=model_path.name if model_path else "",
        model_sha256=sha256(model_path) if model_path else "",
        trained_on=tuple(study.model.trained_on), seed=study.portfolio.seed,
        draws=study.portfolio.draws, inputs=_hashes(study, inputs), software=software,
        fingerprints=fingerprints(study, prices, backtest), settings=settings(study.portfolio),
        requested=study.portfolio.requested,
    )  # fmt: skip


def _hashes(study: Study, inputs: Inputs) -> dict[str, str]:
    """File name -> sha256: portfolio, files given, and what the characterizations came from."""
    found: dict[str, str] = {}
    if study.portfolio.path:
        found[Path(study.portfolio.path).name] = study.portfolio.sha256
    for path in inputs.files:
        found[path.name] = sha256(path)
    for name in study.weights:
        for source in study.chars[name].header.sources:
            found[source.name] = source.sha256
    return dict(sorted(found.items()))
