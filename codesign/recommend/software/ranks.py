"""Ranks that wait for each other: stragglers, and experts with uneven load."""

from __future__ import annotations

import numpy as np

from codesign.recommend.software.draft import Draft, Effect, shrunk
from codesign.recommend.software.look import Look, Mask
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent
from codesign.workload.imbalance import BALANCED, busiest_rank, exponent

LEAST_SHARE = 0.01
_OF_EXPERTS = ("dispatch", "combine", "all_to_all")


def stragglers(look: Look) -> Draft | str | None:
    """Time in collectives before the last rank arrives, apart from those of the experts."""
    waits = _waits(look) & ~_of_experts(look)
    return _waiting(look, waits, "")


def moe_imbalance(look: Look) -> Draft | str | None:
    """Busiest rank against the mean: by waits at dispatch and combine, else by routing."""
    experts = look.of_class("grouped_gemm")
    if not experts.any():
        return None
    waits = _waits(look) & _of_experts(look)
    if waits.any():
        return _waiting(look, waits, "around the experts, ")
    skewed = np.flatnonzero(experts & np.array([_skewed(d) for d in look.text("distribution")]))
    if not skewed.size:
        return None
    if look.composed:
        return "the routing is the recipe's assumption; no capture shows how tokens were spread"
    ratio = np.array([_balanced_share(look, int(i)) for i in skewed])
    at_stake = float(look.step.exposed_s[skewed].sum())
    bound = float((look.step.exposed_s[skewed] * ratio).sum())
    if at_stake - bound < LEAST_SHARE * look.step_s:
        return None
    return Draft(
        shrunk(look, skewed, ratio), skewed,
        f"the experts take {seconds(at_stake)} under {look.text('distribution')[skewed[0]]}: "
        f"{ops_in_words(look, skewed)}",
        at_stake, bound,
        "rows of the mean rank over rows of the busiest, drawn for that distribution; the time "
        "of an expert GEMM goes with its rows where it is not bound by weights",
        confidence="low",
    )  # fmt: skip


def _waiting(look: Look, rows: Mask, where: str) -> Draft | str | None:
    wait = np.minimum(look.number("wait_s", 0.0), look.step.exposed_s)
    wait = np.where(rows, wait, 0.0)
    total = float(wait.sum())
    if total < LEAST_SHARE * look.step_s:
        return None
    named = np.flatnonzero(wait > 0)
    return Draft(
        Effect(np.ones(len(look.ops)), wait), named,
        f"{where}{seconds(total)} of the step ({percent(total / look.step_s)}) is waiting for the "
        f"last rank, not moving data: {ops_in_words(look, named)}{_who(look)}",
        total, 0.0,
        "ranks that arrive together wait for nobody; the transfer itself stays",
    )  # fmt: skip


def _who(look: Look) -> str:
    ranks = [r for r in look.char.header.rank_times if r.last_share is not None and r.matched]
    if not ranks:
        return ""
    last = max(ranks, key=lambda r: (r.last_share or 0.0, -r.rank))
    means = float(np.mean([r.compute_s for r in ranks]))
    more = (last.compute_s / means - 1) if means > 0 else 0.0
    return (
        f"; rank {last.rank} arrives last in {percent(last.last_share or 0.0)} of the collectives "
        f"and computes {more * 100:+.0f} % against the mean"
    )


def _waits(look: Look) -> Mask:
    return look.of_class("collective") & (look.number("wait_s", 0.0) > 0)


def _of_experts(look: Look) -> Mask:
    if not look.of_class("grouped_gemm").any():
        return np.zeros(len(look.ops), dtype=bool)
    return np.asarray(look.ops["collective"].isin(_OF_EXPERTS).to_numpy(dtype=bool))


def _skewed(distribution: str) -> bool:
    return bool(distribution) and distribution != BALANCED and exponent(distribution) is not None


def _balanced_share(look: Look, index: int) -> float:
    row = look.ops.iloc[index]
    rows, experts, topk = (int(row[c]) if row[c] == row[c] and row[c] is not None else 1
                           for c in ("m", "experts", "topk"))  # fmt: skip
    total = row["experts_total"]
    whole = int(total) if isinstance(total, int | np.integer) else experts
    load = busiest_rank(str(row["distribution"]), rows, experts, whole, topk)
    return 1.0 / max(load.rows_ratio, 1.0)
