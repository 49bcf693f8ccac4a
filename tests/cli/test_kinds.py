"""A file of another kind than its option expects is named as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import UsageError
from codesign.cli._kinds import expect, kind_of
from tests.projection.fakes import characterization, gemm

_MODEL = '{"trained_on": ["h100-sxm"], "models": {}}'
_BACKTEST = '{\n "ops": [\n  {"op_class": "gemm", "n": 3}]}'
_RECOMMENDATIONS = '{"title": "T", "audience": "architects"}'
_TRACE = '{"schemaVersion": 1, "traceEvents": []}'


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("m.json", _MODEL, "model"),
        ("b.json", _BACKTEST, "backtest"),
        ("r.json", _RECOMMENDATIONS, "recommendations"),
        ("t.json", _TRACE, "measurement"),
        ("p.yaml", "title: T\nworkloads: []\n", "portfolio"),
        ("g.yaml", "name: g\nsm_count: 132\n", "hardware"),
        ("w.yaml", "name: w\nphase: decode\n", "recipe"),
        ("o.json", '{"ops": "of somebody else"}', None),
        ("o.yaml", "a: 1\n", None),
    ],
)
def test_a_file_is_known_by_what_it_holds(
    name: str, text: str, kind: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert kind_of(path) == kind


def test_a_characterization_and_shipped_names_are_known(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    characterization([gemm(1.0, 1e12, 1e9)]).save(path)
    assert kind_of(path) == "characterization"
    assert (kind_of("h100-sxm"), kind_of("hgx-h100"), kind_of("llama-3.1-8b-sft")) == (
        "hardware", "hardware", "recipe",
    )  # fmt: skip
    assert kind_of("no-such-thing") is None


def test_the_message_says_what_it_is_and_who_reads_it_or_that_two_were_swapped(
    tmp_path: Path,
) -> None:
    model, chars = tmp_path / "m.json", tmp_path / "c.parquet"
    model.write_text(_MODEL)
    characterization([gemm(1.0, 1e12, 1e9)]).save(chars)
    expect("--model", model, ["model"])
    with pytest.raises(UsageError, match=r"--model .*c\.parquet: expected a sensitivity model, "
                       r"this is a characterization, which is for `codesign show`"):  # fmt: skip
        expect("--model", chars, ["model"])
    with pytest.raises(UsageError, match=r"arguments swapped\?$"):
        expect("--model", chars, ["model"], [model])
