"""Whole workloads of docs/accuracy.md: three libraries' kernels, two protocols."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from accuracy_tables import TITLES

from codesign._common.scores import Backtest, WorkloadBacktestRow

TEXT = """Each recipe is composed on source and target from each one's own kernels of one library;
only ops measured on both decide. Measured gains of the same recipe on the same two GPUs differ
between libraries by what is written side by side: no projection that does not know the library's
choice of kernels on the target comes closer than that. "older" and "others" as above; of "older"
the fit without H200. Errors are projected over measured, per cent, and their mean is that over
the libraries."""
DETAIL = """TensorRT-LLM's kernels in full ("scored": share of the source's step that decides).
Pairs are correlated: a bias on Blackwell shows in every recipe."""
_Pair = tuple[str, str, str]


def by_framework(both: dict[str, dict[str, Backtest]]) -> list[str]:
    """One row a workload and pair: gains and errors in each library, and their means."""
    older, others = (_by_pair(both[p]) for p in ("older", "others"))
    names = [TITLES[f] for f in both["older"]]
    heads = ["workload", "source -> target", *(f"measured {n}" for n in names),
             *(f"error {n}" for n in names), "mean", "others: mean"]  # fmt: skip
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (workload, source, target), rows in sorted(older.items()):
        known = [rows.get(f) for f in both["older"]]
        gains = ["-" if r is None else f"x{r.measured_gain:.2f}" for r in known]
        errors = ["-" if r is None else f"{100 * r.error:+.1f}{_mark(r)}" for r in known]
        means = [_mean(rows), _mean(others.get((workload, source, target), {}))]
        table.append(f"| {workload} | {source} -> {target} | "
                     f"{' | '.join([*gains, *errors, *means])} |")  # fmt: skip
    return [*_totals(both), "", *table]


def _totals(both: dict[str, dict[str, Backtest]]) -> list[str]:
    heads = ["fitted on", "pairs", "inside the 90 % interval", "median error",
             "H100 to H200: largest mean", "Hopper to Blackwell: largest mean"]  # fmt: skip
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for protocol, found in both.items():
        pairs = _by_pair(found)
        rows = [r for some in pairs.values() for r in some.values()]
        if not rows:
            continue
        inside = sum(r.covered for r in rows)
        error = 100 * float(np.median([abs(r.error) for r in rows]))
        means = {pair: float(np.mean([r.error for r in some.values()]))
                 for pair, some in pairs.items()}  # fmt: skip
        worst = []
        for targets in (("hgx-h200",), ("hgx-b200", "gb200-nvl72")):
            some = {p: e for p, e in means.items() if p[1] == "hgx-h100" and p[2] in targets}
            pair = max(some, key=lambda p: abs(some[p]), default=None)
            worst.append("-" if pair is None else f"{100 * some[pair]:+.1f} {pair[0]} on {pair[2]}")
        table.append(f"| {protocol} | {len(rows)} | {100 * inside / len(rows):.0f} % | "
                     f"{error:.1f} % | {' | '.join(worst)} |")  # fmt: skip
    return table


def _by_pair(found: dict[str, Backtest]) -> dict[_Pair, dict[str, WorkloadBacktestRow]]:
    pairs: dict[_Pair, dict[str, WorkloadBacktestRow]] = defaultdict(dict)
    for framework, scores in found.items():
        for row in scores.workloads:
            # Of the fits that have not seen the target, the first: without H200 as well.
            pairs[row.workload, row.source, row.target].setdefault(framework, row)
    return pairs


def _mark(row: WorkloadBacktestRow) -> str:
    return "" if row.covered else " (outside)"


def _mean(rows: dict[str, WorkloadBacktestRow]) -> str:
    return f"{100 * np.mean([r.error for r in rows.values()]):+.1f}" if rows else "-"


def every(done: Sequence[WorkloadBacktestRow]) -> list[str]:
    """One row a workload and pair, of every fit that had not seen the target."""
    table = ["| workload | source -> target | fitted on | measured | projected | error | scored |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for r in sorted(done, key=lambda r: (r.workload, len(r.trained_on))):
        gain = r.projected_gain
        mark = "" if r.covered else " (outside)"
        fitted = "with H200" if "h200-sxm" in r.trained_on else "without H200"
        table.append(
            f"| {r.workload} | {r.source} -> {r.target} | {fitted} | "
            f"x{r.measured_gain:.2f} | x{gain.value:.2f} [{gain.lo:.2f}, {gain.hi:.2f}]"
            f"{mark} | {100 * r.error:+.1f} % | {100 * r.scored_share:.0f} % |"
        )
    return table
