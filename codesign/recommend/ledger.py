"""The extrapolation ledger: on what kinds of times every projection rests, by time.

A projection is measured time x model ratio. The ledger splits the first factor: the step of
each workload, and what each lever saves of it, by how the times of the ops came about. The
second is the fitted model's for every op alike; where that has not seen the baseline's GPU it
is a transfer from others, whatever the times rest on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.recommend.schema import Ledger, LedgerRow
from codesign.sources.perfdb import ROW_FOR_ROW

if TYPE_CHECKING:
    from codesign.projection import Projection
    from codesign.recommend.rank import Pick
    from codesign.recommend.study import Evaluation, Study
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

_OTHER_PRECISION = re.compile(r"^\w+ as \w+: ")
_NAMED = ("measured", "interpolated", "extrapolated", "assumed")


def ledger(study: Study, evaluation: Evaluation, picks: Sequence[Pick]) -> Ledger:
    """Of every workload's step, then of what every recommended step saves of it."""
    gpu = study.base.gpu.name
    rows = []
    for name in study.weights:
        char, projection = study.chars[name], evaluation.projections[name]
        kinds = basis(char)
        rows.append(LedgerRow(name, "", _step(char, kinds, projection), projection.held_share))
        for pick in picks:
            if pick.point is None or pick.result.status == "not_studied":
                continue
            saved = np.maximum(projection.saved_s[pick.index], 0.0)
            rows.append(LedgerRow(name, pick.result.lever, _shares(zip(kinds, saved, strict=True))))
    return Ledger(gpu, gpu in study.model.trained_on, tuple(rows))


def basis(char: Characterization) -> list[str]:
    """(ops,) how each time came about: its evidence, and of a modelled time from what."""
    return [
        _basis(str(evidence), str(source) if isinstance(source, str) else "")
        for evidence, source in zip(char.ops["evidence"], char.ops["source"], strict=True)
    ]


def _basis(evidence: str, source: str) -> str:
    if ROW_FOR_ROW in source:
        return "other_gpu"
    if evidence in _NAMED:
        return evidence
    if source.startswith("speed of light"):
        return "speed_of_light"
    return "other_precision" if _OTHER_PRECISION.match(source) else "other_op"


def _step(char: Characterization, kinds: list[str], projection: Projection) -> dict[str, float]:
    idle = projection.base_bubble_s + projection.fixed_idle_s
    composed = char.header.capture_method == "composed"
    # A composed step derives its bubble from the schedule; a captured one measured it.
    parts = [*zip(kinds, projection.base_exposed_s, strict=True),
             ("assumed" if composed else "measured", idle)]  # fmt: skip
    return _shares(parts)


def _shares(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Shares by kind, which sum to 1; empty where there is nothing to share."""
    total: dict[str, float] = {}
    for kind, value in parts:
        if value > 0:
            total[kind] = total.get(kind, 0.0) + float(value)
    whole = sum(total.values())
    return {k: v / whole for k, v in sorted(total.items(), key=lambda i: (-i[1], i[0]))}
