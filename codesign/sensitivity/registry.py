"""The op models that a fit covers. One line each."""

from __future__ import annotations

from codesign.sensitivity.gemm import GemmModel
from codesign.sensitivity.grouped_gemm import GroupedGemmModel
from codesign.sensitivity.memory import MemoryBoundModel
from codesign.sensitivity.op_model import OpModel

MODELS: tuple[OpModel, ...] = (GemmModel(), GroupedGemmModel(), MemoryBoundModel())


def model_named(name: str) -> OpModel:
    """The model called ``name``; KeyError if there is none."""
    return {model.name: model for model in MODELS}[name]
