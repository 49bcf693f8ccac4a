"""Each workload on the baseline: where its time goes, and against which bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.rates import rate_of
from codesign.projection import Projection, interval
from codesign.projection.rates import borrowed_rates
from codesign.projection.step import scale_step, step_of
from codesign.recommend.carriers import op_shares
from codesign.recommend.schema import BreakdownRow, Interval, RooflinePoint, WorkloadResult
from codesign.recommend.speed_of_light import gap
from codesign.recommend.wording import name_of, percent
from codesign.workload.accounting import model_flops

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.recommend.portfolio import WorkloadEntry
    from codesign.recommend.study import Study
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_TOP_OPS = 12
_ROOFLINE_POINTS = 24


def workload_result(study: Study, entry: WorkloadEntry, projection: Projection) -> WorkloadResult:
    """One workload on the baseline system. ``projection`` may be onto any systems."""
    char, base = study.chars[entry.name], study.base
    header, ops = char.header, char.ops
    ideal = gap(char, base, study.model)
    utilization, peaks = _mfu(char, base, projection.base_step_time_s)
    step_s = projection.base_step_time_s
    exposed = projection.base_exposed_s
    per_gpu = None
    if header.tokens_per_step:
        per_gpu = header.tokens_per_step / step_s / max(header.gpus, 1)
    return WorkloadResult(
        name=entry.name, title=entry.title or header.title or entry.name, phase=header.phase,
        weight=entry.weight, system=base.name, gpus=header.gpus, step_time_s=step_s,
        step_time_modelled=_modelled(study, entry.name), tokens_per_s_per_gpu=per_gpu,
        breakdown=breakdown(char, projection), evidence=_evidence(char, projection),
        binding=study.base_shares[entry.name],
        speed_of_light_s=ideal.bound_s, mfu=utilization, mfu_peaks=peaks,
        roofline=_roofline(char, exposed, step_s),
        peak_flops_per_s=dict(sorted(base.gpu.peak_dense_flops_per_s.items())),
        hbm_bandwidth_bytes_per_s=base.gpu.hbm_bandwidth_bytes_per_s,
        top_ops=tuple(op_shares(entry.name, ops, exposed / step_s, np.zeros(len(ops)))[:_TOP_OPS]),
        quality_warnings=_warnings(char, projection),
        assumptions=dict(sorted(header.assumptions.items())),
        recipe=_recipe(char), gap=ideal,
    )  # fmt: skip


def breakdown(char: Characterization, projection: Projection) -> tuple[BreakdownRow, ...]:
    """Slices of the step by op class and precision, collectives by kind; they add up to it."""
    ops, step_s = char.ops, projection.base_step_time_s
    precision = ops["precision"].fillna("")
    kind = ops["collective"].fillna("")
    seconds: dict[tuple[str, str], float] = {}
    for op_class, p, c, value in zip(
        ops["op_class"], precision, kind, projection.base_exposed_s, strict=True
    ):
        if op_class == "collective":
            label = f"exposed {c or 'collective'}".replace("_", "-")
        else:
            label = (
                f"{name_of(op_class)} {p}" if p and op_class in _MULTIPLIES else name_of(op_class)
            )
        seconds[(str(op_class), label)] = seconds.get((str(op_class), label), 0.0) + float(value)
    rows = [
        BreakdownRow(label, op_class, value, value / step_s)
        for (op_class, label), value in seconds.items() if value > 0
    ]  # fmt: skip
    rows.sort(key=lambda r: (-r.time_s, r.label))
    for label, value in (("pipeline bubble", projection.base_bubble_s),
                         ("idle", projection.fixed_idle_s)):  # fmt: skip
        if value > 0:
            rows.append(BreakdownRow(label, "idle", value, value / step_s))
    return tuple(rows)


_MULTIPLIES = ("gemm", "grouped_gemm", "attention", "conv")


def _evidence(char: Characterization, projection: Projection) -> dict[str, float]:
    """Share of step time by evidence; bubble and idle time as the header knows them."""
    total: dict[str, float] = {}
    for kind, value in zip(char.ops["evidence"], projection.base_exposed_s, strict=True):
        if value > 0:
            total[str(kind)] = total.get(str(kind), 0.0) + float(value)
    # A composed step derives its bubble from the schedule; a captured one measured its idle time.
    idle = projection.base_bubble_s + projection.fixed_idle_s
    if idle > 0:
        kind = "assumed" if char.header.capture_method == "composed" else "measured"
        total[kind] = total.get(kind, 0.0) + idle
    step_s = projection.base_step_time_s
    return {k: v / step_s for k, v in sorted(total.items(), key=lambda i: (-i[1], i[0]))}


def _numbers(column: Any) -> Array:
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _modelled(study: Study, name: str) -> Interval:
    """The step composed from the model's own op times, none of them measured."""
    step = step_of(study.chars[name])
    rows = []
    for by_workload in study.base_times:
        times = by_workload[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(step.time_s > 0, times / step.time_s, 1.0)
        ratio = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)
        rows.append(np.atleast_1d(scale_step(step, ratio).step_time_s))
    return interval(np.concatenate(rows))


