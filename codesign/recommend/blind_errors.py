"""How far blind projections of the op classes behind a gain erred on the newest silicon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codesign.hardware import load_gpu
from codesign.recommend.carriers import saved_shares, share_by
from codesign.recommend.caveats import Doubt
from codesign.recommend.rank import NOTHING, Pick
from codesign.recommend.wording import name_of, percent

if TYPE_CHECKING:
    from codesign._common.scores import Backtest, BacktestRow
    from codesign.recommend.study import Evaluation, Study

CARRIES = 0.3
"""Part of a lever's saved time from which the backtest of an op class is told beside it."""
MUCH = 0.15
"""Median error of a group from which the head of the report warns."""
_PLURAL = {"collective": "Collectives", "gemm": "GEMMs", "grouped_gemm": "Grouped GEMMs"}
_SIGNED = 0.02
"""Bias under which a group is neither too fast nor too slow."""


def blind_errors(
    study: Study, evaluation: Evaluation, picks: Sequence[Pick], backtest: Backtest | None
) -> tuple[list[Doubt], list[Doubt]]:
    """(errors worth a warning, the others), each with the levers whose gain rests on the class."""
    if backtest is None or not backtest.ops:
        return [], []
    resting: dict[str, list[tuple[str, str, str]]] = {}
    for chosen in picks:
        if chosen.group == NOTHING or chosen.point is None:
            continue
        shares = share_by(study, saved_shares(study, evaluation, chosen.index), "op_class")
        for op_class, share in shares.items():
            if share >= CARRIES:
                how = f"{percent(share)} of the time it saves"
                resting.setdefault(op_class, []).append(
                    (chosen.result.lever, chosen.result.title, how)
                )
    large: list[Doubt] = []
    small: list[Doubt] = []
    for op_class, levers in resting.items():
        rows = groups_of(backtest.ops, op_class)
        if not rows:
            continue
        doubt = Doubt(_words(op_class, rows), tuple(levers))
        (large if max(r.median_ape for r in rows) >= MUCH else small).append(doubt)
    return large, small


def groups_of(rows: Sequence[BacktestRow], op_class: str) -> list[BacktestRow]:
    """Groups of an op class on the one target where the worst of them errs most.

    Of the tier that starts from a measured time where that was scored, as the projected
    gains do; targets of the newest architecture alone where there are several.
    """
    from codesign.workload.schema import COLLECTIVES

    mine = [
        r for r in rows
        if (first := r.op_class.partition(" ")[0]) == op_class
        or (op_class == "collective" and first in COLLECTIVES)
    ]  # fmt: skip
    mine = [r for r in mine if r.tier == "transfer"] or mine
    if not mine:
        return []
    newest = max(_generation(r.target) for r in mine)
    mine = [r for r in mine if _generation(r.target) == newest]
    worst = max(mine, key=lambda r: (r.median_ape, r.target)).target
    return [r for r in mine if r.target == worst]


_ORDER = ("volta", "ampere", "ada", "hopper", "blackwell", "rubin")


def _generation(gpu: str) -> int:
    """Place of a GPU's architecture in time; -1 where the library does not tell."""
    from codesign._common.errors import CodesignError

    try:
        name = load_gpu(gpu).architecture
    except CodesignError:
        return -1
    return next((i for i, known in enumerate(_ORDER) if name.startswith(known)), -1)


def _words(op_class: str, rows: Sequence[BacktestRow]) -> str:
    errors = sorted(r.median_ape for r in rows)
    span = percent(errors[-1])
    if len(errors) > 1:
        span = f"{percent(errors[0])} to {span}"
    fast = sum(r.bias < -_SIGNED for r in rows)
    slow = sum(r.bias > _SIGNED for r in rows)
    if fast == slow:
        side = ""
    else:
        word, n = ("fast", fast) if fast > slow else ("slow", slow)
        side = f", too {word} in {n} of {len(rows)}" if len(rows) > 1 else f", too {word}"
    groups = f"each of {len(rows)} groups" if len(rows) > 1 else "one group"
    what = _PLURAL.get(op_class, name_of(op_class))
    return (
        f"{what}: blind projections onto {rows[0].target} err by {span} (median error of "
        f"{groups} of the backtest{side})"
    )
