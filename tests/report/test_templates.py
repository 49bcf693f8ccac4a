"""Own templates: blocks are overridden, mistakes are one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import UsageError
from codesign.report import render, render_html, render_markdown
from tests.report.factory import empty, recommendations
from tests.report.reading import read_html


def test_a_block_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_text(
        '{% extends "shipped/report.html.j2" %}'
        "{% block footer %}<footer>Acme silicon, {{ report.title }}</footer>{% endblock %}"
    )
    page = read_html(render_html(recommendations(title="R&D <1>"), tmp_path))
    assert page.problems == []
    assert "Acme silicon, R&D <1>" in page.text
    assert "Made by codesign" not in page.text
    assert "The answer" in page.text


def test_a_section_and_a_style_are_replaced_by_name(tmp_path: Path) -> None:
    (tmp_path / "sections").mkdir()
    (tmp_path / "sections" / "glossary.html.j2").write_text("<section>our words</section>")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "report.css").write_text("body { color: teal }")
    text = render_html(recommendations(), tmp_path)
    assert "our words" in text
    assert "color: teal" in text
    assert "prefers-color-scheme" not in text


def test_markdown_blocks_are_overridden_alike(tmp_path: Path) -> None:
    (tmp_path / "report.md.j2").write_text(
        '{% extends "shipped/report.md.j2" %}{% block glossary %}## Ours{% endblock %}'
    )
    text = render_markdown(recommendations(), tmp_path)
    assert "## Ours" in text
    assert "## Words" not in text


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("<p>\n{{ report.nothing }}", "nothing"),
        ("<p>\n{% if %}", "report.html.j2:2"),
        ('{% extends "gone.html.j2" %}', "there is no template gone.html.j2"),
        ('{% include "../../secret" %}', "there is no template ../../secret"),
        ("<p>\n{{ 1 / 0 }}", "report.html.j2:2: division by zero"),
        ("<p>\n{{ report.title + 1 }}", "report.html.j2:2"),
        ('{% extends "report.html.j2" %}', "recursion"),
        ("{% for i in range(10 ** 9) %}{% endfor %}", "Range too big"),
    ],
)
def test_a_broken_template_is_one_clear_line(source: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_text(source)
    with pytest.raises(UsageError) as caught:
        render(empty(), tmp_path / "out.html", template_dir=tmp_path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize(
    "source",
    [
        '{{ "".__class__.__mro__ }}',
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ report|attr('__class__') }}",
        "{{ asset.__globals__ }}",
    ],
)
def test_a_template_reaches_nothing_but_the_report(source: str, tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_text(source)
    with pytest.raises(UsageError, match="unsafe"):
        render_html(empty(), tmp_path)


def test_a_template_that_is_no_utf_8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_bytes(b"\xff\xfe<p>")
    with pytest.raises(UsageError, match="utf-8"):
        render_html(empty(), tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        render_html(empty(), tmp_path / "none")


def test_an_unknown_name_is_told_with_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "report.html.j2").write_text(
        '{% extends "shipped/report.html.j2" %}\n'
        "{% block footer %}\n{{ report.nope }}{% endblock %}"
    )
    with pytest.raises(UsageError, match=r"report\.html\.j2:3: .* has no attribute 'nope'"):
        render_html(recommendations(), tmp_path)
