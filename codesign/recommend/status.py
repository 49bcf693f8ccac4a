"""How far the data support a lever's gain: the word and the reason for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from codesign.recommend.wording import listing, percent

if TYPE_CHECKING:
    from codesign.recommend.schema import Status

NOTHING_GAINED = 1e-6
"""Gains below 1 + this are no gain: below what any timer resolves."""

_WHY_NOTHING = {
    "hbm_capacity": "capacity decides what fits (batch, sharding, recomputation), not how long an "
    "op takes; no workload here is studied at another batch or sharding",
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


class Verdict(NamedTuple):
    """A lever's status, with the reason in words."""

    status: Status
    reason: str


def no_effect(lever: str, binding: dict[str, float]) -> Verdict:
    """For a lever that gains nothing at any step studied."""
    why = _WHY_NOTHING.get(lever, "no op of these workloads waits for it")
    return Verdict("no_effect", f"{why}; time is bound by {listing(binding)}")


def verdict(lever: str, by_class: dict[str, float], identifiability: dict[str, Any]) -> Verdict:
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
            reasons.append(f"{op_class} ({percent(share)} of the time saved): {_why(entry)}")
    if shares.get("not_identifiable", 0.0) >= 0.5:
        chosen: Status = "not_identifiable"
    else:
        chosen = max(("identified", "assumed"), key=lambda s: shares.get(s, 0.0))
    return Verdict(chosen, "; ".join(reasons))


def _why(entry: Any) -> str:
    if entry is None:
        return "the model states no identification; taken as assumed physics"
    reason = entry.reason or str(entry.status).replace("_", " ")
    alias = getattr(entry, "alias", None)
    if alias is None or alias in reason:
        return str(reason)
    return f"{reason} (moves together with {alias} on the measured GPUs)"
