"""Errors of the sensitivity layer."""

from __future__ import annotations

from codesign._common.errors import UsageError


class LeakageError(UsageError):
    """A prediction was asked for on a GPU that the model has learned from. Exit code 2."""
