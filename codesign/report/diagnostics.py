"""The diagnostics of a fit as one self-contained page, or as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import msgspec

from codesign._common.errors import UsageError
from codesign._common.files import write_text
from codesign.report import environment
from codesign.report import formatting as fmt
from codesign.report.charts.palette import Style
from codesign.report.charts.residuals import Residuals, residuals, styles
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import slug

if TYPE_CHECKING:
    from codesign.sensitivity.diagnostics import Diagnostics, GroupRow, UnitDiagnostics

SUFFIXES = (".html", ".htm", ".json")
ILL_CONDITIONED = 1e3
"""Condition number above which some directions are the prior's."""
SINGULAR = 1e6


@dataclass(frozen=True)
class UnitView:
    """One fitted parameter set."""

    anchor: str
    title: str
    form: str
    facts: tuple[tuple[str, str], ...]
    chart: Residuals
    parameters: Table
    groups: tuple[Table, ...]


@dataclass(frozen=True)
class DiagnosticsView:
    """Everything that the page prints."""

    title: str
    facts: tuple[tuple[str, str], ...]
    overview: Table
    identifiability: Table
    gpus: tuple[tuple[str, Style], ...]
    units: tuple[UnitView, ...]
    assumptions: tuple[tuple[str, str], ...]


def render_diagnostics(found: Diagnostics, path: Path) -> None:
    """Write ``found`` to ``path`` in the format of its extension, wholly or not at all.

    Raises UsageError for another extension than `SUFFIXES`.
    """
    check_suffix(path)
    if path.suffix.lower() == ".json":
        raw = msgspec.json.encode(found, order="deterministic")
        write_text(path, msgspec.json.format(raw, indent=1).decode() + "\n")
    else:
        write_text(path, diagnostics_html(found))


def check_suffix(path: Path) -> None:
    """Raise UsageError for a name whose extension is no format of diagnostics."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: expected a name that ends in one of {', '.join(SUFFIXES)}")


def diagnostics_html(found: Diagnostics) -> str:
    """The page; no request leaves it, and it reads without its script."""
    try:
        template = environment.html_environment(None).get_template("diagnostics.html.j2")
        return template.render(page=view(found))
    except jinja2.TemplateError as error:
        raise UsageError(environment.describe(error)) from error


def view(found: Diagnostics) -> DiagnosticsView:
    """The page's content as strings, tables and charts."""
    of = styles(found.trained_on)
    anchors = [
        f"unit-{slug(f'{u.model}-{u.variant}', i)}" for i, u in enumerate(found.units, start=1)
    ]
    facts = (
        ("Trained on", ", ".join(found.trained_on)),
        ("Excluded", ", ".join(found.excluded) or "none"),
        ("Kernels of", found.framework), ("Source", found.source),
        ("Units", f"{len(found.units)} fitted parameter sets"),
    )  # fmt: skip
    return DiagnosticsView(
        title="Diagnostics of the sensitivity model", facts=facts,
        overview=_overview(found.units, anchors), identifiability=_identifiability(found),
        gpus=tuple(of.items()),
        units=tuple(_unit(u, a, of) for u, a in zip(found.units, anchors, strict=True)),
        assumptions=tuple(sorted(found.assumptions.items())),
    )  # fmt: skip


def _overview(units: Sequence[UnitDiagnostics], anchors: Sequence[str]) -> Table:
    columns = (
        Column("Op model"), Column("Variant"), Column("n", True, "rows fitted"),
        Column("GPUs", True), Column("Worst GPU's bias", True, "largest median error of a GPU"),
        Column("Spread of ops", True, "log, around their GPU's mean, in a new family"),
        Column("Between GPUs", True, "log, families and GPUs together"),
        Column("Condition", True, "of the Jacobian with unit columns"),
        Column("Rank", True, "of the parameters"), Column("At a bound"),
    )  # fmt: skip
    rows = []
    for unit, anchor in zip(units, anchors, strict=True):
        worst = max(unit.by_gpu, key=lambda g: abs(g.bias))
        between = (unit.family_sd**2 + unit.gpu_sd**2) ** 0.5
        ill = unit.condition_number > ILL_CONDITIONED
        rows.append([
            Cell(unit.model, href=f"#{anchor}"), Cell(unit.variant),
            Cell(fmt.count(unit.n), unit.n), Cell(str(len(unit.by_gpu)), len(unit.by_gpu)),
            Cell(f"{fmt.signed_share(worst.bias)} {worst.name}", abs(worst.bias)),
            Cell(fmt.share(unit.residual_sd), unit.residual_sd), Cell(fmt.share(between), between),
            Cell(_condition(unit), unit.condition_number, tag="miss" if ill else ""),
            Cell(f"{unit.rank} of {len(unit.parameters)}", unit.rank),
            Cell(", ".join(unit.at_bound) or fmt.DASH),
        ])  # fmt: skip
    return make_table("overview", "Every fitted unit", columns, rows)


