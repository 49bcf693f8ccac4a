"""One rank's trace to a characterization of its busiest device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd

from codesign._common.errors import DataError, UsageError
from codesign.hardware import gpu_of_device, load_system, system_of_gpu
from codesign.sources._devices import contradiction
from codesign.sources.kineto import metadata
from codesign.sources.kineto._times import MISSING_ID, Ints
from codesign.sources.kineto.accounting import capture_totals, kinds_of, step_times
from codesign.sources.kineto.alignment import Collectives
from codesign.sources.kineto.bounds import DOUBTFUL_SHARE, above_peak
from codesign.sources.kineto.categories import KERNEL
from codesign.sources.kineto.collectives import identity
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.join import Links, link
from codesign.sources.kineto.processes import mixed_processes, split_devices
from codesign.sources.kineto.quality import (
    Evidence,
    Notes,
    judge,
    launch_latency_ns,
)
from codesign.sources.kineto.rows import (
    Activities,
    activity_classes,
    build_rows,
    clean,
    phases,
    read_names,
)
from codesign.sources.kineto.steps import Steps, find_steps
from codesign.sources.kineto.timeline import Clipped, clip_overlaps, exposed
from codesign.workload.accounting import add_work, routing_assumption
from codesign.workload.characterization import Characterization, Header, StepTimes
from codesign.workload.notes import device_note
from codesign.workload.schema import OP_CLASSES, ops_frame

_COUNTED_BITS = 0xFFFFFFFF
"""Of a correlation id; above them readers may put the process."""


@dataclass(frozen=True)
class _Device:
    """One device of the trace, its time accounted for."""

    label: str
    activities: Activities
    clipped: Clipped
    steps: Steps
    claims: tuple[Ints, Ints, Ints]
    times: tuple[StepTimes, ...]


class DeviceView(msgspec.Struct, frozen=True):
    """What the other ranks of a job need to know of one device."""

    label: str
    times: tuple[StepTimes, ...]
    collectives: Collectives


def characterize_rank(trace: Trace, where: str, system: str | None) -> Characterization:
    """Ops, steps and quality of one trace; workload and sources are the caller's to fill in.

    Raises DataError if there is no device activity.
    """
    return examine_rank(trace, where, system)[0]


def examine_rank(
    trace: Trace, where: str, system: str | None
) -> tuple[Characterization, tuple[DeviceView, ...]]:
    """As ``characterize_rank``, and every device; the one of the ops comes first.

    Raises DataError if there is no device activity.
    """
    if not len(trace.device["start"]):
        cut = "" if trace.findings.complete else " before the file was cut short"
        raise DataError(
            f"{where}: no device activity: {trace.findings.events} events{cut}, none of them a "
            f"kernel or copy{_unknown(trace)}; capture on a GPU with ProfilerActivity.CUDA (or XPU)"
        )
    notes = Notes()
    links = link(trace)
    _separate(trace, links, notes)
    phase = phases(trace, links)
    classes = activity_classes(trace, links, read_names(trace), phase)
    codes, branches = trace.device["device"], _branches(trace, links)
    devices = [
        _device(trace, links, np.flatnonzero(codes == code), classes, phase, branches)
        for code in np.unique(codes)
    ]
    lead = max(devices, key=lambda d: _kernel_ns(trace, d.activities))
    name = metadata.device_name(trace.metadata, lead.label)
    if system is None:
        system = _system_of(name, notes)
    elif text := contradiction(system, name):
        notes.warn(text)
    if len(devices) > 1:
        notes.warn(f"{len(devices)} devices in the capture; the ops are those of {lead.label}")
    steps = len(lead.steps.names)
    rows, row_of = build_rows(trace, links, lead.activities, lead.claims, steps)
    ops = add_work(ops_frame(_placed(rows, system)))
    text, share = above_peak(ops, system)
    if text is not None:
        notes.warn(text, *(["flops"] if share > DOUBTFUL_SHARE else []))
    evidence = Evidence(trace, links, lead.activities, lead.clipped, lead.steps, lead.times, ops)
    totals = capture_totals(trace, lead.activities)
    latency = launch_latency_ns(evidence)
    if (latency >= 0).any():
        totals["launch_latency_median_s"] = float(np.median(latency[latency >= 0])) / 1e9
    header = Header(
        workload=where,
        system=system,
        gpus=max(metadata.distributed(trace.metadata).world_size or 0, len(devices)),
        software=metadata.software(trace.metadata),
        capture_method="kineto",
        quality=judge(evidence, notes),
        steps=tuple(t for d in devices for t in d.times),
        totals=totals,
        notes=_notes(links, lead, name),
        assumptions=routing_assumption(ops),
        **_step_time(lead.times, ops),  # type: ignore[arg-type]
    )
    devices.sort(key=lambda d: d is not lead)
    views = tuple(
        DeviceView(d.label, d.times, _collectives(trace, d, row_of if d is lead else None))
        for d in devices
    )
    return Characterization(header, ops), views


def _separate(trace: Trace, links: Links, notes: Notes) -> None:
    """Tell apart what several processes did under the same numbers, and say so."""
    for label in split_devices(trace, links.launch):
        notes.warn(
            f"several processes ran at once on one stream of a device, here {label}: each is taken "
            "to have its own (merged ranks that see one GPU each)"
        )
    if mixed_processes(trace):
        notes.warn(
            "several processes use the same correlation ids (merged ranks): "
            "a kernel is joined to a launch of the process that its device seems to work for"
        )


def _unknown(trace: Trace) -> str:
    listed = ", ".join(clean(c)[:40] for c in trace.unknown_categories[:5])
    said = [f"categories not known: {listed}"] if listed else []
    said += sorted(trace.findings.lapses)
    return f" ({'; '.join(said)})" if said else ""


def _collectives(trace: Trace, device: _Device, row_of: Ints | None) -> Collectives:
    """Collectives of a device by start; ``row_of`` is the row of each activity, where it has."""
    activities, steps = device.activities, device.steps
    talks = np.flatnonzero(activities.op_class == OP_CLASSES.index("collective"))
    order = talks[np.argsort(activities.start[talks], kind="stable")]
    rows = activities.row[order]
    names, comms = trace.device["name"][rows].tolist(), trace.device["comm"][rows].tolist()
    named = steps.by == "ProfilerStep"
    inside = activities.step[order]
    keys: dict[str, int] = {}
    codes, sizes = [], []
    known: dict[tuple[int, int], tuple[str, int]] = {}
    for name, comm, step in zip(names, comms, inside.tolist(), strict=True):
        if (name, comm) not in known:
            known[name, comm] = identity(
                trace.comms[comm] if comm >= 0 else None, trace.names[name]
            )
        text, size = known[name, comm]
        where = (steps.names[step] if step >= 0 else "outside") if named else ""
        codes.append(keys.setdefault(f"{text}|{where}", len(keys)))
        sizes.append(size)
    return Collectives(
        start=activities.start[order].tolist(), end=activities.end[order].tolist(), key=codes,
        keys=list(keys), inside=(inside >= 0).tolist(), group_size=sizes,
        row=[-1] * len(order) if row_of is None else row_of[order].tolist(),
    )  # fmt: skip


def _kernel_ns(trace: Trace, activities: Activities) -> int:
    kernel = trace.device["kind"][activities.row] == KERNEL
    return int((activities.end - activities.start)[kernel].sum())


def _device(
    trace: Trace, links: Links, rows: Ints, classes: Ints, phase: Ints, branches: Ints
) -> _Device:  # fmt: skip
    device = trace.device
    start = device["start"][rows]
    clipped = clip_overlaps(start, device["end"][rows], device["stream"][rows], branches[rows])
    steps = find_steps(trace, links, rows, clipped.end)
    activities = Activities(rows, start, clipped.end, classes[rows], phase[rows], steps.of(start))
    kinds = kinds_of(trace, rows, classes[rows])
    claims = exposed(start, clipped.end, kinds, (steps.start, steps.end))
    label = trace.devices[int(device["device"][rows[0]])]
    times = step_times(trace, links, activities, steps, claims, label)
    return _Device(label, activities, clipped, steps, claims, times)


def _branches(trace: Trace, links: Links) -> Ints:
    """Correlation id of activities that may run side by side on a stream, else MISSING_ID.

    Those are kernels of one graph launch, be its record lost, and the parts of one copy. An
    id of 0 stands for none, since ids count from 1.
    """
    ids = trace.device["correlation"]
    kernel = trace.device["kind"] == KERNEL
    lost = (links.launch < 0) & (ids & _COUNTED_BITS != 0)
    return np.where(links.graph | lost | ~kernel, ids, MISSING_ID)


def _system_of(name: str | None, notes: Notes) -> str | None:
    """System by the device's exact name; None and a warning if that does not tell it."""
    if name is None:
        notes.warn("the trace names no device; pass --system to say what it ran on")
        return None
    try:
        return system_of_gpu(gpu_of_device(name).name).name
    except UsageError as error:
        notes.warn(str(error))
        return None


