"""Among which levers one was held to be the best, and by what."""

from __future__ import annotations

from codesign.recommend.schema import Recommendation, Recommendations
from codesign.report import formatting as fmt


def measure(rec: Recommendation) -> str:
    """What ranks, without the remark why: ``gain per W``."""
    return rec.ranked_by.partition(":")[0].partition(",")[0].partition(" (")[0].strip()


def rivals(recs: Recommendations, rec: Recommendation) -> int:
    """Levers among which ``rec.p_best`` is counted, itself included.

    What no measurement tested takes no part. Gain per cost is held against that of the others
    that have a cost, gain alone against all (`recommend.rank.p_best`).
    """
    priced = rec.gain_per_cost is not None
    return sum(
        r.p_best is not None and (r.gain_per_cost is not None or not priced)
        for r in recs.recommendations
    )


def among(recs: Recommendations, rec: Recommendation) -> str:
    """``the 5 priced levers that measurements identify``; empty where there is no other."""
    count = rivals(recs, rec)
    if count < 2:
        return ""
    some = count < sum(r.p_best is not None for r in recs.recommendations)
    return f"the {fmt.count(count)} {'priced ' if some else ''}levers that measurements identify"


def in_draws(recs: Recommendations, rec: Recommendation) -> str:
    """``best by gain per W of the 5 identified levers in 62.0 % of draws``."""
    if rec.p_best is None:
        return ""
    share = f"in {fmt.share(rec.p_best)} of draws"
    count = rivals(recs, rec)
    if count < 2:
        return f"worth it {share}, by {measure(rec)} without an identified rival"
    some = count < sum(r.p_best is not None for r in recs.recommendations)
    kind = "priced identified" if some else "identified"
    return f"best by {measure(rec)} of the {fmt.count(count)} {kind} levers {share}"
