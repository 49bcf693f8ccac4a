"""Writes docs/accuracy.md from backtests: what the model predicts for GPUs it has not seen.

    python benchmarks/accuracy.py [--rows 1500] [--frameworks trtllm,sglang,vllm]
                                  [--scores build/accuracy] [-o docs/accuracy.md]

Every framework's backtests, time-ordered and with one GPU left out, are run once and kept in
``--scores``; delete a file there to run it again. Nothing in the page is written by hand but
the explanations: what loses is found by the same rules as what wins.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import accuracy_aims as aims
import accuracy_latency
import accuracy_noise
import accuracy_tables as tables
import accuracy_unrun
import accuracy_workloads as whole
import msgspec

from codesign._common.files import write_text
from codesign._common.scores import Backtest, BacktestRow, WorkloadBacktestRow
from codesign.hardware import load_system, system_of_gpu
from codesign.projection.backtest import DEFAULT_PAIRS, workload_backtest
from codesign.sensitivity import SensitivityModel, fit
from codesign.sensitivity import backtest as scoring
from codesign.sensitivity.backtest_rows import RowCache
from codesign.sensitivity.gemm import GemmModel
from codesign.sources.perfdb import PerfDB

MAIN = "trtllm"
OLD = ("a100-80gb-sxm", "h100-sxm", "l40s")


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1500, help="rows scored of a group and target")
    parser.add_argument("--frameworks", default="trtllm,sglang,vllm")
    parser.add_argument("--scores", type=Path, default=Path("build/accuracy"))
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/accuracy.md"))
    asked = parser.parse_args()
    asked.scores.mkdir(parents=True, exist_ok=True)
    frameworks = asked.frameworks.split(",")
    older, others = (
        {name: _scores(name, asked.rows, protocol, asked.scores) for name in frameworks}
        for protocol in ("time-ordered", "leave-one-gpu-out")
    )
    if MAIN not in frameworks:
        _note(f"scores kept in {asked.scores}; no page without {MAIN}")
        return
    write_text(asked.output, _page(older, others, asked.rows))
    _note(f"wrote {asked.output}")


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _scores(framework: str, rows: int, protocol: str, folder: Path) -> Backtest:
    kept = folder / f"{framework}-{protocol}-{rows}.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Backtest)
    db = PerfDB()
    cached = RowCache(db)
    ops: list[BacktestRow] = []
    workloads: list[WorkloadBacktestRow] = []
    for split in scoring.protocols(db.gpus())[protocol].splits:
        if protocol == "leave-one-gpu-out" and not set(split.targets) & set(tables.TARGETS):
            continue
        _note(f"{framework}: fit on {', '.join(split.train)}")
        model = fit(cached, gpus=split.train, framework=framework)
        ops += scoring.score_split(cached, model, split, framework, rows, note=_note)
        pairs = [p for p in DEFAULT_PAIRS if load_system(p[1]).gpu.name in split.targets]
        workloads += workload_backtest(db, model, pairs, note=_note, framework=framework)
    result = Backtest(ops=tuple(ops), workloads=tuple(workloads), protocol=protocol)
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    return result


def gemm_models(frameworks: list[str]) -> dict[str, SensitivityModel]:
    """GEMM models of the older parts, by framework."""
    return {
        name: fit(RowCache(PerfDB()), gpus=OLD, framework=name, models=(GemmModel(),))
        for name in frameworks
    }


def hbm_experiment(models: dict[str, SensitivityModel]) -> list[str]:
    """H100 to H200 with H200 left out: the same silicon, HBM x1.43."""
    lines = [
        "| framework | precision | decode: measured | model | control: measured | model |",
        "|---|---|---|---|---|---|",
    ]
    for framework, model in models.items():
        db = RowCache(PerfDB())
        for precision in ("bf16", "fp8"):
            ops, ratio, modelled = _h100_to_h200(db, model, framework, precision)
            if not len(ops):
                continue
            weights = ops["n"].astype(float) * ops["k"].astype(float)
            small = ((ops["m"] <= 16) & (weights >= 64e6)).to_numpy(bool)
            large = (ops["m"] >= 4096).to_numpy(bool)
            cells = [tables.median(x[rows]) for rows in (small, large) for x in (ratio, modelled)]
            numbers = " | ".join(f"{c:.2f}" for c in cells)
            lines.append(f"| {tables.TITLES[framework]} | {precision} | {numbers} |")
    return lines


def _h100_to_h200(db: RowCache, model, framework: str, precision: str):
    from codesign.sensitivity.backtest_rows import fastest_by_op, source_times
    from codesign.sensitivity.training import measured_rows

    parts = {g: measured_rows(db, g, "gemm", framework) for g in ("h100-sxm", "h200-sxm")}
    ops = parts["h200-sxm"]
    ops = ops[ops["precision"] == precision].reset_index(drop=True)
    before = source_times(ops, fastest_by_op(parts["h100-sxm"]))
    ops = ops[before > 0].reset_index(drop=True)
    ratio = before[before > 0] / ops["time_s"].to_numpy(float)
    both = [system_of_gpu(g) for g in ("h100-sxm", "h200-sxm")]
    times = model.times(ops, both)
    return ops, ratio, times[0] / times[1]


def _page(found: dict[str, Backtest], others: dict[str, Backtest], rows: int) -> str:
    main_scores = found[MAIN]
    ops = list(main_scores.ops)
    done = [row for scores in found.values() for row in scores.workloads]
    both = {"older": found, "others": others}
    models = gemm_models(list(found))
    first = [r for r in ops if set(r.trained_on) <= set(OLD) and r.target != "h100-sxm"]
    parts = [
        tables.HEAD.format(rows=rows, names=", ".join(tables.TITLES[f] for f in found)),
        "## How true the intervals are\n\n" + tables.INTERVALS,
        "\n".join(tables.coverage(ops, done)),
        tables.ELSEWHERE,
        "\n".join(tables.coverage_elsewhere(found)),
        "## What was aimed at\n\n" + aims.TEXT,
        "\n".join(aims.lines({p: {k: v.ops for k, v in s.items()} for p, s in both.items()})),
        aims.FLOORS,
        "## Spec-only, mean over frameworks\n\n" + tables.SPEC_ONLY,
        "\n".join(tables.spec_only({k: list(v.ops) for k, v in found.items()})),
        accuracy_latency.TEXT,
        "\n".join(accuracy_latency.lines(models)),
        "## What loses\n\n" + "\n".join(tables.losses(first)),
        tables.REASONS,
        "## Natural experiment: H100 to H200\n\n" + tables.EXPERIMENT,
        "\n".join(hbm_experiment(models)),
        "## Whole workloads\n\n" + whole.TEXT,
        "\n".join(whole.by_framework(both)),
        whole.DETAIL,
        "\n".join(whole.every(main_scores.workloads)),
        "## Noise floors\n\n" + accuracy_noise.TEXT,
        "\n".join(accuracy_noise.lines()),
        accuracy_unrun.TEXT,
        accuracy_noise.GEMM_TEXT,
        "\n".join(accuracy_noise.gemm_lines(models)),
        accuracy_noise.MIDDLE_TEXT,
        "\n".join(accuracy_noise.middle_lines(list(found))),
        "## Every score: both tiers\n\n" + tables.EVERY,
        "\n".join(tables.every(ops)),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
