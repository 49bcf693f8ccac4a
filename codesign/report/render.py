"""Renders a recommendations file; the format follows from the extension."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import jinja2
import msgspec

from codesign._common.errors import UsageError
from codesign._common.files import write_bytes
from codesign.recommend.schema import Recommendations
from codesign.report import environment
from codesign.report.context import build


def render_html(recs: Recommendations, template_dir: str | Path | None = None) -> str:
    """One self-contained page: no request leaves it, and it reads without its script.

    ``template_dir`` may hold templates that replace shipped ones by name, or that
    extend ``shipped/report.html.j2`` and override its blocks. Raises UsageError,
    with file and line, if a template cannot be used.
    """
    return _fill(environment.html_environment, "report.html.j2", recs, template_dir)


def render_markdown(recs: Recommendations, template_dir: str | Path | None = None) -> str:
    """The same content and numbers as GitHub-flavoured Markdown."""
    text = _fill(environment.markdown_environment, "report.md.j2", recs, template_dir)
    return _single_blank_lines(text)


def render_json(recs: Recommendations, template_dir: str | Path | None = None) -> str:  # noqa: ARG001
    """The file itself, indented, its keys in a stable order."""
    raw = msgspec.json.encode(recs, order="deterministic")
    return msgspec.json.format(raw, indent=2).decode() + "\n"


def render_xlsx(recs: Recommendations, template_dir: str | Path | None = None) -> bytes:  # noqa: ARG001
    """A workbook: an index and a sheet for each table, numbers as numbers."""
    from codesign.report.xlsx import workbook

    return workbook(build(recs))


def render_pdf(recs: Recommendations, template_dir: str | Path | None = None) -> bytes:
    """The HTML page as tagged A4 pages, without any request.

    Raises UsageError if WeasyPrint (extra ``pdf``) or its Pango library is missing.
    """
    from codesign.report.pdf import pdf

    return pdf(render_html(recs, template_dir))


Renderer = Callable[[Recommendations, str | Path | None], str | bytes]
FORMATS: MappingProxyType[str, Renderer] = MappingProxyType({
    ".html": render_html, ".htm": render_html, ".md": render_markdown,
    ".markdown": render_markdown, ".json": render_json, ".xlsx": render_xlsx, ".pdf": render_pdf,
})  # fmt: skip
_IN_TEMPLATES = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What the expressions of a template of one's own can raise, or its encoding."""
TEMPLATED = frozenset({".html", ".htm", ".md", ".markdown", ".pdf"})
"""Formats that templates make."""


def render(recs: Recommendations, path: str | Path, template_dir: str | Path | None = None) -> None:
    """Write ``recs`` to ``path``, wholly or not at all, in the format of its extension.

    Raises UsageError listing the formats if the extension is none of them.
    """
    path = Path(path)
    write_bytes(path, as_bytes(renderer_of(path)(recs, template_dir)))


def as_bytes(rendered: str | bytes) -> bytes:
    """What a renderer gave, as a file holds it: text as UTF-8."""
    return rendered if isinstance(rendered, bytes) else rendered.encode("utf-8", errors="replace")


def renderer_of(path: Path) -> Renderer:
    """The renderer of a path's extension, checked before any work is done for it.

    Raises UsageError for an extension that is none, or whose format needs what is missing.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise UsageError(
            f"{path}: no report format {path.suffix or 'without extension'!r}; "
            f"write to one of: {known}"
        )
    if suffix == ".pdf":
        from codesign.report.pdf import engine

        engine()
    return FORMATS[suffix]


def _fill(
    make: Callable[[Path | None], jinja2.Environment], name: str, recs: Recommendations,
    template_dir: str | Path | None,
) -> str:  # fmt: skip
    view = build(recs)
    try:
        template = make(Path(template_dir) if template_dir else None).get_template(name)
        return template.render(report=view)
    except jinja2.TemplateError as error:
        raise UsageError(environment.describe(error)) from error
    except _IN_TEMPLATES as error:
        if template_dir is None:
            raise  # A fault of ours.
        raise UsageError(environment.describe(error)) from error


def _single_blank_lines(text: str) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines).strip() + "\n"
