"""The PDF, as another library reads it."""

from __future__ import annotations

import io
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pypdf
import pytest

from codesign._common.errors import UsageError
from codesign.report import pdf as module
from codesign.report import render_html
from codesign.report.pdf import engine, pdf
from codesign.report.print_charts import chart_rules, resolved, style_charts
from codesign.report.render import renderer_of
from tests.report.packages_case import recs as full
from tests.report.reading import normal
from tests.report.small import short
from tests.report.test_hostile import HOSTILE, poisoned

try:
    engine()
except UsageError as missing:
    pytest.skip(str(missing), allow_module_level=True)


@cache
def made() -> bytes:
    return pdf(render_html(short()))


def reader() -> pypdf.PdfReader:
    return pypdf.PdfReader(io.BytesIO(made()))


def test_pages_are_a4_and_numbered() -> None:
    pages = reader().pages
    assert len(pages) > 3
    for number, page in enumerate(pages, start=1):
        box = page.mediabox
        assert (float(box.width), float(box.height)) == pytest.approx((595.28, 841.89), abs=0.1)
        assert f"{number} / {len(pages)}" in normal(page.extract_text())


def test_the_answer_is_one_page_with_all_that_it_has_room_for() -> None:
    recs = full()
    name = recs.recommendations[0].headline
    doubts = tuple(f"{name}: {'a doubt of some length ' * 8}{i}" for i in range(9))
    long = msgspec.structs.replace(
        recs, warnings=doubts, levers=recs.levers[:2], workloads=recs.workloads[:1],
        software=(*recs.software, *recs.software),
        title="A fleet whose title takes two lines of the page: training, rollouts and serving",
    )  # fmt: skip
    first, second = pypdf.PdfReader(io.BytesIO(pdf(render_html(long)))).pages[:2]
    text = normal(first.extract_text())
    assert all(told in text for told in ("What to do", "Before you act", "What would refute it"))
    assert normal(second.extract_text()).startswith("Ranked recommendations")


def test_it_is_tagged_has_a_title_and_a_language() -> None:
    root = reader().trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert "/StructTreeRoot" in root
    assert root["/Lang"] == "en"
    assert reader().metadata.title == short().title


def test_it_runs_and_asks_for_nothing() -> None:
    for word in (b"/JavaScript", b"/Launch", b"/SubmitForm", b"/EmbeddedFile", b"/URI"):
        assert word not in made()


def test_the_same_page_gives_the_same_bytes() -> None:
    assert pdf(render_html(short())) == made()


def test_an_address_in_a_template_is_never_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import socket

    opened: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *a, **_: opened.append(a))
    secret = tmp_path / "secret.svg"
    secret.write_text("<svg xmlns='http://www.w3.org/2000/svg'><text y='9'>secret</text></svg>")
    page = (
        '<html lang="en"><head><title>t</title></head><body><p>before</p>'
        f'<img alt="x" src="http://example.invalid/x.png"><img alt="y" src="{secret.as_uri()}">'
        "<p>after</p></body></html>"
    )
    text = pypdf.PdfReader(io.BytesIO(pdf(page))).pages[0].extract_text()
    assert "before" in text
    assert "after" in text
    assert "secret" not in text
    assert opened == []


@pytest.mark.parametrize("key", ["script", "pipe", "long", "formula", "control"])
def test_a_hostile_name_is_printed_whole(key: str) -> None:
    from codesign.report.text import printable

    # Only its tables count here: one line of text may be broken anywhere by the page's width.
    page = f"<html lang='en'><head><title>t</title></head><body>{_heading(key)}</body></html>"
    text = pypdf.PdfReader(io.BytesIO(pdf(page))).pages[0].extract_text()
    assert "".join(printable(HOSTILE[key]).split()) in "".join(text.split())


def _heading(key: str) -> str:
    html = render_html(poisoned(HOSTILE[key]))
    return "<h1>" + html.partition("<h1>")[2].partition("</h1>")[0] + "</h1>"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (ModuleNotFoundError("no module"), "pip install 'codesign[pdf]'"),
        (OSError("cannot load library 'libpango-1.0-0'\nmore"), "apt install libpango"),
    ],
)
def test_what_is_missing_is_one_line_that_says_what_to_install(
    fault: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Absent:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "weasyprint":
                raise fault

    monkeypatch.delitem(sys.modules, "weasyprint", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Absent(), *sys.meta_path])
    with pytest.raises(UsageError) as error:
        renderer_of(Path("report.pdf"))
    assert said in str(error.value)
    assert "write .html and print that" in str(error.value)
    assert "\n" not in str(error.value)
    assert module.engine is engine


CSS = """
:root { --ink: #111; --a: var(--ink); }
@media screen { :root { --ink: #eee; } svg text { fill: red; } }
svg text { fill: var(--a); } .c1 { fill: #0069a6; background: blue; } .c2 { fill: #f00; }
svg .label { paint-order: stroke; stroke: #fff; font-weight: 650; } th { padding: 0; }
@media print { svg .c1 { stroke-width: 2; } @page { size: A4; } }
"""


def test_charts_get_the_rules_of_print_with_values_for_their_properties() -> None:
    rules, variables = chart_rules(CSS)
    assert variables == {"--ink": "#111", "--a": "var(--ink)"}
    assert resolved("var(--a)", variables) == "#111"
    text = [rule.text(variables) for rule in rules]
    assert text == ["svg text{fill:#111}", ".c1{fill:#0069a6}", ".c2{fill:#f00}",
                    "svg .label{font-weight:650}", "svg .c1{stroke-width:2}"]  # fmt: skip


def test_a_chart_carries_only_its_own_rules_and_hatches() -> None:
    page = ET.fromstring(
        f"<html xmlns:s='http://www.w3.org/2000/svg'><style>{CSS}</style>"
        "<s:svg class='defs'><s:pattern id='hatch'/><s:pattern id='other'/></s:svg>"
        "<s:svg><s:rect class='c1' fill='url(#hatch)'/></s:svg></html>"
    )  # fmt: skip
    style_charts(page)
    _, chart = page.findall("{http://www.w3.org/2000/svg}svg")
    style = chart.find("{http://www.w3.org/2000/svg}style")
    assert style is not None
    assert ".c1{fill:#0069a6}" in (style.text or "")
    assert ".c2" not in (style.text or "")
    assert [p.get("id") for p in chart.iter("{http://www.w3.org/2000/svg}pattern")] == ["hatch"]


def test_every_colour_of_the_shipped_style_resolves() -> None:
    import re

    css = "\n".join(re.findall(r"<style>(.*?)</style>", render_html(short()), flags=re.DOTALL))
    rules, variables = chart_rules(css)
    assert len(rules) > 40
    for rule in rules:
        for _, value in rule.declarations:
            named = re.findall(r"var\((--[\w-]+)\)", value)
            assert set(named) <= set(variables), rule.selector
            assert "var(" not in resolved(value, variables)
