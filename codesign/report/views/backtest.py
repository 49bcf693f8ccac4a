"""How the same model did on GPUs it had not seen, in plain words, misses in the open."""

from __future__ import annotations

from collections.abc import Sequence

from codesign.recommend.schema import Backtest, BacktestRow, WorkloadBacktestRow
from codesign.report import formatting as fmt
from codesign.report.charts.dots import DotChart, DotInput, dot_chart
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import sentence

MAX_CHART_ROWS = 24


def summary(backtest: Backtest) -> tuple[str, ...]:
    """Sentences, one a fact; a single one where nothing was scored."""
    if not backtest.ops and not backtest.workloads:
        return (
            "No backtest was supplied, so nothing here says how far the projections are to be "
            "trusted. Run `codesign backtest` and pass its file.",
        )
    lines = [sentence(backtest.protocol)] if backtest.protocol else []
    if backtest.workloads:
        lines += _workload_lines(backtest.workloads)
    if backtest.ops:
        lines += _op_lines(backtest.ops)
    return tuple(lines)


def _workload_lines(rows: Sequence[WorkloadBacktestRow]) -> list[str]:
    hits = sum(r.covered for r in rows)
    worst = max(rows, key=lambda r: abs(r.error))
    return [
        f"Whole workloads: {hits} of {len(rows)} measured gains fell inside the projected 90 % "
        f"interval; nine of ten is what the interval promises.",
        f"Median error of the projected gain: {fmt.share(_median([abs(r.error) for r in rows]))}; "
        f"the worst is {worst.workload} from {worst.source} to {worst.target}, "
        f"{fmt.signed_share(worst.error)}.",
    ]


def _op_lines(rows: Sequence[BacktestRow]) -> list[str]:
    lines = []
    for tier in ("transfer", "spec-only"):
        chosen = [r for r in rows if r.tier == tier]
        if not chosen:
            continue
        n = sum(r.n for r in chosen)
        covered = sum(r.n * r.coverage_90 for r in chosen) / n if n else float("nan")
        better = sum(r.median_ape <= min(_baselines(r).values()) for r in chosen)
        lines.append(
            f"Single ops, {tier}: {fmt.count(n)} measured rows in {len(chosen)} groups. The median "
            f"error of a group runs from {fmt.share(min(r.median_ape for r in chosen))} to "
            f"{fmt.share(max(r.median_ape for r in chosen))}; {fmt.share(covered)} of all rows "
            f"fell inside their 90 % interval; no simpler method does "
            f"better in {better} of {len(chosen)} groups."
        )
    return lines


def misses(backtest: Backtest) -> tuple[str, ...]:
    """Every workload outside its interval, and every group where a baseline did better."""
    lines = [
        f"{r.workload}, {r.source} to {r.target}: measured {fmt.factor(r.measured_gain)}, "
        f"projected {fmt.gain(r.projected_gain)}, "
        f"error {fmt.signed_share(r.error)}: outside its interval."
        for r in backtest.workloads if not r.covered
    ]  # fmt: skip
    for r in backtest.ops:
        name, best = min(_baselines(r).items(), key=lambda item: item[1])
        if best < r.median_ape:
            lines.append(
                f"{_group(r)}: {name} does better, {fmt.share(best)} against "
                f"{fmt.share(r.median_ape)} median error."
            )
        if r.coverage_90 < 0.8 and r.n >= 10:
            lines.append(
                f"{_group(r)}: only {fmt.share(r.coverage_90)} of {fmt.count(r.n)} rows lie inside "
                f"their 90 % interval: the interval is too narrow here."
            )
    return tuple(lines)


def _baselines(r: BacktestRow) -> dict[str, float]:
    """Median error of every simpler method that was scored on the same rows."""
    scored = {
        "the datasheet roofline": r.roofline_median_ape,
        "the fitted roofline": r.fitted_roofline_median_ape,
        "the source's time times the peak ratio": r.ratio_median_ape,
    }
    return {name: value for name, value in scored.items() if value is not None}


def workload_table(backtest: Backtest) -> Table | None:
    """Every workload projection with its verdict."""
    if not backtest.workloads:
        return None
    columns = (Column("No.", True), Column("Workload"), Column("From"), Column("To (unseen)"),
               Column("Measured gain", True), Column("Projected gain", True), Column("Error", True),
               Column("Inside 90 %?"), Column("Trained on", wide=True))  # fmt: skip
    rows = [
        [Cell(str(i), i), Cell(r.workload), Cell(r.source), Cell(r.target),
         Cell(fmt.factor(r.measured_gain), r.measured_gain),
         Cell(fmt.gain(r.projected_gain), r.projected_gain.value),
         Cell(fmt.signed_share(r.error), r.error),
         Cell("yes") if r.covered else Cell("no: missed", tag="miss"),
         Cell(", ".join(r.trained_on))]
        for i, r in enumerate(backtest.workloads, start=1)
    ]  # fmt: skip
    return make_table("backtest-workloads", "Workloads: projected against measured", columns, rows)


