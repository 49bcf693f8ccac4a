"""The op models that a fit covers. One line each."""

from __future__ import annotations

from codesign.sensitivity.attention_decode import DecodeAttentionModel
from codesign.sensitivity.attention_prefill import PrefillAttentionModel
from codesign.sensitivity.collective import CollectiveModel
from codesign.sensitivity.gemm import GemmModel
from codesign.sensitivity.grouped_gemm import GroupedGemmModel
from codesign.sensitivity.memory import MemoryBoundModel
from codesign.sensitivity.op_model import OpModel

MODELS: tuple[OpModel, ...] = (
    GemmModel(),
    GroupedGemmModel(),
    PrefillAttentionModel(),
    DecodeAttentionModel(),
    CollectiveModel(),
    MemoryBoundModel(),
)


def model_named(name: str) -> OpModel:
    """The model called ``name``; KeyError if there is none."""
    return {model.name: model for model in MODELS}[name]
