"""What each lever adds after all others: a lever that is first alone may be last in company."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from codesign.projection import interval
from codesign.recommend.packages.search import Package
from codesign.recommend.portfolio import CostKind
from codesign.recommend.schema import LeverPoint, LeverResult, MarginalGain

if TYPE_CHECKING:
    from codesign.recommend.packages.space import Space
    from codesign.recommend.study import Evaluation

_OUT = ("not_studied", "refused", "no_effect")


class _Case(NamedTuple):
    """A lever's step, and the package without and with it."""

    result: LeverResult
    point: LeverPoint
    without: Package
    whole: Package


def variants(space: Space, reference: Package) -> list[Package]:
    """Packages to project for `marginal_gains`: the reference, with and without each lever."""
    found: list[Package] = [reference]
    for case in _cases(space, reference):
        found += [case.without, case.whole]
    return found


def _cases(space: Space, reference: Package) -> Iterator[_Case]:
    """Every lever with a gain; one that is not inside stands at its recommended step."""
    taken = dict(reference)
    for lever, pick in space.picks.items():
        if pick.point is None or pick.result.status in _OUT:
            continue
        if lever in taken:
            rest = tuple(step for step in reference if step[0] != lever)
            point = next(p for p in pick.result.points if p.factor == taken[lever])
            yield _Case(pick.result, point, rest, reference)
        else:
            whole = (*reference, (lever, pick.point.factor))
            yield _Case(pick.result, pick.point, reference, whole)


def marginal_gains(
    space: Space, reference: Package, kind: CostKind, evaluation: Evaluation,
    index: dict[Package, int],
) -> tuple[MarginalGain, ...]:  # fmt: skip
    """Every lever after all others of ``reference``: those inside first, by what they add.

    ``index`` finds the packages of `variants` in ``evaluation``; what cannot be built
    together is not in it, and left out.
    """
    found = []
    draws = evaluation.gain_draws
    for case in _cases(space, reference):
        if case.whole not in index or case.without not in index:
            continue
        last = interval(draws[:, index[case.whole]] / draws[:, index[case.without]])
        cost = None if case.point.cost is None else getattr(case.point.cost, kind)
        known = None if cost is None or not cost.value else (last.value - 1) * 100 / cost.value
        found.append(MarginalGain(
            lever=case.result.lever, title=case.result.title, label=case.point.label,
            status=case.result.status, inside=case.whole == reference, alone=case.point.gain,
            last=last, cost=cost, gain_per_cost=known,
        ))  # fmt: skip
    return tuple(sorted(found, key=lambda m: (not m.inside, -m.last.value, m.lever)))
