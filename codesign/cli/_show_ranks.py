"""What `codesign show` says of the ranks of a job, and of time lost to the host."""

from __future__ import annotations

import math

from codesign._common.units import format_si
from codesign.workload.characterization import Header, RankTimes

_COLUMNS = ["rank", "file", "step", "compute", "exposed comm.", "waiting", "transfer", "last at",
            "idle", "host-bound"]  # fmt: skip
_MOST = 16


def idle_text(header: Header) -> str:
    """Idle time of the step, and what of it is known to be bubble or waiting for the host."""
    parts = [f"bubble {format_si(header.bubble_s, 's')}"] if header.bubble_s else []
    lead = [s for s in header.steps if s.device == header.steps[0].device]
    host_s = [s.host_bound_s for s in lead if s.host_bound_s is not None]
    if host_s and len(host_s) == len(lead):
        parts.append(f"host-bound {format_si(math.fsum(host_s) / len(host_s), 's')}")
    inside = f" ({', '.join(parts)})" if parts else ""
    return f"{format_si(header.idle_s, 's')}{inside}"


def job_text(header: Header) -> str | None:
    """The job in one line; None unless several ranks are known."""
    totals = header.totals
    if len(header.rank_times) < 2 or "job_step_time_s" not in totals:
        return None
    parts = [f"step {format_si(totals['job_step_time_s'], 's')} on the slowest rank"]
    if "job_wait_s" in totals:
        parts.append(f"mean over ranks: waiting {format_si(totals['job_wait_s'], 's')}, "
                     f"transfer {format_si(totals['job_transfer_s'], 's')}")  # fmt: skip
    if "job_compute_imbalance" in totals:
        parts.append(f"most compute of a rank {totals['job_compute_imbalance']:.2f} x the mean")
    return "; ".join(parts)


def ranks_table(header: Header) -> tuple[str, list[str], list[list[str]]] | None:
    """A row for each rank, or of many those that the others wait for and those that wait."""
    ranks = header.rank_times
    if len(ranks) < 2:
        return None
    title = f"{len(ranks)} ranks, a step"
    if len(ranks) > _MOST:
        by_last = sorted(ranks, key=lambda t: (-(t.last_share or 0.0), t.wait_s or 0.0))
        kept = {id(t) for t in [*by_last[: _MOST // 2], *by_last[-_MOST // 2 :]]}
        title = f"{_MOST} of {len(ranks)} ranks, a step: most and least often last"
        ranks = tuple(t for t in ranks if id(t) in kept)
    return title, _COLUMNS, [_row(t) for t in ranks]


def _row(times: RankTimes) -> list[str]:
    def seconds(value: float | None) -> str:
        return "unknown" if value is None else format_si(value, "s")

    return [
        str(times.rank), times.source, seconds(times.step_time_s), seconds(times.compute_s),
        seconds(times.exposed_comm_s), seconds(times.wait_s), seconds(times.transfer_s),
        "unknown" if times.last_share is None else f"{100 * times.last_share:.0f} %",
        seconds(times.idle_s), seconds(times.host_bound_s),
    ]  # fmt: skip