def _mfu(
    char: Characterization, base: System, step_s: float
) -> tuple[float | None, dict[str, float]]:
    """FLOPs that the model needs / (step time x dense peak of each op's precision), and the peaks.

    Recomputed FLOPs are not needed twice and do not count. None where the FLOPs of a
    multiply are unknown.
    """
    ops = char.ops[char.ops["op_class"].isin(_MULTIPLIES)]
    if not len(ops) or ops["flops"].isna().any():
        return None, {}
    precision = ops["precision"].fillna("bf16")
    rates = {str(name): rate_of(base.gpu, str(name)) for name in precision.unique()}
    ideal_s = sum(model_flops(ops[precision == name]) / value for name, (_, value) in rates.items())
    if not np.isfinite(ideal_s):
        return None, {}
    return float(ideal_s / step_s), dict(sorted(rates.values()))


def _roofline(char: Characterization, exposed: Array, step_s: float) -> tuple[RooflinePoint, ...]:
    ops = char.ops
    flops, moved = _numbers(ops["flops"]), _numbers(ops["bytes"])
    time = _numbers(ops["time_s"])
    known = (flops > 0) & (moved > 0) & (time > 0)
    chosen = [int(i) for i in np.argsort(-exposed, kind="stable") if known[i]][:_ROOFLINE_POINTS]
    return tuple(
        RooflinePoint(
            label=str(ops["name"].iloc[i]), op_class=str(ops["op_class"].iloc[i]),
            precision=str(p) if isinstance(p := ops["precision"].iloc[i], str) else "",
            flop_per_byte=float(flops[i] / moved[i]), flops_per_s=float(flops[i] / time[i]),
            time_share=float(exposed[i] / step_s),
        )
        for i in chosen
    )  # fmt: skip


def _warnings(char: Characterization, projection: Projection) -> tuple[str, ...]:
    quality = char.header.quality
    found = list(quality.warnings)
    for quantity, entry in sorted(quality.reliability.items()):
        if not entry.reliable:
            found.append(f"{quantity}: {'; '.join(entry.reasons) or 'not reliable'}")
    found += borrowed_rates(
        char, projection.base_exposed_s / projection.base_step_time_s, projection.base
    )
    if not quality.complete:
        found.append("the input was cut short; the result is incomplete")
    held = projection.held_share
    if held > 0:
        found.append(
            f"the model has no say on ops that take {percent(held)} of the step; they keep their "
            "time"
        )
    return tuple(found)


def _recipe(char: Characterization) -> dict[str, Any]:
    header = char.header
    return {
        "model": header.model or {}, "parallelism": header.parallelism or {},
        "capture_method": header.capture_method, "notes": list(header.notes),
        "software": dict(sorted(header.software.items())),
    }  # fmt: skip
