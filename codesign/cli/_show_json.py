"""Summaries of codesign's JSON files, told apart by their keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from codesign._common.errors import DataError
from codesign._common.units import format_share, format_si
from codesign.cli._experiments import HEADS, cells, order_line
from codesign.cli._model_tables import LEVER_COLUMNS, SCORE_COLUMNS, lever_rows, score_rows
from codesign.recommend.schema import (
    Backtest,
    Recommendation,
    Recommendations,
    WorkloadResult,
)
from codesign.recommend.wording import name_of, percent
from codesign.report.formatting import gain, signed_share, speedup
from codesign.report.views import costs
from codesign.sensitivity.modelfile import ModelFile

Table = tuple[str, list[str], list[list[str]]]
T = TypeVar("T")


@dataclass
class Summary:
    """Title, facts and tables of a JSON file; ``data`` is its content with its kind."""

    title: str
    data: Any
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def json_summary(content: Any, where: str) -> Summary:
    """The summary of a decoded file. Raises DataError if it is none of codesign's."""
    if isinstance(content, dict):
        if {"recommendations", "levers"} <= content.keys():
            return _recommendations(_convert(content, Recommendations, where), content)
        if {"ops", "workloads", "protocol"} <= content.keys():
            return _backtest(_convert(content, Backtest, where), content)
        if "trained_on" in content:
            return _model(content)
        if "traceEvents" in content:
            raise DataError(
                f"{where}: a trace; read it with `codesign characterize --from {where} -o FILE`"
            )
    raise DataError(
        f"{where}: JSON, but not of codesign's; expected a model, recommendations or a backtest"
    )


def _convert(content: dict[str, Any], kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: {error}") from error


def _recommendations(recs: Recommendations, content: dict[str, Any]) -> Summary:
    summary = Summary(
        f"recommendations: {recs.title}",
        {"kind": "recommendations", **content},
        warnings=list(recs.warnings),
    )
    summary.facts = [
        ("baseline", recs.baseline_title or recs.baseline),
        ("audience", recs.audience),
        ("made", recs.generated_at),
        ("ranking cost", recs.ranking_cost),
        ("model", f"{recs.provenance.model}, trained on {', '.join(recs.provenance.trained_on)}"),
    ]
    ranked = [
        [str(r.rank), r.headline, r.label, _gain(r), r.status.replace("_", " "),
         _per_cost(r, recs.ranking_cost), r.ranked_by,
         "" if r.p_best is None else percent(r.p_best)]
        for r in recs.recommendations
    ]  # fmt: skip
    workloads = [
        [w.name, format_share(w.weight), str(w.gpus), format_si(w.step_time_s, "s"),
         _mfu(w), _shares(w.binding)]
        for w in recs.workloads
    ]  # fmt: skip
    per_cost = costs.columns(recs.ranking_cost)[-1].title
    summary.tables = [
        ("ranking", ["rank", "recommendation", "step", "gain [90 %]", "status", per_cost,
                     "ranked by", "P(best)"], ranked),
        ("workloads", ["workload", "weight", "GPUs", "step", "MFU", "bound by"], workloads),
    ]  # fmt: skip
    return summary


def _mfu(workload: WorkloadResult) -> str:
    """With the precisions whose dense peaks it is of."""
    if workload.mfu is None:
        return ""
    of = f" of dense {', '.join(sorted(workload.mfu_peaks))}" if workload.mfu_peaks else ""
    return f"{format_share(workload.mfu)}{of}"


def _per_cost(r: Recommendation, ranking_cost: str) -> str:
    if r.cost is None or r.gain_per_cost is None:
        return ""
    return costs.per_cost(costs.ranking_item(r.cost, ranking_cost), r.gain_per_cost).text


def _gain(r: Recommendation) -> str:
    """Of what was not studied or cannot be, the file's gain of 1 is no finding."""
    return "" if r.status in ("refused", "not_studied") else gain(r.gain)


def _backtest(backtest: Backtest, content: dict[str, Any]) -> Summary:
    summary = Summary("backtest", {"kind": "backtest", **content})
    summary.facts = [("protocol", backtest.protocol)]
    ops = [
        [r.op_class, r.precision, r.target, r.tier, r.source or "", str(r.n),
         format_share(r.median_ape), format_share(r.mape), signed_share(r.bias),
         format_share(r.coverage_90), format_share(r.roofline_median_ape)]
        for r in backtest.ops
    ]  # fmt: skip
    workloads = [
        [w.workload, w.source, w.target, speedup(w.measured_gain),
         gain(w.projected_gain), signed_share(w.error), "yes" if w.covered else "no"]
        for w in backtest.workloads
    ]  # fmt: skip
    summary.tables = [
        ("ops", ["op class", "precision", "target", "tier", "source", "rows", "median APE", "MAPE",
                 "bias", "in 90 %", "roofline"], ops),
        ("workloads", ["workload", "source", "target", "measured", "projected [90 %]", "error",
                       "covered"], workloads),
        ("natural experiments", list(HEADS), [list(cells(r)) for r in backtest.experiments]),
        ("order of levers", ["measured, and projected"],
         [[order_line(r)] for r in backtest.lever_order]),
    ]  # fmt: skip
    # A run of experiments alone has neither ops nor workloads, and an older file none of those.
    summary.tables = [table for table in summary.tables if table[2]]
    return summary


_LONG = {"form"}
"""Prose of a unit: it is in the JSON, and would be most of the table."""


def _model(content: dict[str, Any]) -> Summary:
    """A sensitivity model; one of another version by whatever keys it has."""
    summary = Summary("sensitivity model", {"kind": "model", **content})
    try:
        model = msgspec.convert(content, ModelFile)
    except msgspec.ValidationError:
        return _by_keys(summary, content)
    summary.facts = [
        ("trained on", ", ".join(model.trained_on)),
        ("excluded", ", ".join(model.excluded) or "none"),
        ("kernels of", f"{model.framework}, in {model.source}"),
        ("seed", str(model.seed)),
        *((f"assumed {name.replace('_', ' ')}", why) for name, why in model.assumptions.items()),
    ]
    summary.tables = [
        ("how well it fits its own rows; held-out GPUs are scored by a backtest",
         list(SCORE_COLUMNS), [list(row) for row in score_rows(model)]),
        ("what the data tell of each lever", list(LEVER_COLUMNS),
         [list(row) for row in lever_rows(model)]),
    ]  # fmt: skip
    return summary


def _by_keys(summary: Summary, content: dict[str, Any]) -> Summary:
    trained = content["trained_on"]
    summary.facts = [
        ("trained on", ", ".join(map(str, trained)) if isinstance(trained, list) else str(trained))
    ]
    for name, value in content.items():
        if isinstance(value, (str, int, float)):
            summary.facts.append((name.replace("_", " "), str(value)))
    for name, value in content.items():
        entries = _named_entries(value)
        if entries:
            columns = sorted({k for _, e in entries for k, v in e.items() if _is_scalar(v)} - _LONG)
            rows = [[key, *(_scalar(entry.get(c)) for c in columns)] for key, entry in entries]
            if columns:
                heads = [c.replace("_", " ") for c in columns]
                summary.tables.append((name.replace("_", " "), ["", *heads], rows))
    return summary


def _named_entries(value: Any) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        return [(str(k), v) for k, v in value.items() if isinstance(v, dict)]
    if isinstance(value, list):
        return [(str(v.get("name", i)), v) for i, v in enumerate(value) if isinstance(v, dict)]
    return []


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if _is_scalar(value) else ""


def _shares(shares: dict[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name_of(key)} {percent(share)}" for key, share in largest)
