"""What a reader needs who sees little, prints, or has no mouse; in both themes."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from codesign.report import render_html
from codesign.report.charts.palette import _SPARE, _STYLES
from codesign.report.environment import shipped_templates
from tests.report.packages_case import recs

CSS = (shipped_templates() / "assets" / "report.css").read_text(encoding="utf-8")


def variables(theme: str) -> dict[str, str]:
    """Colours of a theme: the dark one overrides what the light one sets."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, flags=re.DOTALL)[:2]
    found = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{3,6})\b", light))
    return found | (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{3,6})\b", dark))
                    if theme == "dark" else {})  # fmt: skip


def contrast(a: str, b: str) -> float:
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05) of the relative luminances."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    text = colour[1:]
    text = "".join(2 * c for c in text) if len(text) == 3 else text
    parts = [int(text[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_contrast_of_known_colours() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)  # the well-known near miss


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(theme: str) -> None:
    colours = variables(theme)
    pairs = [(text, back) for back in ("page", "panel")
             for text in ("ink", "soft", "accent", "good", "warn", "bad")]  # fmt: skip
    pairs += [(text, "warn-panel") for text in ("ink", "accent")]
    pairs += [(f"i{n}", f"c{n}") for n in range(9)] + [(f"j{n}", f"e{n}") for n in range(1, 6)]
    low = {p: round(ratio, 2) for p in pairs
           if (ratio := contrast(colours[p[0]], colours[p[1]])) < 4.5}  # fmt: skip
    assert low == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_and_focus_rings_can_be_seen(theme: str) -> None:
    colours = variables(theme)
    low = {name: round(ratio, 2) for name in ("band", "accent", "c3", "bad", "soft")
           if (ratio := contrast(colours[name], colours["page"])) < 3.0}  # fmt: skip
    assert low == {}


def test_no_two_keys_of_a_kind_look_alike() -> None:
    evidence = ("measured", "interpolated", "extrapolated", "modelled", "assumed")
    resources = ("tensor", "hbm", "nvlink", "scaleout", "network latency", "launch", "l2")
    classes = ("gemm", "grouped_gemm", "attention", "conv", "collective", "norm", "softmax",
               "elementwise", "reduction", "embedding", "optimizer", "quantize", "copy", "other",
               "idle", "pipeline bubble")  # fmt: skip
    for kind in (evidence, resources, classes):
        looks = [(_STYLES[key].colour, _STYLES[key].hatch) for key in kind]
        assert len(set(looks)) == len(looks)
    assert len(set(_SPARE)) == len(_SPARE)


class Outline(HTMLParser):
    """Start tags with their attributes, and what stands in links, buttons and captions."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[int, str] = {}
        self._open: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("a", "caption", "th", "title", "figcaption"):
            self._open.append(len(self.tags))
        self.tags.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self.tags[self._open[-1]][0] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for place in self._open:
            self.texts[place] = self.texts.get(place, "") + data


@cache
def outline() -> Outline:
    found = Outline()
    found.feed(render_html(recs()))
    return found


def test_every_table_has_a_caption_and_every_heading_cell_its_scope() -> None:
    tags = outline().tags
    tables = [i for i, (tag, _) in enumerate(tags) if tag == "table"]
    assert len(tables) > 40
    for i in tables:
        assert tags[i + 1][0] == "caption"
        assert outline().texts[i + 1].strip()
    heads = [attrs for tag, attrs in tags if tag == "th"]
    assert {attrs.get("scope") for attrs in heads} == {"col", "row"}
    assert all(outline().texts.get(i, "").strip() for i, (tag, _) in enumerate(tags) if tag == "th")


def test_what_takes_the_focus_is_named_and_in_the_order_of_the_page() -> None:
    tags = outline().tags
    focusable = [attrs for _, attrs in tags if "tabindex" in attrs]
    assert {attrs["tabindex"] for attrs in focusable} == {"0"}
    assert all(attrs.get("role") == "group" and attrs.get("aria-labelledby") for attrs in focusable)
    links = [i for i, (tag, _) in enumerate(tags) if tag == "a"]
    assert all(outline().texts.get(i, "").strip() for i in links)
    # The first of all leads past the contents.
    assert tags[links[0]][1]["href"] == "#main"
    assert not [attrs for _, attrs in tags if "accesskey" in attrs or "autofocus" in attrs]


def test_every_chart_has_a_name_a_description_and_hover_values() -> None:
    tags = outline().tags
    charts = [i for i, (tag, attrs) in enumerate(tags)
              if tag == "svg" and "chart" in attrs.get("class", "").split()]  # fmt: skip
    assert charts
    for i, end in pairwise([*charts, len(tags)]):
        assert tags[i][1]["role"] == "img"
        inside = [tag for tag, _ in tags[i + 1 : end]]
        assert inside[:2] == ["title", "desc"]
        assert "title" in inside[2:]
    others = [attrs for tag, attrs in tags
              if tag == "svg" and "chart" not in attrs.get("class", "").split()]  # fmt: skip
    assert all(attrs.get("aria-hidden") == "true" for attrs in others)


def test_sections_are_named_by_their_headings() -> None:
    ids = {attrs["id"]: tag for tag, attrs in outline().tags if "id" in attrs}
    for tag, attrs in outline().tags:
        if tag in ("section", "article"):
            assert ids[attrs["aria-labelledby"]] in ("h2", "h3")
    assert sum(tag == "h1" for tag, _ in outline().tags) == 1


def test_motion_is_left_out_where_it_is_not_wanted_and_paper_is_a4() -> None:
    assert "prefers-reduced-motion" in CSS
    assert "size: A4" in CSS
    # Dark colours are for screens: paper is white.
    assert "@media screen and (prefers-color-scheme: dark)" in CSS
