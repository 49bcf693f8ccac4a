"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real traces and tables; the test is skipped where it is absent."""
    folder = Path(os.environ.get("CODESIGN_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "MANIFEST.csv").is_file():
        pytest.skip(f"no shared data in {folder}")
    return folder
