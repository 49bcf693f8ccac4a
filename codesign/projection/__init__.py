"""From op to step to portfolio, on hardware that changes."""

from codesign.projection.backtest import workload_backtest
from codesign.projection.portfolio import interval, portfolio_gain
from codesign.projection.projector import DEFAULT_DRAWS, OpTimes, Projection, project

__all__ = [
    "DEFAULT_DRAWS", "OpTimes", "Projection", "interval", "portfolio_gain", "project",
    "workload_backtest",
]  # fmt: skip
