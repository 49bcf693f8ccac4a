"""Kernel families: which library's kernels a row ran, whichever framework called them.

FlashInfer's and TensorRT-LLM's kernels are the same under SGLang and vLLM; Triton's reach less
on every part. A family of kernels is a parameter set of its own, and one that no training GPU
ever ran is predicted from its nearest relative, with the spread that families show among
themselves where several ran the same kind of op (`stranger_spread`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign._common.scores import Z_90
from codesign.sensitivity.estimate import Block, Estimate, natural
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.op_model import OpModel, strings

VENDOR = ""
"""TensorRT-LLM's own kernels, and rows that do not say which they ran."""
FAMILIES = ("triton", "trtllmgen", "deepgemm", "minlatency", "flashinfer", "flash")
_OF_NAME = (
    ("triton", "triton"), ("vllm_fused_moe", "triton"), ("fused_moe_kernel", "triton"),
    ("flashinfer_trtllm", "trtllmgen"), ("trtllm_mha", "trtllmgen"), ("trtllm_mla", "trtllmgen"),
    ("deepgemm", "deepgemm"), ("min_latency", "minlatency"),
    ("flashinfer", "flashinfer"), ("flash_attn", "flash"), ("flash_attention", "flash"),
    ("flash_fwd", "flash"), ("fa3", "flash"),
)  # fmt: skip
"""What a kernel's name holds -> its family; the first that fits."""
_NEAR = {
    "trtllmgen": (VENDOR, "flash", "flashinfer"),
    "deepgemm": (VENDOR, "flashinfer"), "minlatency": (VENDOR, "flashinfer"),
    "flashinfer": (VENDOR, "flash"), "flash": ("flashinfer", VENDOR),
    "triton": (VENDOR, "flash", "flashinfer"), VENDOR: ("flash", "flashinfer"),
}  # fmt: skip
"""Families that stand in, in order. Triton's stand in for none: what a library reaches on a part
that never ran one they do not tell."""
PRIOR_SPREAD_SD = 0.4
"""Assumed spread (log) between families of kernels, worth one pair of families."""


@dataclass(frozen=True)
class Spread:
    """How far one family's times are from another's model (log)."""

    shared_sd: float
    """Of the middle of a family's ops."""
    own_sd: float
    """Of an op around it, beyond what ops of one family spread."""


def kernel_families(ops: pd.DataFrame) -> NDArray[np.str_]:
    """(ops,) family of each row's kernel, `VENDOR` where the name tells none."""
    names, inverse = np.unique(strings(ops, "kernel"), return_inverse=True)
    found = [next((f for stem, f in _OF_NAME if stem in name), VENDOR) for name in names]
    return np.array(found, dtype="<U16")[inverse.ravel()]


def with_kernel(base: NDArray[np.str_], ops: pd.DataFrame) -> NDArray[np.str_]:
    """(ops,) variants: ``base``, and behind it the kernel family where it is not the vendor's."""
    family = kernel_families(ops)
    suffix = np.where(family == VENDOR, "", np.char.add("_", family))
    return np.char.add(base, suffix)


def split_kernel(variant: str) -> tuple[str, str]:
    """(base, kernel family) of a variant."""
    base, _, last = variant.rpartition("_")
    return (base, last) if last in FAMILIES else (variant, VENDOR)


def joined(base: str, family: str) -> str:
    """The variant of ``base`` in a kernel family."""
    return f"{base}_{family}" if family else base


def kernel_fallbacks(
    variant: str, bases: Sequence[str], last: str | None = None
) -> tuple[str, ...]:
    """The same family in another of ``bases``, then the families near it, base by base.

    ``last`` is a family that stands in for others only where none else does.
    """
    base, family = split_kernel(variant)
    near = sorted(_NEAR[family], key=lambda f: f == last)
    order = [joined(b, f) for f in (family, *near) for b in (base, *bases)]
    return tuple(v for v in dict.fromkeys(order) if v != variant)


Fitted = Mapping[str, tuple[Sequence[Block], Estimate]]


def stranger_spread(model: OpModel, fitted: Fitted, rows: Mapping[str, Sequence[Block]]) -> Spread:
    """Spread of kernel families around each other's models, on GPUs that both ran on.

    ``rows`` are blocks by variant, fitted or not; each family's are predicted by every other
    family of their base. Shrunk to `PRIOR_SPREAD_SD`, as pairs are few.
    """
    middles: list[float] = []
    owns: list[float] = []
    weights: list[float] = []
    for variant, blocks in rows.items():
        base, family = split_kernel(variant)
        for other, (seen, found) in fitted.items():
            if split_kernel(other)[0] != base or split_kernel(other)[1] == family:
                continue
            gpus = {b.gpu for b in seen}
            theta = natural(model.parameters(other), found.z)
            noise = robust_sd(found.residual)
            for block in blocks:
                if block.gpu in gpus:
                    error = np.log(block.time_s / model.times(theta, block.features, block.hw)[0])
                    middles.append(float(np.median(error)))
                    owns.append(robust_sd(error) ** 2 - noise**2)
                    weights.append(block.weight)
    worth = sum(weights)
    prior = PRIOR_SPREAD_SD**2
    shared = (np.dot(weights, np.square(middles)) + prior) / (worth + 1.0)
    own = (np.dot(weights, np.maximum(owns, 0.0)) + prior / 4.0) / (worth + 1.0)
    return Spread(float(np.sqrt(shared)), float(np.sqrt(own)))


def robust_sd(values: Array) -> float:
    """Standard deviation of a normal with the 5 and 95 % points of ``values``."""
    low, high = np.quantile(values, (0.05, 0.95))
    return float((high - low) / (2 * Z_90))
