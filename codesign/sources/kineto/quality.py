"""What a capture is worth, and which derived quantities it cannot carry."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from codesign._common.units import format_si
from codesign.sources.kineto._times import Ints
from codesign.sources.kineto.categories import KERNEL
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.join import Links
from codesign.sources.kineto.replays import missing_kernels
from codesign.sources.kineto.rows import Activities, clean
from codesign.sources.kineto.steps import Steps
from codesign.sources.kineto.timeline import Clipped
from codesign.workload.characterization import Quality, Reliability, StepTimes

ENOUGH_LAUNCHES = 0.95
"""Share of launches whose kernels must be there for idle time to mean anything."""
DOMINANT_EVENT = 0.5
"""One call longer than this share of all kernel time, among several, is suspect."""
_SHAPE_COLUMNS = ("m", "n", "k", "q_len", "message_bytes", "flops", "bytes")
_IDLE_SHARE_WITH_STACKS = 0.2


@dataclass
class Notes:
    """Warnings and reasons while they are gathered."""

    warnings: list[str] = field(default_factory=list)
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def warn(self, text: str, *unreliable: str) -> None:
        """Add a warning, and make the named quantities unreliable for it."""
        self.warnings.append(text)
        for quantity in unreliable:
            self.reasons.setdefault(quantity, []).append(text)


@dataclass(frozen=True)
class Evidence:
    """All that the quality block is drawn from."""

    trace: Trace
    links: Links
    activities: Activities
    clipped: Clipped
    steps: Steps
    times: tuple[StepTimes, ...]
    """Steps of the device in question."""
    ops: pd.DataFrame


def judge(evidence: Evidence, notes: Notes) -> Quality:
    """The quality block; ``notes`` may already hold warnings and gains more."""
    trace, findings = evidence.trace, evidence.trace.findings
    kernel = trace.device["kind"][evidence.activities.row] == KERNEL
    _reading(evidence, notes)
    coverage = _launches(evidence, notes)
    orphans = _orphans(evidence, kernel, notes)
    skewed = _skew(evidence, notes)
    _clips(evidence, notes)
    _steps(evidence, kernel, notes)
    known, shaped = _coverage(evidence.ops)
    if known is not None and known < 0.5:
        notes.warn(f"the work of {1 - known:.0%} of GPU time is unknown", "flops")
    if shaped is not None and shaped == 0.0:
        notes.warn(
            "coverage: 0 % of GPU time has shapes; FLOPs are unknown: capture with "
            "record_shapes=True and, for CUDA graphs, outside of them"
        )
    quantities = ("idle", "launch", "exposed", "flops", "steps", "step_time")
    return Quality(
        known_work_share=known, shape_coverage=shaped, launch_coverage=coverage,
        orphan_kernels=orphans, clipped_events=len(evidence.clipped.index),
        repaired_events=findings.repaired, dropped_events=findings.dropped,
        skewed_launches=skewed,
        steps_found=0 if evidence.steps.by == "none" else len(evidence.steps.names),
        steps_by=evidence.steps.by, complete=findings.complete,
        reliability={
            q: Reliability(q not in notes.reasons, tuple(notes.reasons.get(q, ())))
            for q in quantities
        },
        warnings=tuple(dict.fromkeys(notes.warnings)),
    )  # fmt: skip


def _reading(evidence: Evidence, notes: Notes) -> None:
    trace, findings = evidence.trace, evidence.trace.findings
    if not findings.complete:
        notes.warn(
            f"incomplete: the input is truncated after {findings.events} complete events",
            "idle", "exposed", "steps", "step_time",
        )  # fmt: skip
    if findings.repaired or findings.dropped:
        notes.warn(
            f"{findings.repaired} malformed events repaired, {findings.dropped} dropped",
            *(["idle", "exposed"] if findings.dropped else []),
        )
    if findings.duplicates:
        notes.warn(
            f"{findings.duplicates} device events stand in the file twice (files merged?) and "
            "count once"
        )
    if findings.lapses:
        notes.warn(f"read around: {', '.join(sorted(findings.lapses))}")
    if trace.unknown_categories:
        listed = ", ".join(clean(c)[:40] for c in trace.unknown_categories[:10])
        notes.warn(f"event categories not known and left out: {listed}")
    if trace.odd_args:
        notes.warn(f"{trace.odd_args} events have arguments of unexpected types, left out")


def _launches(evidence: Evidence, notes: Notes) -> float | None:
    links = evidence.links
    asked = int(links.asks.sum())
    if not asked:
        return None
    answered = int((links.asks & links.answered).sum())
    coverage = answered / asked
    if coverage < ENOUGH_LAUNCHES:
        notes.warn(
            f"launch coverage {coverage:.0%}: {asked - answered} of {asked} launches have no "
            "kernel in the capture, so idle time is overstated",
            "idle", "launch", "exposed",
        )  # fmt: skip
    _replays(evidence, notes)
    return coverage


def _replays(evidence: Evidence, notes: Notes) -> None:
    trace, links, activities = evidence.trace, evidence.links, evidence.activities
    mine = links.graph[activities.row] & (trace.device["kind"][activities.row] == KERNEL)
    if not mine.any():
        return
    row = activities.row[mine]
    missing, whole = missing_kernels(
        links.launch[row], trace.device["name"][row], activities.start[mine],
        activities.end[mine], (np.sort(activities.start), np.sort(activities.end)),
    )  # fmt: skip
    if missing > (1 - ENOUGH_LAUNCHES) * whole:
        notes.warn(
            f"graph replays hold {whole - missing} of the {whole} kernels that the same graphs "
            "have in whole replays, so idle time is overstated",
            "idle", "launch", "exposed",
        )  # fmt: skip


def _orphans(evidence: Evidence, kernel: np.ndarray[tuple[int], np.dtype[np.bool_]],
             notes: Notes) -> int:  # fmt: skip
    activities = evidence.activities
    orphan = kernel & (evidence.links.launch[activities.row] < 0)
    count = int(orphan.sum())
    if count:
        length = activities.end - activities.start
        lost, total = length[orphan].sum() / 1e9, length[kernel].sum() / 1e9
        notes.warn(
            f"{count} kernels ({format_si(float(lost), 's')}) have no launch record; they count. "
            f"Without them kernel time is {format_si(float(total - lost), 's')}"
        )
    return count


def _skew(evidence: Evidence, notes: Notes) -> int:
    latency = launch_latency_ns(evidence)
    skewed = int((latency < 0).sum())
    if skewed:
        notes.warn(
            f"{skewed} kernels start before their launch (clock skew); their launch latency is n/a",
            *(["launch"] if skewed > 0.01 * len(latency) else []),
        )
    return skewed


def launch_latency_ns(evidence: Evidence) -> Ints:
    """Kernel start less launch start of every linked kernel outside of graphs; below 0 is skew."""
    row = evidence.activities.row
    launch = evidence.links.launch[row]
    use = (launch >= 0) & ~evidence.links.graph[row]
    use &= evidence.trace.device["kind"][row] == KERNEL
    return evidence.activities.start[use] - evidence.trace.launches["start"][launch[use]]


def _clips(evidence: Evidence, notes: Notes) -> None:
    clipped, trace = evidence.clipped, evidence.trace
    for index, raw in list(zip(clipped.index.tolist(), clipped.raw_ns.tolist(), strict=True))[:5]:
        row = evidence.activities.row[index]
        kept = int(evidence.activities.end[index] - evidence.activities.start[index])
        name = clean(trace.names[trace.device["name"][row]])[:80]
        notes.warn(
            f"{name} ran over the next slice on its stream: {raw / 1000:g} us clipped to "
            f"{kept / 1000:g} us"
        )
    if len(clipped.index) > 5:
        notes.warn(f"{len(clipped.index)} events clipped in all; the first five are named")


def _steps(evidence: Evidence, kernel: np.ndarray[tuple[int], np.dtype[np.bool_]],
           notes: Notes) -> None:  # fmt: skip
    steps, times, activities = evidence.steps, evidence.times, evidence.activities
    if steps.by == "none":
        notes.warn(
            "no steps are marked (ProfilerStep#N or a step-like annotation) and no sequence of "
            "kernels repeats: the whole capture counts as one step", "steps", "step_time",
        )  # fmt: skip
    if steps.by == "periodicity":
        notes.warn(
            f"{len(steps.names)} steps were found by periodicity, for none is marked: repeating "
            f"sequences of about {np.median([t.kernels for t in times]):.0f} kernels"
        )
    if steps.overlapping:
        notes.warn(
            f"{steps.overlapping} marked steps begin inside of another (threads or processes that "
            "mark their own?) and were left out"
        )
    empty = sum(1 for t in times if not t.kernels)
    if empty:
        notes.warn(f"{empty} of {len(times)} steps hold no kernels", "steps", "step_time", "idle")
    length = (activities.end - activities.start)[kernel]
    if len(length) > 2 and length.max() > DOMINANT_EVENT * length.sum():
        longest = np.flatnonzero(kernel)[int(length.argmax())]
        row = activities.row[longest]
        name = clean(evidence.trace.names[evidence.trace.device["name"][row]])[:80]
        share = length.max() / length.sum()
        # Among many kernels one such event is a fault; among a few it may be the workload.
        unreliable = ("steps", "step_time") if share > 0.9 else ()
        notes.warn(f"one kernel, {name}, is {share:.0%} of all kernel time", *unreliable)
    outside = int((kernel & (activities.step < 0)).sum())
    if outside:
        time = length[activities.step[kernel] < 0].sum() / 1e9
        notes.warn(f"{outside} kernels ({format_si(float(time), 's')}) lie outside of all steps")
    idle = sum(t.idle_s for t in times)
    whole = sum(t.time_s for t in times)
    if evidence.trace.python_events and idle > _IDLE_SHARE_WITH_STACKS * whole:
        notes.warn(
            "Python call stacks were recorded, which slows the host: idle time is an upper bound",
            "idle", "launch",
        )  # fmt: skip


def _coverage(ops: pd.DataFrame) -> tuple[float | None, float | None]:
    """Shares of op time with known work and with shapes; copies by engine are neither."""
    ran = ops[~ops["kernel"].str.startswith(("Memcpy", "Memset")).fillna(False)]
    time = ran["time_s"].to_numpy(dtype=float, na_value=0.0)
    total = time.sum()
    if not total > 0:
        return None, None
    known = ran[["flops", "bytes", "wire_bytes"]].notna().any(axis=1).to_numpy(dtype=bool)
    shaped = ran[list(_SHAPE_COLUMNS)].notna().any(axis=1).to_numpy(dtype=bool)
    return float(time[known].sum() / total), float(time[shaped].sum() / total)
