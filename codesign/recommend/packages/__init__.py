"""Levers together: the best combinations at a cost, the balanced set, what each adds at the end."""

from codesign.recommend.packages.balance import packages

__all__ = ["packages"]
