"""`codesign.recommend`: a portfolio by name and a model, all else found or made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codesign._common.errors import UsageError
from codesign.recommend.build import Inputs
from codesign.recommend.build import recommend as build
from codesign.recommend.portfolio import Portfolio, baseline_of, load_portfolio

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.compare import Older
    from codesign.recommend.schema import Backtest, Recommendations
    from codesign.workload.characterization import Characterization

_WHAT_IF = (
    "The baseline is hypothetical: its step times are measured ones moved by the model, without "
    "an interval of their own, and nothing on it was measured"
)


def recommend(
    portfolio: Portfolio | str | Path,
    model: Any,
    *,
    characterizations: Mapping[str, Characterization] | str | Path | None = None,
    backtest: Backtest | str | Path | None = None,
    system: str | None = None,
    what_if: Sequence[str] = (),
    costs: str | Path | None = None,
    compare: Recommendations | str | Path | None = None,
    compare_model: str | Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Recommendations:
    """Rank hardware levers over a portfolio.

    ``portfolio``: a shipped name, a file, or a `Portfolio`. ``model``: a fitted model or
    the path of one. ``characterizations``: by workload name, or the folder that holds
    them; what is missing is composed from measured kernels. ``system`` replaces the
    portfolio's baseline; ``what_if`` changes it by levers, such as ``"hbm_bandwidth=+50%"``,
    and every workload with it, by the model. ``compare``: an older file, against which
    ``changes`` of the result say what moved and why; ``compare_model``: the model that it was
    made with, which tells new data and a new model apart. ``note`` is told what is being done.
    Raises UsageError and DataError, each naming what is wrong.
    """
    from codesign.hardware import load_system
    from codesign.hardware.costs import load_costs
    from codesign.recommend.characterizations import load_characterizations
    from codesign.recommend.jsonfile import load_backtest

    plan = portfolio if isinstance(portfolio, Portfolio) else load_portfolio(portfolio)
    base = load_system(system) if system is not None else baseline_of(plan)
    plan = msgspec.structs.replace(plan, baseline=base.name)
    prices = load_costs(costs)
    model_path = str(model) if isinstance(model, str | Path) else ""
    if model_path:
        from codesign.sensitivity import load_model

        model = load_model(model_path)
    older = None if compare is None else _older(compare, compare_model)
    files: tuple[Path, ...] = ()
    if isinstance(backtest, str | Path):
        files = (Path(backtest),)
        backtest = load_backtest(backtest)
    if isinstance(characterizations, Mapping):
        chars = dict(characterizations)
    else:
        chars, read = load_characterizations(plan, base, characterizations, note)
        files = (*read, *files)
    if costs is not None:
        files = (*files, Path(costs))
    if what_if:
        base, chars = _changed(plan, base, chars, model, what_if)
        plan = msgspec.structs.replace(plan, baseline=base.name, notes=(*plan.notes, _WHAT_IF))
    note(f"studying {len(plan.workloads)} workloads with {plan.draws} draws")
    return build(
        plan, chars, model, backtest, base=base, costs=prices,
        inputs=Inputs(model_path, files), older=older, note=note,
    )  # fmt: skip


def _changed(
    plan: Portfolio, base: System, chars: Mapping[str, Characterization], model: Any,
    what_if: Sequence[str],
) -> tuple[System, dict[str, Characterization]]:  # fmt: skip
    """The baseline with levers, and the workloads as the model has them on it."""
    from codesign.hardware.levers import changed_system
    from codesign.projection.rebase import rebase

    changed = base
    for text in what_if:
        try:
            changed = changed_system(changed, text)
        except UsageError as error:
            raise UsageError(f"--set {text}: {error}") from error
    given = [entry.name for entry in plan.workloads if entry.name in chars]
    return changed, {name: rebase(chars[name], model, base, changed) for name in given}


def _older(compare: Recommendations | str | Path, model: str | Path | None) -> Older:
    from codesign._common.files import sha256
    from codesign.recommend.compare import Older, older_model
    from codesign.recommend.jsonfile import load_recommendations

    if isinstance(compare, str | Path):
        path = Path(compare)
        older = Older(load_recommendations(path), path.name, sha256(path))
    else:
        older = Older(compare)
    if model is None:
        return older
    return replace(older, model=older_model(str(model), older.recs, older.name or "the older file"))
