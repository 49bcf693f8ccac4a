"""Views of files for `codesign show`: titled tables, and the same as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from codesign._common.errors import DataError
from codesign._common.files import read_bytes
from codesign._common.text import printable
from codesign._common.units import format_share, format_si
from codesign._common.yamlfiles import load_yaml
from codesign.cli._common import console, evidence_shares
from codesign.cli._show_json import Summary, json_summary
from codesign.cli._show_ranks import idle_text, job_text, ranks_table
from codesign.workload.accounting import busbw, hardware_flops, model_flops
from codesign.workload.characterization import Characterization
from codesign.workload.footprint import footprint
from codesign.workload.recipe import Recipe, load_recipe, recipe_path
from codesign.workload.transformer import assumptions, build_ops

MAX_JSON_BYTES = 256_000_000


@dataclass
class View:
    """What is printed, as tables, and what ``--json`` prints instead."""

    title: str
    data: Any
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[tuple[str, list[str], list[list[str]]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def print_view(view: View) -> None:
    """Print to stdout; names from files are shown literally, never as markup."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(printable(view.title), style="bold"))
    facts = Table.grid(padding=(0, 2))
    for name, value in view.facts:
        facts.add_row(Text(printable(name), style="dim"), Text(printable(value)))
    out.print(facts)
    for title, columns, rows in view.tables:
        table = Table(title=Text(title), title_justify="left", header_style="bold")
        for i, column in enumerate(columns):
            numeric = all(_looks_numeric(row[i]) for row in rows)
            table.add_column(column, justify="right" if numeric else "left")
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        out.print(table)
    for warning in view.warnings:
        out.print(Text(f"warning: {printable(warning)}", style="yellow"))


def _looks_numeric(cell: str) -> bool:
    return cell == "" or cell[0].isdigit() or cell[0] in "+-x<>≥≤"


def characterization_view(char: Characterization, top: int) -> View:
    """A characterization: header, quality, breakdown, top ops."""
    header, ops = char.header, char.ops
    # A summary by kernel knows no step, so nothing of it is exposed: its op time is what there is.
    step = header.step_time_s or float(ops["exposed_s"].sum()) + header.idle_s
    whole = step or float(ops["time_s"].sum())
    breakdown = _breakdown(ops, header.idle_s, step, whole)
    top_ops = ops.sort_values("time_s", ascending=False, na_position="last").head(top)
    base, evidence = evidence_shares(ops)
    view = View(
        title=f"characterization of {header.title or header.workload}",
        data={
            "kind": "characterization",
            "header": msgspec.to_builtins(header),
            "breakdown": breakdown,
            "evidence": {k: _number(v) for k, v in evidence.items()},
            "model_flops": model_flops(ops),
            "hardware_flops": hardware_flops(ops),
            "top_ops": _records(top_ops),
        },
        warnings=list(header.quality.warnings),
    )
    facts = [
        ("workload", header.workload),
        ("system", header.system or "unknown"),
        ("phase", header.phase),
        ("GPUs", str(header.gpus)),
        ("parallelism", _pairs(header.parallelism) if header.parallelism else None),
        ("step time", _step_text(char, step)),
        ("idle", idle_text(header) if step else None),
        ("job", job_text(header)),
        ("tokens a step", None if header.tokens_per_step is None
         else f"{header.tokens_per_step:,.0f}"),
        ("model FLOPs a GPU", format_si(model_flops(ops), "FLOP")
         if ops["flops"].notna().any() else "unknown"),
        (f"{base} by evidence", ", ".join(f"{format_share(v)} {k}" for k, v in evidence.items())),
        ("capture", header.capture_method or "unknown"),
        ("sources", ", ".join(s.name for s in header.sources[:5]) or "none"),
    ]  # fmt: skip
    view.facts = [(name, text) for name, text in facts if text is not None]
    quality = _quality(char)
    of = "of step" if step else "of op time"
    where = "where the step goes" if step else "where the op time goes (no step is known)"
    view.tables = [
        ("quality", ["what", "value"], quality),
        (where, ["op class", "time", "exposed", of], [
            [str(b["op_class"]), format_si(b["time_s"], "s"),
             format_si(b["exposed_s"], "s") if step else "",
             format_share(b["share"])] for b in breakdown]),
        _ops_table(f"top {len(top_ops)} of {len(ops)} ops", top_ops, whole, of),
    ]  # fmt: skip
    ranks = ranks_table(header)
    if ranks is not None:
        view.tables.insert(2, ranks)
    for name, why in header.assumptions.items():
        view.facts.append((f"assumed {name}", why))
    return view


