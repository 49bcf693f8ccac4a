"""Summaries of codesign's JSON files, told apart by their keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from codesign._common.errors import DataError
from codesign.recommend.schema import Backtest, Interval, Recommendations, WorkloadResult

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
        [str(r.rank), r.headline, r.label, _interval(r.gain, "x"), r.status,
         "" if r.gain_per_cost is None else f"{r.gain_per_cost:.3g}", r.ranked_by,
         "" if r.p_best is None else f"{r.p_best:.0%}"]
        for r in recs.recommendations
    ]  # fmt: skip
    workloads = [
        [w.name, f"{w.weight:.0%}", str(w.gpus), f"{w.step_time_s * 1e3:.4g} ms",
         _mfu(w), _shares(w.binding)]
        for w in recs.workloads
    ]  # fmt: skip
    summary.tables = [
        ("ranking", ["rank", "recommendation", "step", "gain (90 %)", "status", "per cost",
                     "ranked by", "P(best)"], ranked),
        ("workloads", ["workload", "weight", "GPUs", "step", "MFU", "bound by"], workloads),
    ]  # fmt: skip
    return summary


def _mfu(workload: WorkloadResult) -> str:
    """With the precisions whose dense peaks it is of."""
    if workload.mfu is None:
        return ""
    of = f" of dense {', '.join(sorted(workload.mfu_peaks))}" if workload.mfu_peaks else ""
    return f"{workload.mfu:.1%}{of}"


def _backtest(backtest: Backtest, content: dict[str, Any]) -> Summary:
    summary = Summary("backtest", {"kind": "backtest", **content})
    summary.facts = [("protocol", backtest.protocol)]
    ops = [
        [r.op_class, r.precision, r.target, r.tier, r.source or "", str(r.n),
         f"{r.median_ape:.1%}", f"{r.mape:.1%}", f"{r.bias:+.1%}", f"{r.coverage_90:.0%}",
         f"{r.roofline_median_ape:.1%}"]
        for r in backtest.ops
    ]  # fmt: skip
    workloads = [
        [w.workload, w.source, w.target, f"{w.measured_gain:.3f}x",
         _interval(w.projected_gain, "x"), f"{w.error:+.1%}", "yes" if w.covered else "no"]
        for w in backtest.workloads
    ]  # fmt: skip
    summary.tables = [
        ("ops", ["op class", "precision", "target", "tier", "source", "rows", "median APE", "MAPE",
                 "bias", "in 90 %", "roofline"], ops),
        ("workloads", ["workload", "source", "target", "measured", "projected (90 %)", "error",
                       "covered"], workloads),
    ]  # fmt: skip
    return summary


_LONG = {"form"}
"""Prose of a unit: it is in the JSON, and would be most of the table."""


def _model(content: dict[str, Any]) -> Summary:
    """A sensitivity model by its own keys: its layer owns the file's form."""
    summary = Summary("sensitivity model", {"kind": "model", **content})
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


def _interval(interval: Interval, unit: str) -> str:
    return f"{interval.value:.3f}{unit} ({interval.lo:.3f} to {interval.hi:.3f})"


def _shares(shares: dict[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {share:.0%}" for name, share in largest)
