"""`codesign show --diff`: two characterizations side by side, as tables and plain values."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codesign._common.text import counted
from codesign._common.units import format_si
from codesign.cli._show_views import View
from codesign.workload.characterization import Characterization
from codesign.workload.compare import Change, Comparison, Side, compare

_HEAD = ["A", "B", "change", "B / A", "p", ""]


def diff_view(paths: tuple[Path, Path], chars: tuple[Characterization, Characterization],
              top: int) -> tuple[View, Comparison]:  # fmt: skip
    """The view, and the comparison that it shows."""
    found = compare(*chars)
    before, after = chars
    changed = [c for c in found.ops if c.delta_s or c.status != "same"]
    view = View(
        title=f"A {before.header.workload} -> B {after.header.workload}",
        data=_data(paths, chars, found), warnings=list(found.cautions),
    )  # fmt: skip
    view.facts = [
        ("A", _described(paths[0], before)),
        ("B", _described(paths[1], after)),
        ("", _verdict(found)),
    ]
    listed = changed[:top]
    # Summaries and benchmarks know no step: their times are those of all that was measured.
    stepless = any(c.header.step_time_s is None for c in chars)
    times = "time" if stepless else "time a step"
    view.tables = [
        (f"by op class, {times}", ["op class", *_HEAD], [_cells(c) for c in found.classes]),
        (f"by op, {times}: {len(listed)} of {len(changed)} that changed",
         ["op", "op class", *_HEAD, "calls", "a call", "what"],
         [_op_cells(c) for c in listed]),
    ]  # fmt: skip
    totals = _totals(before, after)
    if totals:
        view.tables.insert(0, ("whole capture", ["", "A", "B", "B / A"], totals))
    if found.parts:
        parts = [_cells(c) for c in found.parts]
        view.tables.insert(0, ("a step, wall time", ["", *_HEAD], parts))
    return view, found


def _described(path: Path, char: Characterization) -> str:
    steps = char.header.quality.steps_found or 0
    by = char.header.quality.steps_by
    marked = f"{counted(steps, 'step')} by {by}" if steps else "no marked steps"
    return f"{path.name}: {char.header.system or 'unknown system'}, {marked}"


def _verdict(found: Comparison) -> str:
    step = next((p for p in found.parts if p.what == "step"), None)
    if step is None or step.ratio is None or math.isnan(step.ratio):
        return "step times are not known on both sides; compare the op classes"
    change = step.ratio - 1
    word = "slower" if change > 0 else "faster"
    text = f"B's step is {100 * abs(change):.1f} % {word} ({_signed(step.delta_s)})"
    if change == 0:
        text = "the steps take the same time"
    if step.p is None:
        return f"{text}; not tested: n = {step.before.steps} and {step.after.steps}"
    sure = "significant" if step.significant else "not significant"
    return f"{text}; {sure}: p = {_p(step.p)}, n = {step.before.steps} and {step.after.steps}"


def _cells(change: Change) -> list[str]:
    return [
        change.what, _time(change.before), _time(change.after), _signed(change.delta_s),
        _ratio(change), _p(change.p), _mark(change),
    ]  # fmt: skip


def _op_cells(change: Change) -> list[str]:
    name = f"{change.what} ({change.phase})" if change.phase else change.what
    first, *rest = _cells(change)
    del first
    return [
        name, change.op_class, *rest, _pair(f"{change.before.calls:g}", f"{change.after.calls:g}"),
        _pair(_call(change.before), _call(change.after)), _what(change),
    ]  # fmt: skip


def _what(change: Change) -> str:
    """What else differs: shapes, kernels, or that one side lacks the op."""
    if change.status in ("new", "vanished"):
        return f"{change.status}: {_listed(change.shapes[0] or change.shapes[1])}".rstrip(": ")
    if change.status == "reshaped":
        return f"{_listed(change.shapes[0])} -> {_listed(change.shapes[1])}"
    before, after = change.kernels
    if before and after and before != after:
        return f"kernel {before[:40]} -> {after[:40]}"
    return ""


def _listed(shapes: tuple[str, ...]) -> str:
    shown = [s for s in shapes[:2] if s]
    more = len(shapes) - len(shown)
    text = " | ".join(shown)
    return f"{text} and {more} more" if more > 0 and shown else text


def _pair(a: str, b: str) -> str:
    return a if a == b else f"{a or '-'} -> {b or '-'}"


def _call(side: Side) -> str:
    return format_si(side.time_s / side.calls, "s") if side.calls else ""


def _time(side: Side) -> str:
    if math.isnan(side.time_s):
        return ""
    text = format_si(side.time_s, "s")
    return (
        text if math.isnan(side.sd_s) or not side.sd_s else f"{text} ± {format_si(side.sd_s, 's')}"
    )


def _signed(value_s: float) -> str:
    if math.isnan(value_s):
        return ""
    return f"{'+' if value_s >= 0 else '-'}{format_si(abs(value_s), 's')}"


def _ratio(change: Change) -> str:
    ratio = change.ratio
    return "" if ratio is None or math.isnan(ratio) else f"{ratio:.3f}"


def _p(p: float | None) -> str:
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _mark(change: Change) -> str:
    """Significance in a word: a reader of a pipe sees no colours."""
    if change.significant is None or math.isnan(change.delta_s):
        return ""
    if not change.significant:
        return "within noise"
    return "slower" if change.delta_s > 0 else "faster"


_TOTALS = {
    "kernels": "kernels", "kernel_time_s": "kernel time", "busy_s": "busy", "span_s": "span",
    "comm_s": "communication", "exposed_comm_s": "exposed communication",
}  # fmt: skip


def _totals(before: Characterization, after: Characterization) -> list[list[str]]:
    rows = []
    for key, label in _TOTALS.items():
        a, b = before.header.totals.get(key), after.header.totals.get(key)
        if a is None or b is None:
            continue
        cells = [f"{v:,.0f}" if key == "kernels" else format_si(v, "s") for v in (a, b)]
        rows.append([label, *cells, f"{b / a:.3f}" if a else ""])
    return rows


def _data(
    paths: tuple[Path, Path], chars: tuple[Characterization, Characterization], found: Comparison
) -> dict[str, Any]:
    sides = {
        key: {
            "file": path.name, "workload": char.header.workload, "system": char.header.system,
            "capture_method": char.header.capture_method, "totals": char.header.totals,
        }
        for key, path, char in zip(("a", "b"), paths, chars, strict=True)
    }  # fmt: skip
    return {
        "kind": "difference", **sides, "verdict": _verdict(found),
        "parts": [_record(c) for c in found.parts],
        "op_classes": [_record(c) for c in found.classes],
        "ops": [_record(c) for c in found.ops], "cautions": list(found.cautions),
    }  # fmt: skip


def _record(change: Change) -> dict[str, Any]:
    record = asdict(change)
    record["delta_s"], record["ratio"] = change.delta_s, change.ratio
    return {k: _finite(v) for k, v in record.items()}


def _finite(value: Any) -> Any:
    """NaN is no JSON: unknown values become null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
