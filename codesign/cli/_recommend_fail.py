"""`--fail-on` of `codesign recommend`: conditions on the ranking, for pipelines."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign._common.errors import CheckFailedError, UsageError
from codesign._common.text import counted

if TYPE_CHECKING:
    from codesign.recommend.change_records import LeverChange
    from codesign.recommend.schema import Recommendation, Recommendations

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CONDITION = re.compile(r"\s*([a-z_0-9]+)\s*(>=|<=|>|<)\s*([0-9.]+)\s*(?:@\s*(.+?)\s*)?")

_OF_LINE: dict[str, Callable[[Recommendation], float | None]] = {
    "rank": lambda r: float(r.rank),
    "gain": lambda r: r.gain.value,
    "gain_lo": lambda r: r.gain.lo,
    "p_best": lambda r: r.p_best,
    "gain_per_cost": lambda r: r.gain_per_cost,
}
"""Of a line of the list; ``@WORDS`` choose lines by lever, verdict or status."""
_OF_CHANGE: dict[str, Callable[[LeverChange], float | None]] = {
    "rank_change": lambda x: None if x.rank_before is None or x.rank_after is None
    else float(abs(x.rank_after - x.rank_before)),
    "gain_change": lambda x: abs(math.prod(x.gains.values()) - 1) if x.gains else None,
}  # fmt: skip
"""Of a lever against the older file, without sign; ``@WORDS`` choose levers."""
_OF_FILE: dict[str, Callable[[Recommendations], float]] = {
    "warnings": lambda recs: float(len(recs.warnings)),
    "measured": lambda recs: recs.measured_share,
    "firsts": lambda recs: float(len({s.ranks[0].lever for s in recs.scenarios if s.ranks})),
    "first_changed": lambda recs: float(
        recs.changes is not None and recs.changes.first_before != recs.changes.first_after
    ),
}
"""Of the whole file: no words."""
_COMPARING = (*_OF_CHANGE, "first_changed")
METRICS = (*_OF_LINE, *_OF_CHANGE, *_OF_FILE)


@dataclass(frozen=True)
class Condition:
    """``METRIC OP NUMBER [@ WORDS]``, as it was given."""

    text: str
    metric: str
    sign: str
    limit: float
    words: tuple[str, ...]

    def failures(self, recs: Recommendations) -> list[str]:
        """One line for each value that meets it.

        Raises UsageError if no line of the list has a value that it asks about: a check
        that can never fail is none.
        """
        values = self._values(recs)
        if not values:
            what = f"has the words {' '.join(self.words)}" if self.words else "has that value"
            raise UsageError(f"--fail-on {self.text!r}: nothing in the list {what}")
        met = _COMPARE[self.sign]
        return [
            f"{label}{self.metric} = {value:.4g} {self.sign} {self.limit:g}"
            for label, value in values if met(value, self.limit)
        ]  # fmt: skip

    def _values(self, recs: Recommendations) -> list[tuple[str, float]]:
        if self.metric == "firsts" and not recs.scenarios:
            return []
        if self.metric in _OF_FILE:
            return [("", _OF_FILE[self.metric](recs))]
        found: list[tuple[str, float | None]] = []
        if self.metric in _OF_LINE:
            found = [(f"{r.lever}: ", _OF_LINE[self.metric](r)) for r in recs.recommendations
                     if self._chooses(r.lever, r.verdict or "", r.status, r.kind)]  # fmt: skip
        elif recs.changes is not None:
            found = [(f"{x.lever}: ", _OF_CHANGE[self.metric](x)) for x in recs.changes.levers
                     if self._chooses(x.lever)]  # fmt: skip
        return [(label, value) for label, value in found if value is not None]

    def _chooses(self, *labels: str) -> bool:
        return set(self.words) <= set(labels)


def conditions(texts: Sequence[str], comparing: bool) -> list[Condition]:
    """The conditions, checked before any work. Raises UsageError for one that cannot be read."""
    return [_condition(text, comparing) for text in texts]


def check(recs: Recommendations, wanted: Sequence[Condition]) -> None:
    """Raise CheckFailedError (exit code 5) if any condition is met, naming the first."""
    failed = [line for condition in wanted for line in condition.failures(recs)]
    if failed:
        raise CheckFailedError(
            f"{counted(len(failed), 'value')} failed a check; first: {failed[0]}"
        )


def _condition(text: str, comparing: bool) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None or match[1] not in METRICS:
        raise UsageError(
            f"--fail-on {text!r}: expected METRIC>NUMBER or METRIC<NUMBER, then @WORDS to choose "
            f"lines; metrics: {', '.join(METRICS)}"
        )
    try:
        limit = float(match[3])
    except ValueError as error:
        raise UsageError(f"--fail-on {text!r}: {match[3]} is not a number") from error
    words = tuple((match[4] or "").split())
    if words and match[1] in _OF_FILE:
        raise UsageError(f"--fail-on {text!r}: {match[1]} is of the whole file; drop @{match[4]}")
    if match[1] in _COMPARING and not comparing:
        raise UsageError(f"--fail-on {text!r}: needs --compare OLD.json")
    return Condition(text, match[1], match[2], limit, words)
