"""Fixtures that several tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest

# How long a case takes says something of the machine, not of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores it and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real traces and tables; the test is skipped where it is absent."""
    folder = Path(os.environ.get("CODESIGN_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "MANIFEST.csv").is_file():
        pytest.skip(f"no shared data in {folder}")
    return folder
