"""Recommendations built in code. Every number here is invented, for tests only."""

from __future__ import annotations

import random

from codesign.recommend.schema import (
    Assumption,
    Backtest,
    BacktestRow,
    BreakdownRow,
    Cost,
    CostItem,
    Gap,
    GapRow,
    Interval,
    LeverPoint,
    LeverResult,
    OpShare,
    PairResult,
    Provenance,
    Recommendation,
    Recommendations,
    RooflinePoint,
    WorkloadBacktestRow,
    WorkloadResult,
)

# name, title, phase, weight, step seconds, tokens/s/GPU, speed-of-light share, class shares
WORKLOADS = (
    (
        "llama-3.1-8b-sft",
        "Llama-3.1-8B SFT",
        None,
        0.10,
        1.42,
        9870.0,
        0.55,
        {
            "gemm": 0.62,
            "attention": 0.14,
            "norm": 0.06,
            "elementwise": 0.07,
            "collective": 0.05,
            "optimizer": 0.04,
            "idle": 0.02,
        },
    ),
    (
        "llama-3.1-70b-pretrain-bf16",
        "Llama-3.1-70B pre-training, BF16",
        None,
        0.15,
        18.4,
        868.0,
        0.61,
        {
            "gemm": 0.71,
            "attention": 0.10,
            "norm": 0.04,
            "elementwise": 0.05,
            "collective": 0.07,
            "idle": 0.03,
        },
    ),
    (
        "llama-3.1-70b-pretrain-fp8",
        "Llama-3.1-70B pre-training, FP8",
        None,
        0.15,
        13.6,
        1174.0,
        0.48,
        {
            "gemm": 0.58,
            "attention": 0.13,
            "norm": 0.06,
            "elementwise": 0.07,
            "quantize": 0.05,
            "collective": 0.08,
            "idle": 0.03,
        },
    ),
    (
        "deepseek-v3-pretrain-fp8",
        "DeepSeek-V3 pre-training, FP8, EP64",
        None,
        0.25,
        22.9,
        1430.0,
        0.37,
        {
            "grouped_gemm": 0.34,
            "gemm": 0.17,
            "attention": 0.12,
            "collective": 0.19,
            "elementwise": 0.06,
            "quantize": 0.03,
            "idle": 0.09,
        },
    ),
    (
        "llama-3.1-70b-rollout-decode",
        "Llama-3.1-70B RL rollout, decode",
        "decode",
        0.15,
        0.0186,
        688.0,
        0.66,
        {"gemm": 0.63, "attention": 0.22, "collective": 0.08, "norm": 0.03, "elementwise": 0.04},
    ),
    (
        "llama-3.1-70b-rollout-prefill",
        "Llama-3.1-70B RL rollout, prefill",
        "prefill",
        0.05,
        0.412,
        4971.0,
        0.58,
        {"gemm": 0.74, "attention": 0.15, "collective": 0.06, "norm": 0.02, "elementwise": 0.03},
    ),
    (
        "qwen3-235b-a22b-rollout-decode",
        "Qwen3-235B-A22B RL rollout, decode",
        "decode",
        0.15,
        0.0241,
        1062.0,
        0.52,
        {
            "grouped_gemm": 0.41,
            "attention": 0.25,
            "gemm": 0.12,
            "collective": 0.15,
            "norm": 0.03,
            "elementwise": 0.04,
        },
    ),
)
# lever, title, baseline value and unit, strength, USD for +100 %, mm2 for +100 %, W, status
LEVERS = (
    ("hbm_bandwidth", "HBM bandwidth", 3.35, "TB/s", 0.42, 1250.0, 68.0, 55.0, "identified"),
    ("sm_count", "SM count", 132, "SMs", 0.38, 900.0, 480.0, 260.0, "identified"),
    ("sm_clock", "SM clock", 1830, "MHz", 0.47, None, 0.0, 410.0, "identified"),
    (
        "fp8_throughput",
        "FP8 tensor throughput",
        1979,
        "TFLOP/s",
        0.19,
        140.0,
        36.0,
        90.0,
        "identified",
    ),
    (
        "bf16_throughput",
        "BF16 tensor throughput",
        989,
        "TFLOP/s",
        0.14,
        180.0,
        45.0,
        110.0,
        "identified",
    ),
    ("nvlink_bandwidth", "NVLink bandwidth", 450, "GB/s", 0.08, 160.0, 29.0, 38.0, "identified"),
    ("nvlink_domain", "NVLink domain", 8, "GPUs", 0.11, None, None, None, "assumed"),
    ("scaleout_bandwidth", "Scale-out bandwidth", 50, "GB/s", 0.03, 900.0, None, 25.0, "assumed"),
    ("l2_capacity", "L2 capacity", 50, "MB", 0.02, 60.0, 87.0, 6.0, "not_identifiable"),
    ("launch_latency", "Launch latency", 2.1, "µs", 0.06, None, None, None, "identified"),
    ("power", "Board power", 700, "W", 0.17, None, None, None, "assumed"),
    ("fp4_throughput", "FP4 tensor throughput", 0, "TFLOP/s", 0.0, None, None, None, "no_effect"),
)
STEPS = (1.1, 1.25, 1.5, 2.0, 3.0)


