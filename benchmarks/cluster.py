"""Step model against published training runs, and the speed of the search.

    python benchmarks/cluster.py [--model MODEL.json] [--unseen MODEL.json] [--rows ROWS.csv]
                                 [--runs RUNS.yaml]

``--model``: what `codesign fit` wrote (else it is fitted here, minutes). ``--unseen``: one
fitted without the B200's silicon family (``--exclude b200-sxm --exclude gb200 ...``), for the
second bar of the step table. Tables: $CODESIGN_SHARED_DATA/tables or ../shared/data/tables.
``--runs``: published runs of other sources (default: published_runs.yaml beside this file), none
of them seen. Scores are of runs that the calibration has not seen, and say which it has.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from codesign.cluster.calibrate import Prepared, calibrate, predict, prepare
from codesign.cluster.efficiency import DEFAULT, PRIOR_SD
from codesign.cluster.grid import OpTimes, TimeCache
from codesign.cluster.job import Framework, Job, load_model_config
from codesign.cluster.memory import memory_of
from codesign.cluster.published import Run, read_bridge, read_steps
from codesign.cluster.run_file import read_runs
from codesign.cluster.scoring import HeldOut, constant_mfu, hold_out
from codesign.cluster.search import search
from codesign.hardware import load_system
from codesign.hardware.levers import LEVERS, apply_lever

BRIDGE, STEPS = "megatron_bridge_training_throughput.csv", "b200_training_steps.csv"
BLACKWELL = "gb200-nvl72"
MODELS = ("llama-3-8b", "llama-3-70b", "llama-3.1-405b", "qwen3-30b-a3b", "qwen3-235b-a22b",
          "deepseek-v3")  # fmt: skip


def tables() -> Path:
    """Folder of the published tables."""
    shared = os.environ.get("CODESIGN_SHARED_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return (Path(shared) if shared else beside) / "tables"


def load(path: Path | None) -> OpTimes:
    """A model file, or one fitted now."""
    if path is not None:
        from codesign.sensitivity import load_model

        return load_model(path)
    from codesign.sensitivity import fit
    from codesign.sources.perfdb import PerfDB

    return fit(PerfDB())


def extremes(run: Run) -> bool:
    """Runs of the step table with the least and the most tensor parallelism: what the
    calibration may see of it."""
    return run.table == STEPS and run.plan.tp in (1, 8)


def memory_errors(steps: list[Prepared]) -> None:
    """Allocated memory against what was published; nothing is fitted."""
    pairs = [(float(memory_of(p.shares).allocated_bytes[0]), p.run.allocated_bytes) for p in steps]
    errors = np.array([a / b - 1 for a, b in pairs if b])
    print(f"memory: {len(errors)} runs, mean error {np.abs(errors).mean():.2%}, "
          f"largest {np.abs(errors).max():.2%} (bar 5 %)")  # fmt: skip


def step_errors(steps: list[Prepared], predicted: np.ndarray, what: str, bar: str) -> None:
    """Step table: mean absolute error of the step time."""
    for name, held_out in (("not calibrated on", True), ("all", False)):
        errors = np.array([predicted[i] / p.run.step_s - 1 for i, p in enumerate(steps)
                           if not (held_out and extremes(p.run))])  # fmt: skip
        print(f"steps, {what}, {name} rows: {len(errors)} runs, mean absolute error "
              f"{np.abs(errors).mean():.2%}, bias {errors.mean():+.2%} (bar {bar})")  # fmt: skip


def throughput(held: HeldOut, what: str) -> None:
    """Throughput table: scores of the unseen runs."""
    s = held.scores
    print(f"throughput, {what}: {held.seen} seen, {s.runs} scored: median error {s.median:.1%}, "
          f"p90 {s.p90:.1%}, mean {s.mean:.1%}, bias of time {s.bias:+.1%}, ratio between "
          f"systems {held.ratio:.1%}, rank {s.rank:.3f}")  # fmt: skip


def bars(model: OpTimes, unseen: OpTimes | None, rows: Path | None) -> None:
    """Both tables."""
    folder = tables()
    if not folder.is_dir():
        print(f"no tables in {folder}: skipped")
        return
    runs = [*read_steps(folder / STEPS), *read_bridge(folder / BRIDGE)]
    for name, used, bar in (("op models that saw B200", model, "5 %"),
                            ("op models that did not", unseen, "10 %")):  # fmt: skip
        if used is None:
            continue
        prepared = prepare(runs, used)
        steps = [p for p in prepared if p.run.table == STEPS]
        others = [i for i, p in enumerate(prepared) if p.run.table != STEPS]

        def seen(run: Run) -> bool:
            return extremes(run) or run.system in ("hgx-h100", BLACKWELL)

        def bridge_alone(run: Run) -> bool:
            return run.system in ("hgx-h100", BLACKWELL)

        held = hold_out(prepared, seen, lambda r: r.table != STEPS and not seen(r))
        alone = hold_out(prepared, bridge_alone, lambda r: r.table != STEPS and not seen(r))
        if used is model:
            memory_errors(steps)
        step_errors(steps, held.predicted_s[: len(steps)], name, bar)
        throughput(held, f"{name}; H100, {BLACKWELL} and half of the steps seen")
        throughput(alone, f"{name}; H100 and {BLACKWELL} alone seen")
        step_errors(steps, alone.predicted_s[: len(steps)], f"{name}, no step seen", bar)
        if used is not model:
            continue
        bridge = [prepared[i] for i in others]
        base = constant_mfu(bridge, lambda r: r.system in ("hgx-h100", "hgx-b200"))
        errors = [abs(p.run.step_s / t - 1) for p, t in zip(bridge, base, strict=True)
                  if p.run.system not in ("hgx-h100", "hgx-b200")]  # fmt: skip
        print(f"baseline, constant MFU from H100 and B200: median {np.median(errors):.1%}, "
              f"p90 {np.quantile(errors, 0.9):.1%}")  # fmt: skip
        shipped = predict(prepared, DEFAULT)
        both = [abs(p.run.step_s / t - 1) for p, t in zip(bridge, shipped[others], strict=True)]
        print(f"shipped parameters, all rows (seen): median {np.median(both):.1%}, "
              f"p90 {np.quantile(both, 0.9):.1%}")  # fmt: skip
        print("calibrated:", held.efficiency)
        free = free_exponent(prepared, seen)
        print(f"left free, the exponent of power is {free:.2f} (assumed {DEFAULT.power_exponent})")
        if rows is not None:
            write_rows(rows, prepared, held, seen)


def free_exponent(prepared: list[Prepared], seen: Callable[[Run], bool]) -> float:
    """`Efficiency.power_exponent` as the seen runs would have it, all else at what is shipped."""
    names = ("gemm", "gemm_narrow", "gemm_block", "gemm_nvfp4", "power_exponent")
    priors = {**PRIOR_SD, "power_exponent": 0.3}
    chosen = [p for p in prepared if seen(p.run)]
    return calibrate(chosen, DEFAULT, names, priors).power_exponent


def others(model: OpTimes, path: Path) -> None:
    """Runs of other sources by the shipped parameters: nothing is fitted to them."""
    prepared = prepare(read_runs(path), model)
    errors = predict(prepared, DEFAULT) / np.array([p.run.step_s for p in prepared]) - 1
    for p, error in zip(prepared, errors, strict=True):
        r = p.run
        print(f"  {r.release}: {r.job.name}, {r.job.gpus} GPUs, {r.system}, {r.job.precision}, "
              f"{r.plan}: {r.step_s:.2f} s, predicted {error:+.1%}")  # fmt: skip
    size = np.abs(errors)
    print(f"other published runs: {size.size}, median error {np.median(size):.1%}, p90 "
          f"{np.quantile(size, 0.9):.1%}, bias {np.median(errors):+.1%}, over 25 %: "
          f"{(size > 0.25).sum()}")  # fmt: skip
    memory_errors([p for p in prepared if p.run.allocated_bytes])


def write_rows(path: Path, prepared: list[Prepared], held: HeldOut, seen: object) -> None:
    """Every run with its prediction: residuals by row."""
    assert callable(seen)
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["table", "line", "release", "system", "model", "precision", "plan", "seen",
                      "measured_s", "predicted_s", "residual"])  # fmt: skip
        for p, t in zip(prepared, held.predicted_s, strict=True):
            r = p.run
            out.writerow([r.table, r.row, r.release, r.system, r.job.name, r.job.precision,
                          r.plan, seen(r), r.step_s, t, t / r.step_s - 1])  # fmt: skip


def speed(model: OpTimes) -> None:
    """Configurations a second of one core's time, and a lever study."""
    framework = Framework(graphs="full", fused_moe=True, ep_overlap=True)
    base = load_system("hgx-b200")
    factors = (1.05, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
    steps = [(lever, 1 / f if lever == "launch_latency" else f)
             for lever in list(LEVERS)[:12] for f in factors]  # fmt: skip
    systems = [base, *(apply_lever(base, lever, factor) for lever, factor in steps)]
    start = time.process_time()
    tried = 0
    for name in MODELS:
        cache = TimeCache(model, tuple(systems))
        for gpus in (256, 1024, 4096):
            job = Job(load_model_config(name), gpus, 8 * gpus, 4096, name=name, precision="mxfp8",
                      gradient_bytes=2.0, framework=framework)  # fmt: skip
            tried += search(job, model, systems, cache=cache).tried
    spent = time.process_time() - start
    print(f"lever study, {len(systems) - 1} candidates x {len(MODELS)} models x 3 scales: "
          f"{spent:.0f} s of one core (bar 180 s), {tried * len(systems) / spent:,.0f} "
          "configurations a second")  # fmt: skip
    job = Job(load_model_config("deepseek-v3"), 1024, 8192, 4096, name="deepseek-v3")
    start = time.process_time()
    one = search(job, model, [base])
    spent = time.process_time() - start
    print(f"one search on one system: {one.tried} configurations in {spent:.1f} s, "
          f"{one.tried / spent:,.0f} a second (bar 1,000)")  # fmt: skip


def main() -> None:
    """Run the bars and the speed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--unseen", type=Path)
    parser.add_argument("--rows", type=Path, help="CSV of residuals by row to write")
    parser.add_argument("--runs", type=Path, help="published runs of other sources",
                        default=Path(__file__).with_name("published_runs.yaml"))  # fmt: skip
    options = parser.parse_args()
    model = load(options.model)
    bars(model, load(options.unseen) if options.unseen else None, options.rows)
    others(model, options.runs)
    speed(model)


if __name__ == "__main__":
    main()
