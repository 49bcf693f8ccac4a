"""The only place that touches Jinja: loaders, escaping, filters."""

from __future__ import annotations

import base64
import hashlib
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from codesign._common.errors import UsageError
from codesign._common.files import data_dir
from codesign.report.charts import paths
from codesign.report.charts.curves import CurveChart
from codesign.report.charts.dots import Mark
from codesign.report.charts.palette import Style, style_of
from codesign.report.table import Cell, Column, Table, to_markdown
from codesign.report.text import ellipsis, escape_markdown, printable

_SCRIPT = "assets/report.js"


def shipped_templates() -> Path:
    """Folder of the templates that come with codesign."""
    return data_dir("reports") / "templates"


def html_environment(template_dir: Path | None) -> jinja2.Environment:
    """Autoescaping environment of the HTML templates."""
    environment = _environment(template_dir, autoescape=True)
    environment.finalize = _visible
    environment.filters.update(
        style=style_of, num=_number, ellipsis=ellipsis, column_class=_column_class,
        sort_key=_sort_key, unbroken=_unbroken, marker_path=_marker_path,
        mark_path=_mark_path, prefixed=_prefixed,
    )  # fmt: skip
    script = _source(environment, _SCRIPT)
    environment.globals["asset"] = lambda name: Markup(_source(environment, name))  # noqa: S704
    environment.globals["script_hash"] = _csp_hash(script)
    return environment


def markdown_environment(template_dir: Path | None) -> jinja2.Environment:
    """Environment of the Markdown template: every value is escaped for Markdown."""
    environment = _environment(template_dir, autoescape=False)
    environment.finalize = _literal
    environment.globals["table"] = _markdown_table
    environment.globals["titled_table"] = _titled_markdown_table
    return environment


def _environment(template_dir: Path | None, autoescape: bool) -> jinja2.Environment:
    shipped = jinja2.FileSystemLoader(shipped_templates())
    loaders: list[jinja2.BaseLoader] = [shipped, jinja2.PrefixLoader({"shipped": shipped})]
    if template_dir is not None:
        if not template_dir.is_dir():
            raise UsageError(f"{template_dir}: no such folder of templates")
        loaders.insert(0, jinja2.FileSystemLoader(template_dir))
    # A template that came from somebody else prints the report, and does nothing else.
    return ImmutableSandboxedEnvironment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=autoescape,  # the Markdown environment escapes in finalize
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _source(environment: jinja2.Environment, name: str) -> str:
    if environment.loader is None:
        raise UsageError("the report has no templates")
    return environment.loader.get_source(environment, name)[0]


def _csp_hash(script: str) -> str:
    """The script's hash for the content security policy: no other script may run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _visible(value: object) -> object:
    # A per cent sign stays with its number.
    return printable(value).replace(" %", "\u00a0%") if type(value) is str else value


def _literal(value: object) -> object:
    return escape_markdown(value) if type(value) is str else value


def _markdown_table(table: Table) -> Markup:
    # Not HTML: the type says that the text is escaped already, here for Markdown.
    return Markup(to_markdown(table))  # noqa: S704


def _titled_markdown_table(table: Table) -> Markup:
    title = escape_markdown(table.caption)
    return Markup(f"**{title}**\n\n{to_markdown(table)}")  # noqa: S704


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _column_class(column: Column, tag: str = "") -> str:
    names = ["num"] if column.numeric else []
    names += ["wide"] if column.wide else []
    names += ["narrow"] if column.numeric and len(column.title) <= 4 else []
    names += ["word"] if column.narrow else []
    names += [tag] if tag and not tag.startswith("status-") else []
    return " ".join(names)


def _sort_key(cell: Cell, column: Column) -> Markup:
    if isinstance(cell.sort, str):
        return Markup("")
    if cell.sort is None:
        # An empty key sorts last; a column of text sorts by what it shows.
        return Markup(' data-sort=""') if column.numeric else Markup("")
    return Markup(' data-sort="{}"').format(escape(f"{cell.sort:.6g}"))


def _unbroken(text: str) -> str:
    """A number that stays on one line with its unit; its interval may go on the next."""
    return text.replace(" ", "\u00a0").replace("\u00a0[", " [")


def _marker_path(style: Style) -> str:
    return paths.marker(style.marker, 8, 8, 6)


def _mark_path(mark: Mark, y: float) -> str:
    return paths.marker(mark.shape, mark.x, y, 4.5)


def _prefixed(chart: CurveChart, prefix: str) -> CurveChart:
    """The chart under another id, where one page draws it twice."""
    return replace(chart, id=prefix + chart.id) if prefix else chart


def describe(error: Exception) -> str:
    """One line about a template that failed: file, line, reason."""
    said = str(getattr(error, "message", None) or error or type(error).__name__).splitlines()
    reason = said[0] if said else type(error).__name__
    if isinstance(error, jinja2.TemplateNotFound):
        reason = f"there is no template {reason}"
    where: Any = getattr(error, "filename", None) or getattr(error, "name", None)
    line = getattr(error, "lineno", None)
    # An undefined name carries no place; the rewritten traceback ends in the template's line.
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.endswith(".j2"):
            where, line = frame.filename, frame.lineno
    place = f"{where}:{line}" if where and line else str(where or "report template")
    return f"{place}: {reason}"