def recipe_view(name: str, top: int) -> View:
    """A recipe: model, parallelism, memory, and the ops by their work."""
    recipe = _recipe(name)
    ops, memory = build_ops(recipe), footprint(recipe)
    p = recipe.parallelism
    heaviest = ops.sort_values("flops", ascending=False, na_position="last").head(top)
    assumed = assumptions(recipe)
    view = View(
        title=f"recipe: {recipe.title}",
        data={
            "kind": "recipe", "recipe": msgspec.to_builtins(recipe), "sha256": recipe.sha256(),
            "gpus": p.gpus, "parameters": recipe.model.parameters(),
            "active_parameters": recipe.model.parameters(active=True),
            "tokens_per_step": recipe.tokens_per_step, "bubble_ratio": recipe.bubble_ratio,
            "model_flops": model_flops(ops), "hardware_flops": hardware_flops(ops),
            "footprint_bytes": {**vars(memory), "total_bytes": memory.total_bytes},
            "assumptions": assumed, "ops": _records(ops),
        },
    )  # fmt: skip
    view.facts = [
        ("name", recipe.name),
        ("phase", recipe.phase),
        ("parameters", f"{recipe.model.parameters() / 1e9:.1f} billion, "
         f"{recipe.model.parameters(active=True) / 1e9:.1f} billion active"),
        ("system", recipe.system),
        ("GPUs", f"{p.gpus} ({_pairs(msgspec.to_builtins(p))})"),
        ("tokens a step", f"{recipe.tokens_per_step:,}"),
        ("model FLOPs a GPU", format_si(model_flops(ops), "FLOP")),
        ("HBM a GPU", format_si(memory.total_bytes, "B") + " estimated"),
        *((f"assumed {k}", v) for k, v in assumed.items()),
    ]  # fmt: skip
    view.tables = [_ops_table(f"top {len(heaviest)} of {len(ops)} ops by FLOPs", heaviest, None)]
    return view


def _recipe(name: str) -> Recipe:
    try:
        return load_recipe(name)
    except DataError as error:
        # Only to say it better: what else of codesign's this YAML could be.
        if recipe_path(name).is_file():
            keys = load_yaml(recipe_path(name)).keys()
            if keys & {"gpu", "sm_count"}:
                raise DataError(f"{name}: hardware; see `codesign hw show {name}`") from error
            if "workloads" in keys:
                raise DataError(
                    f"{name}: a portfolio; rank it with `codesign recommend {name}`"
                ) from error
        raise


