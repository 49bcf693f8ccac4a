"""Levers together: the best combinations at a cost, the balanced set, what each adds at the end."""

from codesign.recommend.packages.balance import plan_packages

__all__ = ["plan_packages"]