def interval(value: float, half: float) -> Interval:
    return Interval(value, value - half, value + half * 1.15)


def item(value: float | None, unit: str, kind: str) -> CostItem:
    if value is None:
        return CostItem(None, unit, "no public figure found", "assumed")
    return CostItem(value, unit, f"invented {kind} model, table 2", "modelled")


def cost(usd: float | None, area: float | None, power: float | None, step: float) -> Cost | None:
    if usd is None and area is None and power is None:
        return None
    scale = step - 1
    parts = [None if v is None else v * scale for v in (area, power, usd)]
    return Cost(
        item(parts[0], "mm2", "area"), item(parts[1], "W", "power"), item(parts[2], "USD", "money")
    )


def gain_at(strength: float, factor: float, knee: float = 2.2) -> Interval:
    if strength == 0:
        return Interval(1.0, 1.0, 1.0)
    effective = min(factor, knee + 0.25 * max(0.0, factor - knee)) if factor > 1 else 1 / factor
    value = 1 / (1 - strength + strength / effective)
    return interval(value, 0.03 * (value - 1) + 0.11 * (value - 1) * factor**0.3)


def op(
    workload: str,
    klass: str,
    name: str,
    shape: str,
    time: float,
    saved: float,
    precision: str | None = "bf16",
    evidence: str = "measured",
) -> OpShare:
    return OpShare(workload, klass, name, shape, precision, evidence, time, saved)


CARRIED = (
    op("llama-3.1-70b-rollout-decode", "gemm", "mlp_gate_up", "m 16 n 57344 k 8192", 0.31, 0.27),
    op(
        "qwen3-235b-a22b-rollout-decode",
        "grouped_gemm",
        "experts",
        "m 512 n 1536 k 4096, 32 experts",
        0.41,
        0.22,
        "fp8",
        "interpolated",
    ),
    op(
        "llama-3.1-70b-rollout-decode",
        "attention",
        "attention_decode",
        "16 x 8 heads, kv 8192",
        0.22,
        0.13,
    ),
    op(
        "deepseek-v3-pretrain-fp8",
        "elementwise",
        "swiglu",
        "m 65536 n 2048",
        0.06,
        0.07,
        None,
        "modelled",
    ),
)


def lever(row: tuple, rng: random.Random) -> LeverResult:
    name, title, base, unit, strength, usd, area, power, status = row
    steps = tuple(1 / s for s in STEPS) if name == "launch_latency" else STEPS
    points = []
    for factor in steps:
        gain = gain_at(strength, factor)
        cost_here = cost(usd, area, power, factor)
        money = cost_here.money.value if cost_here else None
        by = {w[0]: gain_at(min(0.8, strength * rng.uniform(0.1, 1.9)), factor) for w in WORKLOADS}
        points.append(
            LeverPoint(
                factor,
                f"{100 * (factor - 1):+.0f} %: {base * factor:.3g} {unit}",
                gain,
                by,
                cost_here,
                100 * (gain.value - 1) / money if money else None,
            )
        )
    before = {
        "tensor": 0.46,
        "hbm": 0.27,
        "nvlink": 0.09,
        "launch": 0.06,
        "l2": 0.07,
        "scaleout": 0.05,
    }
    shift = strength * 0.4
    after = {**before, "tensor": before["tensor"] + shift, "hbm": before["hbm"] - shift}
    return LeverResult(
        name,
        title,
        f"{base:g} {unit}",
        status,
        REASONS.get(status, ""),
        tuple(points),
        interval(-strength, 0.04) if status != "not_identifiable" else None,
        2.2 if strength > 0.3 else None,
        "Past this the next 10 % adds under 0.5 %" if strength > 0.3 else "",
        before,
        after,
        CARRIED if strength else (),
        f"Run the same step on two GPUs that differ only in {title.lower()} and compare: H100 and "
        "H200 differ in HBM alone.",
    )


