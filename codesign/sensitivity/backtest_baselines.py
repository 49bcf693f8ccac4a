"""What a model must beat: three ways to guess an op's time without one.

The datasheet roofline, the same with four fitted parameters (launch floor, two
efficiencies, smoothness), and the source's measured time scaled by the rooflines' ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from codesign.hardware.model import System
from codesign.sensitivity.hardware_arrays import PRECISION_INDEX, Array, hardware_arrays
from codesign.sensitivity.op_model import numbers, p_norm, strings

_BF16 = PRECISION_INDEX["bf16"]
_LOWER = np.log([1e-7, 0.02, 0.02, 1.0])
_UPPER = np.log([1e-3, 2.0, 2.0, 8.0])
_START = np.log([5e-6, 0.6, 0.7, 2.0])


def roofline_terms(ops: pd.DataFrame, system: System) -> tuple[Array, Array]:
    """(compute, traffic) seconds of one call at datasheet peaks, each (ops,).

    Compute is FLOPs over the dense peak of the precision; traffic is HBM bytes over the
    HBM bandwidth, and for collectives bytes sent over the link that carries them: NVLink
    while the group fits a domain, the NIC beyond. Unknown work counts as zero.
    """
    hw = hardware_arrays([system])
    count = numbers(ops, "count")
    index = np.array([PRECISION_INDEX.get(p, _BF16) for p in strings(ops, "precision", "bf16")])
    peak = hw.peaks_flops_per_s[0][index]
    compute = np.nan_to_num(numbers(ops, "flops") / count / peak)
    hbm = np.nan_to_num(numbers(ops, "bytes") / count) / system.gpu.hbm_bandwidth_bytes_per_s
    wire = np.nan_to_num(numbers(ops, "wire_bytes") / count)
    stride = np.nan_to_num(numbers(ops, "group_stride", 1.0), nan=1.0)
    inside = np.nan_to_num(numbers(ops, "group_size", 1.0), nan=1.0) * stride
    rate = np.where(
        inside <= system.nvlink_domain,
        system.nvlink_bandwidth_bytes_per_s,
        system.scaleout_bandwidth_bytes_per_s,
    )
    return compute, np.maximum(hbm, wire / rate)


def datasheet_roofline(ops: pd.DataFrame, system: System) -> Array:
    """(ops,) seconds of one call at datasheet peaks of the binding resource; no launch time."""
    compute, traffic = roofline_terms(ops, system)
    return np.maximum(np.maximum(compute, traffic), 1e-12)


def scaled_source_time(
    ops: pd.DataFrame, source_time_s: Array, source: System, target: System
) -> Array:
    """(ops,) the source's measured seconds x target roofline / source roofline.

    By hand one scales a time by the peak of what binds; the rooflines decide what does.
    """
    ratio = datasheet_roofline(ops, target) / datasheet_roofline(ops, source)
    result: Array = source_time_s * ratio
    return result


@dataclass(frozen=True)
class FittedRoofline:
    """time = floor + p-norm(compute / efficiency, traffic / efficiency): four parameters."""

    log_parameters: Array
    """Logs of floor (s), compute efficiency, traffic efficiency, p."""

    def times(self, ops: pd.DataFrame, system: System) -> Array:
        """(ops,) seconds of one call."""
        return _fitted(self.log_parameters, *roofline_terms(ops, system))


def fit_roofline(training: Sequence[tuple[pd.DataFrame, System]]) -> FittedRoofline:
    """The four parameters by soft-L1 least squares on log time, over all training rows."""
    from scipy.optimize import least_squares

    terms = [roofline_terms(ops, system) for ops, system in training]
    compute = np.concatenate([t[0] for t in terms])
    traffic = np.concatenate([t[1] for t in terms])
    measured = np.concatenate([numbers(o, "time_s") / numbers(o, "count") for o, _ in training])

    def residual(z: Array) -> Array:
        result: Array = np.log(_fitted(z, compute, traffic) / measured)
        return result

    found = least_squares(
        residual, _START, bounds=(_LOWER, _UPPER), loss="soft_l1", f_scale=0.15, max_nfev=60
    )
    return FittedRoofline(np.asarray(found.x, dtype=np.float64))


def _fitted(z: Array, compute: Array, traffic: Array) -> Array:
    floor_s, compute_efficiency, traffic_efficiency, p = np.exp(z)
    return np.asarray(
        floor_s + p_norm(float(p), compute / compute_efficiency, traffic / traffic_efficiency)
    )
