from __future__ import annotations

import pytest

from tests.projection.fakes import collective
from tests.recommend.software.cases import (
    compute,
    found,
    look,
    nothing,
    one_step,
    silence,
    unreliable,
)

KEY = "overlap_communication"


def test_all_but_the_last_call_hides_behind_compute_of_the_phase() -> None:
    rows = [compute(6.0, phase="backward"), collective(2.0, 1e9, phase="backward", count=4)]
    finding = found(KEY, look(rows))
    # 4 calls of 0.5 s, one stays: 1.5 s can hide behind 6 s; 60 % of it does, 30 to 90 %.
    assert finding.at_stake_s == 2.0
    assert finding.bound_s == pytest.approx(0.5)
    assert finding.gain.value == pytest.approx(8 / (8 - 0.9))
    assert finding.gain.lo == pytest.approx(8 / (8 - 0.45))
    assert finding.gain.hi == pytest.approx(8 / (8 - 1.35))
    assert [op.name for op in finding.ops] == ["tp.all_reduce"]


def test_compute_hides_no_more_than_it_takes_and_none_twice() -> None:
    rows = [
        compute(1.0, phase="backward"),
        # Hidden already: 0.4 s of the second of compute are taken.
        collective(0.4, 1e9, phase="backward", name="dp", collective="all_gather", exposed_s=0.0),
        collective(2.0, 1e9, phase="backward", count=100),
    ]
    finding = found(KEY, look(rows))
    # Wanted 1.98, free 0.6.
    assert finding.bound_s == pytest.approx(2.0 - 0.6)
    assert finding.gain.value == pytest.approx(3 / (3 - 0.36))


def test_compute_of_another_phase_hides_nothing() -> None:
    assert nothing(KEY, look([compute(6.0, phase="forward"),
                              collective(2.0, 1e9, phase="backward", count=4)]))  # fmt: skip


def test_a_collective_of_no_known_phase_hides_behind_what_the_others_leave() -> None:
    alone = [compute(6.0, phase="backward"), collective(2.0, 1e9, phase=None, count=4)]
    # 3 of 4 calls of 0.5 s, as if the phase were known.
    assert found(KEY, look(alone)).bound_s == pytest.approx(0.5)
    rows = [
        compute(1.0, phase="forward"), compute(2.0, phase="backward"),
        collective(2.0, 1e9, phase="backward", count=4), collective(3.0, 1e9, phase=None, count=4),
    ]  # fmt: skip
    # Backward takes 1.5 of 3 s of compute; of the 2.25 s wanted after it 1.5 find room.
    assert found(KEY, look(rows)).bound_s == pytest.approx(5.0 - 1.5 - 1.5)


def test_a_single_call_has_nothing_to_hide_behind() -> None:
    assert nothing(KEY, look([compute(6.0), collective(2.0, 1e9)]))


def test_what_is_hidden_already_is_no_finding() -> None:
    rows = [compute(6.0), collective(2.0, 1e9, count=4, exposed_s=0.0, overlap_window_s=2.0)]
    assert nothing(KEY, look(rows))


def test_exposure_that_is_not_reliable_is_no_evidence() -> None:
    at = look([compute(6.0), collective(2.0, 1e9, count=4)], quality=unreliable("exposed"))
    assert silence(KEY, at).startswith("exposed not reliable")


def test_a_step_that_waits_for_launches_gains_nothing_from_overlap() -> None:
    # 4 s of launch gaps beside 6 s of work.
    rows = [compute(5.0), collective(1.0, 1e9, count=4)]
    at = look(rows, idle_s=4.0, steps=one_step(4.0, 4.0, 0.0, time_s=10.0))
    assert "waits for launches" in silence(KEY, at)


def copy(time_s: float, name: str, **more: object) -> dict[str, object]:
    return {"op_class": "copy", "name": name, "time_s": time_s, "phase": None, **more}


def test_a_pageable_copy_hides_behind_compute() -> None:
    rows = [compute(4.5), copy(0.5, "Memcpy HtoD (Pageable -> Device)", bytes=5e9)]
    finding = found("unhidden_copies", look(rows))
    # All of 0.5 s can hide behind 4.5 s; 95 % of it does.
    assert finding.gain.value == pytest.approx(5 / (5 - 0.475))
    assert "pin it" in finding.evidence
    assert "10 GB/s" in finding.evidence


def test_copies_that_are_hidden_or_stay_on_the_device_are_no_finding() -> None:
    hidden = copy(0.5, "Memcpy HtoD (Pinned -> Device)", exposed_s=0.0)
    inside = copy(0.5, "Memcpy DtoD (Device -> Device)")
    assert nothing("unhidden_copies", look([compute(4.5), hidden, inside]))


def test_little_compute_hides_little_of_a_copy() -> None:
    finding = found("unhidden_copies", look([compute(1.0), copy(4.0, "Memcpy DtoH")]))
    assert finding.bound_s == pytest.approx(3.0)


def test_the_pipeline_bubble_shrinks_with_the_busy_time() -> None:
    # 8 s busy and 2 s of bubble; hiding all of 4 s leaves 4 s busy and so 1 s of bubble.
    rows = [compute(4.0), copy(4.0, "Memcpy HtoD")]
    finding = found("unhidden_copies", look(rows, idle_s=2.0, bubble_s=2.0))
    assert finding.gain.hi == pytest.approx(10 / 5)
