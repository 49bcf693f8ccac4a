"""nccl-tests logs: times of collectives by message size, as the binaries print them.

Old and new tables are read by their header line; other output between the rows
(NCCL INFO, launcher prefixes) is passed over. Message sizes are nccl-tests' own:
for all_gather and reduce_scatter the total over ranks. A gigabyte is 1e9 bytes.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from codesign._common.errors import DataError, UsageError, one_of
from codesign._common.files import sha256
from codesign.sources._devices import system_name
from codesign.sources._nccl_log import PRECISIONS, Log, Row, Run, parse_log
from codesign.workload.characterization import (
    Characterization,
    Header,
    Quality,
    Reliability,
    SourceFile,
)

if TYPE_CHECKING:
    import pandas as pd

# Name of the test binary, or a part of the file's name, with all but letters taken out.
COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "sendrecv": "send_recv",
}
_LARGEST_ERROR = {"fp16": 1e-2, "bf16": 1e-2, "fp32": 1e-5, "fp64": 1e-12}
"""Old tables print the largest difference, where rounding is none: the test's own bounds."""

_MICROSECOND = 1e-6
_GB_PER_S = 1e9
_BENCHMARK = Reliability(False, ("a benchmark of one call at a time: there is no step",))


def read_nccl_tests(
    path: str | Path, *, collective: str | None = None, system: str | None = None
) -> Characterization:
    """The times of a log as ops: a row per message size, type and buffer placement.

    ``name`` is the collective, with ``.in_place`` for the in-place run; rows that were
    measured several times are means with ``time_sd_s``. ``collective`` names the kind
    where neither the log nor its file name does. There is no step, so ``exposed_s`` is
    null and idle time unreliable.

    Raises UsageError if the kind stays unknown or ``collective`` is none; DataError
    (file and line) if there is no table, or the printed bus bandwidth contradicts the
    time, the size and the ranks.
    """
    from codesign.workload.schema import COLLECTIVES as KNOWN

    path = Path(path)
    if collective is not None and collective not in KNOWN:
        raise UsageError(f"collective: {one_of('collective', collective, KNOWN)}")
    log = parse_log(path)
    runs = [run for run in log.runs if run.columns]
    if not runs:
        raise DataError(
            f"{path}: no nccl-tests table (a line with size, count, type, time, algbw, busbw); "
            "expected the output of a *_perf binary, comment lines included"
        )
    kinds = [_kind(run, path, collective) for run in runs]
    devices = sorted(set().union(*(run.devices for run in runs)))
    name, unknown = system_name(system, devices)
    pairs = list(zip(runs, kinds, strict=True))
    ops = _ops(path, pairs, name if system is None else system, log.garbled)
    return Characterization(_header(path, log, runs, kinds, name, unknown), ops)


def _kind(run: Run, path: Path, given: str | None) -> str:
    """Kind of collective: as given, else by the binary's name, else by the file's."""
    if given is not None:
        return given
    if run.binary is not None:
        letters = re.sub(r"[^a-z]", "", run.binary.lower())
        if letters in COLLECTIVES:
            return COLLECTIVES[letters]
        raise DataError(
            f"{path}: the log is of {run.binary}_perf, which is no collective of the ops table; "
            f"expected one of: {', '.join(sorted(COLLECTIVES.values()))}"
        )
    letters = re.sub(r"[^a-z]", "", path.name.lower())
    found = sorted({kind for text, kind in COLLECTIVES.items() if text in letters})
    if len(found) != 1:
        reason = f"the file's name says {' and '.join(found)}" if found else "nothing tells it"
        raise UsageError(
            f"{path}: which collective was measured? {reason}; name the file after "
            "its test, such as all_reduce_perf.log; known: "
            f"{', '.join(sorted(COLLECTIVES.values()))}"
        )
    return found[0]


def _ops(
    path: Path, runs: list[tuple[Run, str]], system: str | None, garbled: list[int]
) -> pd.DataFrame:
    import pandas as pd

    from codesign.workload.accounting import add_work
    from codesign.workload.schema import ops_frame

    records = []
    for run, kind in runs:
        size = _group_size(run, path)
        span = _domain_span(run, system)
        for row in run.rows:
            time_s = _checked_time(row, kind, size, path)
            records.append({
                "name": _name(row, kind), "precision": PRECISIONS.get(row.type),
                "collective": kind, "message_bytes": row.message_bytes, "group_size": size,
                "domain_span": span, "time_s": time_s,
            })  # fmt: skip
    if not records:
        if garbled:
            raise DataError(
                f"{path}:{garbled[0]}: no row of the table can be read, this the first of "
                f"{len(garbled)}; expected numbers as nccl-tests prints them, such as 30.49"
            )
        raise DataError(f"{path}: the table has no row of a size above zero; let the test run on")
    frame = pd.DataFrame(records).astype({"domain_span": "Int64", "precision": "string"})
    keys = [c for c in frame.columns if c != "time_s"]
    # In the order of the log; the sizes that were measured again become one row.
    grouped = frame.groupby(keys, sort=False, dropna=False)["time_s"]
    ops = grouped.agg(["mean", "std"]).reset_index()
    ops = ops.rename(columns={"mean": "time_s", "std": "time_sd_s"})
    ops = ops.assign(op_class="collective", count=1.0, evidence="measured",
                     source=f"nccl-tests: {path.name}")  # fmt: skip
    return add_work(ops_frame(ops))


