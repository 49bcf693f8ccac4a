"""Combinations of lever steps: those that no other beats at the same cost or less.

With few combinations all are tried. With many, the search starts from every step and every
pair of steps, so that two levers which help only together are found, and then moves outwards:
each round takes packages of the front so far and sets one lever of each to every step, or back
to none, until a round finds nothing new. Tested against trying all, on random portfolios.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Package = tuple[tuple[str, float], ...]
"""(lever, factor) of each step taken, in the order of the levers; empty is the baseline."""
GainsOf = Callable[[Sequence[Package]], Array]
"""(packages,) point gain of each; 0 of one that cannot be."""

EXHAUSTIVE = 3000
"""Combinations up to which all are tried."""
_WIDTH = 24
"""Packages of the front that a round starts from."""
_ROUNDS = 40


@dataclass(frozen=True)
class Front:
    """Packages that no other beats, from the cheapest to the dearest; the baseline first."""

    packages: tuple[Package, ...]
    gains: Array
    costs: Array
    tried: int
    exhaustive: bool


def pareto(
    options: Mapping[str, Sequence[float]], gains_of: GainsOf, cost_of: Callable[[Package], float]
) -> Front:
    """The front over all choices of at most one factor for each lever of ``options``.

    ``cost_of`` is infinite for what a budget excludes.
    """
    seen = _Seen(gains_of, cost_of)
    seen.add([()])
    if _size(options) <= EXHAUSTIVE:
        seen.add(_all(options))
        return seen.front(exhaustive=True)
    singles = [((lever, f),) for lever, steps in options.items() for f in steps]
    seen.add(singles)
    order = list(options)
    seen.add([_ordered(a + b, order) for a, b in combinations(singles, 2) if a[0][0] != b[0][0]])
    for _ in range(_ROUNDS):
        start = _spread(seen.front(exhaustive=False))
        if not seen.add([p for package in start for p in _neighbours(package, options, order)]):
            break
    return seen.front(exhaustive=False)


class _Seen:
    """What was tried, each package once."""

    def __init__(self, gains_of: GainsOf, cost_of: Callable[[Package], float]) -> None:
        self._gains_of, self._cost_of = gains_of, cost_of
        self._found: dict[Package, tuple[float, float]] = {}
        self._tried: set[Package] = set()

    def add(self, packages: Sequence[Package]) -> bool:
        """Try those that are new and affordable; whether there were any."""
        fresh = [p for p in dict.fromkeys(packages) if p not in self._tried]
        self._tried.update(fresh)
        costs = {p: self._cost_of(p) for p in fresh}
        fresh = [p for p in fresh if np.isfinite(costs[p])]
        if not fresh:
            return False
        for package, gain in zip(fresh, self._gains_of(fresh), strict=True):
            self._found[package] = (costs[package], float(gain))
        return True

    def front(self, exhaustive: bool) -> Front:
        ordered = sorted(self._found, key=lambda p: (*_by_value(self._found[p]), len(p), p))
        kept: list[Package] = []
        best = 0.0
        for package in ordered:
            if self._found[package][1] > best * (1 + 1e-9):
                kept.append(package)
                best = self._found[package][1]
        values = np.array([self._found[p] for p in kept])
        return Front(tuple(kept), values[:, 1], values[:, 0], len(self._found), exhaustive)


def _by_value(value: tuple[float, float]) -> tuple[float, float]:
    return value[0], -value[1]


def _size(options: Mapping[str, Sequence[float]]) -> float:
    return float(np.prod([len(steps) + 1.0 for steps in options.values()]))


def _all(options: Mapping[str, Sequence[float]]) -> list[Package]:
    choices = [[None, *steps] for steps in options.values()]
    return [
        tuple((lever, f) for lever, f in zip(options, chosen, strict=True) if f is not None)
        for chosen in product(*choices)
    ]


def _neighbours(
    package: Package, options: Mapping[str, Sequence[float]], order: Sequence[str]
) -> list[Package]:
    """The package with one lever at every other step, or left out."""
    found = []
    for lever, steps in options.items():
        rest = tuple(step for step in package if step[0] != lever)
        found += [_ordered((*rest, (lever, f)), order) for f in steps]
        found.append(rest)
    return found


def _ordered(package: Package, order: Sequence[str]) -> Package:
    return tuple(sorted(package, key=lambda step: order.index(step[0])))


def _spread(front: Front) -> list[Package]:
    """At most `_WIDTH` packages: corners of the hull first, then evenly along the front."""
    if len(front.packages) <= _WIDTH:
        return list(front.packages)
    corners = hull(front.costs, front.gains)
    step = np.linspace(0, len(front.packages) - 1, _WIDTH).round().astype(int)
    chosen = dict.fromkeys([*corners[-_WIDTH // 2 :], *step.tolist()])
    return [front.packages[i] for i in list(chosen)[: _WIDTH + _WIDTH // 2]]


def hull(costs: Array, gains: Array) -> list[int]:
    """Corners of a front (costs rising) where the next unit of cost gains ever less."""
    kept: list[int] = []
    for i in range(len(costs)):
        while len(kept) > 1 and _slope(costs, gains, kept[-1], i) >= _slope(
            costs, gains, kept[-2], kept[-1]
        ):
            kept.pop()
        kept.append(i)
    return kept


def _slope(costs: Array, gains: Array, a: int, b: int) -> float:
    return float((gains[b] - gains[a]) / max(costs[b] - costs[a], 1e-300))
