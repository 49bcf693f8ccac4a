"""What each stage of a comparison does to each lever: its rank, and its gain at one step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.recommend.change_records import CauseName, LeverChange
from codesign.recommend.ranked import Ranked

if TYPE_CHECKING:
    from codesign.recommend.schema import Interval, LeverPoint, Recommendation, Recommendations


@dataclass(frozen=True)
class Stage:
    """Changes that go in together, and the ranking once they are in."""

    label: str
    causes: tuple[CauseName, ...]
    after: Ranked


def listed(old: Recommendations, new: Recommendations) -> list[str]:
    """Levers of this list in their order, then those that only the older one has."""
    names = [r.lever for r in new.recommendations if r.kind == "hardware"]
    return names + [r.lever for r in old.recommendations
                    if r.kind == "hardware" and r.lever not in names]  # fmt: skip


def lever_change(
    lever: str, old: Recommendations, new: Recommendations, stages: Sequence[Stage]
) -> LeverChange:  # fmt: skip
    """What happened to one lever, which stands in at least one of the lists."""
    before = next((r for r in old.recommendations if r.lever == lever), None)
    after = next((r for r in new.recommendations if r.lever == lever), None)
    title = next(r.headline for r in (after, before) if r is not None)
    factor, gains = _gains(lever, old, new, stages, None if before is None else before.factor)
    return LeverChange(
        lever=lever, title=title,
        rank_before=None if before is None else before.rank,
        rank_after=None if after is None else after.rank,
        label_before="" if before is None else before.label,
        label_after="" if after is None else after.label,
        gain_before=_said(before), gain_after=_said(after),
        factor=factor, ranks={s.label: rank for s in stages if (rank := _rank(s.after, lever))},
        gains=gains,
    )  # fmt: skip


def _said(line: Recommendation | None) -> Interval | None:
    """Its gain, if it has one: of what was not studied or cannot be, the file's 1 is none."""
    return None if line is None or line.status in ("refused", "not_studied") else line.gain


def _gains(
    lever: str, old: Recommendations, new: Recommendations, stages: Sequence[Stage],
    preferred: float | None,
) -> tuple[float | None, dict[str, float]]:  # fmt: skip
    """The step to compare at, and what each stage multiplies the gain there by."""
    before, after = _points(old, lever), _points(new, lever)
    shared = [f for f in before if _at(after, f) is not None and all(
        _at(_result_points(s.after, lever), f) is not None for s in stages)]  # fmt: skip
    if not shared:
        return None, {}
    factor = next((f for f in shared if preferred and math.isclose(f, preferred)), shared[-1])
    gain = before[factor]
    gains = {}
    for stage in stages:
        reached = _at(_result_points(stage.after, lever), factor) or gain
        gains[stage.label], gain = reached / gain, reached
    return factor, gains


def _points(recs: Recommendations, lever: str) -> dict[float, float]:
    return next((_by_factor(x.points) for x in recs.levers if x.lever == lever
                 and x.status != "not_studied"), {})  # fmt: skip


def _result_points(found: Ranked, lever: str) -> dict[float, float]:
    return next((_by_factor(r.points) for r in found.results if r.lever == lever), {})


def _by_factor(points: Sequence[LeverPoint]) -> dict[float, float]:
    return {p.factor: p.gain.value for p in points}


def _at(points: Mapping[float, float], factor: float) -> float | None:
    return next((g for f, g in points.items() if math.isclose(f, factor, rel_tol=1e-9)), None)


def _rank(found: Ranked, lever: str) -> int | None:
    order = [p.result.lever for p in found.picks]
    return order.index(lever) + 1 if lever in order else None


def differs(old: Recommendations, found: Ranked) -> bool:
    """Whether a list differs from the older one though nothing recorded says why."""
    order = [r.lever for r in old.recommendations if r.kind == "hardware"]
    made = [p.result.lever for p in found.picks]
    if [x for x in order if x in made] != [x for x in made if x in order]:
        return True
    return any(
        not math.isclose(gain, _at(_result_points(found, x.lever), factor) or gain, rel_tol=1e-6)
        for x in old.levers for factor, gain in _points(old, x.lever).items()
    )  # fmt: skip
