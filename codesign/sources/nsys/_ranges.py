"""NVTX ranges: which of them a launch stood in, and which mark steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from codesign.sources.kineto.categories import ANNOTATION, OP
from codesign.sources.kineto.classification import STEP_ANNOTATIONS
from codesign.sources.kineto.classify import inputs_read
from codesign.sources.kineto.join import innermost
from codesign.sources.nsys._activities import Activities, Bools, Names, sane
from codesign.sources.nsys._database import MISSING, Database, Ints

PUSH_POP, START_END = (59, 70), (60, 71)
"""Event types: ranges nested on a thread; ranges of a process that may end on any thread."""
_STEP = re.compile("|".join(f"(?:{p})" for p in ("^ProfilerStep#", *STEP_ANNOTATIONS)), re.I)
# ``emit_nvtx`` of PyTorch: "aten::mm, seq = 3, op_id = 7, sizes = [[8, 4], [4, 2]]".
_TORCH = re.compile(r"^[^,]{1,300}, (?:seq|op_id|sizes) = .*")
_SIZES = re.compile(r"\bsizes = (\[[\[\], 0-9]{0,2000}\])")
# A counter in a name ("layer 12") would make each instance an op of its own.
_COUNTER = re.compile(r"(?<![A-Za-z0-9:.])\d+(?![A-Za-z0-9])")
_Inputs = tuple[bytes, bytes, bytes]
_NO_INPUTS: _Inputs = (b"", b"", b"")
_TORCH_OP = -2


@dataclass
class Ranges:
    """Ranges as rows of a trace's ``ops`` table, and what became of them."""

    ops: dict[str, Ints]
    inputs: list[tuple[bytes, bytes, bytes]]
    external: Ints
    """Per device activity: id of the start/end range its launch stood in, else MISSING."""
    push_pop: int = 0
    start_end: int = 0
    unclosed: int = 0
    unattributed: dict[int, int] | None = None
    """Ranges of each event type in which no launch stood."""
    process: Ints | None = None
    """Per range its serialized process."""


def read_ranges(database: Database, activities: Activities, names: Names) -> Ranges:
    """Ranges of both kinds, and the start/end range of launches outside of all push/pop ones.

    A start/end range belongs to the process, so it holds the launches of all its
    threads; of several the latest started counts.
    """
    found, texts = _read(database)
    closed = sane(found["start"], found["end"])
    unclosed = int((~closed).sum())
    texts = [t for t, c in zip(texts, closed.tolist(), strict=True) if c]
    table = {c: v[closed] for c, v in found.items()}
    table["process"] = table["globalTid"] >> 24
    kinds, labels, inputs, coded = _parsed(texts)
    ops = {
        "start": table["start"], "end": table["end"], "kind": kinds,
        "name": names.codes(labels), "thread": table["globalTid"],
        "external": np.arange(len(kinds), dtype=np.int64), "inputs": coded,
    }  # fmt: skip
    spans = np.isin(table["eventType"], START_END)
    # No thread owns a start/end range: it must not enclose by thread.
    ops["thread"] = np.where(spans, MISSING, ops["thread"])
    external, used = _attribute(activities, ops, spans, table["process"])
    return Ranges(
        ops, inputs, external, int((~spans).sum()), int(spans.sum()), unclosed,
        {60: int((spans & ~used).sum()), 59: int((~spans & ~used).sum())}, table["process"],
    )  # fmt: skip


def _read(database: Database) -> tuple[dict[str, Ints], list[str]]:
    wanted = ("start", "end", "eventType", "globalTid", "textId")
    parts: list[dict[str, Ints]] = []
    texts: list[str] = []
    types = ", ".join(map(str, (*PUSH_POP, *START_END)))
    for table in database.tables("NVTX_EVENTS"):
        known = database.columns(table)
        if not {"start", "eventType"} <= known:
            continue
        where = f'WHERE "eventType" IN ({types}) ORDER BY rowid'
        part = database.integers(table, wanted, where)
        own: list[str | None] = [None] * len(part["start"])
        if "text" in known:
            query = f'SELECT text FROM "{table}" {where}'  # noqa: S608
            own = [None if r[0] is None else str(r[0]) for r in database.rows(query)]
        by_id = database.strings(part["textId"])
        texts += [b if t is None else t for t, b in zip(own, by_id, strict=True)]
        parts.append(part)
    empty = np.zeros(0, dtype=np.int64)
    return {c: np.concatenate([p[c] for p in parts] or [empty]) for c in wanted}, texts