def _name(row: Row, kind: str) -> str:
    parts = [kind]
    if row.redop not in ("", "none", "sum"):
        parts.append(row.redop)
    if row.type not in PRECISIONS:
        parts.append(row.type)
    if row.in_place:
        parts.append("in_place")
    return ".".join(parts)


def _group_size(run: Run, path: Path) -> int:
    size = len(run.group)
    if not size:
        raise DataError(
            f"{path}: no '#  Rank 0 ... Pid ... on ... device' lines, so the number of ranks is "
            "unknown; keep the comment lines of the log"
        )
    if max(run.groups) + 1 != len(run.groups):
        raise DataError(
            f"{path}: ranks up to {max(run.groups)} but {len(run.groups)} lines that name one; "
            "keep the comment lines of the log"
        )
    if size == 1:
        raise DataError(
            f"{path}: one rank, so nothing was sent; several processes that all say rank 0 need "
            "nccl-tests built with MPI=1"
        )
    return size


def _domain_span(run: Run, system: str | None) -> int | None:
    """Ranks of the group inside one NVLink domain, where the log and the system tell."""
    from codesign.hardware import load_system

    if system is None:
        return None
    on_host = [run.hosts[r] for r in run.group]
    most = max(on_host.count(h) for h in set(on_host))
    domain = load_system(system).nvlink_domain
    if most < len(on_host) and domain > most:
        return None  # a domain may join hosts; which, the log does not say
    return min(most, domain)


def _checked_time(row: Row, kind: str, group_size: int, path: Path) -> float:
    """Seconds of one call, if they agree with the bus bandwidth printed beside them."""
    from codesign.workload.accounting import bus_bandwidth

    place = "in-place" if row.in_place else "out-of-place"
    where = f"{path}:{row.line}: {row.message_bytes} B, {place}"
    if row.busbw == "N/A" or not math.isfinite(float(row.time)) or float(row.time) <= 0:
        raise DataError(f"{where}: time {row.time} us, busbw {row.busbw}; expected numbers above 0")
    time_s = float(row.time) * _MICROSECOND
    ours = bus_bandwidth(kind, float(row.message_bytes), float(group_size), time_s) / _GB_PER_S
    rounding = _half_unit(row.busbw) + ours * _half_unit(row.time) / float(row.time)
    if abs(ours - float(row.busbw)) > 1.01 * rounding:
        raise DataError(
            f"{where}: busbw {row.busbw} GB/s is printed, but {kind} of {group_size} ranks in "
            f"{row.time} us makes {ours:.2f}; is the log of one test, and of this collective?"
        )
    return time_s


def _half_unit(text: str) -> float:
    """Half a unit of the last digit that was printed."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def _header(
    path: Path, log: Log, runs: list[Run], kinds: list[str], system: str | None,
    warnings: tuple[str, ...],
) -> Header:  # fmt: skip
    wrong = [f"line {r.line}" for run in runs for r in run.rows if _is_wrong(r, run)]
    wrong += ["the summary"] * sum(run.failed for run in runs)
    told = list(warnings)
    reliability = dict.fromkeys(("steps", "step_time", "idle", "exposed", "launch"), _BENCHMARK)
    if wrong:
        reason = f"results were wrong ({len(wrong)} places, first {wrong[0]}): a broken run"
        told.append(reason)
        reliability["time"] = Reliability(False, (reason,))
    if log.garbled:
        told.append(f"{len(log.garbled)} rows mixed with other output were left out, the first in "
                    f"line {log.garbled[0]}")  # fmt: skip
    finished = all(run.finished for run in runs)
    if not finished:
        told.append("the log ends before its summary: sizes may be missing")
    notes = []
    if log.zero_rows:
        notes.append(f"{log.zero_rows} rows of size 0 skipped")
    sizes = ", ".join(str(len(run.group)) for run in runs)
    return Header(
        workload=path.stem,
        title=f"nccl-tests: {', '.join(dict.fromkeys(kinds))}; ranks: {sizes}",
        system=system,
        gpus=max(len(run.groups) for run in runs),
        software=log.software,
        capture_method="nccl-tests",
        sources=(SourceFile(path.name, sha256(path), path.stat().st_size),),
        quality=Quality(dropped_events=len(log.garbled), complete=finished, steps_by="none",
                        reliability=reliability, warnings=tuple(told)),
        notes=tuple(notes),
    )  # fmt: skip


def _is_wrong(row: Row, run: Run) -> bool:
    if row.wrong == "N/A":
        return False
    counts = "#wrong" in run.columns
    bound = 0.0 if counts else _LARGEST_ERROR.get(PRECISIONS.get(row.type, ""), 0.0)
    return float(row.wrong) > bound