REASONS = {
    "identified": "Five GPUs of three architectures differ in it while others stand still.",
    "assumed": "No measured pair of GPUs isolates it; it follows the stated physical law.",
    "not_identifiable": "L2 capacity moves with SM count on every GPU measured.",
    "no_effect": "No op of the portfolio multiplies in FP4.",
}


def recommendation(rank: int, result: LeverResult, step: int = 2) -> Recommendation:
    point = result.points[step]
    by = "gain per USD" if point.gain_per_cost is not None else "gain: no sourced cost"
    return Recommendation(
        rank,
        "hardware",
        result.lever,
        result.title,
        point.factor,
        point.label,
        point.gain,
        result.status,
        point.cost,
        point.gain_per_cost,
        by,
        max(0.0, 0.72 - 0.2 * (rank - 1)),
        result.reason,
        point.by_workload,
        result.carried_by,
        {"measured": 0.58, "interpolated": 0.31, "modelled": 0.11} if result.carried_by else {},
        (
            "If decode falls below 20 % of GPU-hours, SM count comes first.",
            "If HBM costs twice the assumed price, FP8 throughput comes first.",
        ),
        result.refuted_by,
    )


def workload(row: tuple, rng: random.Random) -> WorkloadResult:
    name, title, phase, weight, step_s, tokens, ideal, classes = row
    breakdown = tuple(
        BreakdownRow({"gemm": "GEMM", "idle": "Idle: pipeline bubble"}.get(k, k), k, step_s * v, v)
        for k, v in classes.items()
    )
    peaks = {"bf16": 989.4e12, "fp8": 1978.9e12, "fp16": 989.4e12}
    points = []
    for i in range(14):
        intensity = 10 ** rng.uniform(-0.4, 3.4)
        precision = "fp8" if "fp8" in name and i % 2 else "bf16"
        rate = min(peaks[precision], 3.35e12 * intensity) * rng.uniform(0.35, 0.88)
        klass = rng.choice([k for k in classes if k not in ("idle", "collective")])
        points.append(
            RooflinePoint(f"{klass}_{i}", klass, precision, intensity, rate, 0.3 / (i + 1))
        )
    return WorkloadResult(
        name,
        title,
        phase,
        weight,
        "HGX H100 (8 x H100 SXM)",
        8 if phase else 256,
        step_s,
        interval(step_s * 1.03, step_s * 0.06),
        tokens,
        breakdown,
        {"measured": 0.61, "interpolated": 0.27, "modelled": 0.09, "assumed": 0.03},
        {"tensor": 0.46, "hbm": 0.27, "nvlink": 0.09, "launch": 0.06, "l2": 0.07, "scaleout": 0.05},
        step_s * ideal,
        None if phase == "decode" else 0.41,
        tuple(points),
        peaks,
        3.35e12,
        tuple(op(name, k, f"{k}_main", "m 4096 n 8192 k 8192", v, 0.0) for k, v in classes.items()),
        ("Idle time is not reliable: the capture lacks half of its launches.",)
        if phase == "prefill"
        else (),
        {"expert imbalance": "power_law_1.2, assumed", "overlap": "all-gather hides behind GEMMs"},
        {
            "model": title,
            "precision": "fp8" if "fp8" in name else "bf16",
            "batch": 16,
            "parallelism": {"tp": 8, "pp": 1, "ep": 64},
        },
        gap_of(classes, step_s, ideal),
        {}
        if phase == "decode"
        else {k: peaks[k] for k in ("bf16", "fp8") if k in name} or {"bf16": peaks["bf16"]},
    )


def gap_of(classes: dict[str, float], step_s: float, ideal: float) -> Gap:
    """Each class at ``ideal`` of its time, attainable half way; tensor cores bind the first."""
    busy = {k: v * step_s for k, v in classes.items() if k != "idle"}
    rows = tuple(GapRow(k, v * ideal, v * (1 + ideal) / 2, v) for k, v in busy.items())
    total = sum(busy.values())
    rest = total - rows[0].time_s
    by_resource = (
        GapRow("tensor", rows[0].bound_s, rows[0].attainable_s, rows[0].time_s),
        GapRow("hbm", rest * ideal, rest * (1 + ideal) / 2, rest),
    )
    return Gap(
        total * ideal,
        total * (1 + ideal) / 2,
        step_s,
        classes.get("idle", 0.0) * step_s,
        0.0,
        rows,
        by_resource,
        0.02,
        0.0,
        0.01,
    )


