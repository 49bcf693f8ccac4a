"""The examples of docs/api.md: names that exist, and code that runs as it stands there."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import codesign

DOCS = Path(__file__).resolve().parent.parent / "docs"


def text(name: str) -> str:
    path = DOCS / name
    if not path.is_file():
        pytest.skip("no docs beside the tests")
    return path.read_text(encoding="utf-8")


def blocks(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text(name), re.DOTALL | re.MULTILINE)


def test_every_example_is_python_and_every_name_is_public() -> None:
    for code in blocks("api.md"):
        compile(code, "docs/api.md", "exec")
    for name in re.findall(r"codesign\.([a-z_A-Z]+)\b(?!\.)", "\n".join(blocks("api.md"))):
        assert name in codesign.__all__ or name in ("sources", "workload"), name


def test_every_public_name_is_on_the_page() -> None:
    page = text("api.md")
    for name in codesign.__all__:
        assert f"codesign.{name}" in page or name == "Characterization", name


def test_the_record_on_the_page_is_the_shipped_one(tmp_path: Path) -> None:
    from codesign.projection.experiments.records import read_experiments

    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text("experiments.md"), re.DOTALL | re.MULTILINE)
    (tmp_path / "shown.yaml").write_text(shown, encoding="utf-8")
    (record,) = read_experiments(tmp_path / "shown.yaml")
    assert (record,) == codesign.load_experiments((record.name,))


@pytest.mark.perfdb
@pytest.mark.slow
def test_the_examples_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiconfigurator_core")
    monkeypatch.chdir(tmp_path)
    # The whole path on fewer rows: what is tested is the page, not the fit.
    monkeypatch.setattr("codesign._api.fit", partial(codesign.fit, rows_per_gpu=60))
    names: dict[str, Any] = {}
    for code in blocks("api.md"):
        exec(compile(code, "docs/api.md", "exec"), names)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (names["times"]["time_lo_s"] < names["times"]["time_s"]).all()
