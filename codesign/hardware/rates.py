"""The rate that a multiply runs at, also on a part that has none of its own for the format."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codesign.hardware.model import PEAK_OF_PRECISION

if TYPE_CHECKING:
    from codesign.hardware.model import Gpu

_WIDER = MappingProxyType({
    "fp4": "fp8", "fp8": "bf16", "bf16": "fp16", "fp16": "bf16", "tf32": "fp32", "int8": "fp8",
})  # fmt: skip
"""Key of ``peak_dense`` -> that of the type whose tensor cores hold its values."""


def rate_of(gpu: Gpu, precision: str) -> tuple[str, float]:
    """(key of ``peak_dense``, FLOP/s) of a multiply in an op precision.

    Where the part has no rate of its own, its inputs are widened: the multiply runs at the rate
    of the next wider type that it has. That is an assumption, and the key tells of it: it is not
    ``PEAK_OF_PRECISION[precision]`` then. ("", NaN) where there is no wider type either.
    """
    peaks = gpu.peak_dense_flops_per_s
    key: str | None = PEAK_OF_PRECISION[precision]
    seen: set[str] = set()
    while key is not None and key not in seen:
        if key in peaks:
            return key, peaks[key]
        seen.add(key)
        key = _WIDER.get(key)
    return "", float("nan")
