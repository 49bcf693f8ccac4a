"""The one context that every template gets; documented in docs/report.md."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.recommend.schema import Recommendation, Recommendations
from codesign.report import formatting as fmt
from codesign.report.charts.bars import BarChart
from codesign.report.charts.calibration import Calibration, calibration
from codesign.report.charts.dots import DotChart, DotInput, dot_chart
from codesign.report.table import Table
from codesign.report.text import remark, slug
from codesign.report.views import (
    appendix,
    at_scale,
    backtest,
    changes,
    costs,
    experiments,
    ledger,
    levers,
    packages,
    ranking,
    scenarios,
    sensitivity,
    software,
    summary,
    verdicts,
    workloads,
)


@dataclass(frozen=True)
class BacktestView:
    """The backtest box."""

    summary: tuple[str, ...]
    misses: tuple[str, ...]
    calibration: Calibration | None
    workloads: Table | None
    chart: DotChart | None
    ops: Table | None
    experiments: Table | None
    lever_order: Table | None


@dataclass(frozen=True)
class ReportView:
    """Everything that a report prints, as strings, tables and charts."""

    title: str
    audience: str
    baseline: str
    generated_at: str
    headline: str
    how_sure: str
    points: tuple[tuple[str, str], ...]
    """``how_sure`` by subject."""
    figures: tuple[ranking.Figure, ...]
    summary: summary.SummaryView
    ranking_chart: DotChart | None
    ranking: Table
    ranking_cost: str
    ranking_rule: str
    verdict_rule: str
    warnings: tuple[str, ...]
    do_not_invest: Table | None
    no_verdict: Table | None
    changes: changes.ChangesView | None
    scenarios: scenarios.ScenariosView | None
    at_scale: tuple[at_scale.AtScaleView, ...]
    software_changes: software.SoftwareView
    packages: packages.PackagesView | None
    sensitivity: sensitivity.SensitivityView | None
    levers: tuple[levers.LeverView, ...]
    workloads_overview: Table
    workloads_chart: BarChart
    workloads: tuple[workloads.WorkloadView, ...]
    backtest: BacktestView
    ledger: ledger.LedgerView | None
    pairs: Table | None
    assumptions: Table | None
    provenance: tuple[tuple[str, str], ...]
    inputs: Table | None
    software: Table | None
    glossary: Table


def build(recs: Recommendations) -> ReportView:
    """The view of a recommendations file."""
    lever_ids = {x.lever: f"lever-{slug(x.lever, i)}" for i, x in enumerate(recs.levers, 1)}
    load_ids = {w.name: f"workload-{slug(w.name, i)}" for i, w in enumerate(recs.workloads, 1)}
    lever_hrefs = {name: f"#{anchor}" for name, anchor in lever_ids.items()}
    load_hrefs = {name: f"#{anchor}" for name, anchor in load_ids.items()}
    return ReportView(
        title=recs.title,
        audience=recs.audience,
        baseline=recs.baseline_title or recs.baseline,
        generated_at=recs.generated_at,
        headline=ranking.headline(recs),
        how_sure=ranking.how_sure(recs),
        points=ranking.points(recs),
        figures=tuple(ranking.figures(recs)),
        summary=summary.summary_view(recs, lever_hrefs),
        ranking_chart=_ranking_chart(recs),
        ranking=ranking.ranked_table(recs, lever_hrefs),
        ranking_cost=recs.ranking_cost,
        ranking_rule=recs.ranking_rule,
        verdict_rule=recs.verdict_rule,
        warnings=tuple(remark(line.replace("mm2", "mm²")) for line in recs.warnings),
        do_not_invest=verdicts.do_not_invest(recs, lever_hrefs),
        no_verdict=verdicts.no_verdict(recs, lever_hrefs),
        changes=changes.changes_view(recs, lever_hrefs),
        scenarios=scenarios.scenarios_view(recs, lever_hrefs),
        at_scale=at_scale.at_scale_views(recs, lever_hrefs),
        software_changes=software.software_view(recs, lever_hrefs),
        packages=packages.packages_view(recs, lever_hrefs),
        sensitivity=sensitivity.sensitivity_view(recs, lever_hrefs),
        levers=levers.lever_views(recs, lever_ids),
        workloads_overview=workloads.overview(recs, load_hrefs),
        workloads_chart=workloads.overview_chart(recs),
        workloads=workloads.workload_views(recs, load_ids),
        backtest=_backtest(recs),
        ledger=ledger.ledger_view(recs, lever_hrefs),
        pairs=appendix.pairs_table(recs),
        assumptions=appendix.assumptions_table(recs),
        provenance=appendix.provenance_facts(recs),
        inputs=appendix.inputs_table(recs),
        software=appendix.software_table(recs),
        glossary=appendix.glossary_table(),
    )


def _backtest(recs: Recommendations) -> BacktestView:
    b = recs.backtest
    chart = calibration("calibration", "Projected against measured gain", b.workloads)
    return BacktestView(
        (*backtest.summary(b), *experiments.summary(b)), backtest.misses(b), chart,
        backtest.workload_table(b), backtest.op_chart(b), backtest.op_table(b),
        experiments.experiment_table(b), experiments.order_table(b),
    )  # fmt: skip


def _ranking_chart(recs: Recommendations) -> DotChart | None:
    if not recs.recommendations:
        return None
    possible = [r for r in recs.recommendations if r.status not in ranking.NO_GAIN]
    if not possible:
        return None
    grouped = [(*cost_group(r, recs.ranking_cost), r) for r in possible]
    grouped.sort(key=lambda item: (item[0], item[2].rank))
    inputs = [
        DotInput(
            f"{r.rank}. {r.headline}, {r.label}", r.gain.value, r.gain.lo, r.gain.hi,
            f"{r.headline}, {r.label}: {fmt.gain(r.gain)}", fmt.gain(r.gain), group,
            "" if r.status == "identified" else "hollow",
        )
        for _, group, r in grouped
    ]  # fmt: skip
    return dot_chart(
        "ranking-chart", "Gain by cost",
        "Portfolio gain of each recommendation with its 90 % interval, grouped by cost; the "
        "number is its rank. Hollow: the effect is not identified by data, and its interval covers "
        "only what is modelled.",
        axis_label="portfolio gain (speedup); x1 is no change", inputs=inputs, reference=1.0,
        tick_format="x{:g}",
    )  # fmt: skip


def cost_group(rec: Recommendation, ranking_cost: str) -> tuple[float, str]:
    """(order, heading) of the cost group: free, by decades of the ranking cost, unknown."""
    unit = ranking_cost.replace("mm2", "mm²")
    value = costs.ranking_value(rec.cost, ranking_cost)
    if rec.kind == "software":
        return 0.0, "Software: no silicon"
    if value is None:
        return float("inf"), "No sourced cost: ranked by gain"
    if value <= 0:
        return 0.5, f"No added cost ({unit})"
    low = 1.0
    while low * 10 <= value:
        low *= 10
    if value < 1:
        return 1.0, f"Under 1 {unit}"
    return 1.0 + low, f"{low:,.0f} to {low * 10:,.0f} {unit}"
