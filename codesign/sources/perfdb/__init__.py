"""Measured kernel database: tables of the ``perfdb`` extra in the ops contract."""

from codesign.sources.perfdb.database import PerfDB

__all__ = ["PerfDB"]
