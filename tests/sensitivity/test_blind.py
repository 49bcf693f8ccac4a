"""A backtest may know a part's data sheet, and nothing that was measured on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codesign.hardware import load_system
from codesign.sensitivity.blind import unmeasured

B200 = load_system("hgx-b200")
H100 = load_system("hgx-h100")


def test_an_unseen_part_gets_the_median_launch_of_the_seen_ones() -> None:
    trained = ("a100-80gb-sxm", "h100-sxm", "l40s")
    seen = sorted(
        load_system(name).launch_latency_s for name in ("hgx-a100", "hgx-h100", "l40s-pcie")
    )
    assert unmeasured(B200, trained).launch_latency_s == seen[1]


def test_a_measured_source_lends_its_own() -> None:
    slow = replace(H100, launch_latency_s=9e-6)
    assert unmeasured(B200, ("h100-sxm",), slow).launch_latency_s == 9e-6


@pytest.mark.parametrize("source", [None, H100])
def test_only_the_launch_latency_is_hidden(source: object) -> None:
    blind = unmeasured(B200, ("h100-sxm",), source)  # type: ignore[arg-type]
    assert blind.launch_latency_s != B200.launch_latency_s
    assert replace(blind, launch_latency_s=B200.launch_latency_s) == B200


def test_a_part_that_the_model_has_seen_keeps_its_own() -> None:
    assert unmeasured(B200, ("b200-sxm",), H100) == B200
