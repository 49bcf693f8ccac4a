"""Tables of published runs, where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_table(name: str) -> Path:
    """A published table; skips the test where the shared data is absent."""
    given = os.environ.get("CODESIGN_SHARED_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    path = folder / "tables" / name
    if not path.is_file():
        pytest.skip(f"no {name} in the shared data")
    return path
