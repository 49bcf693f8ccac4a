"""The order of levers: pairs that shipped parts decide, and those that they do not."""

from __future__ import annotations

import math

import pytest

from codesign._common.scores import LeverEvidence
from codesign.hardware import load_system
from codesign.projection.experiments.order import PARTS, moved, ordered


def lever(name: str, measured: float, projected: float, sd: float = 0.05) -> LeverEvidence:
    return LeverEvidence(name, "a", "b", 1.5, measured, sd, projected)


def test_a_projection_in_the_measured_order_agrees() -> None:
    row = ordered("w", [lever("clock", 0.1, 0.2), lever("hbm", 0.8, 0.7)], ("old",))
    assert [e.lever for e in row.levers] == ["hbm", "clock"]
    assert (row.decided, row.reversed, row.agrees) == (1, (), True)


def test_a_decided_pair_the_other_way_round_is_named() -> None:
    row = ordered("w", [lever("clock", 0.1, 0.9), lever("hbm", 0.8, 0.7)], ("old",))
    assert row.reversed == (("hbm", "clock"),)
    assert row.agrees is False


def test_effects_within_their_noise_have_no_order() -> None:
    # sd of a difference is 0.05 sqrt(2) = 0.071, times 1.645 is 0.116.
    close = ordered("w", [lever("a", 0.50, 0.1), lever("b", 0.39, 0.9)], ())
    far = ordered("w", [lever("a", 0.50, 0.1), lever("b", 0.38, 0.9)], ())
    assert (close.decided, close.agrees) == (0, None)
    assert (far.decided, far.agrees) == (1, False)


def test_equal_projections_do_not_confirm_an_order() -> None:
    assert ordered("w", [lever("a", 0.9, 0.3), lever("b", 0.1, 0.3)], ()).agrees is False


def test_each_part_moves_its_lever_most_among_those_compared() -> None:
    for name, before, after in PARTS:
        pair = load_system(before), load_system(after)
        moves = {lever: abs(moved(*pair, lever)) for lever, _, _ in PARTS}
        if name == "sm_clock":
            # GB200 also has a higher power limit, which short kernels do not feel.
            moves.pop("power")
        assert max(moves, key=lambda k: moves[k]) == name
    # 152 / 148 SMs at 2007.7 / 1855.8 MHz: the 11 % between the peaks, 2500 / 2250.
    clock = moved(load_system("hgx-b200"), load_system("gb200-nvl72"), "sm_clock")
    assert math.exp(clock) == pytest.approx(2500 / 2250, rel=2e-3)
