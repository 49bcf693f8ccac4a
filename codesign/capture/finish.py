"""From the traces of a session to one characterization that says how it was made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codesign._common.errors import DataError, UsageError
from codesign._common.units import format_si
from codesign.capture import cpu_device
from codesign.capture.session import captured
from codesign.capture.sm_count import limited
from codesign.hardware import gpu_of_device
from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization, Reliability
from codesign.workload.schema import PHASES

if TYPE_CHECKING:
    from codesign.capture.conditions import Conditions
    from codesign.workload.characterization import Quality

HIGH_OVERHEAD = 0.10
"""Profiled over plain step time, less one, above which the step is not the plain one's."""
MOST_APART = 0.10
"""Difference of two measurements of the same step above which neither is trusted."""
_HOOK_S = 2e-4
"""Time of the hook itself, which the trace has in the step and the clock has not."""
_NO_DEVICE = "the trace names no device"
_NOT_ON_CPU = "the CPU runs what it is given at once"


def finish(
    found: Sequence[Mapping[str, Any]],
    *,
    workload: str,
    system: str | None = None,
    conditions: Conditions | None = None,
    incomplete: str = "",
) -> tuple[Characterization, list[Path]]:
    """Read the traces of the captured ranks.

    Args:
        found: statuses of the session's processes.
        workload: its name.
        system: name of the system, where the device does not tell it.
        conditions: what was observed of the GPUs meanwhile.
        incomplete: why the window is not whole, empty if it is.

    Returns the characterization, and the traces that it was read from by rank.
    Raises DataError if a trace holds no work of a GPU although one was in use.
    """
    ranks = captured([dict(s) for s in found])
    paths = [Path(s["trace"]) for s in ranks]
    on_cpu = ranks[0]["device"]["type"] == "cpu"
    for path, status in zip(paths, ranks, strict=True):
        if status["state"] == "partial":
            _close(path, len(status["profiled_step_s"]))
        _prepare(path, status["device"]["type"])
    if on_cpu:
        system = None
    char = read_kineto(paths, workload=workload, system=system)
    char = _labelled(char, ranks, on_cpu)
    char = _compared(_described(char, ranks[0].get("described", {})), ranks)
    char = _agreeing(_sms_given(char, ranks[0]))
    if conditions is not None:
        char = conditions.record(char)
    if incomplete:
        char = _warn(char, f"incomplete: {incomplete}", (), complete=False)
    return char, paths


def _close(path: Path, steps: int) -> None:
    """Take its name from the step that was not finished: it must not count as one."""
    raw = path.read_bytes()  # step 0 let the profiler settle, 1 to ``steps`` were finished
    path.write_bytes(raw.replace(f'"ProfilerStep#{steps + 1}"'.encode(), b'"unfinished"'))


def _prepare(path: Path, device: str) -> None:
    """Make the CPU the device of a trace of the CPU; any other must have its own."""
    if device == "cpu":
        trace = cpu_device.load(path)
        if not cpu_device.has_device(trace):
            cpu_device.add_device(trace)
            path.write_bytes(msgspec.json.encode(trace))
        return
    # A kernel's category stands near the head of every GPU trace, in whatever order.
    with path.open("rb") as stream:
        tail = b""
        while chunk := stream.read(1 << 20):
            if b'"kernel"' in tail + chunk or b'"gpu_mem' in tail + chunk:
                return
            tail = chunk[-32:]
    raise DataError(
        f"{path.name}: the profiler saw no work of the GPU; another profiler may hold it, or "
        "the driver restricts profiling (NVreg_RestrictProfilingToAdminUsers)"
    )


