"""Status and words: what holds for most of the time saved, and the reason for it."""

from __future__ import annotations

import pytest

from codesign.recommend.status import NOT_STUDIED, judgement, no_effect
from codesign.recommend.wording import listing, percent, shape_of
from codesign.sensitivity import Identification

SURE = Identification("identified", "seen on three parts")
ALIAS = Identification("alias", "never moved alone", "sm_clock")
GUESS = Identification("assumed", "physics")


def test_the_status_that_holds_for_most_of_the_saving() -> None:
    table = {"sm_count": {"gemm": SURE, "attention": ALIAS, "norm": GUESS}}
    mostly = judgement("sm_count", {"gemm": 0.6, "attention": 0.4}, table)
    assert mostly.status == "identified"
    assert "GEMM (60 % of the time saved): seen on three parts" in mostly.reason
    assert "moves together with SM clock" in mostly.reason
    half = judgement("sm_count", {"gemm": 0.5, "attention": 0.5}, table)
    assert half.status == "not_identifiable"
    assert judgement("sm_count", {"norm": 0.7, "gemm": 0.3}, table).status == "assumed"
    # A model that says nothing of a class is no evidence for it.
    assert judgement("sm_count", {"copy": 1.0}, table).status == "assumed"


def test_a_lever_without_effect_says_what_binds_instead() -> None:
    found = no_effect("fp8_throughput", {"hbm": 0.7, "tensor": 0.3})
    assert found.status == "no_effect"
    assert found.reason.endswith("time is bound by HBM 70 %, tensor cores 30 %")
    assert "nothing is said of what capacity is worth" in NOT_STUDIED["hbm_capacity"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 %"), (0.5, "50 %"), (0.0123, "1.2 %"), (0.0001, "under 0.1 %"), (1.0, "100 %")],
)
def test_percent_never_rounds_something_away(value: float, text: str) -> None:
    assert percent(value) == text


def test_shapes_are_said_as_an_architect_would() -> None:
    assert listing({"a": 0.6, "b": 0.4}) == "a 60 %, b 40 %"
    assert shape_of({"m": 16, "n": 14336, "k": 8192}) == "16x14336x8192"
    assert shape_of({"collective": "all_reduce", "message_bytes": 2_000_000, "group_size": 8}) == (
        "all_reduce 2.00 MB over 8 GPUs"
    )
    assert "8 kv" in shape_of({"heads": 64, "kv_heads": 8, "head_dim": 128, "q_len": 1})
    assert shape_of({"m": None, "n": float("nan")}) == ""
