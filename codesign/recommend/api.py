"""`codesign.recommend`: a portfolio by name and a model, all else found or made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codesign.recommend.build import Inputs
from codesign.recommend.build import recommend as build
from codesign.recommend.portfolio import Portfolio, baseline_of, load_portfolio

if TYPE_CHECKING:
    from codesign.recommend.compare import Older
    from codesign.recommend.schema import Backtest, Recommendations
    from codesign.workload.characterization import Characterization


def recommend(
    portfolio: Portfolio | str | Path,
    model: Any,
    *,
    characterizations: Mapping[str, Characterization] | str | Path | None = None,
    backtest: Backtest | str | Path | None = None,
    system: str | None = None,
    costs: str | Path | None = None,
    compare: Recommendations | str | Path | None = None,
    compare_model: str | Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Recommendations:
    """Rank hardware levers over a portfolio.

    ``portfolio``: a shipped name, a file, or a `Portfolio`. ``model``: a fitted model or
    the path of one. ``characterizations``: by workload name, or the folder that holds
    them; what is missing is composed from measured kernels. ``system`` replaces the
    portfolio's baseline. ``compare``: an older file, against which ``changes`` of the
    result say what moved and why; ``compare_model``: the model that it was made with, which
    tells new data and a new model apart. ``note`` is told what is being done. Raises UsageError and
    DataError, each naming what is wrong.
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
    note(f"studying {len(plan.workloads)} workloads with {plan.draws} draws")
    return build(
        plan, chars, model, backtest, base=base, costs=prices,
        inputs=Inputs(model_path, files), older=older, note=note,
    )  # fmt: skip


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
