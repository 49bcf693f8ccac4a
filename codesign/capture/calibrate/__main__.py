"""``python -m codesign.capture.calibrate JOURNAL``: measures what the journal does not hold yet."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from codesign.capture.boot import status as facts
from codesign.capture.calibrate import journal, measure
from codesign.capture.calibrate.points import effort_of, points


def main() -> None:
    """Measure point by point; every result is on disk before the next is begun."""
    parser = argparse.ArgumentParser(prog="codesign.capture.calibrate")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--effort", default="standard")
    options = parser.parse_args()
    gpu = torch.cuda.is_available()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else None
    device = device or torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        torch.cuda.init()
    if world > 1:
        dist.init_process_group("nccl" if gpu else "gloo")
    # Of every rank: all must begin the same collective.
    wanted = points(effort_of(options.effort), measure.precisions(device), world)
    header = {"device": facts.device(), "software": facts.software(), "effort": options.effort,
              "world_size": world, "environment": facts.environment()}  # fmt: skip
    done = journal.begin(options.journal, header, len(wanted)) if rank == 0 else set()
    if world > 1:
        shared: list[Any] = [done]
        dist.broadcast_object_list(shared, src=0)
        done = shared[0]
    _measure_all(wanted, done, options.journal, device, rank, world)
    if world > 1:
        dist.destroy_process_group()


def _measure_all(wanted: list[dict[str, Any]], done: set[str], path: Path, device: torch.device,
                 rank: int, world: int) -> None:  # fmt: skip
    groups = {}
    size = 2
    while size <= world:
        group = dist.new_group(list(range(size)))
        groups[size] = group if rank < size else None
        size *= 2
    torch.manual_seed(rank)
    for point in wanted:
        if journal.key(point) in done:
            continue
        together = point["op_class"] == "collective"
        if rank and not together:
            continue
        result: dict[str, Any]
        try:
            call = measure.call_of(point, device, groups)
            # Ranks would choose different numbers of calls, and wait for each other for ever.
            time_s, sd_s = (_timed_together(call, device, groups[point["group_size"]])
                            if together else measure.timed(call, device))  # fmt: skip
            result = {"time_s": time_s, "time_sd_s": sd_s}
        except (RuntimeError, NotImplementedError, ValueError) as error:
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            result = {"skipped": f"{type(error).__name__}: {text}"[:300]}
        if rank == 0:
            journal.add(path, point, result)


def _timed_together(call: Any, device: torch.device, group: Any) -> tuple[float, float]:
    """As `measure.timed`, with a number of calls on which all ranks agree."""
    if group is None:
        return 0.0, 0.0
    for _ in range(2):
        call()
    dist.barrier(group=group)
    one = measure.on_host_or_device(call, 1, device)
    agreed = torch.tensor([one], device=device)
    dist.all_reduce(agreed, op=dist.ReduceOp.MAX, group=group)
    calls = measure.calls_for(float(agreed[0]))
    times = []
    for _ in range(measure.BLOCKS):
        dist.barrier(group=group)
        times.append(measure.on_host_or_device(call, calls, device) / calls)
    return measure.summary(times)


if __name__ == "__main__":
    main()
