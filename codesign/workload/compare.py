"""Two characterizations of a workload side by side: what got slower, and by how much more
than steps differ anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.workload.schema import KEY_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from codesign.workload.characterization import Characterization, Header, StepTimes

SIGNIFICANCE = 0.05
"""Level of a single test, and false discovery rate over the ops."""
_SAME_OP = [c for c in KEY_COLUMNS if c not in ("kernel", "evidence", "source")]
_SAME_NAME = ["op_class", "name", "phase"]
_DIMS = [c for c in _SAME_OP if c not in _SAME_NAME]
_STEP_PARTS = (
    ("step", "time_s"), ("compute", "compute_s"), ("communication", "comm_s"),
    ("exposed communication", "exposed_comm_s"), ("exposed copies", "exposed_copy_s"),
    ("idle", "idle_s"), ("idle, host-bound", "host_bound_s"),
)  # fmt: skip


@dataclass(frozen=True)
class Side:
    """Time of one thing in one characterization, in s a step; NaN where it is unknown."""

    time_s: float = 0.0
    sd_s: float = math.nan
    """Standard deviation over steps; of a sum of rows at most this."""
    steps: int = 0
    calls: float = 0.0
    exposed_s: float = 0.0


@dataclass(frozen=True)
class Change:
    """One thing on both sides; ``p`` is None where too few steps were seen to test."""

    what: str
    before: Side
    after: Side
    p: float | None = None
    significant: bool | None = None
    status: str = "same"
    """``same``, ``reshaped`` (other dims under the same name), ``new`` or ``vanished``."""
    op_class: str = ""
    phase: str = ""
    kernels: tuple[str, str] = ("", "")
    shapes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def delta_s(self) -> float:
        """After less before, s a step."""
        return self.after.time_s - self.before.time_s

    @property
    def ratio(self) -> float | None:
        """After / before, None without a before."""
        return self.after.time_s / self.before.time_s if self.before.time_s > 0 else None


@dataclass(frozen=True)
class Comparison:
    """Parts of the step, op classes and ops, the largest change first; and what to mind."""

    parts: tuple[Change, ...]
    classes: tuple[Change, ...]
    ops: tuple[Change, ...]
    cautions: tuple[str, ...]


def compare(before: Characterization, after: Characterization) -> Comparison:
    """Where the time of ``after`` differs from that of ``before``.

    Tests are Welch's, on the steps that were captured. An op class's spread is bounded by
    the sum of its rows', so that its p is at most too large. Ops count as significant at
    a false discovery rate of 5 % (Benjamini and Hochberg 1995).
    """
    steps = (_lead_steps(before.header), _lead_steps(after.header))
    n = (_count(before.header, steps[0]), _count(after.header, steps[1]))
    frames = (_rows(before.ops), _rows(after.ops))
    ops = _ops(frames, n)
    return Comparison(
        _parts(before, after, steps), _classes(frames, n), _discovered(ops),
        _cautions(before.header, after.header, n),
    )  # fmt: skip


def welch(before: Side, after: Side) -> float | None:
    """Two-sided p of equal means (Welch 1947); None if either has under two steps."""
    from scipy.special import stdtr

    if before.steps < 2 or after.steps < 2 or math.isnan(before.sd_s + after.sd_s):
        return None
    a, b = before.sd_s**2 / before.steps, after.sd_s**2 / after.steps
    if not a + b > 0:
        return None if after.time_s == before.time_s else 0.0
    t = (after.time_s - before.time_s) / math.sqrt(a + b)
    freedom = (a + b) ** 2 / (a**2 / (before.steps - 1) + b**2 / (after.steps - 1))
    return float(2 * stdtr(freedom, -abs(t)))


def _lead_steps(header: Header) -> tuple[StepTimes, ...]:
    """Steps of the device that the ops are of: the one whose mean is the header's step."""
    by_device: dict[str, list[StepTimes]] = {}
    for step in header.steps:
        by_device.setdefault(step.device, []).append(step)
    if not by_device or header.step_time_s is None:
        return ()
    wanted = header.step_time_s
    misses = [
        abs(math.fsum(s.time_s for s in found) / len(found) - wanted)
        for found in by_device.values()
    ]
    return tuple(list(by_device.values())[misses.index(min(misses))])