def _labelled(char: Characterization, ranks: Sequence[Mapping[str, Any]],
              on_cpu: bool) -> Characterization:  # fmt: skip
    lead = ranks[0]
    header, device = char.header, lead["device"]
    notes = [*header.notes]
    quality = header.quality
    totals = dict(header.totals)
    if device.get("sm_count"):
        totals["sm_count"] = float(lead.get("described", {}).get("sms") or device["sm_count"])
    if on_cpu:
        notes.append(
            f"measured on the CPU ({device['name']}, {device.get('threads')} threads): its ops "
            "count as the device; shapes and FLOPs are those of the workload, times are no GPU's"
        )
        totals.pop("launch_latency_median_s", None)
        kept = tuple(w for w in quality.warnings if not w.startswith(_NO_DEVICE))
        reliability = quality.reliability | {"launch": Reliability(False, (_NOT_ON_CPU,))}
        quality = msgspec.structs.replace(quality, warnings=kept, reliability=reliability)
    return char.with_header(
        capture_method="torch.profiler" + (" on the CPU" if on_cpu else ""),
        software=header.software | dict(lead.get("software", {})),
        gpus=max(int(lead.get("world_size") or 1), 1),
        notes=tuple(notes), quality=quality, totals=totals,
        assumptions=dict(header.assumptions),
    )  # fmt: skip


def _described(char: Characterization, facts: Mapping[str, Any]) -> Characterization:
    """What the program said of itself; of a phase that it names its ops are."""
    known = {k: v for k, v in facts.items()
             if k in ("tokens_per_step", "model", "parallelism", "phase", "title")}  # fmt: skip
    char = char.with_header(**known)
    phase = known.get("phase")
    if phase in PHASES and bool(char.ops["phase"].isna().all()):
        ops = char.ops.assign(phase=char.ops["phase"].fillna(phase))
        char = Characterization(char.header, ops)
    return char


def _agreeing(char: Characterization) -> Characterization:
    """The step of the trace against that of the clock around it: two ways to one number."""
    clock_s, step_s = char.header.totals.get("wall_step_time_s"), char.header.step_time_s
    if not clock_s or step_s is None:
        return char
    if abs(step_s - clock_s) <= max(MOST_APART * clock_s, _HOOK_S):
        return char
    return _warn(
        char, f"by the trace a step takes {format_si(step_s, 's')}, by the clock "
        f"{format_si(clock_s, 's')}", ("step_time", "idle"),
    )  # fmt: skip


def _sms_given(char: Characterization, lead: Mapping[str, Any]) -> Characterization:
    """A limit on SMs that did not take effect must not look like one that did."""
    device = lead["device"]
    try:
        whole = gpu_of_device(str(device["name"])).sm_count
    except UsageError:
        return char
    doubt = limited(lead.get("environment", {}), float(device.get("sm_count") or 0), whole)
    return _warn(char, doubt, ("step_time",)) if doubt else char


def _compared(char: Characterization, ranks: Sequence[Mapping[str, Any]]) -> Characterization:
    """What the profiler cost: the same steps by the wall clock with it and without."""
    lead = ranks[0]
    plain, profiled = lead.get("plain_step_s") or [], lead.get("profiled_step_s") or []
    if not profiled:
        return char
    totals = dict(char.header.totals)
    totals["wall_step_time_s"] = math.fsum(profiled) / len(profiled)
    if not plain:
        note = "overhead of profiling: not measured, no baseline steps were asked for"
        return char.with_header(totals=totals, notes=(*char.header.notes, note))
    before = math.fsum(plain) / len(plain)
    after = totals["wall_step_time_s"]
    overhead = after / before - 1.0
    totals |= {"plain_step_time_s": before, "profiling_overhead": overhead}
    note = (
        f"overhead of profiling: {overhead:+.1%} ({format_si(after, 's')} a step with it, "
        f"{format_si(before, 's')} over {len(plain)} steps without)"
    )
    if overhead < 0:
        note += "; steps differ among themselves by more than it costs"
    char = char.with_header(totals=totals, notes=(*char.header.notes, note))
    if overhead > HIGH_OVERHEAD:
        char = _warn(
            char, f"profiling slowed the step by {overhead:.0%}: times and idle time are upper "
            "bounds", ("step_time", "idle"),
        )  # fmt: skip
    return char


def _warn(char: Characterization, text: str, unreliable: Sequence[str],
          complete: bool | None = None) -> Characterization:  # fmt: skip
    quality: Quality = char.header.quality
    reliability = dict(quality.reliability)
    for quantity in unreliable:
        known = reliability.get(quantity, Reliability(True))
        reliability[quantity] = Reliability(False, (*known.reasons, text))
    changed = msgspec.structs.replace(
        quality,
        warnings=(*quality.warnings, text),
        reliability=reliability,
        complete=quality.complete if complete is None else complete,
    )
    return char.with_header(quality=changed)