def json_view(path: Path) -> View:
    """A model, recommendations or backtest file, told apart by its keys."""
    try:
        content = msgspec.json.decode(read_bytes(path, MAX_JSON_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON: {error}") from error
    summary: Summary = json_summary(content, str(path))
    return View(summary.title, summary.data, summary.facts, summary.tables, summary.warnings)


def _breakdown(ops: pd.DataFrame, idle_s: float, step: float, whole: float) -> list[dict[str, Any]]:
    """Op classes by what they take of the step, or of all op time where no step is known."""
    by = "exposed_s" if step else "time_s"
    rows: list[dict[str, Any]] = []
    sums = ops.groupby("op_class")[["time_s", "exposed_s"]].sum()
    for op_class, row in sums.sort_values(by, ascending=False).iterrows():
        rows.append({"op_class": str(op_class), "time_s": float(row["time_s"]),
                     "exposed_s": float(row["exposed_s"])})  # fmt: skip
    if step:
        rows.append({"op_class": "idle", "time_s": idle_s, "exposed_s": idle_s})
    for entry in rows:
        entry["share"] = entry[by] / whole if whole else 0.0
    return rows


def _quality(char: Characterization) -> list[list[str]]:
    quality = char.header.quality
    rows: list[list[str]] = []
    for name, value in msgspec.structs.asdict(quality).items():
        counted = isinstance(value, int) and not isinstance(value, bool)
        if name in ("reliability", "warnings") or value is None or (counted and not value):
            continue
        rows.append([name.replace("_", " "), _quality_text(value)])
    verdicts: dict[str, list[str]] = {}
    for name, verdict in quality.reliability.items():
        said = "yes" if verdict.reliable else f"no: {'; '.join(verdict.reasons)}"
        verdicts.setdefault(said, []).append(name.replace("_", " "))
    rows += [[f"{', '.join(names)} reliable", said] for said, names in verdicts.items()]
    return rows


def _quality_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_share(value) if isinstance(value, float) else str(value)


def _step_text(char: Characterization, step: float) -> str:
    """The step's time with its spread over the steps that were captured."""
    if not step:
        return "unknown: the source has no time line"
    spread, found = char.header.step_time_sd_s, char.header.quality.steps_found
    text = format_si(step, "s")
    if spread is not None and found:
        text += f" ± {format_si(spread, 's')} over {found} steps"
    return text


def _ops_table(
    title: str, ops: pd.DataFrame, step: float | None, of: str = "of step"
) -> tuple[str, list[str], list[list[str]]]:
    columns = ["op class", "name", "shape", "precision", "phase", "count", "FLOP", "bytes"]
    timed = step is not None
    counted = timed and bool(ops["dram_bytes"].notna().any() or ops["sm_percent"].notna().any())
    if timed:
        columns += ["time", of, "rate", "evidence"]
    if counted:
        columns += ["DRAM bytes", "SM", "DRAM"]
    rows: list[list[str]] = []
    for (_, op), bus in zip(ops.iterrows(), busbw(ops), strict=True):
        cells = [str(op["op_class"]), str(op["name"]), shape_text(op), _text(op["precision"]),
                 _text(op["phase"]), f"{op['count']:g}", _si(op["flops"], ""),
                 _si(op["bytes"], "B")]  # fmt: skip
        if timed:
            part = op["exposed_s"] if of == "of step" else op["time_s"]
            share = float(part) / step if step and not pd.isna(part) else 0.0
            cells += [_si(op["time_s"], "s"), format_share(share), _rate(op, bus),
                      _text(op["evidence"])]  # fmt: skip
        if counted:
            cells += [_si(op["dram_bytes"], "B"), _percent(op["sm_percent"]),
                      _percent(op["dram_percent"])]  # fmt: skip
        rows.append(cells)
    return title, columns, rows


def _percent(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:.0f} %"


def _rate(op: pd.Series[Any], bus: Any) -> str:
    """What the op attains: bus bandwidth, FLOP/s, or else bytes/s."""
    if not pd.isna(bus):
        return f"{_si(bus, 'B/s')} bus"
    if pd.isna(op["time_s"]) or op["time_s"] == 0:
        return ""
    if not pd.isna(op["flops"]):
        return _si(op["flops"] / op["time_s"], "FLOP/s")
    return _si(op["bytes"] / op["time_s"], "B/s")


def shape_text(op: pd.Series[Any]) -> str:
    """An op's shape as one reads it: ``8192 x 4096 x 4096``."""
    if op["op_class"] == "collective":
        if pd.isna(op["message_bytes"]):
            return ""
        group = _text(op["group_size"])
        return _si(op["message_bytes"], "B") + (f" over {group}" if group else "")
    if op["op_class"] == "attention":
        if pd.isna(op["heads"]) or pd.isna(op["q_len"]):
            return ""
        heads = f"h{_text(op['heads'])}/{_text(op['kv_heads'])} d{_text(op['head_dim'])}"
        return f"b{_text(op['batch'])} {heads} q{_text(op['q_len'])} kv{_text(op['kv_len'])}"
    dims = " x ".join(str(op[c]) for c in "mnk" if not pd.isna(op[c]))
    if not pd.isna(op["experts"]):
        return f"{dims}, {op['experts']} experts"
    return dims if pd.isna(op["batch"]) else f"{op['batch']} of {dims}"


def _records(ops: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(k): _plain(v) for k, v in record.items() if not pd.isna(v)}
        for record in ops.to_dict("records")
    ]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _number(value: float) -> float | None:
    return None if pd.isna(value) else value


def _pairs(values: dict[str, Any] | None) -> str:
    return ", ".join(f"{k} {v}" for k, v in (values or {}).items()) or "unknown"


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _si(value: Any, unit: str) -> str:
    return "" if pd.isna(value) else format_si(float(value), unit)
