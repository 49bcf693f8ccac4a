"""``python -m codesign.capture.workloads NAME``: one built-in workload, step after step."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from codesign._common.errors import CodesignError
from codesign.capture.boot.settings import VARIABLE
from codesign.capture.workloads.catalog import Sizes, sizes_of, workload_of


def build(name: str, sizes: Sizes, device: object) -> object:
    """The program of a workload on a device (torch.device)."""
    import importlib

    module = importlib.import_module(f"codesign.capture.workloads.{workload_of(name).module}")
    return module.build(name, sizes, device)


def main() -> None:
    """Run a workload for a number of steps. Exit code as the error's class says."""
    parser = argparse.ArgumentParser(prog="codesign.capture.workloads")
    parser.add_argument("name")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--size", action="append", default=[])
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sms", type=int)
    options = parser.parse_args()
    try:
        _run(options.name, sizes_of(options.name, options.preset, options.size),
             options.iterations, options.device, options.sms)  # fmt: skip
    except CodesignError as error:
        if VARIABLE not in os.environ:  # else whoever captures this says it
            sys.stderr.write(f"codesign: {error}\n")
        # Left as the reason of the exit for whoever asks, as for an exception that nobody caught.
        sys.last_value = error
        sys.exit(error.exit_code)


def _run(name: str, sizes: Sizes, iterations: int, device_name: str, sms: int | None) -> None:
    import torch

    from codesign.capture.sm_count import green_context

    gpu = torch.cuda.is_available() and device_name != "cpu"
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        torch.distributed.init_process_group("nccl" if gpu else "gloo")
    torch.manual_seed(rank)
    with green_context(sms, rank):
        _steps(name, sizes, iterations, device, world, sms)
    if world > 1:
        torch.distributed.destroy_process_group()


def _steps(name: str, sizes: Sizes, iterations: int, device: Any, world: int,
           sms: int | None) -> None:  # fmt: skip
    from codesign.capture.context import describe, step
    from codesign.capture.workloads.program import Program

    program = build(name, sizes, device)
    assert isinstance(program, Program)
    tokens = None if program.tokens is None else program.tokens * world
    describe(tokens_per_step=tokens, model=program.model or None,
             parallelism={"dp": world} if world > 1 else None,
             sms=sms, phase=workload_of(name).phase, title=workload_of(name).title)  # fmt: skip
    for _ in range(iterations):
        program.step()
        step()


if __name__ == "__main__":
    main()
