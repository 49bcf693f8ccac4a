"""Held-out scores of the step model on published runs: which are seen, how the others come out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.calibrate import (
    Prepared,
    Scores,
    calibrate,
    predict,
    score,
    system_ratios,
)
from codesign.cluster.efficiency import Efficiency
from codesign.cluster.published import Run

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOut:
    """Parameters from some runs, and the scores of the others."""

    efficiency: Efficiency
    seen: int
    scores: Scores
    ratio: float
    """Median error of the ratio of rates between two systems, all pairs with an unseen one."""
    predicted_s: Array
    """(runs,) of all runs, in their order."""


def hold_out(
    prepared: Sequence[Prepared], seen: Callable[[Run], bool],
    scored: Callable[[Run], bool] | None = None,
) -> HeldOut:  # fmt: skip
    """Calibrate on the runs that ``seen`` picks; score those of ``scored`` (default: others)."""
    picked = scored or (lambda run: not seen(run))
    efficiency = calibrate([p for p in prepared if seen(p.run)])
    predicted = predict(prepared, efficiency)
    test = [i for i, p in enumerate(prepared) if picked(p.run)]
    runs = [prepared[i] for i in test]
    ratios = system_ratios(runs, predicted[test])
    return HeldOut(
        efficiency, sum(seen(p.run) for p in prepared), score(runs, predicted[test]),
        float(np.median(ratios)) if ratios.size else float("nan"), predicted,
    )  # fmt: skip


def constant_mfu(prepared: Sequence[Prepared], seen: Callable[[Run], bool]) -> Array:
    """(runs,) step times by one share of the dense peak for each model and peak rate.

    The share is the mean over the runs that ``seen`` picks; of the precision alone where the
    model has none there, and of all where the precision has none.
    """
    peak = {"mxfp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}
    work, rate, narrow = [], [], []
    for p in prepared:
        job, gpu = p.run.job, p.system.gpu
        key = peak.get(job.precision, job.precision)
        narrow.append(key)
        work.append(6.0 * job.model.parameters(active=True) * job.tokens / job.gpus)
        rate.append(gpu.peak_dense_flops_per_s.get(key, gpu.peak_dense_flops_per_s["bf16"]))
    ideal = np.array(work) / np.array(rate)
    shares: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for p, seconds, unit in zip(prepared, ideal, narrow, strict=True):
        if seen(p.run):
            for key2 in ((p.run.job.name, unit), (unit,), ()):
                shares[key2].append(float(seconds) / p.run.step_s)
    out = []
    for p, seconds, unit in zip(prepared, ideal, narrow, strict=True):
        keys = ((p.run.job.name, unit), (unit,), ())
        found = next(shares[k] for k in keys if k in shares)
        out.append(float(seconds) / float(np.mean(found)))
    return np.array(out)
