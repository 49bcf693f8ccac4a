"""The ranks of a job in `codesign show`."""

from __future__ import annotations

import pytest

from codesign.cli._show_ranks import idle_text, job_text, ranks_table
from codesign.workload.characterization import Header, RankTimes, StepTimes


def rank(number: int, wait_s: float | None = 1e-3, last_share: float | None = 0.25) -> RankTimes:
    return RankTimes(
        rank=number, device="0", source=f"r{number}.json", steps=2, step_time_s=10e-3,
        compute_s=6e-3, comm_s=3e-3, exposed_comm_s=2e-3, exposed_copy_s=0.0, idle_s=2e-3,
        wait_s=wait_s, transfer_s=None if wait_s is None else 2e-3, last_share=last_share,
    )  # fmt: skip


def step(device: str, host_bound_s: float | None) -> StepTimes:
    return StepTimes("s", device, 10e-3, 6e-3, 3e-3, 2e-3, 0.0, 2e-3, 10, 6e-3, host_bound_s)


def test_each_rank_has_a_row() -> None:
    totals = {"job_step_time_s": 12e-3, "job_wait_s": 1e-3, "job_transfer_s": 2e-3,
              "job_compute_imbalance": 1.25}  # fmt: skip
    header = Header("w", None, rank_times=(rank(0), rank(1, None, None)), totals=totals)
    table = ranks_table(header)
    assert table is not None
    _, columns, rows = table
    assert [len(r) for r in rows] == [len(columns)] * 2
    assert rows[0][:2] == ["0", "r0.json"]
    assert "1.00 ms" in rows[0]
    assert "25 %" in rows[0]
    assert rows[1].count("unknown") == 4
    text = job_text(header)
    assert text is not None
    assert "12.0 ms" in text
    assert "1.25 x the mean" in text


def test_of_many_ranks_the_outliers_are_shown() -> None:
    shares = [0.9, *[0.01 * i for i in range(62)], 0.0]
    header = Header("w", None, rank_times=tuple(rank(i, 1e-3, s) for i, s in enumerate(shares)))
    table = ranks_table(header)
    assert table is not None
    assert len(table[2]) == 16
    assert table[2][0][0] == "0"
    assert "16 of 64" in table[0]


@pytest.mark.parametrize("count", [0, 1])
def test_one_rank_is_no_job(count: int) -> None:
    header = Header("w", None, rank_times=tuple(rank(i) for i in range(count)))
    assert ranks_table(header) is None
    assert job_text(header) is None


def test_host_bound_time_is_that_of_the_device_of_the_ops() -> None:
    header = Header("w", None, idle_s=2e-3, steps=(step("0", 1e-3), step("1", 2e-3)))
    assert idle_text(header) == "2.00 ms (host-bound 1.00 ms)"
    assert idle_text(Header("w", None, idle_s=2e-3, steps=(step("0", None),))) == "2.00 ms"
    assert idle_text(Header("w", None, idle_s=2e-3, bubble_s=1e-3)) == "2.00 ms (bubble 1.00 ms)"
