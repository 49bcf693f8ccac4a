"""Several ranks as one job: waiting apart from transfer, stragglers, a line for each rank."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd

from codesign._common.units import format_si
from codesign.sources.kineto.alignment import Alignment, align
from codesign.sources.kineto.capture import Capture
from codesign.sources.kineto.rank import DeviceView
from codesign.workload.characterization import (
    Characterization,
    Quality,
    RankTimes,
    Reliability,
    StepTimes,
)

_MAX_WARNINGS = 10


@dataclass(frozen=True)
class _Place:
    """A device in the job."""

    rank: int
    view: DeviceView
    source: str
    alignment: Alignment


def join_ranks(captures: Sequence[Capture], ranks: Sequence[int], lead: int) -> Characterization:
    """The characterization of the job, its ops those of file ``lead``.

    ``wait_s`` of its collectives, ``header.rank_times``, notes and the quality of all
    files are filled in. A single file with a single device comes back as it is.
    """
    chosen = captures[lead]
    views = [(c, r, v) for c, r in zip(captures, ranks, strict=True) for v in c.devices]
    if len(views) < 2:
        return Characterization(chosen.header, chosen.ops)
    found = align([v.collectives for _, _, v in views])
    numbers = _numbers(captures)
    places = [
        _Place(numbers.get(v.label, r), v, c.source.name, a)
        for (c, r, v), a in zip(views, found, strict=True)
    ]
    own = next(p for p in places if p.view is chosen.devices[0])
    times = tuple(_rank_times(p) for p in sorted(places, key=lambda p: (p.rank, p.view.label)))
    header = msgspec.structs.replace(
        chosen.header,
        rank_times=times,
        totals=chosen.header.totals | _totals(places),
        notes=chosen.header.notes + tuple(map(_line, times)) + _stragglers(times),
        quality=_quality(captures, ranks, lead, places),
    )
    return Characterization(header, _with_wait(chosen.ops, own))


def _numbers(captures: Sequence[Capture]) -> dict[str, int]:
    """Ranks of the devices of one merged file: their own numbers, else their places.

    Empty where the rank of a device is its file's.
    """
    devices = captures[0].devices
    if len(captures) > 1 or len(devices) == 1:
        return {}
    labels = sorted(d.label for d in devices)
    if all(label.isdecimal() and len(label) < 8 for label in labels):
        return {label: int(label) for label in labels}
    return {label: place for place, label in enumerate(labels)}


def _per_step_s(place: _Place, ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float | None:
    """Sum over the matched collectives inside steps, s a step; None if there are none."""
    inside = np.array(place.view.collectives.inside, dtype=bool)
    use = inside & (place.alignment.wait_ns >= 0)
    if not use.any() or not place.view.times:
        return None
    return float(ns[use].sum()) / 1e9 / len(place.view.times)


def _lengths(place: _Place) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    events = place.view.collectives
    return np.array(events.end, dtype=np.int64) - np.array(events.start, dtype=np.int64)


def _rank_times(place: _Place) -> RankTimes:
    times, found = place.view.times, place.alignment
    matched = found.wait_ns >= 0

    def mean(column: str) -> float:
        return math.fsum(getattr(t, column) for t in times) / max(len(times), 1)

    known = bool(times) and all(t.host_bound_s is not None for t in times)
    return RankTimes(
        rank=place.rank, device=place.view.label, source=place.source, steps=len(times),
        step_time_s=mean("time_s"), compute_s=mean("compute_s"), comm_s=mean("comm_s"),
        exposed_comm_s=mean("exposed_comm_s"), exposed_copy_s=mean("exposed_copy_s"),
        idle_s=mean("idle_s"), host_bound_s=mean("host_bound_s") if known else None,
        wait_s=_per_step_s(place, found.wait_ns),
        transfer_s=_per_step_s(place, _lengths(place) - found.wait_ns),
        collectives=len(matched), matched=int(matched.sum()),
        last_share=float(found.last[matched].mean()) if matched.any() else None,
        clock_offset_s=None if found.offset_ns is None else found.offset_ns / 1e9,
    )  # fmt: skip


def _totals(places: Sequence[_Place]) -> dict[str, float]:
    """Means over ranks, and the step of the job: each step takes as long as on its slowest rank."""
    steps: dict[str, list[StepTimes]] = defaultdict(list)
    for place in places:
        for step in place.view.times:
            steps[step.name].append(step)
    slowest = [max(s.time_s for s in found) for found in steps.values() if len(found) > 1]
    times = [_rank_times(p) for p in places]
    compute = [t.compute_s for t in times]
    found = {"job_devices": float(len(places))}
    if slowest:
        found["job_step_time_s"] = math.fsum(slowest) / len(slowest)
    if max(compute) > 0:
        found["job_compute_imbalance"] = max(compute) / (math.fsum(compute) / len(compute))
    for key in ("wait_s", "transfer_s"):
        known = [value for t in times if (value := getattr(t, key)) is not None]
        if known:
            found[f"job_{key}"] = math.fsum(known) / len(known)
    return found


def _with_wait(ops: pd.DataFrame, own: _Place) -> pd.DataFrame:
    """``wait_s`` of the rows whose collectives were found on other ranks."""
    events, wait = own.view.collectives, own.alignment.wait_ns
    rows = np.array(events.row, dtype=np.int64)
    use = (rows >= 0) & (wait >= 0)
    if not use.any():
        return ops
    n, steps = len(ops), max(len(own.view.times), 1)
    total = np.bincount(rows[use], weights=wait[use], minlength=n) / 1e9 / steps
    known = np.bincount(rows[use], minlength=n) > 0
    column = pd.array(np.where(known, total, np.nan), dtype="Float64")
    column[~known] = pd.NA
    return ops.assign(wait_s=column)


def _line(times: RankTimes) -> str:
    """What one rank's step is made of."""
    wait = (
        "waiting unknown"
        if times.wait_s is None or times.transfer_s is None
        else f"waiting {format_si(times.wait_s, 's')} and transfer "
        f"{format_si(times.transfer_s, 's')} in {times.matched} of {times.collectives} collectives"
    )
    return (
        f"rank {times.rank} ({times.source}, device {times.device}): "
        f"step {format_si(times.step_time_s, 's')}, compute {format_si(times.compute_s, 's')}, "
        f"exposed communication {format_si(times.exposed_comm_s, 's')} "
        f"of {format_si(times.comm_s, 's')}, {wait}"
    )