def backtest(rng: random.Random) -> Backtest:
    trained = ("a100-sxm-80", "h100-sxm", "l40s")
    ops = []
    for target in ("h200-sxm", "b200-sxm", "gb200"):
        for klass, precision in (
            ("gemm", "bf16"),
            ("gemm", "fp8"),
            ("attention", "bf16"),
            ("collective", "bf16"),
        ):
            for tier, source in (("spec-only", None), ("transfer", "h100-sxm")):
                median = rng.uniform(0.04, 0.14)
                ops.append(
                    BacktestRow(
                        klass,
                        precision,
                        target,
                        tier,
                        source,
                        trained,
                        rng.randint(900, 40_000),
                        median,
                        median * 1.35,
                        median * 2.6,
                        rng.uniform(-0.05, 0.05),
                        rng.uniform(0.74, 0.95),
                        rng.uniform(0.4, 0.55),
                        rng.uniform(0.2, 0.3) if source else None,
                        rng.uniform(0.09, 0.2),
                        0.19,
                    )
                )
    rows = []
    for target, scale in (("h200-sxm", 1.0), ("b200-sxm", 1.75), ("gb200", 1.9)):
        for name, measured in (
            ("llama-3.1-70b-decode-b16", 1.36),
            ("llama-3.1-70b-pretrain-bf16", 1.03),
        ):
            real = measured * scale
            guess = real * rng.uniform(0.93, 1.06)
            near = interval(guess, 0.06 * scale)
            rows.append(
                WorkloadBacktestRow(
                    name,
                    "h100-sxm",
                    target,
                    real,
                    near,
                    guess / real - 1,
                    near.lo <= real <= near.hi,
                    trained,
                )
            )
    miss = WorkloadBacktestRow(
        "deepseek-v3-pretrain-fp8",
        "h100-sxm",
        "gb200",
        2.61,
        Interval(2.05, 1.86, 2.24),
        2.05 / 2.61 - 1,
        False,
        trained,
    )
    return Backtest(
        ops=tuple(ops),
        workloads=(*rows, miss),
        protocol="Fitted on A100, H100 and L40S; every other GPU is unseen",
    )


def recommendations(**changes: object) -> Recommendations:
    """A full file; ``changes`` replace fields of the top level."""
    rng = random.Random(7)
    levers = tuple(lever(row, rng) for row in LEVERS)
    ranked = sorted(levers, key=lambda r: -r.points[2].gain.value)
    advice = tuple(recommendation(i, r) for i, r in enumerate(ranked, start=1))
    pair = PairResult(
        ("hbm_bandwidth", "fp8_throughput"),
        (1.5, 1.5),
        "+50 % and +50 %",
        interval(1.318, 0.03),
        1.29,
        Interval(1.022, 1.006, 1.041),
        levers[0].points[2].cost,
        0.0187,
    )
    rival = PairResult(
        ("sm_count", "sm_clock"),
        (1.5, 1.25),
        "+50 % and +25 %",
        interval(1.25, 0.04),
        1.31,
        Interval(0.954, 0.93, 0.98),
        None,
        None,
    )
    fields: dict = {
        "title": "Where the next GPU should spend: an LLM fleet on H100",
        "audience": "the architecture team",
        "generated_at": "2026-01-01T00:00:00Z",
        "baseline": "hgx-h100",
        "baseline_title": "HGX H100 (8 x H100 SXM 80 GB)",
        "ranking_cost": "USD per GPU",
        "recommendations": advice,
        "levers": levers,
        "pairs": (pair, rival),
        "workloads": tuple(workload(row, rng) for row in WORKLOADS),
        "backtest": backtest(rng),
        "assumptions": (
            Assumption(
                "expert imbalance",
                "power_law_1.2",
                "invented survey of routers",
                "assumed",
                "recipe key `distribution`",
            ),
            Assumption(
                "HBM price",
                "15 USD/GB",
                "invented price list, table 1",
                "assumed",
                "hwspecs/costs.yaml: hbm.usd_per_gb",
            ),
        ),
        "warnings": ("Weights are the default portfolio's, not your fleet's.",),
        "provenance": Provenance(
            "0.1.0",
            "build/model.json",
            "9f" * 32,
            ("a100-sxm-80", "h100-sxm", "h200-sxm"),
            0,
            1000,
            {"reports/portfolios/default.yaml": "ab" * 32, "llama-3.1-8b-sft.parquet": "cd" * 32},
            {"codesign": "0.1.0", "numpy": "2.3.0"},
        ),
    }
    return Recommendations(**{**fields, **changes})


def empty() -> Recommendations:
    """A file in which nothing was found."""
    return recommendations(
        recommendations=(),
        levers=(),
        pairs=(),
        workloads=(),
        warnings=(),
        backtest=Backtest(),
        assumptions=(),
    )