def op_table(backtest: Backtest) -> Table | None:
    """Every op-level score beside the baselines."""
    if not backtest.ops:
        return None
    columns = (
        Column("Op class"), Column("Precision"), Column("Target (unseen)"), Column("Tier"),
        Column("From"), Column("n", True, "measured rows"), Column("Median APE", True),
        Column("MAPE", True), Column("p90 APE", True), Column("Bias", True),
        Column("Coverage", True, "share of rows inside their 90 % interval"),
        Column("Roofline median APE", True, "datasheet roofline on the same rows"),
        Column("Fitted roofline median APE", True, "roofline with a fitted floor and efficiencies"),
        Column("Peak-ratio median APE", True, "source time times the ratio of peaks"),
        Column("Trained on", wide=True),
    )  # fmt: skip
    rows = [
        [Cell(r.op_class), Cell(r.precision), Cell(r.target), Cell(r.tier),
         Cell(r.source or fmt.DASH), Cell(fmt.count(r.n), r.n),
         Cell(fmt.share(r.median_ape), r.median_ape, tag="strong"),
         Cell(fmt.share(r.mape), r.mape), Cell(fmt.share(r.p90_ape), r.p90_ape),
         Cell(fmt.signed_share(r.bias), r.bias),
         Cell(fmt.share(r.coverage_90), r.coverage_90, tag="miss" if r.coverage_90 < 0.8 else ""),
         Cell(fmt.share(r.roofline_median_ape), r.roofline_median_ape),
         Cell(fmt.optional_share(r.fitted_roofline_median_ape), r.fitted_roofline_median_ape),
         Cell(fmt.optional_share(r.ratio_median_ape), r.ratio_median_ape),
         Cell(", ".join(r.trained_on))]
        for r in backtest.ops
    ]  # fmt: skip
    return make_table("backtest-ops", "Single ops: error on unseen GPUs", columns, rows)


def op_chart(backtest: Backtest) -> DotChart | None:
    """Median error by target; the groups with most rows where there are too many to read."""
    if not backtest.ops:
        return None
    kept = sorted(backtest.ops, key=lambda r: -r.n)[:MAX_CHART_ROWS]
    kept.sort(key=lambda r: (r.target, r.tier, r.op_class, r.precision, r.source or ""))
    left_out = len(backtest.ops) - len(kept)
    note = f" The {left_out} groups with fewest rows are in the table only." if left_out else ""
    return dot_chart(
        "backtest-chart", "Median error on GPUs that the model had not seen",
        "Filled circle: this model, its line reaching to the 90th percentile of error. Square: "
        f"datasheet roofline. Diamond: roofline with fitted floor and efficiencies. Triangle: "
        f"source time times peak ratio.{note}",
        axis_label="absolute error, % of the measured time", inputs=[_dot(r) for r in kept],
        reference=0.0, tick_format="{:g} %",
    )  # fmt: skip


def _dot(r: BacktestRow) -> DotInput:
    others = [("square", 100 * r.roofline_median_ape,
               f"datasheet roofline: {fmt.share(r.roofline_median_ape)}")]  # fmt: skip
    if r.fitted_roofline_median_ape is not None:
        others.append(("diamond", 100 * r.fitted_roofline_median_ape,
                       f"fitted roofline: {fmt.share(r.fitted_roofline_median_ape)}"))  # fmt: skip
    if r.ratio_median_ape is not None:
        others.append(("triangle", 100 * r.ratio_median_ape,
                       f"peak ratio: {fmt.share(r.ratio_median_ape)}"))  # fmt: skip
    hover = (
        f"{_group(r)}: median {fmt.share(r.median_ape)}, p90 {fmt.share(r.p90_ape)}, "
        f"n {fmt.count(r.n)}"
    )
    label = f"{r.op_class} {r.precision}, {r.tier}" + (f" from {r.source}" if r.source else "")
    return DotInput(label, 100 * r.median_ape, 100 * r.median_ape, 100 * r.p90_ape, hover,
                    fmt.share(r.median_ape), r.target, "", tuple(others))  # fmt: skip


def _group(r: BacktestRow) -> str:
    source = f" from {r.source}" if r.source else ""
    return f"{r.op_class} {r.precision} on {r.target}, {r.tier}{source}"


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
