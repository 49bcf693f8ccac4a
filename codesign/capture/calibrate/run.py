"""`codesign characterize --calibrate`: runs the sweep and turns its journal into a file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from codesign._common.errors import DataError, UsageError
from codesign.capture.calibrate import journal
from codesign.capture.calibrate.points import effort_of
from codesign.capture.live import Result
from codesign.capture.observe import observed
from codesign.hardware import gpu_of_device, load_system, system_of_gpu
from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.accounting import add_work
from codesign.workload.characterization import Characterization, Header, Quality, Reliability
from codesign.workload.schema import ops_frame

WORKLOAD = "calibration"
"""Name of the workload of a kernel database."""
_PASSES = {"add": 3.0}
"""Reads and writes of the array, where the accounting has no formula for the class."""
_POLL_S = 0.5
_GRACE_S = 20.0
_SAMPLE_S = 1.0
"""Between two looks at the GPUs: a sweep takes hours."""


def journal_path(output: Path) -> Path:
    """Where a calibration's results stand until it is whole, beside its output."""
    return output.with_suffix(".journal.jsonl")


def calibrate(
    output: Path, *, effort: str = "standard", ranks: int = 1, system: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Measure single ops on the device at hand.

    Goes on with the journal beside ``output`` if a run broke off there; whoever has saved
    the result of a whole sweep removes it (`Result.journal`). The result is a characterization
    without steps, one row an op, as `sources.perfdb.PerfDB.training_ops` gives them.

    Args:
        output: file that the caller will write; the journal stands beside it.
        effort: ``tiny`` (seconds), ``standard``, ``full``.
        ranks: ranks for collectives, one a GPU; single ops are measured on the first.
        system: name of the system, where the device does not tell it.
        say: told how far it is, and how long it will take.

    Raises UsageError for an unknown effort or system.
    """
    effort_of(effort)
    if system is not None:
        load_system(system)
    path = journal_path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with observed(_SAMPLE_S) as conditions:
        code, interruption = _run_on(_command(path, effort, ranks), path, say)
    refused = _refused(path)
    if refused:
        return Result(None, DataError(refused), interruption)
    if not path.exists():
        if interruption is not None:
            return Result(None, None, interruption)
        return Result(None, DataError(f"the calibration ended with exit code {code}, before any "
                                      "op was measured; the reason stands above"))  # fmt: skip
    header, lines = journal.read(path)
    whole = len(lines) >= header["points"]
    conditions.statuses = [{"device": header["device"], "environment": header["environment"]}]
    char = conditions.record(_characterization(header, lines, system, path.name))
    if whole:
        return Result(char, None, interruption, journal=path)
    error = DataError(
        f"the calibration ended with exit code {code} after {len(lines)} of {header['points']} "
        "points; the same command goes on from there"
    )
    return Result(char, error, interruption)


def _command(path: Path, effort: str, ranks: int) -> list[str]:
    """What runs the sweep."""
    module = ["-m", "codesign.capture.calibrate", str(path), "--effort", effort,
              "--parent", str(os.getpid())]  # fmt: skip
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [sys.executable, *(launcher if ranks > 1 else []), *module]


def _refused(path: Path) -> str:
    """Why the sweep did not go on with the journal, empty if it did."""
    told = journal.error_path(path)
    if not told.exists():
        return ""
    text = told.read_text(encoding="utf-8", errors="replace")
    told.unlink()
    return text


def _run_on(command: Sequence[str], path: Path, say: Callable[[str], None]) -> tuple[
    int | None, BaseException | None
]:  # fmt: skip
    """`_run`, again in a new process as often as an op broke the GPU's state in the last one."""
    while True:
        before = len(_lines(path))
        code, interruption = _run(command, path, say)
        # torchrun does not pass a rank's exit code on.
        broke = code in (journal.RESTART, 1) and len(_lines(path)) > before
        if interruption is not None or not broke or not _broke_last(path):
            return code, interruption


def _broke_last(path: Path) -> bool:
    """Whether the last point that was tried failed."""
    lines = _lines(path)
    return bool(lines) and "skipped" in lines[-1]


def _run(command: Sequence[str], path: Path, say: Callable[[str], None]) -> tuple[
    int | None, BaseException | None
]:  # fmt: skip
    """Run the sweep and tell how far it is; returns its exit code and what interrupted us."""
    begin, before = time.monotonic(), len(_lines(path))
    child = subprocess.Popen(list(command), start_new_session=True)  # noqa: S603 - our own module
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(_POLL_S), None
            say(_progress(path, before, time.monotonic() - begin))
    except (KeyboardInterrupt, SystemExit) as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
        return child.poll(), error
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _lines(path: Path) -> list[dict[str, Any]]:
    return journal.read(path)[1] if path.exists() else []


def _progress(path: Path, before: int, elapsed_s: float) -> str:
    """How far it is; the time left by the rate so far."""
    try:
        header, lines = journal.read(path)
    except DataError:
        return "starting"
    done, total = len(lines), int(header["points"])
    if done <= before:
        return f"calibrating: {done} of {total}"
    left_s = elapsed_s / (done - before) * (total - done)
    return f"calibrating: {done} of {total}, about {left_s / 60:.0f} min left"


def _characterization(header: dict[str, Any], lines: list[dict[str, Any]], system: str | None,
                      source: str) -> Characterization:  # fmt: skip
    device = header["device"]
    on_cpu = device["type"] == "cpu"
    text = f"calibration, torch {header['software']['torch']}, {device['name']}"
    rows = [_row(line, text) for line in lines if "time_s" in line]
    skipped = [line for line in lines if "skipped" in line]
    whole = len(lines) >= header["points"]
    warnings = [f"{len(skipped)} points could not be measured, such as {_first(skipped)}"
                ] if skipped else []  # fmt: skip
    if not whole:
        warnings.append(f"incomplete: {len(lines)} of {header['points']} points in {source}")
    no_step = Reliability(False, ("single ops, no step",))
    return Characterization(
        Header(
            workload=WORKLOAD, title="calibration of single ops",
            system=None if on_cpu else system or _system(device["name"], warnings),
            gpus=header["world_size"], software=header["software"],
            capture_method="timed ops" + (" on the CPU" if on_cpu else ""),
            quality=Quality(
                complete=whole, warnings=tuple(warnings),
                reliability=dict.fromkeys(("idle", "launch", "exposed", "steps", "step_time"),
                                          no_step),
            ),
            notes=(f"measured on {device['name']}; each time is the median of blocks of calls",),
        ),
        add_work(ops_frame(rows)),
    )  # fmt: skip


def _row(line: dict[str, Any], source: str) -> dict[str, object]:
    point = line["point"]
    row = {
        **point,
        "count": 1.0,
        "time_s": line["time_s"],
        "time_sd_s": line["time_sd_s"],
        "evidence": "measured",
        "source": source,
    }
    if point["name"] in _PASSES:
        element = BYTES_PER_ELEMENT[point["precision"]]
        row["bytes"] = _PASSES[point["name"]] * point["m"] * point["n"] * element
    return row


def _first(skipped: list[dict[str, Any]]) -> str:
    point = {k: v for k, v in skipped[0]["point"].items() if k not in ("op_class", "name")}
    sizes = " ".join(f"{k}={v}" for k, v in point.items())
    return f"{skipped[0]['point']['name']} {sizes} ({skipped[0]['skipped']})"


def _system(device: str, warnings: list[str]) -> str | None:
    try:
        return system_of_gpu(gpu_of_device(device).name).name
    except UsageError as error:
        warnings.append(str(error))
        return None
