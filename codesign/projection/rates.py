"""Ops whose format a system has no rate for: what the projection takes them to run at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign._common.units import format_si
from codesign.hardware.model import PEAK_OF_PRECISION
from codesign.hardware.rates import rate_of

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

MULTIPLIES = ("gemm", "grouped_gemm", "attention", "conv")


def borrowed_rates(
    char: Characterization, share: NDArray[np.float64], system: System
) -> tuple[str, ...]:
    """One line for each format of the workload that ``system`` has no dense peak for.

    ``share``: (ops,) part of the step by op. A part without FP8 tensor cores runs an FP8
    multiply at its BF16 rate, if at all: a gain there is of other kernels than those measured.
    """
    ops, gpu = char.ops, system.gpu
    multiplies = ops["op_class"].isin(MULTIPLIES).to_numpy(dtype=bool)
    precision = ops["precision"].fillna("").to_numpy(dtype=object)
    parts: dict[tuple[str, str], float] = {}
    taken = {"": "and it has no wider rate for them"}
    for name in sorted({str(p) for p in precision[multiplies]} - {""}):
        key, (found, value) = PEAK_OF_PRECISION[name], rate_of(gpu, name)
        part = float(share[multiplies & (precision == name)].sum())
        if found == key or part <= 0:
            continue
        parts[key, found] = parts.get((key, found), 0.0) + part
        if found:
            rate = format_si(value, "FLOP/s")
            taken[found] = f"taken to run at its {found} rate of {rate}, an assumption"
    return tuple(
        f"{system.name}: {gpu.name} has no peak_dense.{key}; ops of {100 * part:.1f} % of the "
        f"measured step multiply in {key}, {taken[found]}"
        for (key, found), part in parts.items()
    )
