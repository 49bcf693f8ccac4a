"""Rates that no part reaches: then shapes, times, precision or device are not what they seem."""

from __future__ import annotations

import pandas as pd

from codesign._common.units import format_si
from codesign.hardware import load_system
from codesign.hardware.model import PEAK_OF_PRECISION, Gpu

# Convolutions may take fewer multiplications than they are counted with (Winograd).
_PRODUCTS = ("gemm", "grouped_gemm", "attention")
_TOLERATED = 1.02
"""Beyond the clock: what rounding of times and peaks may make."""
DOUBTFUL_SHARE = 0.01
"""Of the time of products; if more of it is faster than can be, no FLOPs are relied upon."""


def above_peak(ops: pd.DataFrame, system: str | None) -> tuple[str | None, float]:
    """One line about the products faster than the device's dense peak at its highest clock, None
    if there are none, and their share of the time of all products.

    A kernel runs on one die of a package. Peaks are those of the tensor clock; a part may boost
    above it.
    """
    if system is None:
        return None, 0.0
    gpu = load_system(system).gpu
    products = ops[ops["op_class"].isin(_PRODUCTS) & ops["flops"].notna() & ops["time_s"].gt(0)]
    if not len(products):
        return None, 0.0
    times = products["time_s"].to_numpy(dtype=float)
    peaks = products["precision"].map(lambda p: _peak_flops_per_s(gpu, p)).to_numpy(dtype=float)
    ratio = products["flops"].to_numpy(dtype=float) / times / peaks
    above = ratio > _TOLERATED * max(1.0, gpu.boost_clock_hz / gpu.tensor_clock_hz)
    if not above.any():
        return None, 0.0
    worst = int((ratio * above).argmax())
    row = products.iloc[worst]
    rate, peak = (format_si(v, "FLOP/s") for v in (ratio[worst] * peaks[worst], peaks[worst]))
    text = (
        f"{int(above.sum())} ops run faster than {gpu.name} can, such as {row['name'][:60]} at "
        f"{rate}, {ratio[worst]:.0%} of the dense {row['precision']} peak of {peak}: an invalid "
        "share; is it this device, this precision, these shapes?"
    )
    return text, float(times[above].sum() / times.sum())


def _peak_flops_per_s(gpu: Gpu, precision: object) -> float:
    """Dense peak of one die, without bound where it is not known."""
    key = PEAK_OF_PRECISION.get(precision) if isinstance(precision, str) else None
    return gpu.peak_dense_flops_per_s.get(key or "", float("inf")) / gpu.dies
