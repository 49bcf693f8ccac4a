"""The report as PDF: the HTML page with its print style, drawn by WeasyPrint.

Nothing is fetched, neither from the network nor from a file: the page is self-contained, and an
address that a template of one's own names is left out.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from codesign._common.errors import UsageError
from codesign.report.print_charts import style_charts

_EPOCH = "SOURCE_DATE_EPOCH"
_WAY_OUT = "or write .html and print that from a browser"
_STYLE = """<style>
th, td, tbody th, th.word, td.word, td:has(.minibar) { min-width: 0; padding: .9mm .8mm; }
.wide { min-width: 24mm; } td:has(.minibar) { min-width: 19mm; } .minibar { width: 14mm; }
.status { padding: 0 .15em; border-width: 1px; font-size: 6pt; }
.callout, dl.facts { break-inside: auto; } .figures > div { padding: 1.5mm 2mm; }
.figures dd.detail { font-size: 6.6pt; line-height: 1.25; } .figures dd.value { font-size: 10.5pt; }
header.top .kicker { margin: 0; }
#answer .headline { font-size: 10.5pt; margin: 2mm 0; line-height: 1.3; }
#answer h3 { font-size: 10pt; margin: 0; } #answer .callout { padding: 1.5mm 3mm; margin: 2mm 0; }
#answer .callout li { margin: .6mm 0; } #answer .callout ul, #answer .callout p { margin: .8mm 0; }
#answer .callout, #answer dl.facts { font-size: 7.8pt; line-height: 1.3; }
#answer dl.facts { gap: .8mm 4mm; margin: 2mm 0 0; }
#ranking .callout, #ranking .note { font-size: 8.4pt; line-height: 1.32; }
#ranking-table th, #ranking-table td { padding: .8mm .5mm; }
#ranking-table .wide { min-width: 20mm; padding-left: .8mm; }
</style>
"""
"""What WeasyPrint lays out otherwise than a browser: it shrinks no table to fit the page."""
_PANGO = (
    "Pango (Debian, Ubuntu: apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0; "
    "Fedora: dnf install pango; macOS: brew install pango)"
)


def engine() -> Any:
    """WeasyPrint's module.

    Raises UsageError, in one line with what to install, where it or the Pango library that
    it draws text with is missing.
    """
    try:
        with warnings.catch_warnings():
            # Where HarfBuzz's subsetter is missing it says so, and subsets fonts the other way.
            warnings.simplefilter("ignore", DeprecationWarning)
            import weasyprint
    except ImportError as error:
        raise UsageError(
            f"a .pdf needs WeasyPrint, which is not installed: pip install 'codesign[pdf]' and "
            f"{_PANGO}; {_WAY_OUT}"
        ) from error
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"a .pdf needs a library that is not there ({reason}): install {_PANGO}; {_WAY_OUT}"
        ) from error
    return weasyprint


def pdf(html: str) -> bytes:
    """``html``, as `render_html` gives it, as tagged PDF/UA-1 on A4 pages.

    The same page gives the same bytes on a machine with the same fonts. Raises UsageError
    where WeasyPrint cannot be used.
    """
    weasyprint = engine()
    head, _, rest = html.partition("</head>")
    nothing = weasyprint.urls.URLFetcher(allowed_protocols=["data"], allow_redirects=False)
    page = weasyprint.HTML(string=f"{head}{_STYLE}</head>{rest}", url_fetcher=nothing)
    style_charts(page.etree_element)
    with _undated():
        made: bytes = page.write_pdf(
            pdf_variant="pdf/ua-1", pdf_identifier=hashlib.sha256(html.encode()).digest()[:16]
        )
    return made


@contextmanager
def _undated() -> Iterator[None]:
    """fontTools, which stands in for HarfBuzz's subsetter, writes the time into fonts otherwise."""
    given = os.environ.get(_EPOCH)
    os.environ.setdefault(_EPOCH, "0")
    try:
        yield
    finally:
        if given is None:
            del os.environ[_EPOCH]
