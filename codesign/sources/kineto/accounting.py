"""Wall time of steps and of the whole capture, from unions of intervals."""

from __future__ import annotations

import numpy as np

from codesign.sources.kineto._times import Ints
from codesign.sources.kineto.categories import KERNEL
from codesign.sources.kineto.events import Trace
from codesign.sources.kineto.join import Links
from codesign.sources.kineto.rows import Activities
from codesign.sources.kineto.steps import Steps
from codesign.sources.kineto.timeline import COMM, COMPUTE, COPY, Union, union
from codesign.workload.characterization import StepTimes
from codesign.workload.schema import OP_CLASSES

_S = 1e-9


def kinds_of(trace: Trace, row: Ints, op_class: Ints) -> Ints:
    """What each activity does to the wall time: compute, communicate or copy."""
    kernel = trace.device["kind"][row] == KERNEL
    comm = op_class == OP_CLASSES.index("collective")
    return np.where(kernel, np.where(comm, COMM, COMPUTE), COPY)


# Below this share of activities with a known launch, idle time cannot be attributed.
_ENOUGH_LINKED = 0.95
STALL_NS = 1_000_000
"""A gap this long is no gap between launches, which take microseconds."""


def outstanding(trace: Trace, links: Links, activities: Activities) -> Union | None:
    """When something was launched and not yet done; None if too few launches are known.

    A device that idles outside of it waits for the host. From the start of the launch
    call: the call itself counts as latency of the launch, not as time of the host.
    """
    launch = links.launch[activities.row]
    linked = launch >= 0
    if not len(linked) or linked.mean() < _ENOUGH_LINKED:
        return None
    asked = activities.start.copy()
    asked[linked] = np.minimum(asked[linked], trace.launches["start"][launch[linked]])
    return union(asked, activities.end)


def step_times(
    trace: Trace, links: Links, activities: Activities, steps: Steps,
    claims: tuple[Ints, Ints, Ints], device: str,
) -> tuple[StepTimes, ...]:  # fmt: skip
    """Every step of one device. ``claims`` are those of ``timeline.exposed``."""
    kinds = kinds_of(trace, activities.row, activities.op_class)
    n = len(steps.names)
    # Integer sums: the parts add up to the step to the nanosecond.
    busy = np.zeros((3, n), dtype=np.int64)
    np.add.at(busy, (kinds[claims[0]], claims[1]), claims[2])
    comm = union(activities.start[kinds == COMM], activities.end[kinds == COMM])
    comm_ns = comm.within(steps.start, steps.end)
    kernel = trace.device["kind"][activities.row] == KERNEL
    inside = kernel & (activities.step >= 0)
    length = activities.end - activities.start
    count = np.bincount(activities.step[inside], minlength=n)
    total = np.bincount(activities.step[inside], weights=length[inside], minlength=n)
    whole = steps.end - steps.start
    idle = whole - busy.sum(axis=0)
    queue = outstanding(trace, links, activities)
    # The queue covers all that is busy, so what it leaves of the step is idle.
    starved = None if queue is None else whole - queue.within(steps.start, steps.end)
    stalls = stalled(activities, steps)
    return tuple(
        StepTimes(
            name=steps.names[i], device=device, time_s=int(whole[i]) * _S,
            compute_s=int(busy[COMPUTE, i]) * _S, comm_s=int(comm_ns[i]) * _S,
            exposed_comm_s=int(busy[COMM, i]) * _S, exposed_copy_s=int(busy[COPY, i]) * _S,
            idle_s=int(idle[i]) * _S, kernels=int(count[i]), kernel_time_s=float(total[i]) * _S,
            host_bound_s=None if starved is None else int(starved[i]) * _S,
            stall_s=int(stalls[i]) * _S,
        )
        for i in range(n)
    )  # fmt: skip


def stalled(activities: Activities, steps: Steps) -> Ints:
    """(steps,) ns of each step inside gaps of `STALL_NS` or more, in which nothing runs."""
    busy = union(activities.start, activities.end)
    first = np.concatenate([[steps.start.min(initial=busy.start.min(initial=0))], busy.end])
    last = np.concatenate([busy.start, [steps.end.max(initial=busy.end.max(initial=0))]])
    long = last - first >= STALL_NS
    return union(first[long], last[long]).within(steps.start, steps.end)


def capture_totals(trace: Trace, activities: Activities) -> dict[str, float]:
    """Over the whole capture of one device, inside steps or not; kernels only but for copies.

    ``span_s`` runs from the first kernel's start to the last one's end, ``busy_s`` is
    the time in which any kernel runs.
    """
    kinds = kinds_of(trace, activities.row, activities.op_class)
    start, end = activities.start, activities.end
    kernel = kinds != COPY
    busy = union(start[kernel], end[kernel])
    comm = union(start[kinds == COMM], end[kinds == COMM])
    compute = union(start[kinds == COMPUTE], end[kinds == COMPUTE])
    hidden = int(compute.within(comm.start, comm.end).sum())
    span = int(end[kernel].max() - start[kernel].min()) if kernel.any() else 0
    return {
        "kernels": float(kernel.sum()),
        "kernel_time_s": int((end - start)[kernel].sum()) * _S,
        "busy_s": busy.measure() * _S,
        "span_s": span * _S,
        "compute_s": compute.measure() * _S,
        "comm_s": comm.measure() * _S,
        "overlap_s": hidden * _S,
        "exposed_comm_s": (comm.measure() - hidden) * _S,
        "copies": float((~kernel).sum()),
        "copy_time_s": int((end - start)[~kernel].sum()) * _S,
    }
