"""What a built workload is: a step to call again and again, and what to say about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from codesign.capture.workloads.catalog import Sizes

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Program:
    """One workload on one device."""

    step: Callable[[], object]
    tokens: float | None = None
    """Tokens a step on this rank."""
    model: dict[str, Any] = field(default_factory=dict)


def dtype_of(sizes: Sizes, device: torch.device) -> torch.dtype:
    """The element type to compute in."""
    if sizes.dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    dtype: torch.dtype = _DTYPES[sizes.dtype]
    return dtype


def described(sizes: Sizes, parameters: int) -> dict[str, Any]:
    """A transformer's sizes in the words of Hugging Face configs."""
    return {
        "hidden_size": sizes.hidden, "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads, "num_key_value_heads": sizes.kv_heads,
        "intermediate_size": sizes.ffn, "vocab_size": sizes.vocab, "parameters": parameters,
    }  # fmt: skip
