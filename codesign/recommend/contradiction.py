"""Levers whose projected effect a natural experiment of the backtest speaks against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from codesign._common.scores import Z_90
from codesign.recommend.wording import joined, percent, readable

if TYPE_CHECKING:
    from codesign._common.scores import Backtest, ExperimentRow, LeverEvidence
    from codesign.recommend.schema import LeverResult

CARRIES = 0.2
"""Part of a lever's saved time from which a workload's experiment counts against the lever."""
SAME = 0.02
"""Change of a quantity, in logs, that counts as none."""
_DEMOTED = ("identified", "assumed")


def judged(
    result: LeverResult, backtest: Backtest | None, saved: Mapping[str, float]
) -> LeverResult:
    """``result`` with what measurements exclude of its projected effect.

    Where they show less than is projected its status is ``contradicted``; where they show
    more, the lever keeps its place and its gains are named understated.

    ``saved``: workload -> share of the lever's saved time. An experiment on its own counts
    if it moved this lever alone, the measured range excludes the projected value and the
    projected interval the measured one; the effect that shipped parts had on a workload if
    its 90 % interval excludes the projected elasticity and the workload carries at least
    `CARRIES` of the time saved. Blind projections are judged, not the fit that has seen all GPUs.
    """
    if backtest is None or result.status not in _DEMOTED:
        return result
    less: list[str] = []
    more: list[str] = []
    for row in backtest.experiments:
        if row.lever == result.lever and excludes(row) and not moved_beside(row):
            (more if exceeds(row) else less).append(_experiment(row))
    for order in backtest.lever_order:
        share = saved.get(order.workload, 0.0)
        for effect in order.levers:
            if share >= CARRIES and effect.lever == result.lever and disagrees(effect):
                (more if effect.measured > effect.projected else less).append(
                    f"{_shipped(effect)} on {order.workload} ({percent(share)} of the time "
                    f"saved; elasticity {effect.measured:.2f} ± {Z_90 * effect.measured_sd:.2f} "
                    f"measured, {effect.projected:.2f} projected)"
                )
    result = msgspec.structs.replace(result, understated_by=joined(more))
    if not less:
        return result
    why = f"contradicted by {joined(less)}"
    return msgspec.structs.replace(
        result, status="contradicted", contradicted_by=joined(less),
        reason=f"{why}; {result.reason}" if result.reason else why,
    )  # fmt: skip


def missed_together(backtest: Backtest | None, titles: Mapping[str, str]) -> list[str]:
    """Warnings of experiments that a projection misses and in which more moved than the lever.

    They cannot be laid to one lever, so they demote none. ``titles``: levers that matter.
    """
    rows = [] if backtest is None else backtest.experiments
    return [
        f"{titles[row.lever]}: the backtest misses {_experiment(row)}. It is no proof against this "
        f"lever alone, since {joined(moved_beside(row))} moved with it"
        for row in rows if row.lever in titles and excludes(row) and moved_beside(row)
    ]  # fmt: skip


def moved_beside(row: ExperimentRow) -> list[str]:
    """What else of the hardware moved, the farthest first: ``scale-out bandwidth x2``.

    Capacity at an unchanged configuration moves nothing and is left out.
    """
    return [
        f"{readable(lever)} x{factor:g}"
        for lever, factor in sorted(row.moved.items(), key=lambda m: (-abs(math.log(m[1])), m[0]))
        if lever not in (row.lever, "hbm_capacity") and abs(math.log(factor)) > SAME
    ]  # fmt: skip


def excludes(row: ExperimentRow) -> bool:
    """Whether an experiment and its projection each lie outside the other's range."""
    if row.role != "test" or row.projected is None or row.inside is not False:
        return False
    if row.measured_lo is None or row.measured_hi is None:
        return True
    return not row.measured_lo <= row.projected.value <= row.measured_hi


def exceeds(row: ExperimentRow) -> bool:
    """Whether the lever's effect was measured to be larger than projected, in its direction."""
    assert row.projected is not None
    grew = math.log(row.moved.get(row.lever, row.measured))
    return math.copysign(1.0, grew) * math.log(row.measured / row.projected.value) > 0.0


def disagrees(effect: LeverEvidence) -> bool:
    """Whether the 90 % interval of a measured elasticity excludes the projected one."""
    return abs(effect.projected - effect.measured) > Z_90 * effect.measured_sd


def _experiment(row: ExperimentRow) -> str:
    assert row.projected is not None
    p = row.projected
    return (
        f"{row.name} (x{row.measured:.3f} measured, x{p.value:.3f} [{p.lo:.3f}, {p.hi:.3f}] "
        "projected)"
    )


def _shipped(effect: LeverEvidence) -> str:
    return f"{effect.after} against {effect.before}"