def _levels(unit: UnitDiagnostics) -> str:
    """How much longer than the law's the times of each family are, in the middle."""
    parts = [f"{name} {fmt.signed_share(math.expm1(v))}" for name, v in unit.levels.items()]
    return ", ".join(parts)


def _condition(unit: UnitDiagnostics) -> str:
    """The condition number; a parameter that no row feels makes it meaningless."""
    return f"{unit.condition_number:,.0f}" if unit.condition_number < SINGULAR else "singular"


def _identifiability(found: Diagnostics) -> Table:
    """One row for op classes of which the same is true."""
    columns = (Column("Lever"), Column("Op classes", wide=True), Column("Status"),
               Column("Alias"), Column("Why", wide=True))  # fmt: skip
    same: dict[tuple[str, str, str, str], list[str]] = {}
    for lever, by_class in found.identifiability.items():
        for op_class, item in sorted(by_class.items()):
            if item.status != "no_effect":
                key = (lever, item.status, item.alias or fmt.DASH, item.reason)
                same.setdefault(key, []).append(op_class)
    rows = [
        [Cell(lever), Cell(", ".join(classes)), Cell(status), Cell(alias), Cell(reason)]
        for (lever, status, alias, reason), classes in same.items()
    ]
    return make_table("identifiability", "Which levers the training data tell apart", columns, rows)


def _unit(unit: UnitDiagnostics, anchor: str, of: dict[str, Style]) -> UnitView:
    points = [(p.gpu, p.time_s, p.error) for p in unit.points]
    name = f"{unit.model}, {unit.variant}"
    facts = (
        ("Rows", f"{fmt.count(unit.n)} of {fmt.count(unit.rows_seen)} measured"),
        ("Condition number", _condition(unit)),
        ("Rank", f"{unit.rank} of {len(unit.parameters)} parameters"),
        ("Spread of ops", f"{fmt.share(unit.known_sd)} in these families, "
                          f"{fmt.share(unit.residual_sd)} expected of a new one"),
        ("Between families", fmt.share(unit.family_sd)),
        ("Between GPUs of one", f"{fmt.share(unit.gpu_sd)} ({unit.method})"),
        ("Families against the law", _levels(unit)),
        ("At a bound", ", ".join(unit.at_bound) or "none"),
    )  # fmt: skip
    groups = tuple(
        _groups(f"{anchor}-{key}", f"{name}: errors by {words}", head, rows)
        for key, words, head, rows in (
            ("gpu", "GPU", "GPU", unit.by_gpu),
            ("resource", "binding resource", "Resource", unit.by_resource),
            ("size", "measured time", "Time of one call", unit.by_size),
        )
    )
    return UnitView(anchor, name, unit.form, facts,
                    residuals(f"{anchor}-chart", f"{name}: errors by size", points, of),
                    _parameters(unit, anchor, name), groups)  # fmt: skip


def _parameters(unit: UnitDiagnostics, anchor: str, name: str) -> Table:
    columns = (
        Column("Parameter"), Column("Value", True), Column("90 % interval", True),
        Column("Standard error", True, "on the estimation scale: relative if positive"),
        Column("Prior", True, "standard deviation of the prior on that scale"),
        Column("Flag"), Column("Meaning", wide=True),
    )  # fmt: skip
    rows = [
        [Cell(p.name), Cell(f"{p.value:.4g}", p.value), Cell(f"{p.lo:.3g} to {p.hi:.3g}", p.lo),
         Cell(f"{p.standard_error:.3f}", p.standard_error), Cell(f"{p.prior_sd:.2g}", p.prior_sd),
         Cell(_flag(p.at_bound, p.standard_error, p.prior_sd),
              tag="miss" if p.at_bound else ""), Cell(p.meaning)]
        for p in unit.parameters
    ]  # fmt: skip
    return make_table(f"{anchor}-parameters", f"{name}: parameters", columns, rows)


def _flag(at_bound: bool, error: float, prior: float) -> str:
    if at_bound:
        return "at a bound"
    return "the prior's" if error >= 0.9 * prior else fmt.DASH


def _groups(id: str, caption: str, head: str, rows: Sequence[GroupRow]) -> Table:
    columns = (
        Column(head), Column("n", True), Column("Median APE", True), Column("p90 APE", True),
        Column("Bias", True, "median of modelled / measured - 1"),
        Column("In 90 %", True, "share of rows inside the ops' own 90 % band, in-sample"),
        Column("Leverage", True, "how many parameters these rows decide"),
    )  # fmt: skip
    cells = [
        [Cell(r.name), Cell(fmt.count(r.n), r.n), Cell(fmt.share(r.median_ape), r.median_ape),
         Cell(fmt.share(r.p90_ape), r.p90_ape), Cell(fmt.signed_share(r.bias), r.bias),
         Cell(fmt.share(r.coverage_90), r.coverage_90), Cell(f"{r.leverage:.1f}", r.leverage)]
        for r in rows
    ]  # fmt: skip
    return make_table(id, caption, columns, cells)
