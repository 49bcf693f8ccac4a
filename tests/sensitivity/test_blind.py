"""A backtest may know a part's data sheet, and nothing that was measured on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codesign.hardware import load_system
from codesign.sensitivity.blind import unmeasured

B200 = load_system("hgx-b200")
H100 = load_system("hgx-h100")


def test_an_unseen_family_gets_the_geometric_mean_over_families() -> None:
    # A100 and H100 launch in 2.5 us, L40S in 1.7: (2.5 x 2.5 x 1.7)^(1/3), whatever else of
    # the Hopper family was seen, since that is not a family more.
    expected = pytest.approx(2.1985e-6, rel=1e-4)
    for hopper in (("h100-sxm",), ("h100-sxm", "h200-sxm")):
        trained = ("a100-80gb-sxm", *hopper, "l40s")
        assert unmeasured(B200, trained).launch_latency_s == expected


def test_a_part_of_a_seen_family_gets_that_of_its_family() -> None:
    trained = ("h100-sxm", "l40s", "b200-sxm")
    assert unmeasured(load_system("hgx-h200"), trained).launch_latency_s == pytest.approx(2.5e-6)
    assert unmeasured(load_system("gb300-nvl72"), trained).launch_latency_s == pytest.approx(1.7e-6)


def test_a_source_of_the_same_family_lends_its_own() -> None:
    slow = replace(H100, launch_latency_s=9e-6)
    h200 = load_system("hgx-h200")
    assert unmeasured(h200, ("h100-sxm", "l40s"), slow).launch_latency_s == 9e-6


def test_a_source_of_another_family_is_one_family_among_others() -> None:
    """What is expected of a new family does not depend on which old part was measured."""
    trained = ("a100-80gb-sxm", "h100-sxm", "l40s")
    assert unmeasured(B200, trained, H100) == unmeasured(B200, trained)
    # (1.7 x 2.5)^(1/2), whether the fit or the source knows Hopper.
    expected = pytest.approx(2.0616e-6, rel=1e-4)
    assert unmeasured(B200, ("l40s",), H100).launch_latency_s == expected
    assert unmeasured(B200, ("l40s", "h100-sxm")).launch_latency_s == expected


@pytest.mark.parametrize("source", [None, H100])
def test_only_the_launch_latency_is_hidden(source: object) -> None:
    blind = unmeasured(B200, ("h100-sxm",), source)  # type: ignore[arg-type]
    assert blind.launch_latency_s != B200.launch_latency_s
    assert replace(blind, launch_latency_s=B200.launch_latency_s) == B200


def test_a_part_that_the_model_has_seen_keeps_its_own() -> None:
    assert unmeasured(B200, ("b200-sxm",), H100) == B200