def _stragglers(times: Sequence[RankTimes]) -> tuple[str, ...]:
    """Who arrives last most often, and what it costs the rank that waits most."""
    known = [t for t in times if t.last_share is not None and t.wait_s is not None]
    if len(known) < 2:
        return ("no collective could be found on two ranks: waiting is not known",)
    last = max(known, key=lambda t: (t.last_share or 0.0, -(t.wait_s or 0.0)))
    longest = max(known, key=lambda t: t.wait_s or 0.0)
    if not last.last_share:
        return ("no straggler: the ranks arrive together at the matched collectives",)
    return (
        f"straggler: rank {last.rank} arrives last at {last.last_share:.0%} of its "
        f"{last.matched} matched collectives; rank {longest.rank} waits longest, "
        f"{format_si(longest.wait_s or 0.0, 's')} a step",
    )


def _quality(
    captures: Sequence[Capture], ranks: Sequence[int], lead: int, places: Sequence[_Place]
) -> Quality:
    """Counts over all files; the warnings of the others under their rank."""
    quality = captures[lead].header.quality
    every = [c.header.quality for c in captures]
    warnings = list(quality.warnings)
    more = [
        f"rank {r}: {w}"
        for c, r in sorted(zip(captures, ranks, strict=True), key=lambda x: x[1])
        for w in c.header.quality.warnings
        if c is not captures[lead] and w not in quality.warnings
    ]
    warnings += more[:_MAX_WARNINGS]
    if len(more) > _MAX_WARNINGS:
        warnings.append(f"{len(more) - _MAX_WARNINGS} more warnings of other ranks")
    worlds = sorted({c.header.gpus for c in captures})
    if len(worlds) > 1:
        listed = ", ".join(map(str, worlds))
        warnings.append(f"the files state jobs of different sizes ({listed} GPUs): one job?")
    reasons = _doubts(places, captures[lead].header.gpus)
    return msgspec.structs.replace(
        quality,
        warnings=(*warnings, *reasons),
        complete=all(q.complete for q in every),
        repaired_events=sum(q.repaired_events for q in every),
        dropped_events=sum(q.dropped_events for q in every),
        reliability=quality.reliability | {"wait": Reliability(not reasons, reasons)},
    )


def _doubts(places: Sequence[_Place], world: int) -> tuple[str, ...]:
    """Why waiting may be more than was found."""
    reasons = []
    missing = unmatched = total = 0
    for place in places:
        sizes = np.array(place.view.collectives.group_size, dtype=np.int64)
        # A group that was not recorded may be all of the job.
        sizes = np.where(sizes == 0, world, sizes)
        matched = place.alignment.wait_ns >= 0
        missing += int((matched & (sizes > place.alignment.known)).sum())
        unmatched += int((~matched).sum())
        total += len(matched)
    if missing:
        reasons.append(
            f"{missing} of {total} collectives have ranks that were not captured: "
            "waiting is a lower bound"
        )
    if unmatched:
        reasons.append(
            f"{unmatched} of {total} collectives were found on no other rank: "
            "how long they wait is unknown"
        )
    return tuple(reasons)
