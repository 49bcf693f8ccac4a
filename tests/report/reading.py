"""Strict readers of what was rendered: independent of the code that wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from markdown_it import MarkdownIt

VOID = {"meta", "link", "br", "hr", "img", "input", "base", "wbr"}
LOADING = {"src", "srcset", "poster", "data", "action", "formaction", "background"}


@dataclass
class Page:
    """What a page holds."""

    ids: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    text: str = ""


class Reader(HTMLParser):
    """Follows every tag; a tag left open or closed out of turn is a problem."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.stack: list[str] = []
        self.table: list[list[str]] | None = None
        self.cell: list[str] | None = None
        self.heading: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if len(values) != len(attrs):
            self.page.problems.append(f"an attribute twice on <{tag}>")
        self.page.tags.append(tag)
        if tag not in VOID:
            self.stack.append(tag)
        if "id" in values:
            self.page.ids.append(values["id"] or "")
        for name, value in values.items():
            if name in LOADING or (tag == "link" and name == "href"):
                self.page.targets.append(value or "")
            if name == "href" and (value or "").startswith("#"):
                self.page.references.append((value or "")[1:])
            if name == "aria-labelledby":
                self.page.references += (value or "").split()
            if name.startswith("on"):
                self.page.problems.append(f"inline handler {name}")
        if tag == "table":
            self.table = self.page.tables.setdefault(values.get("id") or "", [])
        elif tag == "tr" and self.table is not None:
            self.table.append([])
        elif tag in ("td", "th"):
            self.cell = []
        elif tag in ("h1", "h2", "h3", "h4"):
            self.heading = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack[-1] != tag:
            self.page.problems.append(f"</{tag}> inside {self.stack[-3:]}")
            return
        self.stack.pop()
        if tag in ("td", "th") and self.table is not None and self.cell is not None:
            self.table[-1].append(normal("".join(self.cell)))
            self.cell = None
        elif tag == "table":
            self.table = None
        elif tag in ("h1", "h2", "h3", "h4") and self.heading is not None:
            self.page.headings.append((int(tag[1]), normal("".join(self.heading))))
            self.heading = None

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] in ("style", "script"):
            return
        self.page.text += data
        if self.heading is not None:
            self.heading.append(data)
        if self.cell is not None:
            # Footnote marks are written otherwise in Markdown: (a) for a superscript.
            self.cell.append(f" ({data})" if self.stack[-1] == "sup" else data)


def read_html(text: str) -> Page:
    reader = Reader()
    reader.feed(text)
    reader.close()
    if reader.stack:
        reader.page.problems.append(f"left open: {reader.stack}")
    reader.page.text = normal(reader.page.text)
    return reader.page


def read_markdown_tables(text: str) -> list[list[list[str]]]:
    """Rows of cells of every table, by a CommonMark parser."""
    tables: list[list[list[str]]] = []
    inside = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        inside = token.type != "table_close" and (inside or token.type == "table_open")
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and inside:
            children = token.children or []
            tables[-1][-1].append(normal("".join(c.content for c in children)))
    return tables


def normal(text: str) -> str:
    """One kind of space, once."""
    return " ".join(text.replace("\u00a0", " ").split())