def _placed(rows: list[dict[str, object]], system: str | None) -> list[dict[str, object]]:
    """The rows with ``domain_span`` where group and system are known."""
    domain = load_system(system).nvlink_domain if system is not None else None
    placed = []
    for row in rows:
        row = dict(row)  # noqa: PLW2901
        ranks = row.pop("group_ranks", None)
        if isinstance(ranks, Sequence) and ranks and domain:
            # Ranks are numbered node by node.
            row["domain_span"] = sum(1 for r in ranks if r // domain == ranks[0] // domain)
        placed.append(row)
    return placed


def _step_time(times: tuple[StepTimes, ...], ops: pd.DataFrame) -> dict[str, float | None]:
    """Mean step and its idle time, so that the rows' exposed time and it add up exactly."""
    lengths = [t.time_s for t in times]
    mean = math.fsum(lengths) / len(lengths)
    idle = math.fsum(t.idle_s for t in times) / len(lengths)
    spread = float(np.std(lengths, ddof=1)) if len(lengths) > 1 else None
    # An activity that starts before the first step and runs into it has no row; the
    # wall time it takes there is not idle, but no row's either.
    exposed_s = math.fsum(ops["exposed_s"].to_numpy(dtype=float, na_value=0.0))
    unclaimed = max(0.0, mean - idle - exposed_s)
    return {"step_time_s": mean, "step_time_sd_s": spread, "idle_s": idle + unclaimed}


def _notes(links: Links, lead: _Device, name: str | None) -> tuple[str, ...]:
    return (
        device_note(name),
        f"steps by {lead.steps.by}, borders of the {lead.steps.borders}",
        f"kernels joined to ops by External id: {links.by_external}, by the op around their "
        f"launch: {links.by_enclosing}",
    )
