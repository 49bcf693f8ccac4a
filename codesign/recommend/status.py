"""How far the data support a lever's gain: the word and the reason for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from codesign.recommend.wording import listing, name_of, percent, readable

if TYPE_CHECKING:
    from codesign.recommend.schema import Status

NOTHING_GAINED = 1e-6
"""Gains below 1 + this are no gain: below what any timer resolves."""

NOT_STUDIED = {
    "hbm_capacity": "capacity pays through what it lets fit: a larger batch, less sharding, no "
    "recomputation. Every workload here is projected at its own batch and sharding, which nothing "
    "re-optimises, so nothing is said of what capacity is worth",
}
"""Levers that act only through choices which a fixed configuration leaves as they are."""
_WHY_NOTHING = {
    "nvlink_domain": "no collective of these workloads moves inside the domain",
    "scaleout_bandwidth": "no exposed collective of these workloads leaves the NVLink domain",
    "nvlink_bandwidth": "no exposed collective of these workloads waits for NVLink",
    "fp4_throughput": "no op of these workloads multiplies in FP4",
    "fp8_throughput": "no op of these workloads that waits for tensor throughput multiplies in FP8",
}


# A class whose parameters say "no effect" has time saved all the same only through the
# physical form of its model.
_OF_MODEL: dict[str, Status] = {
    "identified": "identified", "assumed": "assumed", "no_effect": "assumed",
    "alias": "not_identifiable", "not_identifiable": "not_identifiable",
}  # fmt: skip


class Judgement(NamedTuple):
    """A lever's status, with the reason in words."""

    status: Status
    reason: str


def no_effect(lever: str, binding: dict[str, float]) -> Judgement:
    """For a lever that gains nothing at any step studied."""
    why = _WHY_NOTHING.get(lever, "no op of these workloads waits for it")
    return Judgement("no_effect", f"{why}; time is bound by {listing(binding)}")


def judgement(lever: str, by_class: dict[str, float], identifiability: dict[str, Any]) -> Judgement:
    """Status of a lever from those of the op classes that carry its gain.

    ``by_class``: share of the time saved by op class. ``identifiability``: lever ->
    op class -> (status, reason, alias) of the model. The status that holds for most of
    the time saved counts; half of it not identifiable makes the lever so.
    """
    known = identifiability.get(lever) or {}
    shares: dict[Status, float] = {}
    reasons: list[str] = []
    for op_class, share in by_class.items():
        entry = known.get(op_class)
        status = "assumed" if entry is None else _OF_MODEL.get(entry.status, "assumed")
        shares[status] = shares.get(status, 0.0) + share
        if share >= 0.1:
            why = readable(_why(entry))
            reasons.append(f"{name_of(op_class)} ({percent(share)} of the time saved): {why}")
    if shares.get("not_identifiable", 0.0) >= 0.5:
        chosen: Status = "not_identifiable"
    else:
        chosen = max(("identified", "assumed"), key=lambda s: shares.get(s, 0.0))
    return Judgement(chosen, "; ".join(reasons))


def _why(entry: Any) -> str:
    if entry is None:
        return "the model states no identification; taken as assumed physics"
    reason = entry.reason or str(entry.status).replace("_", " ")
    alias = getattr(entry, "alias", None)
    if alias is None or alias in reason:
        return str(reason)
    return f"{reason} (moves together with {alias} on the measured GPUs)"
