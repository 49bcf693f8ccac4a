"""The page of a fit's diagnostics: whole, self-contained, safe, the same every time."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from codesign._common.errors import UsageError
from codesign.report.charts.residuals import LIMIT, residuals, styles
from codesign.report.diagnostics import diagnostics_html, render_diagnostics
from codesign.sensitivity.diagnostics import (
    Diagnostics,
    GroupRow,
    ParameterRow,
    Point,
    UnitDiagnostics,
)
from codesign.sensitivity.modelfile import Identification


def parameter(name: str, **more: object) -> ParameterRow:
    values = {"name": name, "meaning": "what it is", "value": 0.9, "lo": 0.8, "hi": 1.0,
              "standard_error": 0.05, "prior_sd": 1.5, "at_bound": False}  # fmt: skip
    return ParameterRow(**{**values, **more})  # type: ignore[arg-type]


def unit(model: str = "gemm", **more: object) -> UnitDiagnostics:
    group = GroupRow("h100-sxm", 40, 0.05, 0.2, -0.01, 0.925, 3.25)
    values = {
        "model": model, "variant": "bf16", "form": "tiles and waves", "n": 40, "rows_seen": 44940,
        "parameters": (parameter("hbm_efficiency"), parameter("tuned_share", at_bound=True),
                       parameter("idle", standard_error=1.5)),
        "condition_number": 123.4, "rank": 3, "family_sd": 0.03, "gpu_sd": 0.02,
        "residual_sd": 0.1, "known_sd": 0.05, "method": "moments",
        "levels": {"ampere": -0.0513, "hopper": 0.0198},
        "by_gpu": (group,), "by_resource": (group,),
        "by_size": (group,), "points": (Point("h100-sxm", 1e-5, 0.1), Point("h100-sxm", 1e-3, 5.0)),
    }  # fmt: skip
    return UnitDiagnostics(**{**values, **more})  # type: ignore[arg-type]


def diagnostics(*units: UnitDiagnostics) -> Diagnostics:
    alias = Identification("alias", "moves together with sm_clock", "sm_clock")
    return Diagnostics(
        ("h100-sxm",), ("h200-sxm",), "trtllm", "a database", units or (unit(),),
        {"sm_count": {"gemm": alias, "attention": alias, "norm": Identification("no_effect", "-")}},
        {"power": "an assumption"},
    )  # fmt: skip


class Ids(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" and value:
                self.ids.append(value)
            if key == "href" and value and value.startswith("#"):
                self.targets.append(value[1:])


def test_the_page_holds_every_part() -> None:
    page = diagnostics_html(diagnostics())
    for text in ("hbm_efficiency", "at a bound", "the prior&#39;s", "123", "3 of 3", "40 of 44,940",
                 "sm_clock", "attention, gemm", "Excluded", "h200-sxm", "an assumption",
                 "errors by GPU", "errors by binding resource", "errors by measured time",
                 "92.5"):  # fmt: skip
        assert text in page, text
    assert "norm" not in page.split('id="levers"')[1].split("</section>")[0]


def test_no_request_leaves_the_page_and_its_links_lead_somewhere() -> None:
    page = diagnostics_html(diagnostics(unit(), unit("memory"), unit("memory")))
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "default-src 'none'" in page
    found = Ids()
    found.feed(page)
    assert len(found.ids) == len(set(found.ids))
    assert set(found.targets) <= set(found.ids)


def test_a_hostile_name_stays_text() -> None:
    page = diagnostics_html(diagnostics(unit("</script><b>x")))
    assert "</script><b>" not in page
    assert "&lt;/script&gt;&lt;b&gt;x" in page


def test_a_parameter_that_no_row_feels_is_called_singular() -> None:
    assert "singular" in diagnostics_html(diagnostics(unit(condition_number=2.6e12)))


def test_points_beyond_the_axis_stand_at_its_edge_and_are_counted() -> None:
    chart = residuals("c", "t", [("a", 1e-6, 0.0), ("a", 1e-3, 3.0)], styles(["a"]))
    assert f"1 beyond ±{LIMIT:.0%}" in chart.description
    assert chart.zero == pytest.approx((chart.plot[1] + chart.plot[3]) / 2, abs=0.1)
    assert len(chart.clouds) == 1


def test_no_two_gpus_look_alike() -> None:
    of = styles([f"gpu{i}" for i in range(9)])
    assert len({(s.colour, s.marker) for s in of.values()}) == 8 + 1


def test_extension_chooses_the_format_and_bytes_repeat(tmp_path: Path) -> None:
    found = diagnostics()
    for name in ("d.html", "d.json"):
        render_diagnostics(found, tmp_path / name)
        first = (tmp_path / name).read_bytes()
        render_diagnostics(found, tmp_path / name)
        assert (tmp_path / name).read_bytes() == first
    content = json.loads((tmp_path / "d.json").read_text())
    assert msgspec.convert(content, Diagnostics) == found
    with pytest.raises(UsageError, match=r"d\.pdf: expected a name that ends in one of \.html"):
        render_diagnostics(found, tmp_path / "d.pdf")
