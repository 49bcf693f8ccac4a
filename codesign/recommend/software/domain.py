"""Collectives that leave the NVLink domain though their group would fit inside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codesign.recommend.software.draft import Draft, shrunk
from codesign.recommend.software.look import Array, Look
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent

LEAST_SHARE = 0.01


def crosses_domain(look: Look) -> Draft | str | None:
    """Groups of at most one domain's GPUs that are spread over several."""
    group, span = look.number("group_size"), look.number("domain_span")
    domain = look.base.nvlink_domain
    stride = np.fmax(look.number("group_stride"), 1.0)
    # Where the span is not known, ranks that stand further apart than the domain tell.
    spread = np.where(np.isnan(span), domain // stride, span)
    crossing = look.of_class("collective") & (group > 1) & (group <= domain) & (spread < group)
    exposed = float(look.step.exposed_s[crossing].sum())
    if exposed < LEAST_SHARE * look.step_s:
        return None
    rows = np.flatnonzero(crossing)
    ratio, how = _inside(look, rows)
    bound = float((look.step.exposed_s[rows] * ratio).sum())
    if exposed - bound < LEAST_SHARE * look.step_s:
        return None
    return Draft(
        shrunk(look, rows, ratio), rows,
        f"{seconds(exposed)} of exposed collectives ({percent(exposed / look.step_s)} of the step) "
        f"cross NVLink domains of {domain} GPUs though their groups fit into one: "
        f"{ops_in_words(look, rows)}",
        exposed, bound, how,
    )  # fmt: skip


def _inside(look: Look, rows: NDArray[np.intp]) -> tuple[Array, str]:
    ops = look.ops.iloc[rows]
    moved = ops.assign(group_stride=1, domain_span=ops["group_size"])
    before, after = look.modelled(ops), look.modelled(moved)
    link = look.base.scaleout_bandwidth_bytes_per_s / look.base.nvlink_bandwidth_bytes_per_s
    if before is None or after is None:
        return np.full(len(rows), min(link, 1.0)), "bandwidth of the network over that of NVLink"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = after / before
    known = np.isfinite(ratio)
    how = "the fitted model's time of the same collective inside one domain over that across"
    return np.where(known, np.minimum(ratio, 1.0), min(link, 1.0)), how
