"""Which lever is worth most over a portfolio, at what cost, and how sure that is.

The module is callable, since ``codesign.recommend(portfolio, model)`` of the public
API and the package ``codesign.recommend`` bear the same name.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign.recommend.build import Inputs, recommend
    from codesign.recommend.characterizations import load_characterizations
    from codesign.recommend.jsonfile import (
        json_schema,
        load_backtest,
        load_recommendations,
        save_recommendations,
        to_json,
    )
    from codesign.recommend.portfolio import Portfolio, list_portfolios, load_portfolio
    from codesign.recommend.schema import Recommendations

__all__ = [
    "Inputs", "Portfolio", "Recommendations", "json_schema", "list_portfolios", "load_backtest",
    "load_characterizations", "load_portfolio", "load_recommendations", "recommend",
    "save_recommendations", "to_json",
]  # fmt: skip

_HOME = {
    "Inputs": "build", "recommend": "build", "load_characterizations": "characterizations",
    "json_schema": "jsonfile", "load_backtest": "jsonfile", "load_recommendations": "jsonfile",
    "save_recommendations": "jsonfile", "to_json": "jsonfile", "Portfolio": "portfolio",
    "list_portfolios": "portfolio", "load_portfolio": "portfolio", "Recommendations": "schema",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


class _CallableModule(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Recommendations:
        """As `recommend.api.recommend`."""
        from codesign.recommend.api import recommend

        return recommend(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
