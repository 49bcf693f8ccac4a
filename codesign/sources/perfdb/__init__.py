"""Measured kernel database: tables of the ``perfdb`` extra in the ops contract."""

from codesign.sources.perfdb._catalog import HOST_BOUND
from codesign.sources.perfdb._store import ROW_FOR_ROW
from codesign.sources.perfdb.database import PerfDB

__all__ = ["HOST_BOUND", "ROW_FOR_ROW", "PerfDB"]
