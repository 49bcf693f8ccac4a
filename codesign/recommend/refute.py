"""For each lever, a measurement on hardware of today that would refute its gain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from codesign._common.errors import CodesignError
from codesign.recommend.wording import shape_of

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.study import Study


class Experiment(NamedTuple):
    """Two machines, or two settings of one, that differ in (nearly) one lever."""

    slow: str
    """System of the slower side; empty means the baseline with ``factor``."""
    fast: str
    """System of the faster side; empty means the baseline as it is."""
    factor: float
    """What the knob leaves of the lever on the slower side; 1 where two systems differ."""
    how: str


EXPERIMENTS = {
    "hbm_bandwidth": Experiment(
        "hgx-h100", "hgx-h200", 1.0,
        "on H100 SXM and on H200: the same SMs and peaks, HBM at 3.35 and at 4.8 TB/s"),
    "sm_count": Experiment(
        "", "", 0.75, "on the baseline, whole and in a green context of three quarters of its SMs"),
    "sm_clock": Experiment(
        "", "", 0.8, "on the baseline, with the SM clock locked at its full value and at 80 % "
        "of it (nvidia-smi --lock-gpu-clocks)"),
    "l2_capacity": Experiment(
        "", "", 0.5, "on the baseline, with and without half of L2 set aside "
        "(cudaLimitPersistingL2CacheSize)"),
    "bf16_throughput": Experiment(
        "hgx-h20", "hgx-h200", 1.0,
        "on H20 and on H200: tensor rates a factor 6.7 apart at HBM of 4.0 and 4.8 TB/s"),
    "fp8_throughput": Experiment(
        "hgx-h20", "hgx-h200", 1.0,
        "on H20 and on H200: tensor rates a factor 6.7 apart at HBM of 4.0 and 4.8 TB/s"),
    "fp4_throughput": Experiment(
        "hgx-b200", "hgx-b300", 1.0,
        "on B200 and on B300: FP4 rates a factor 1.5 apart at equal HBM bandwidth"),
    "nvlink_bandwidth": Experiment(
        "hgx-h800", "hgx-h100", 1.0,
        "on H800 and on H100: the same SMs and HBM, NVLink at 200 and at 450 GB/s per direction"),
    "nvlink_domain": Experiment(
        "gb200-nvl72", "gb200-nvl72", 4 / 72,
        "on GB200 NVL72, with NVLink across trays and without it (NCCL_MNNVL_ENABLE=0)"),
    "scaleout_bandwidth": Experiment(
        "", "", 0.5, "on the baseline, with all NICs and with half of them (NCCL_IB_HCA)"),
    "power": Experiment(
        "", "", 0.8, "on the baseline, at its full power limit and at 80 % of it "
        "(nvidia-smi --power-limit), after a minute of load"),
}  # fmt: skip
_WITHOUT_NUMBER = {
    "launch_latency": "Run {op} launched kernel by kernel and as a CUDA graph on the baseline: if "
    "the step does not get shorter, launches do not bind it and the claim is refuted.",
    "hbm_capacity": "To study it: characterize each workload at the batch, sharding and "
    "recomputation that the larger memory allows, and compare it with the best of today's at equal "
    "hardware; or run it on GB200 (186 GB) and GB300 (279 GB), each at its best.",
}


def refuted_by(study: Study, lever: str, row: tuple[str, int] | None) -> str:
    """The measurement, with the ratio that the model expects of the op that carries most.

    ``row``: workload and row of that op; None where nothing is saved.
    """
    if lever in _WITHOUT_NUMBER:
        return _WITHOUT_NUMBER[lever].format(op=_name(study, row))
    experiment = EXPERIMENTS.get(lever)
    if experiment is None:
        return ""
    op = _name(study, row)
    if row is None:
        return f"Time {op} {experiment.how}: a gain above x1.02 would refute the claim of none."
    ratio = _expected(study, lever, experiment, row)
    if ratio is None or ratio < 1.005:
        return f"Time {op} {experiment.how}: if the times do not differ, the claim is refuted."
    half = 1 + (ratio - 1) / 2
    return (
        f"Time {op} {experiment.how}: the model expects a ratio of x{ratio:.2f}; "
        f"one under x{half:.2f} refutes the claim."
    )


def _name(study: Study, row: tuple[str, int] | None) -> str:
    if row is None:
        return "the heaviest ops of the portfolio"
    workload, index = row
    values = {str(k): v for k, v in study.chars[workload].ops.iloc[index].to_dict().items()}
    shape = shape_of(values)
    precision = values["precision"] if isinstance(values["precision"], str) else ""
    inner = ", ".join(part for part in (shape, precision) if part)
    return (
        f"{values['name']} ({inner}) of {workload}" if inner else f"{values['name']} of {workload}"
    )


def _expected(
    study: Study, lever: str, experiment: Experiment, row: tuple[str, int]
) -> float | None:
    """Ratio of times, slower over faster side, by the model; None if a side is unknown."""
    from codesign.hardware import load_system
    from codesign.hardware.levers import apply_lever

    def side(name: str) -> System:
        return load_system(name) if name else study.base

    workload, index = row
    try:
        slow, fast = side(experiment.slow), side(experiment.fast)
        if experiment.factor != 1:
            slow = apply_lever(slow, lever, experiment.factor)
    except CodesignError:
        return None
    times = study.model.times(study.chars[workload].ops.iloc[[index]], [slow, fast])
    ratio = float(times[0, 0] / times[1, 0])
    return ratio if math.isfinite(ratio) and ratio > 0 else None
