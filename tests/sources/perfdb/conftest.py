"""The installed kernel tables, and an independent way into them: plain pandas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from codesign.workload.schema import ops_frame


@pytest.fixture(scope="session")
def folder() -> Path:
    """The package's own table folder."""
    core = pytest.importorskip("aiconfigurator_core")
    return Path(core.__file__).parent / "systems" / "data"


@pytest.fixture(scope="session")
def db(folder: Path):
    from codesign.sources.perfdb import PerfDB

    return PerfDB()


def op(**values: object) -> pd.DataFrame:
    """An ops table of one row."""
    row = {"name": "op", "count": 1.0, "evidence": "assumed", "precision": "bf16", **values}
    return ops_frame([row])
