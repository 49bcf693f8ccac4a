"""What a step waits for at the margin, on the toy model, by hand."""

from __future__ import annotations

import pytest

from codesign.projection import project
from codesign.projection.shares import step_shares
from tests.projection.fakes import FakeModel, characterization, collective, gemm, lever, system


def test_shares_are_slopes_of_the_step_and_sum_to_one() -> None:
    # 3 s tensor and 1 s links one after the other.
    char = characterization([gemm(3.0, 3e15, 1e11), collective(1.0, 1e11)])
    shares = step_shares(char, FakeModel(), [system()], system())[0]
    assert shares == pytest.approx({"tensor": 0.75, "nvlink": 0.25}, abs=1e-3)
    assert sum(shares.values()) == pytest.approx(1.0)
    # On links twice as fast they are 0.5 s of 3.5 s.
    fast = step_shares(char, FakeModel(), [lever(system(), "nvlink_bandwidth", 2.0)], system())[0]
    assert fast["nvlink"] == pytest.approx(0.5 / 3.5, abs=1e-3)


def test_a_share_foretells_the_gain_of_a_small_step() -> None:
    char = characterization([gemm(2.0, 1e14, 2e12), gemm(1.0, 1e15, 1e11), collective(1.0, 1e11)])
    share = step_shares(char, FakeModel(), [system()], system())[0]["hbm"]
    up = lever(system(), "hbm_bandwidth", 1.01)
    gain = float(project(char, FakeModel(), [up], 0, base=system()).gain_draws[0, 0])
    assert gain == pytest.approx(1.01**share, rel=1e-4)


def test_compute_that_hides_communication_saves_less_than_its_own_time() -> None:
    # 2 s of links, 1 s of it behind 3 s of compute. 1 % of compute saves 30 ms, and takes 10 ms
    # of the window with it: 20 ms of 4 s. 1 % of the links saves 20 ms.
    char = characterization(
        [gemm(3.0, 3e15, 1e11), collective(2.0, 2e11, overlap_window_s=1.0, exposed_s=1.0)]
    )
    hidden = step_shares(char, FakeModel(), [system()], system())[0]
    assert hidden == pytest.approx({"tensor": 0.5, "nvlink": 0.5}, abs=1e-3)