def _count(header: Header, steps: Sequence[StepTimes]) -> int:
    # A capture without marked steps is one step, which has no spread.
    return len(steps) or header.quality.steps_found or 1


def _parts(
    before: Characterization, after: Characterization,
    steps: tuple[tuple[StepTimes, ...], tuple[StepTimes, ...]],
) -> tuple[Change, ...]:  # fmt: skip
    changes = []
    for what, field in _STEP_PARTS:
        sides = []
        for char, times in zip((before, after), steps, strict=True):
            # None, where it is unknown, becomes NaN.
            values = np.array([getattr(t, field) for t in times], dtype=float)
            if len(values):
                sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
                sides.append(Side(float(values.mean()), sd, len(values)))
            else:
                sides.append(_header_part(char, field))
        if all(math.isnan(s.time_s) for s in sides):
            continue
        changes.append(_tested(Change(what, sides[0], sides[1])))
    return tuple(changes)


def _header_part(char: Characterization, field: str) -> Side:
    """What is known of a step's parts where no step is recorded."""
    header, ops = char.header, char.ops
    if field == "time_s" and header.step_time_s is not None:
        return Side(header.step_time_s, math.nan, 1)
    if field == "idle_s" and header.step_time_s is not None:
        return Side(header.idle_s, math.nan, 1)
    if field in ("compute_s", "exposed_comm_s") and header.step_time_s is not None:
        comm = ops["op_class"].eq("collective").to_numpy(dtype=bool)
        exposed = ops["exposed_s"].to_numpy(dtype=float, na_value=0.0)
        return Side(float(exposed[comm if field == "exposed_comm_s" else ~comm].sum()), math.nan, 1)
    return Side(math.nan, math.nan, 0)


def _rows(ops: pd.DataFrame) -> pd.DataFrame:
    """Ops without their kernels: times, calls, and the kernel that takes most of the time."""
    order = ops.sort_values("time_s", ascending=False, na_position="last", kind="stable")
    grouped = order.groupby(_SAME_OP, dropna=False, sort=False, observed=True)
    return grouped.agg(
        time_s=("time_s", "sum"), exposed_s=("exposed_s", "sum"), count=("count", "sum"),
        sd=("time_sd_s", lambda s: s.sum(min_count=len(s)) if len(s) else math.nan),
        kernel=("kernel", "first"),
    ).reset_index()  # fmt: skip


def _side(rows: pd.DataFrame, steps: int) -> Side:
    if not len(rows):
        return Side(0.0, 0.0 if steps > 1 else math.nan, steps)
    sd = rows["sd"].to_numpy(dtype=float, na_value=np.nan)
    return Side(
        float(rows["time_s"].sum()), float(sd.sum()) if steps > 1 else math.nan, steps,
        float(rows["count"].sum()), float(rows["exposed_s"].sum()),
    )  # fmt: skip


def _classes(frames: tuple[pd.DataFrame, pd.DataFrame], n: tuple[int, int]) -> tuple[Change, ...]:
    names = sorted({c for f in frames for c in f["op_class"].tolist()})
    changes = []
    for name in names:
        sides = [_side(f[f["op_class"] == name], k) for f, k in zip(frames, n, strict=True)]
        changes.append(_tested(Change(str(name), sides[0], sides[1], op_class=str(name))))
    return tuple(sorted(changes, key=lambda c: -abs(c.delta_s)))


