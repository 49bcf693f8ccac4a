"""Workloads of a portfolio that say on how many GPUs they run: re-planned over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.cluster.at_scale import LeverStep, at_scale
from codesign.cluster.from_recipe import job_of, plan_of
from codesign.cluster.records import AtScale

if TYPE_CHECKING:
    from codesign.recommend.portfolio import Portfolio, WorkloadEntry
    from codesign.recommend.rank import Pick
    from codesign.recommend.study import Evaluation, Study
    from codesign.workload.recipe import Recipe

DRAWS = 40
"""Joint draws behind an interval at scale: two per end of the 90 %."""


def portfolio_at_scale(
    study: Study, evaluation: Evaluation, picks: list[Pick]
) -> tuple[AtScale, ...]:
    """Every entry with ``gpus``, at the step of every lever that the list is about.

    Raises DataError, naming the portfolio and the key, for an entry that is no training
    recipe or whose model fits no plan on the baseline.
    """
    asked = [(i, e) for i, e in enumerate(study.portfolio.workloads) if e.gpus is not None]
    if not asked:
        return ()
    steps = [
        LeverStep(p.result.lever, p.result.title, p.point.label, p.point.factor,
                  evaluation.systems[p.index])
        for p in picks if p.point is not None and p.index >= 0
    ]  # fmt: skip
    draws = study.model.draws(DRAWS, study.portfolio.seed)
    found = []
    for index, entry in asked:
        place = study.portfolio.place(f"workloads[{index}].gpus")
        try:
            recipe = recipe_of(study.portfolio, entry)
            job = msgspec.structs.replace(job_of(recipe, entry.gpus), name=entry.name)
            plan = plan_of(recipe, entry.gpus)
            found.append(at_scale(job, plan, study.model, study.base, steps, draws))
        except (CodesignError, ValueError) as error:
            raise DataError(f"{place}: {error}") from error
    return tuple(found)


def recipe_of(portfolio: Portfolio, entry: WorkloadEntry) -> Recipe:
    """The recipe that an entry names. Raises UsageError if it names none."""
    from codesign.workload.recipe import load_recipe

    if entry.recipe is None:
        raise UsageError("only a recipe can be spread over more GPUs: it says the whole plan")
    beside = portfolio.folder / entry.recipe
    is_path = entry.recipe.endswith((".yaml", ".yml"))
    return load_recipe(beside if is_path and beside.is_file() else entry.recipe)
