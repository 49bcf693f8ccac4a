"""``python -m codesign.capture.calibrate JOURNAL``: measures what the journal does not hold yet."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from codesign._common.errors import DataError
from codesign.capture.boot import status as facts
from codesign.capture.calibrate import journal, measure
from codesign.capture.calibrate.points import effort_of, points


def main() -> None:
    """Measure point by point; every result is on disk before the next is begun."""
    parser = argparse.ArgumentParser(prog="codesign.capture.calibrate")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--parent", type=int, help="process without which the sweep ends")
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
    done = _begin(options.journal, header, len(wanted)) if rank == 0 else set()
    if world > 1:
        shared: list[Any] = [done]
        dist.broadcast_object_list(shared, src=0)
        done = shared[0]
    _measure_all([p for p in wanted if journal.key(p) not in done], options.journal, device, rank,
                 world, options.parent)  # fmt: skip
    if world > 1:
        dist.destroy_process_group()


def _begin(path: Path, header: dict[str, Any], count: int) -> set[str]:
    try:
        return journal.begin(path, header, count)
    except DataError as error:
        journal.error_path(path).write_text(str(error), encoding="utf-8")
        sys.exit(error.exit_code)


def _measure_all(wanted: list[dict[str, Any]], path: Path, device: torch.device, rank: int,
                 world: int, parent: int | None) -> None:  # fmt: skip
    groups = {}
    size = 2
    while size <= world:
        group = dist.new_group(list(range(size)))
        groups[size] = group if rank < size else None
        size *= 2
    torch.manual_seed(rank)
    for point in wanted:
        if rank == 0 and not _runs(parent):
            os._exit(1)  # killed: the next one must not find this one at work on the same journal
        together = point["op_class"] == "collective"
        if rank and not together:
            continue
        if rank == 0:
            journal.begun(path, point)
        result = _result(point, device, groups)
        if rank == 0:
            journal.add(path, point, result)
        if "skipped" in result and not _alive(device):
            # An error of the GPU that stays: every later point would fail of it too.
            sys.stdout.flush()
            os._exit(journal.RESTART)


def _runs(pid: int | None) -> bool:
    """Whether a process is there; None always is."""
    try:
        os.kill(os.getpid() if pid is None else pid, 0)
    except ProcessLookupError:
        return False
    return True


def _result(point: dict[str, Any], device: torch.device, groups: dict[int, Any]) -> dict[str, Any]:
    """Time of a point, or why there is none."""
    try:
        if point["op_class"] == "collective":
            time_s, sd_s = _timed_together(point, device, groups)
        else:
            time_s, sd_s = measure.timed(measure.call_of(point, device, groups), device)
    except measure.SKIPPED as error:
        text = (str(error).strip().splitlines() or [""])[0]
        return {"skipped": f"{type(error).__name__}: {text}"[:300]}
    return {"time_s": time_s, "time_sd_s": sd_s}


def _alive(device: torch.device) -> bool:
    """Whether the device still does anything: errors of its own kernels stay with a process."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
        torch.ones(1, device=device).sum().item()
    except RuntimeError:
        return False
    return True


def _timed_together(point: dict[str, Any], device: torch.device,
                    groups: dict[int, Any]) -> tuple[float, float]:  # fmt: skip
    """As `measure.timed`, with a number of calls on which all ranks agree.

    They would choose different numbers, and wait for each other for ever; as they would for a
    rank that had no memory for its buffers.
    """
    group = groups[point["group_size"]]
    if group is None:
        return 0.0, 0.0
    call, failure = None, None
    try:
        call = measure.call_of(point, device, groups)
    except measure.SKIPPED as error:
        failure = error
    ready = torch.tensor([0.0 if call is None else 1.0], device=device)
    dist.all_reduce(ready, op=dist.ReduceOp.MIN, group=group)
    if call is None or not float(ready[0]):
        raise failure or RuntimeError("another rank could not begin")
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
