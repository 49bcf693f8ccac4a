"""Charts for a printer of pages that reads no style sheet inside an SVG.

A browser styles inline SVG by the page's style sheet. WeasyPrint reads only what stands inside
the SVG: so each gets the rules that concern it, custom properties resolved, and the hatches that
it refers to.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SVG = "{http://www.w3.org/2000/svg}"
_PAINT = frozenset({
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "stroke-opacity", "opacity", "font-size", "font-weight", "text-anchor",
})  # fmt: skip
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*\)")
_CLASS = re.compile(r"\.([\w-]+)")
_REFERENCE = re.compile(r"url\(#([\w-]+)\)")
_FONT = "sans-serif"


@dataclass(frozen=True)
class Rule:
    """A selector with the declarations of a rule that paint."""

    selector: str
    declarations: tuple[tuple[str, str], ...]

    @property
    def classes(self) -> frozenset[str]:
        """Classes that the selector asks for."""
        return frozenset(_CLASS.findall(self.selector))

    def text(self, variables: dict[str, str]) -> str:
        """The rule as CSS without custom properties."""
        body = ";".join(f"{name}:{resolved(value, variables)}" for name, value in self.declarations)
        return f"{self.selector}{{{body}}}"


def style_charts(root: Element) -> None:
    """Put the page's style into every SVG of the page ``root``, in place."""
    css = "\n".join(e.text or "" for e in root.iter("style"))
    rules, variables = chart_rules(css)
    patterns = {e.get("id", ""): e for e in root.iter(f"{_SVG}pattern")}
    for chart in list(root.iter(f"{_SVG}svg")):
        if "defs" in (chart.get("class") or "").split():
            continue
        _style(chart, rules, variables, patterns)


def chart_rules(css: str) -> tuple[list[Rule], dict[str, str]]:
    """Rules that paint, as a printer applies them, and the custom properties of ``:root``."""
    rules: list[Rule] = []
    variables: dict[str, str] = {}
    import tinycss2  # WeasyPrint's own parser: it comes with it

    for selectors, content in _blocks(tinycss2.parse_stylesheet(css, skip_comments=True)):
        declared = tuple(_declarations(content))
        if selectors == ":root":
            variables |= {name: value for name, value in declared if name.startswith("--")}
            continue
        painted = _painted(declared)
        if painted:
            rules += [Rule(s.strip(), painted) for s in selectors.split(",") if ":" not in s]
    return rules, variables


def resolved(value: str, variables: dict[str, str]) -> str:
    """``value`` with its custom properties replaced; an unknown one is black."""
    for _ in range(8):  # A property may name another, but not for ever.
        if "var(" not in value:
            break
        value = _VARIABLE.sub(lambda match: variables.get(match[1], "#000"), value)
    return value


def _painted(declared: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """What paints. A halo, drawn under its text by ``paint-order``, would be drawn over it."""
    halo = any(name == "paint-order" for name, _ in declared)
    return tuple(
        (name, value) for name, value in declared
        if name in _PAINT and not (halo and name.startswith("stroke"))
    )  # fmt: skip


def _blocks(nodes: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """(selectors, content) outside of at-rules, and inside those that are for print."""
    import tinycss2

    for node in nodes:
        if node.type == "qualified-rule":
            yield tinycss2.serialize(node.prelude).strip(), node.content
        elif node.type == "at-rule" and node.content is not None:
            asked = node.lower_at_keyword, tinycss2.serialize(node.prelude).strip()
            if asked == ("media", "print"):
                yield from _blocks(tinycss2.parse_rule_list(node.content))


def _declarations(content: list[Any]) -> Iterator[tuple[str, str]]:
    import tinycss2

    for node in tinycss2.parse_blocks_contents(content):
        if node.type == "declaration":
            yield node.lower_name, tinycss2.serialize(node.value).strip()


def _style(
    chart: Element, rules: Iterable[Rule], variables: dict[str, str], patterns: dict[str, Element]
) -> None:
    classes = {name for e in chart.iter() for name in (e.get("class") or "").split()}
    used = {name for e in chart.iter() for name in _REFERENCE.findall(e.get("fill") or "")}
    if used:
        defs = chart.makeelement(f"{_SVG}defs", {})
        defs.extend(copy.deepcopy(patterns[name]) for name in sorted(used) if name in patterns)
        classes |= {name for e in defs.iter() for name in (e.get("class") or "").split()}
        chart.insert(0, defs)
    style = chart.makeelement(f"{_SVG}style", {})
    wanted = [rule.text(variables) for rule in rules if rule.classes <= classes]
    style.text = "\n".join([f"text{{font-family:{_FONT}}}", *wanted])
    chart.insert(0, style)
