"""The documented context of templates is the one that templates get."""

from __future__ import annotations

import re
import typing
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import pytest

from codesign.report import render_html, render_markdown
from codesign.report.context import ReportView
from codesign.report.environment import shipped_templates
from tests.report.factory import recommendations

DOCS = Path(__file__).resolve().parents[2] / "docs" / "report.md"


def documented() -> dict[str, dict[str, str]]:
    """Class -> field -> what it is said to be."""
    if not DOCS.is_file():
        pytest.skip("no docs beside the tests")
    found: dict[str, dict[str, str]] = {}
    for block in re.findall(r"(?:^\|.*\n)+", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE):
        rows = [[c.strip() for c in line.strip("|\n ").split("|")] for line in block.splitlines()]
        if rows[0][1:] != ["is", "what it says"]:
            continue
        name = re.findall(r"`(\w+)`", rows[0][0])[-1]
        found[name] = {row[0].strip("`"): row[1] for row in rows[2:]}
        assert all(row[2] for row in rows[2:]), name
    return found


def views(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Class name -> field -> type, of everything below a view that is no chart."""
    if not isinstance(kind, type) or kind.__name__ in found:
        return found
    if not (is_dataclass(kind) or hasattr(kind, "_fields")):
        return found
    if kind.__module__.startswith("codesign.report.charts"):
        return found
    hints = typing.get_type_hints(kind)
    found[kind.__name__] = hints
    for hint in hints.values():
        for part in parts(hint):
            views(part, found)
    return found


def parts(hint: Any) -> list[Any]:
    inner = [p for arg in typing.get_args(hint) for p in parts(arg)]
    return [hint, *inner]


def test_every_field_is_documented_and_every_documented_field_exists() -> None:
    code = {name: set(hints) for name, hints in views(ReportView, {}).items()}
    said = {name: set(rows) for name, rows in documented().items()}
    assert said.keys() == code.keys()
    for name, fields in code.items():
        assert said[name] == fields, name


def test_it_is_said_what_may_be_missing_and_of_which_class_it_is() -> None:
    for name, hints in views(ReportView, {}).items():
        for field, hint in hints.items():
            said = documented()[name][field]
            assert ("or none" in said) == (NoneType in parts(hint)), (name, field)
            named = [p.__name__ for p in parts(hint) if isinstance(p, type) and is_dataclass(p)]
            assert set(re.findall(r"`(\w+)`", said)) >= set(named), (name, field)


def blocks_of(name: str) -> list[str]:
    source = (shipped_templates() / name).read_text(encoding="utf-8")
    return re.findall(r"\{%-? *block (\w+)", re.sub(r"\{#.*?#\}", "", source, flags=re.DOTALL))


@pytest.mark.parametrize("block", blocks_of("report.html.j2"))
def test_each_block_of_the_page_can_be_replaced(block: str, tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_text(
        '{% extends "shipped/report.html.j2" %}{% block ' + block + " %}"
        "/* our own {{ report.title }} */{% endblock %}"
    )
    assert f"/* our own {recommendations().title} */" in render_html(recommendations(), tmp_path)


def test_blocks_named_in_the_docs_are_those_of_the_templates(tmp_path: Path) -> None:
    documented()
    text = DOCS.read_text(encoding="utf-8")
    row = re.search(r"\| `report\.html\.j2` \| the page; blocks `([\w ]+)`", text)
    assert row is not None
    for name in ("report.html.j2", "report.md.j2"):
        wanted = row[1].split()
        if name == "report.md.j2":
            wanted = wanted[wanted.index("answer") : wanted.index("footer")]
        assert blocks_of(name) == wanted, name
    (tmp_path / "report.md.j2").write_text(
        '{% extends "shipped/report.md.j2" %}{% block answer %}Our own.{% endblock %}'
    )
    markdown = render_markdown(recommendations(), tmp_path)
    assert "Our own." in markdown
    assert "## The answer" not in markdown
    assert "## Pairs" in markdown
