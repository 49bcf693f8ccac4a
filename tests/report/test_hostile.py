"""Names that break pages and tables: shown whole, and harmless."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from codesign.recommend.schema import (
    FirstMoved,
    Ledger,
    LedgerRow,
    PackageStudy,
    Recommendations,
)
from codesign.report import render_html, render_markdown
from codesign.report.text import ellipsis, escape_markdown, printable, sentence, slug
from tests.report.factory import recommendations
from tests.report.packages_case import HBM, study
from tests.report.packages_case import recs as full
from tests.report.reading import Page, normal, read_html, read_markdown_tables

HOSTILE = {
    "script": "</script><script>alert(1)</script>",
    "bold": "std::map<int><b>x</b>",
    "pipe": "a|b\nc",
    "markdown": "**bold** [x](javascript:y) `code` _em_ ~~no~~ # 1. <!-- c -->",
    "cjk": "大规模语言模型训练",
    "long": "k" * 300,
    "template": "{{ 7 * 7 }}{% raw %}",
    "attribute": "\" onmouseover='x' data-x=\"",
    "entity": "&lt;b&gt; &amp;",
    "formula": "=1+1",
    "at": "@SUM(A1:A2)|cmd",
    "tab": "\t-2+3",
    "emoji": "\N{ROCKET} [x](https://example.org) \N{FAMILY}",
    "control": "bell\x07 \u202eright-to-left",
}


def poisoned(name: str) -> Recommendations:
    """A file that carries ``name`` wherever text comes from outside."""
    recs = recommendations()
    old = recs.workloads[0].name
    op = msgspec.structs.replace(recs.levers[0].carried_by[0], name=name, shape=name, workload=name)
    change = msgspec.structs.replace
    workload = change(
        recs.workloads[0], name=name, title=name, system=name, top_ops=(op,),
        breakdown=(change(recs.workloads[0].breakdown[0], label=name, op_class=name),),
        roofline=(change(recs.workloads[0].roofline[0], label=name, op_class=name),),
        quality_warnings=(name,), assumptions={name: name}, recipe={name: [name, {name: name}]},
        evidence={name: 1.0}, binding={name: 1.0}, gap=change(
            recs.workloads[0].gap, by_class=(change(recs.workloads[0].gap.by_class[0], key=name),),
            by_resource=(change(recs.workloads[0].gap.by_resource[0], key=name),)),
    )  # fmt: skip
    lever = change(
        recs.levers[0], lever=name, title=name, baseline=name, reason=name, refuted_by=name,
        saturation_note=name, carried_by=(op,), binding_before={name: 1.0},
        points=tuple(
            change(p, label=name, by_workload={name: p.by_workload[old]})
            for p in recs.levers[0].points
        ),
    )  # fmt: skip
    advice = change(recs.recommendations[0], lever=name, headline=name, label=name, reason=name,
                    would_change=(name,), carried_by=(op,), refuted_by=name)  # fmt: skip
    bench = recs.backtest
    bench = change(
        bench,
        ops=(change(bench.ops[0], op_class=name, target=name, source=name, trained_on=(name,)),),
        workloads=(change(bench.workloads[0], workload=name, source=name, target=name),),
        protocol=name,
    )  # fmt: skip
    return change(
        recs, title=name, audience=name, baseline_title=name, warnings=(name,), levers=(lever,),
        recommendations=(advice,), workloads=(workload,), backtest=bench,
        pairs=(change(recs.pairs[0], levers=(name, name), label=name),),
        assumptions=(change(recs.assumptions[0], name=name, source=name),),
        provenance=change(recs.provenance, model=name, inputs={name: name}, software={name: name}),
        packages=(poisoned_study(name),),
        rank_sensitivity=(change(full().rank_sensitivity[0], lever=name),),
        first_moved=(FirstMoved(name, "cost", name, name),),
        ledger=Ledger(name, False, (LedgerRow(name, "", {"measured": 1.0}),
                                    LedgerRow(name, name, {"measured": 1.0}))),
    )  # fmt: skip


def poisoned_study(name: str) -> PackageStudy:
    change = msgspec.structs.replace
    step = change(HBM, lever=name, title=name, label=name)
    made = study()
    front = tuple(change(p, steps=(step,)) if p.steps else p for p in made.front)
    marginal = tuple(change(m, lever=name, title=name, label=name) for m in made.marginal)
    return change(made, front=front, marginal=marginal, left_out={name: name},
                  baseline_source=name)  # fmt: skip


@cache
def html_of(name: str) -> str:
    return render_html(poisoned(name))


@cache
def markdown_of(name: str) -> str:
    return render_markdown(poisoned(name))


def elements(page: Page) -> list[str]:
    return [tag for tag in page.tags if tag not in ("text", "rect")]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_html_shows_the_name_whole_and_runs_nothing(name: str) -> None:
    clean, dirty = html_of("plain"), html_of(name)
    page = read_html(dirty)
    assert page.problems == []
    assert len(page.ids) == len(set(page.ids))
    # Not one element more than with a plain name: nothing of the name became markup.
    # (Labels that do not fit in a bar and the hatch of an unknown key may differ.)
    assert elements(page) == elements(read_html(clean))
    assert normal(printable(name)) in page.text
    assert "</script><b>" not in dirty
    assert dirty.count("</script>") == 1


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_markdown_shows_the_name_whole_in_rows_of_one_width(name: str) -> None:
    text = markdown_of(name)
    plain = markdown_of("plain")
    tables, reference = read_markdown_tables(text), read_markdown_tables(plain)
    assert [[len(r) for r in t] for t in tables] == [[len(r) for r in t] for t in reference]
    assert all(len(row) == len(table[0]) for table in tables for row in table)
    assert any(cell == normal(printable(name)) for t in tables for r in t for cell in r)
    kinds = {t.type for t in MarkdownIt("commonmark").enable("table").parse(text)}
    assert not kinds & {"html_block", "fence", "code_block"}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_both_formats_still_agree(name: str) -> None:
    tables = list(read_html(html_of(name)).tables.values())
    assert tables == read_markdown_tables(markdown_of(name))


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_escaped_markdown_shows_the_text_and_no_markup(text: str) -> None:
    source = f"| h | i |\n| --- | --- |\n| {escape_markdown(text) or ' '} | end |"
    (table,) = read_markdown_tables(source)
    assert table[1] == [normal(printable(text)), "end"]


def test_line_breaks_and_controls_are_shown_as_escapes() -> None:
    assert printable("a|b\nc") == "a|b\\nc"
    assert printable("x\x01") == "x\\x01"
    assert printable("\u202e\u2028") == "\\u202e\\u2028"
    assert printable("大 ß") == "大 ß"


def test_op_names_stay_readable_in_the_markdown_source() -> None:
    assert escape_markdown("mlp_gate_up") == "mlp_gate_up"
    assert escape_markdown("+50 %: 5.03 TB/s") == "+50 %: 5.03 TB/s"
    assert escape_markdown("x1.23 [1.18, 1.29]") == "x1.23 [1.18, 1.29]"
    assert escape_markdown("[1](x) [a]") == "\\[1](x) \\[a]"


def test_small_text_helpers() -> None:
    assert slug("HBM <b>", 3) == "3-hbm-b"
    assert slug("大", 3) == "3"
    assert ellipsis("abcdef", 4) == "abc…"
    assert sentence("no source") == "No source."
    assert sentence("") == ""
