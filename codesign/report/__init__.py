"""Renders a recommendations file: HTML, Markdown, JSON."""

from codesign.report.render import FORMATS, render, render_html, render_json, render_markdown

__all__ = ["FORMATS", "render", "render_html", "render_json", "render_markdown"]
