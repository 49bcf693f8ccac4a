"""A comparison in words: how each cause was told, the answer, and what could not be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from codesign.recommend.change_records import CauseName, LeverChange
from codesign.recommend.compare_inputs import MEASURED
from codesign.recommend.wording import inside, joined

if TYPE_CHECKING:
    from codesign.recommend.compare import Older
    from codesign.recommend.compare_levers import Stage
    from codesign.recommend.ranked import Ranked


def how_told(name: CauseName, stages: Sequence[Stage], older: Older) -> str:
    """How the effect of a cause was told."""
    stage = next((s for s in stages if name in s.causes), None)
    if stage is None:
        return "with the weights of the workloads" if name == "workloads" else "has no stage"
    if name in ("cost", "weights", "settings"):
        return "recomputed: the list was made with the older values in their place"
    rest = [other for other in stage.causes if other != name]
    if older.model is not None and "model" in {c for s in stages for c in s.causes}:
        if name == "model":
            return "recomputed: the list was made by the older model on these data"
        if not rest:
            return "recomputed: the list was made by the older model on these data"
    if not rest:
        return (
            "by elimination: it alone differs of what gains by workload come from, and all else "
            "was recomputed"
        )
    verb = "differs" if len(rest) == 1 else "differ"
    return f"not told apart from {joined(rest)}, which {verb} as well"


def summary(
    levers: Sequence[LeverChange], before: str, after: str, first_by: Sequence[str],
    what: Mapping[CauseName, Sequence[str]],
) -> str:  # fmt: skip
    """The comparison in two or three sentences."""
    titles = {x.lever: inside(x.title) for x in levers}
    moved = [x for x in levers if x.rank_before != x.rank_after]
    if not what and not moved:
        return "Nothing that went in has changed, and nor has the list."
    inputs = f"Changed since: {joined(list(what))}." if what else "No input is known to differ."
    if before == after:
        first = f"{titles.get(after, 'no lever')} is first as before"
    else:
        cause = f", by {joined(first_by)}" if first_by else ""
        first = (
            f"{titles.get(after, 'no lever')} is first now instead of "
            f"{titles.get(before, 'none')}{cause}"
        )
    rest = (
        f"{len(moved)} of {len(levers)} levers changed their rank" if moved
        else "no lever changed its rank"
    )  # fmt: skip
    return f"{inputs} {first[0].upper()}{first[1:]}; {rest}."


def notes(
    older: Older, what: Mapping[CauseName, Sequence[str]], now: Ranked
) -> list[str]:  # fmt: skip
    """What could not be told, and what would tell it."""
    found = []
    old = older.recs.provenance
    measured = [name for name in MEASURED if name in what]
    if "model" in what and len(measured) > 1 and older.model is None:
        found.append(
            "To tell the model apart from the rest, give the older one: --compare-model FILE"
        )
    if not old.fingerprints:
        found.append(
            "The older file has no fingerprints of data, baseline and code: a change of these that "
            "no file hash shows cannot be named"
        )
    if not old.settings:
        found.append("The older file has no record of min_gain and budgets: those of now are taken")
    gone = [w.name for w in older.recs.workloads if w.name not in now.study.weights and w.weight]
    if gone:
        found.append(
            f"What {joined(gone)} carried cannot be recomputed without its data: it counts with "
            "the first stage"
        )
    return found
