"""What differs between what went into two recommendations files, by what both recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from codesign.recommend.fingerprints import WORKLOAD
from codesign.recommend.portfolio import COST_UNITS
from codesign.recommend.wording import percent

if TYPE_CHECKING:
    from codesign.recommend.change_records import CauseName
    from codesign.recommend.schema import Provenance, Recommendations

MEASURED: tuple[CauseName, ...] = ("workloads", "data", "model", "baseline", "code", "backtest")
"""What gains by workload come from. Other causes are put in and recomputed one by one."""


def input_changes(old: Recommendations, new: Recommendations) -> dict[CauseName, tuple[str, ...]]:
    """Cause -> what of it differs, a line each; a cause without differences is left out.

    ``cost`` is not here: costs are compared step by step when they are put in.
    """
    found: dict[CauseName, Iterable[str]] = {
        "workloads": _workloads(old, new), "data": _data(old.provenance, new.provenance),
        "model": _model(old.provenance, new.provenance), "baseline": _baseline(old, new),
        "code": _code(old.provenance, new.provenance),
        "backtest": _hash(old.provenance, new.provenance, "backtest"),
        "weights": _weights(old, new), "settings": _settings(old, new),
    }  # fmt: skip
    lines = {name: tuple(said) for name, said in found.items()}
    return {name: said for name, said in lines.items() if said}


def steps_of(recs: Recommendations) -> dict[str, tuple[float, ...]]:
    """Lever -> factors that were studied."""
    return {x.lever: tuple(p.factor for p in x.points) for x in recs.levers if x.points}


def same_steps(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    """Whether two levers were studied at the same factors."""
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=1e-9)
        for a, b in zip(sorted(left), sorted(right), strict=True)
    )  # fmt: skip


def _workloads(old: Recommendations, new: Recommendations) -> Iterable[str]:
    before, after = ({w.name: w.weight for w in r.workloads} for r in (old, new))
    for name in sorted(before.keys() - after.keys()):
        yield f"{name} is gone (it weighed {percent(before[name])})"
    for name in sorted(after.keys() - before.keys()):
        yield f"{name} is new (it weighs {percent(after[name])})"


def _data(old: Provenance, new: Provenance) -> Iterable[str]:
    known = {k for k in old.fingerprints if k.startswith(WORKLOAD)}
    for key in sorted(known & new.fingerprints.keys()):
        if old.fingerprints[key] != new.fingerprints[key]:
            yield f"{key}: {_short(old.fingerprints[key])} -> {_short(new.fingerprints[key])}"
    if known:
        return
    # Older files have hashes of files only, and no word on which of them are data.
    for name in sorted(old.inputs.keys() & new.inputs.keys()):
        if old.inputs[name] != new.inputs[name] and not name.endswith((".yaml", ".yml", ".json")):
            yield f"{name}: {_short(old.inputs[name])} -> {_short(new.inputs[name])}"


def _model(old: Provenance, new: Provenance) -> Iterable[str]:
    if old.model_sha256 != new.model_sha256:
        yield (
            f"{old.model or 'a model without a file'} ({_short(old.model_sha256)}) -> "
            f"{new.model or 'a model without a file'} ({_short(new.model_sha256)})"
        )
    if old.trained_on != new.trained_on:
        yield f"fitted on {', '.join(old.trained_on)} -> {', '.join(new.trained_on)}"


def _baseline(old: Recommendations, new: Recommendations) -> Iterable[str]:
    if old.baseline != new.baseline:
        yield f"{old.baseline} -> {new.baseline}"
    else:
        yield from _hash(old.provenance, new.provenance, "baseline")


def _code(old: Provenance, new: Provenance) -> Iterable[str]:
    if old.codesign_version != new.codesign_version:
        yield f"codesign {old.codesign_version} -> {new.codesign_version}"
    yield from _hash(old, new, "code")
    for name in sorted(old.software.keys() | new.software.keys()):
        before, after = old.software.get(name, "none"), new.software.get(name, "none")
        if before != after:
            yield f"{name} {before} -> {after}"


def _hash(old: Provenance, new: Provenance, key: str) -> Iterable[str]:
    if not old.fingerprints:
        return
    before, after = old.fingerprints.get(key, ""), new.fingerprints.get(key, "")
    if before != after:
        yield f"{key}: {_short(before)} -> {_short(after)}"


def _weights(old: Recommendations, new: Recommendations) -> Iterable[str]:
    after = {w.name: w.weight for w in new.workloads}
    for w in old.workloads:
        if w.name in after and not math.isclose(w.weight, after[w.name], abs_tol=1e-9):
            yield f"{w.name}: {percent(w.weight)} -> {percent(after[w.name])}"


def _settings(old: Recommendations, new: Recommendations) -> Iterable[str]:
    if old.ranking_cost != new.ranking_cost:
        yield f"ranked by gain per {old.ranking_cost} -> per {new.ranking_cost}"
    for key in sorted(
        old.provenance.settings.keys() & new.provenance.settings.keys() - {"ranking"}
    ):
        before, after = old.provenance.settings[key], new.provenance.settings[key]
        if before != after:
            yield f"{key}: {_said(before)} -> {_said(after)}"
    for key in ("draws", "seed"):
        before, after = getattr(old.provenance, key), getattr(new.provenance, key)
        if before != after:
            yield f"{key}: {before} -> {after}"
    left, right = steps_of(old), steps_of(new)
    for lever in sorted(left.keys() | right.keys()):
        if not same_steps(left.get(lever, ()), right.get(lever, ())):
            yield f"steps of {lever}: {_factors(left.get(lever))} -> {_factors(right.get(lever))}"


def ranking_of(recs: Recommendations, default: str) -> str:
    """The kind of cost that ranked a file: money, area or power."""
    return next((k for k, unit in COST_UNITS.items() if unit == recs.ranking_cost), default)


def _factors(found: tuple[float, ...] | None) -> str:
    return ", ".join(f"x{f:.4g}" for f in sorted(found)) if found else "none"


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v:g}" for k, v in sorted(value.items())) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(digest: str) -> str:
    return digest[:12] or "none"
