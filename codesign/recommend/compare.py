"""This ranking against an older file: what changed, and which input each change is laid to.

The inputs of both are compared by what they recorded. Then the older ones are put back, one
after another, and the list is made again: from the older list, through the new gains under old
costs, weights and settings, to the new list. What each stage moves is computed, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from codesign._common.errors import UsageError
from codesign.hardware.levers import LEVERS
from codesign.recommend.change_records import CauseName, ChangeCause, Changes
from codesign.recommend.compare_costs import old_costs
from codesign.recommend.compare_inputs import MEASURED, input_changes, ranking_of, steps_of
from codesign.recommend.compare_levers import Stage, differs, lever_change, listed
from codesign.recommend.compare_words import how_told, notes, summary
from codesign.recommend.ranked import Ranked, ranked
from codesign.recommend.wording import joined

if TYPE_CHECKING:
    from codesign.recommend.levers import Pricer
    from codesign.recommend.portfolio import Portfolio
    from codesign.recommend.schema import Backtest, Recommendations


@dataclass(frozen=True)
class Older:
    """The file to compare with."""

    recs: Recommendations
    name: str = ""
    sha256: str = ""
    model: Any = None
    """The model that it was made with, where it is at hand; tells data and model apart."""


def compare(
    older: Older, new: Recommendations, now: Ranked, price: Pricer, backtest: Backtest | None,
    note: Callable[[str], None] = lambda _: None,
) -> Changes:  # fmt: skip
    """What changed from ``older`` to ``new``, whose levers are ranked in ``now``."""
    old = older.recs
    what = input_changes(old, new)
    old_price, costs = old_costs(old, now, price)
    if costs:
        what["cost"] = costs
    note("putting the older inputs back, one after another")
    stages = _stages(older, what, now, price, old_price, backtest)
    levers = tuple(lever_change(lever, old, new, stages) for lever in listed(old, new))
    first_by = _moved_first(old, stages)
    first_before, first_after = _first(old), _first(new)
    return Changes(
        old=older.name, old_sha256=older.sha256, old_made=old.generated_at,
        summary=summary(levers, first_before, first_after, first_by, what),
        first_before=first_before, first_after=first_after, first_by=first_by,
        stages=tuple(s.label for s in stages),
        causes=tuple(ChangeCause(name, said, how_told(name, stages, older)) for name, said in
                     what.items()),
        levers=levers, notes=tuple(notes(older, what, now)),
    )  # fmt: skip


def _stages(
    older: Older, what: Mapping[CauseName, Sequence[str]], now: Ranked, price: Pricer,
    old_price: Pricer, backtest: Backtest | None,
) -> list[Stage]:  # fmt: skip
    """From the older list to the new one; a stage without changes is left out."""
    study, portfolio = now.study, now.study.portfolio
    old = _old_settings(older.recs, portfolio)
    then = _weighted(older.recs, old)
    base = study.under(then)
    drawn_anew = (old.draws, old.seed) != (portfolio.draws, portfolio.seed)
    if drawn_anew:
        base = replace(base, joint=study.model.draws(old.draws, old.seed))
    found: list[Stage] = []
    measured = tuple(name for name in MEASURED if name in what)
    if older.model is not None and "model" in what and len(measured) > 1:
        model = older.model
        other = replace(study, portfolio=then, model=model, joint=model.draws(old.draws, old.seed))
        rest = tuple(name for name in measured if name != "model")
        found.append(Stage(joined(rest), rest, ranked(other, old_price, backtest)))
        measured = ("model",)
    first = ranked(base, old_price, backtest, None if drawn_anew else now)
    if measured or differs(older.recs, first):
        found.append(Stage(joined(measured) or "not explained", measured, first))
    if "cost" in what:
        first = ranked(base, price, backtest, first)
        found.append(Stage("cost", ("cost",), first))
    if "weights" in what or "workloads" in what:
        first = ranked(replace(base, portfolio=old), price, backtest, first)
        found.append(Stage("weights", ("weights",), first))
    if "settings" in what:
        found.append(Stage("settings", ("settings",), now))
    return found


def _old_settings(old: Recommendations, portfolio: Portfolio) -> Portfolio:
    """The new portfolio with what decided the older order, as far as that was recorded."""
    kept = {k: v for k, v in old.provenance.settings.items()
            if k in ("min_gain", "saturation_threshold", "budgets")}  # fmt: skip
    steps = {k: v for k, v in steps_of(old).items() if k in LEVERS}
    # Levers without steps were refused then, and are now or have steps of their own.
    refused = [x.lever for x in old.levers if not x.points and x.lever in LEVERS]
    asked = portfolio.levers or {name: lever.steps for name, lever in LEVERS.items()}
    levers: dict[str, tuple[float | str, ...]] = dict(steps)
    levers |= {name: asked.get(name, LEVERS[name].steps) for name in refused}
    return msgspec.structs.replace(
        portfolio, levers=levers, ranking=ranking_of(old, portfolio.ranking),
        draws=old.provenance.draws, seed=old.provenance.seed, scenarios={}, **kept,
    )  # fmt: skip


def _weighted(old: Recommendations, portfolio: Portfolio) -> Portfolio:
    """The portfolio under the older weights, of the workloads that are left of it."""
    weights = {w.name: w.weight for w in old.workloads}
    total = sum(weights.get(e.name, 0.0) for e in portfolio.workloads)
    if total <= 0:
        return portfolio
    entries = tuple(
        msgspec.structs.replace(e, weight=weights.get(e.name, 0.0) / total)
        for e in portfolio.workloads
    )
    return msgspec.structs.replace(portfolio, workloads=entries)


def _first(recs: Recommendations) -> str:
    return next((r.lever for r in recs.recommendations if r.kind == "hardware"), "")


def _moved_first(old: Recommendations, stages: Sequence[Stage]) -> tuple[str, ...]:
    found, first = [], _first(old)
    for stage in stages:
        after = stage.after.picks[0].result.lever if stage.after.picks else ""
        if after != first:
            found.append(stage.label)
        first = after
    return tuple(found)


def older_model(path: str, old: Recommendations, name: str) -> Any:
    """The model at ``path``. Raises UsageError if it is not the one that made the older file."""
    from pathlib import Path

    from codesign._common.files import sha256
    from codesign.sensitivity import load_model

    model = load_model(path)
    if sha256(Path(path)) != old.provenance.model_sha256:
        raise UsageError(
            f"--compare-model {path}: {name} was made with another model "
            f"({old.provenance.model}, sha256 {old.provenance.model_sha256[:12] or 'unknown'})"
        )
    return model
