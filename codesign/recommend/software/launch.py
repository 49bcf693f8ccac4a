"""Idle time: gaps between launches, and stalls in which the host does other things."""

from __future__ import annotations

import numpy as np

from codesign.recommend.software.draft import Draft, Effect
from codesign.recommend.software.look import Look
from codesign.recommend.software.words import seconds
from codesign.recommend.wording import percent

LEAST_SHARE = 0.02
"""Share of the step from which idle time is worth a finding."""


def launch_bound(look: Look) -> Draft | str | None:
    """The device waits for launches: at stake is the idle time with nothing launched outside
    of long gaps; a graph starts kernels one launch latency apart at most.
    """
    gaps, kernels = look.launch_gaps_s, look.mean_of_steps("kernels")
    if gaps is None or not kernels:
        return "how much of the idle time waits for launches is unknown"
    if gaps < LEAST_SHARE * look.step_s:
        return None
    least = min(gaps, kernels * look.base.launch_latency_s)
    count = len(look.ops)
    effect = Effect(np.ones(count), np.zeros(count), gaps - least)
    mean = look.step.busy_s / kernels
    return Draft(
        effect, np.flatnonzero(look.compute & (look.step.exposed_s > 0)),
        f"{kernels:.0f} kernels of {seconds(mean)} on average; in {seconds(gaps)} of the step "
        f"({percent(gaps / look.step_s)}) nothing was launched, gaps of 1 ms and more left out: "
        f"{seconds(gaps / kernels)} of waiting a kernel",
        gaps, least,
        f"{kernels:.0f} kernels, each {seconds(look.base.launch_latency_s)} after the last (the "
        "launch latency of the system): a replayed graph needs no more",
    )  # fmt: skip


def host_stall(look: Look) -> Draft | str | None:
    """Gaps of a millisecond or more with nothing launched: data loading, synchronisation."""
    stalls = look.stalls_s
    if stalls is None:
        return "how much of the idle time waits for the host is unknown"
    if stalls < LEAST_SHARE * look.step_s:
        return None
    count = len(look.ops)
    return Draft(
        Effect(np.ones(count), np.zeros(count), stalls), np.empty(0, dtype=np.intp),
        f"gaps of 1 ms and more in which nothing was launched take at least {seconds(stalls)} of "
        f"the step ({percent(stalls / look.step_s)}); a launch takes microseconds, so the host "
        "did something else: it waited for data, synchronised, or ran other code",
        stalls, 0.0,
        "work of the host that runs beside the device, as a prefetching loader does, costs "
        "the step nothing",
    )  # fmt: skip