def _parsed(texts: list[str]) -> tuple[Ints, list[str], list[_Inputs], Ints]:
    """Kind, name and inputs of every range, by its text; each distinct text once."""
    inputs: dict[_Inputs, int] = {_NO_INPUTS: 0}
    known: dict[str, tuple[int, str, int]] = {}
    kinds_of: dict[str, int] = {}
    for text in texts:
        if text not in known:
            label = _COUNTER.sub("#", text[:300])
            kind = kinds_of.get(label)
            if kind is None:  # names that differ in their counters are of one kind
                kind = kinds_of[label] = _kind(text)
            name, told = _torch_op(text) if kind == _TORCH_OP else (label, _NO_INPUTS)
            known[text] = (
                OP if kind == _TORCH_OP else kind,
                text if kind == ANNOTATION else name,
                inputs.setdefault(told, len(inputs)),
            )
    rows = [known[t] for t in texts]
    kinds = np.array([r[0] for r in rows], dtype=np.int64)
    coded = np.array([r[2] for r in rows], dtype=np.int64)
    return kinds, [r[1] for r in rows], list(inputs), coded


def _kind(text: str) -> int:
    if _STEP.search(text[:200]):
        return ANNOTATION
    return _TORCH_OP if _TORCH.match(text) else OP


def _torch_op(text: str) -> tuple[str, _Inputs]:
    """Name and inputs of an operator that PyTorch wrote."""
    name = text.split(",", 1)[0]
    sizes = _SIZES.search(text)
    if sizes is None or not inputs_read(name):
        return name, _NO_INPUTS
    return name, (sizes[1].encode(), b"", b"")


def _attribute(
    activities: Activities, ops: dict[str, Ints], spans: Bools,
    process: Ints,
) -> tuple[Ints, Bools]:  # fmt: skip
    """Start/end range per activity, and which ranges of both kinds hold any launch."""
    calls, device = activities.launches, activities.device
    used = np.zeros(len(spans), dtype=bool)
    inside = np.zeros(len(calls["start"]), dtype=bool)
    for thread in np.unique(ops["thread"][~spans]):
        rows = np.flatnonzero(~spans & (ops["thread"] == thread))
        mine = np.flatnonzero(calls["thread"] == thread)
        times = np.sort(calls["start"][mine])
        used[rows] = _holds(ops, rows, times)
        if not spans.any():
            continue
        found = innermost(ops["start"], ops["end"], rows[ops["kind"][rows] == OP],
                          calls["start"][mine])  # fmt: skip
        inside[mine] = found >= 0
    held = np.full(len(inside), MISSING, dtype=np.int64)
    raw_process = calls["thread"] >> 24
    for owner in np.unique(process[spans]):
        rows = np.flatnonzero(spans & (process == owner))
        mine = np.flatnonzero(raw_process == owner)
        used[rows] = _holds(ops, rows, np.sort(calls["start"][mine]))
        free = mine[~inside[mine]]
        rows = rows[ops["kind"][rows] == OP]
        held[free] = _latest_open(ops, rows, calls["start"][free])
    external = np.full(len(device["start"]), MISSING, dtype=np.int64)
    if len(held):
        order = np.argsort(calls["correlation"], kind="stable")
        ids = calls["correlation"][order]
        place = np.minimum(np.searchsorted(ids, device["correlation"]), len(ids) - 1)
        match = (ids[place] == device["correlation"]) & (device["correlation"] != MISSING)
        external[match] = held[order[place[match]]]
    return external, used


def _holds(ops: dict[str, Ints], rows: Ints, times: Ints) -> Bools:
    """Whether any of the sorted times lies in each range."""
    first = np.searchsorted(times, ops["start"][rows], side="left")
    last = np.searchsorted(times, ops["end"][rows], side="right")
    result: Bools = last > first
    return result


def _latest_open(ops: dict[str, Ints], rows: Ints, times: Ints) -> Ints:
    """Range that started last of those open at each time; they may overlap in any way."""
    result = np.full(len(times), MISSING, dtype=np.int64)
    # The earliest first, so that a later one takes its place.
    sequence = np.argsort(times, kind="stable")
    ordered = times[sequence]
    for row in rows[np.argsort(ops["start"][rows], kind="stable")].tolist():
        low = np.searchsorted(ordered, ops["start"][row], side="left")
        high = np.searchsorted(ordered, ops["end"][row], side="right")
        result[sequence[low:high]] = row
    return result
