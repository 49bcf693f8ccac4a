"""Noise floors of the measured collectives: one GPU, measured again with another version."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from codesign.sensitivity import SensitivityModel
from codesign.sources.perfdb import PerfDB

TEXT = """The same collective on the same GPU, measured with two versions of its library (NCCL),
or in two frameworks (custom all_reduce, which differ in what they time); medians over pairs,
per cent. No model can be expected to come closer than these.

The floor of small messages is that of the silicon, not of the library: whatever the version,
two-GPU all_gather of 512 bytes takes 9.0 us on A100, 5.2 to 6.1 on H100 and H200, 7.3 to 8.8
on B200, 8.8 to 9.4 on GB200. Nothing in a data sheet says so. A model that has seen A100 and
H100 alone expects a new part between the two, and says by its interval that it may be on either
side."""
GEMM_TEXT = """GEMM: the same shape on the same GPU as two frameworks time it (median, 90 %
point), and how far residuals of nearest shapes on A100 and H100 are apart (as the median error
that this alone would leave): choice of kernels and noise, which nothing of a shape foretells."""
MIDDLE_TEXT = """The middle of the three libraries (geometric mean of a shape's times on the part
itself) against each of them, median / mean over shapes, mean over libraries: what a prediction
would err by that knew the part, and not whose kernels run there. Zero-shot, as for `nvfp4`, nothing
can know them."""
_COLUMNS = ("nccl_dtype", "op_name", "num_gpus", "message_size", "allreduce_dtype")
_NONE = pd.Series(dtype=float, index=pd.MultiIndex.from_arrays([[], [], []], names=["m", "n", "k"]))
MEDIAN_OF_NORMAL = 0.6745
_GPUS = ("h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200", "gb300")


def lines() -> list[str]:
    """One row a GPU: versions of NCCL, and frameworks of the custom all_reduce."""
    table = ["| GPU | NCCL: pairs | median | p90 | custom all_reduce: pairs | median | p90 |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for gpu in _GPUS:
        cells = [gpu.replace("_", "-")]
        for stem in ("nccl", "custom_allreduce"):
            apart = [_apart(*pair) for pair in itertools.combinations(_read(gpu, stem), 2)]
            known = np.array([a for a in apart if a is not None])
            cells.append(str(len(known)))
            cells += [f"{100 * v:.1f}" for v in np.median(known, axis=0)] if len(known) else "--"
        table.append("| " + " | ".join(cells) + " |")
    return table


def gemm_lines(models: dict[str, SensitivityModel]) -> list[str]:
    """Framework against framework by GPU and precision, then neighbour against neighbour."""
    db = PerfDB()
    table = ["| GPU | precision | " + " | ".join(f"{a} / {b}" for a, b in _pairs(models))
             + " |", "|---|---|" + "---|" * len(_pairs(models))]  # fmt: skip
    for gpu in ("h100-sxm", "b200-sxm", "gb200"):
        times = {name: _gemm_times(db, gpu, name) for name in models}
        for precision in ("bf16", "fp8", "nvfp4"):
            cells = []
            for pair in _pairs(models):
                apart = _apart(*(times[name].get(precision, _NONE) for name in pair))
                cells.append(
                    "-" if apart is None else f"{100 * apart[0]:.1f}, {100 * apart[1]:.1f}"
                )
            table.append(f"| {gpu} | {precision} | {' | '.join(cells)} |")
    table += ["", "| framework | precision | nearest shapes, median |", "|---|---|---|"]
    for name, model in models.items():
        table += [
            f"| {name} | {u.variant} | {100 * MEDIAN_OF_NORMAL * u.between.nugget_sd:.1f} |"
            for u in model.content.units
        ]
    return table


def middle_lines(frameworks: list[str]) -> list[str]:
    """One row a precision: error of the middle of the libraries on every GPU."""
    db = PerfDB()
    gpus = ("h200-sxm", "b200-sxm", "gb200", "b300-sxm", "gb300")
    times = {gpu: {name: _gemm_times(db, gpu, name) for name in frameworks} for gpu in gpus}
    table = [f"| precision | {' | '.join(gpus)} |", "|---" * (len(gpus) + 1) + "|"]
    for precision in ("bf16", "fp8", "nvfp4"):
        cells = []
        for gpu in gpus:
            some = [t[precision] for t in times[gpu].values() if precision in t]
            if len(some) < 2:
                cells.append("-")
                continue
            logs = np.log(pd.concat(some, axis=1, join="inner").dropna().to_numpy())
            error = np.abs(np.expm1(logs.mean(axis=1, keepdims=True) - logs))
            cells.append(f"{100 * np.median(error, axis=0).mean():.1f} / {100 * error.mean():.1f}")
        table.append(f"| {precision} | {' | '.join(cells)} |")
    return table


def _pairs(models: dict[str, SensitivityModel]) -> list[tuple[str, str]]:
    return list(itertools.combinations(models, 2))


def _gemm_times(db: PerfDB, gpu: str, framework: str) -> dict[str, pd.Series]:
    ops = db.training_ops(gpu, "gemm", framework=framework)
    grouped = ops.groupby("precision")
    return {
        str(precision): part.groupby(["m", "n", "k"])["time_s"].min().astype(float)
        for precision, part in grouped
    }


def _read(gpu: str, stem: str) -> list[pd.Series]:
    import aiconfigurator_core

    root = Path(aiconfigurator_core.__file__).parent / "systems" / "data"
    found = []
    for path in sorted(root.glob(f"{gpu}/comm/*/*/{stem}_perf.parquet")):
        rows = pd.read_parquet(path)
        keys = [c for c in _COLUMNS if c in rows]
        found.append(rows[rows["latency"] > 0].groupby(keys)["latency"].min())
    return found


def _apart(one: pd.Series, other: pd.Series) -> tuple[float, float] | None:
    """(median, 90 % point) of how far two measurements are apart; None for copies."""
    both = pd.concat([one, other], axis=1, join="inner").dropna().to_numpy()
    if len(both) < 20 or (both[:, 0] == both[:, 1]).mean() > 0.9:
        return None
    apart = np.exp(np.abs(np.log(both[:, 1] / both[:, 0]))) - 1.0
    return float(np.median(apart)), float(np.quantile(apart, 0.9))
