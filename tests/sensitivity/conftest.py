"""A model fitted to a fake database, shared by the tests of its uses."""

from __future__ import annotations

import pytest

from codesign.sensitivity import SensitivityModel, fit
from codesign.sensitivity.gemm import GemmModel
from codesign.sensitivity.memory import MemoryBoundModel
from tests.sensitivity.fakes import FakeDB


@pytest.fixture(scope="session")
def fake_model() -> SensitivityModel:
    """Fitted to A100, H100 and H200; B200 held out."""
    models = (GemmModel(), MemoryBoundModel())
    return fit(FakeDB(), exclude=["b200-sxm"], models=models, rows_per_gpu=150)
