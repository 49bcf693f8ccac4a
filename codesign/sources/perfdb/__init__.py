"""Measured kernel database: tables of the ``perfdb`` extra in the ops contract."""

from codesign.sources.perfdb._catalog import of_the_host
from codesign.sources.perfdb._store import ROW_FOR_ROW
from codesign.sources.perfdb.database import PerfDB

__all__ = ["ROW_FOR_ROW", "PerfDB", "of_the_host"]
