"""Renders a recommendations file: HTML, PDF, Markdown, XLSX, JSON."""

from codesign.report.render import (
    FORMATS,
    render,
    render_html,
    render_json,
    render_markdown,
    render_pdf,
    render_xlsx,
)

__all__ = [
    "FORMATS", "render", "render_html", "render_json", "render_markdown", "render_pdf",
    "render_xlsx",
]  # fmt: skip
