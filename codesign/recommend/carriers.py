"""Who carries a gain: ops, classes and kinds of evidence behind the time saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.recommend.schema import OpShare
from codesign.recommend.wording import shape_of

if TYPE_CHECKING:
    import pandas as pd

    from codesign.recommend.study import Evaluation, Study

Array = NDArray[np.float64]


def saved_shares(study: Study, evaluation: Evaluation, index: int) -> dict[str, Array]:
    """Workload -> (ops,) share of the portfolio's saved time that each op carries.

    Time saved counts by GPU-hours: weight x seconds saved / step time. Rows that cost
    time (a collective that comes to light) carry none of it; shares sum to 1, or all
    are 0 where nothing is saved. The bubble's part goes with the ops that shrink it.
    """
    saved = {}
    for name, weight in study.weights.items():
        projection = evaluation.projections[name]
        hours = weight / projection.base_step_time_s
        saved[name] = np.maximum(projection.saved_s[index], 0.0) * hours
    total = sum(float(values.sum()) for values in saved.values())
    return {name: values / total if total > 0 else values for name, values in saved.items()}


def share_by(study: Study, shares: dict[str, Array], column: str) -> dict[str, float]:
    """Sum of ``shares`` by a column of the ops table, the largest first."""
    total: dict[str, float] = {}
    for name, values in shares.items():
        labels = study.chars[name].ops[column].fillna("unknown")
        for label, value in zip(labels, values, strict=True):
            if value > 0:
                total[str(label)] = total.get(str(label), 0.0) + float(value)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def top_carriers(
    study: Study, evaluation: Evaluation, shares: dict[str, Array], limit: int = 6
) -> tuple[OpShare, ...]:
    """Ops with the largest part of the time saved, over all workloads; none that saves none."""
    found: list[OpShare] = []
    for name, values in shares.items():
        projection = evaluation.projections[name]
        time_share = projection.base_exposed_s / projection.base_step_time_s
        ops = op_shares(name, study.chars[name].ops, time_share, values)
        found += [op for op in ops if op.saved_share > 0]
    return tuple(sorted(found, key=_order)[:limit])


def heaviest(shares: dict[str, Array]) -> tuple[str, int] | None:
    """Workload and row of the op that carries most; None where nothing is saved."""
    best = max(shares, key=lambda name: float(shares[name].max(initial=0.0)), default=None)
    if best is None or not shares[best].any():
        return None
    return best, int(shares[best].argmax())


def op_shares(
    workload: str, ops: pd.DataFrame, time_share: Array, saved_share: Array
) -> list[OpShare]:
    """Ops of one workload, the largest ``saved_share`` and then ``time_share`` first.

    Rows that differ in nothing that is shown, such as a forward pass and its like in the
    backward pass, are one op.
    """
    rows = np.flatnonzero((saved_share > 0) | (time_share > 0))
    merged: dict[tuple[str, str, str, str | None, str], list[float]] = {}
    for i, row in zip(rows, ops.iloc[rows].to_dict(orient="records"), strict=True):
        key = (
            str(row["op_class"]), str(row["name"]), shape_of({str(k): v for k, v in row.items()}),
            row["precision"] if isinstance(row["precision"], str) else None, str(row["evidence"]),
        )  # fmt: skip
        sums = merged.setdefault(key, [0.0, 0.0])
        sums[0] += float(time_share[i])
        sums[1] += float(saved_share[i])
    found = [OpShare(workload, *key, *sums) for key, sums in merged.items()]
    return sorted(found, key=lambda op: (-op.saved_share, -op.time_share, op.name, op.shape))


def _order(op: OpShare) -> tuple[float, str, str, str]:
    return -op.saved_share, op.workload, op.name, op.shape