def _ops(frames: tuple[pd.DataFrame, pd.DataFrame], n: tuple[int, int]) -> list[Change]:
    """Ops by their whole key first; those left over by name, as other shapes of one op."""
    keyed = [_by_key(f, _SAME_OP) for f in frames]
    changes = []
    for key in keyed[0].keys() & keyed[1].keys():
        pairs = [f.loc[k[key]] for f, k in zip(frames, keyed, strict=True)]
        changes.append(_change("same", pairs, n))
    left = [
        f.loc[[i for key, rows in k.items() if key not in other for i in rows]]
        for f, k, other in zip(frames, keyed, reversed(keyed), strict=True)
    ]
    named = [_by_key(f, _SAME_NAME) for f in left]
    for name in named[0].keys() | named[1].keys():
        pairs = [f.loc[k.get(name, [])] for f, k in zip(left, named, strict=True)]
        status = "reshaped" if len(pairs[0]) and len(pairs[1]) else (
            "vanished" if len(pairs[0]) else "new")  # fmt: skip
        changes.append(_change(status, pairs, n))
    return sorted(changes, key=lambda c: (-abs(c.delta_s), c.what, c.phase))


def _by_key(frame: pd.DataFrame, columns: list[str]) -> dict[tuple[str, ...], list[Any]]:
    found: dict[tuple[str, ...], list[Any]] = {}
    texts = [frame[c].astype("string").fillna("").tolist() for c in columns]
    for index, key in zip(frame.index, zip(*texts, strict=True), strict=True):
        found.setdefault(key, []).append(index)
    return found


def _change(status: str, pairs: list[pd.DataFrame], n: tuple[int, int]) -> Change:
    lead = pairs[0] if len(pairs[0]) else pairs[1]
    row = lead.iloc[0]
    kernels = [_text(p.iloc[0]["kernel"]) if len(p) else "" for p in pairs]
    shapes = [tuple(_shape(r) for _, r in p.iterrows()) for p in pairs]
    sides = [_side(p, k) for p, k in zip(pairs, n, strict=True)]
    return _tested(Change(
        str(row["name"]), sides[0], sides[1], status=status, op_class=str(row["op_class"]),
        phase=_text(row["phase"]), kernels=(kernels[0], kernels[1]),
        shapes=(shapes[0], shapes[1]),
    ))  # fmt: skip


def _text(value: Any) -> str:
    import pandas as pd

    return "" if pd.isna(value) else str(value)


def _shape(row: pd.Series[Any]) -> str:
    """The dims that are known, in words: ``m 64 n 256 k 128 bf16``."""
    known = [(c, text) for c in _DIMS if (text := _text(row[c]))]
    return " ".join(text if c == "precision" else f"{c} {text}" for c, text in known)


def _tested(change: Change) -> Change:
    p = welch(change.before, change.after)
    return replace(change, p=p, significant=None if p is None else p < SIGNIFICANCE)


def _discovered(changes: list[Change]) -> tuple[Change, ...]:
    """The same with ``significant`` by the false discovery rate over all of them."""
    ranked = sorted(c.p for c in changes if c.p is not None)
    passed = [p for i, p in enumerate(ranked, 1) if p <= SIGNIFICANCE * i / len(ranked)]
    limit = max(passed, default=-1.0)
    return tuple(c if c.p is None else replace(c, significant=c.p <= limit) for c in changes)


def _cautions(before: Header, after: Header, n: tuple[int, int]) -> tuple[str, ...]:
    found = []
    if before.system != after.system:
        found.append(f"different systems: {before.system or 'unknown'} and "
                     f"{after.system or 'unknown'}")  # fmt: skip
    if before.capture_method != after.capture_method:
        found.append(
            f"different captures: {before.capture_method or 'unknown'} and "
            f"{after.capture_method or 'unknown'}: ops may go by other names"
        )
    for label, header in (("A", before), ("B", after)):
        for quantity in ("step_time", "steps", "exposed", "idle"):
            verdict = header.quality.reliability.get(quantity)
            if verdict is not None and not verdict.reliable:
                reason = verdict.reasons[0] if verdict.reasons else "no reason given"
                found.append(f"{label}: {quantity.replace('_', ' ')} is unreliable: {reason}")
    if min(n) < 2:
        found.append(
            f"no significance: {n[0]} and {n[1]} steps; a test takes two or more on each side"
        )
    return tuple(dict.fromkeys(found))
