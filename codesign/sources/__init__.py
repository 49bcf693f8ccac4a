"""Readers of what other tools measured.

``read`` is bound here at once, since its module has the same name and would
otherwise take its place; that module imports nothing heavy.
"""

from codesign.sources.read import read

__all__ = ["read"]
