"""Several ranks: who waits for whom, whatever their clocks say."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import DataError, UsageError
from codesign.sources.kineto import _pool, read_kineto
from codesign.sources.kineto.alignment import Collectives, align
from tests.sources.kineto.traces import Event, annotation, kernel, launch, write

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)"
ARGS = {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,
        "dtype": "BFloat16", "Group size": 2, "Process Group Ranks": "[0, 1]"}  # fmt: skip


def rank_events(arrivals: list[float], ends: list[float], clock: float = 0.0) -> list[Event]:
    """Per step of 1000 us: compute until the rank arrives, then an all-reduce until its end."""
    events: list[Event] = []
    for i, (arrival, end) in enumerate(zip(arrivals, ends, strict=True)):
        base = clock + 1000 * i
        events += [
            annotation(base, 1000, f"ProfilerStep#{i}"),
            launch(base + 1, 2 * i), kernel(base + 10, arrival - 10, "gemm", corr=2 * i),
            launch(base + 2, 2 * i + 1),
            kernel(base + arrival, end - arrival, NCCL, corr=2 * i + 1, stream=20, **ARGS),
        ]  # fmt: skip
    return events


def two_ranks(folder: Path, clock: float = 0.0) -> list[Path]:
    """Rank 1 arrives 200 us late at each of three all-reduces, which then take 100 us."""
    ends = [500.0, 600.0, 700.0]
    files = []
    for rank, late in ((0, 0), (1, 200)):
        events = rank_events([e - 300 + late for e in ends], ends, clock * rank)
        files.append(write(folder, events, f"rank-{rank}.json"))
    return files


@pytest.mark.parametrize("clock", [0.0, 5_000_000.0, -123_456.0])
def test_waiting_is_told_from_transfer(tmp_path: Path, clock: float) -> None:
    files = two_ranks(tmp_path, clock)
    early = read_kineto(files)
    comm = early.ops[early.ops["op_class"] == "collective"].iloc[0]
    assert comm["time_s"] == pytest.approx(300e-6)
    assert comm["wait_s"] == pytest.approx(200e-6)
    assert early.ops[early.ops["op_class"] == "gemm"]["wait_s"].isna().all()
    one, two = early.header.rank_times
    assert (one.rank, two.rank) == (0, 1)
    assert (one.wait_s, one.transfer_s) == pytest.approx((200e-6, 100e-6))
    assert (two.wait_s, two.transfer_s) == pytest.approx((0, 100e-6))
    assert (one.last_share, two.last_share) == (0.0, 1.0)
    assert two.clock_offset_s == pytest.approx(clock * 1e-6)
    assert any("rank 1 arrives last at 100%" in n for n in early.header.notes)
    assert early.header.quality.reliable("wait")


def test_each_rank_can_be_looked_at(tmp_path: Path) -> None:
    files = two_ranks(tmp_path)
    late = read_kineto(files, rank=1)
    comm = late.ops[late.ops["op_class"] == "collective"].iloc[0]
    assert (comm["time_s"], comm["wait_s"]) == pytest.approx((100e-6, 0.0))
    assert set(late.ops["source"]) == {"rank-1.json"}
    assert late.header.rank_times == read_kineto(files).header.rank_times
    with pytest.raises(UsageError, match=r"rank 7 is in none of the files; their ranks: 0, 1"):
        read_kineto(files, rank=7)


def test_one_rank_knows_nothing_of_waiting(tmp_path: Path) -> None:
    char = read_kineto(two_ranks(tmp_path)[0])
    assert char.ops["wait_s"].isna().all()
    assert char.header.rank_times == ()


def test_the_job_takes_as_long_as_its_slowest_rank(tmp_path: Path) -> None:
    header = read_kineto(two_ranks(tmp_path)).header
    assert header.totals["job_step_time_s"] == pytest.approx(1000e-6)
    # Compute of 190, 290, 390 us on one and 200 us more on the other.
    assert header.totals["job_compute_imbalance"] == pytest.approx(490 / 390)
    assert header.totals["job_wait_s"] == pytest.approx(100e-6)


def test_merged_ranks_of_one_file_are_compared_too(tmp_path: Path) -> None:
    events: list[Event] = [annotation(0, 1000, "ProfilerStep#0")]
    for device, arrival in ((0, 200), (1, 400)):
        comm = kernel(arrival, 500 - arrival, NCCL, device=device, stream=20, **ARGS)
        events += [kernel(10, arrival - 10, "gemm", device=device), comm]
    header = read_kineto(write(tmp_path, events)).header
    waits = {t.rank: t.wait_s for t in header.rank_times}
    assert waits == {0: pytest.approx(200e-6), 1: pytest.approx(0.0)}


def test_ranks_that_were_not_captured_make_waiting_a_lower_bound(tmp_path: Path) -> None:
    files = two_ranks(tmp_path)
    for path in files:
        text = path.read_text().replace('"Group size": 2', '"Group size": 8')
        path.write_text(text.replace("[0, 1]", "[0, 1, 2, 3, 4, 5, 6, 7]"))
    quality = read_kineto(files).header.quality
    assert not quality.reliable("wait")
    assert "lower bound" in quality.reliability["wait"].reasons[0]


def test_other_groups_are_not_matched(tmp_path: Path) -> None:
    files = two_ranks(tmp_path)
    files[1].write_text(files[1].read_text().replace("[0, 1]", "[1, 3]"))
    header = read_kineto(files).header
    assert [t.wait_s for t in header.rank_times] == [None, None]
    assert not header.quality.reliable("wait")


def test_faults_of_any_rank_are_in_the_quality_block(tmp_path: Path) -> None:
    files = two_ranks(tmp_path)
    files[1].write_text(files[1].read_text()[:-2])
    with pytest.raises(DataError, match=r"rank-1\.json: truncated"):
        read_kineto(files)
    quality = read_kineto(files, allow_truncated=True).header.quality
    assert not quality.complete
    assert any(w.startswith("rank 1: incomplete") for w in quality.warnings)


def _device(
    start: np.ndarray[tuple[int], np.dtype[np.int64]],
    end: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Collectives:
    n = len(start)
    return Collectives(start.tolist(), end.tolist(), [0] * n, ["all_reduce|[0, 1]"], [0] * n,
                       [True] * n, [2] * n)  # fmt: skip


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000), clock=st.integers(-(10**12), 10**12),
    dropped=st.integers(0, 8), late=st.integers(0, 1),
)  # fmt: skip
def test_alignment_survives_clocks_and_dropped_events(
    seed: int, clock: int, dropped: int, late: int
) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    end = np.cumsum(rng.integers(2_000_000, 9_000_000, n))
    transfer = rng.integers(50_000, 200_000, n)
    wait = rng.integers(10_000, 1_000_000, n)
    starts = [end - transfer - wait, end - transfer]
    one, two = starts[late], starts[1 - late]
    jitter = rng.integers(-5_000, 5_000, n)
    keep = np.sort(rng.choice(n, n - dropped, replace=False))
    shift = clock + jitter[keep]
    first, second = align([_device(one, end), _device(two[keep] + shift, end[keep] + shift)])
    assert second.offset_ns == pytest.approx(clock, abs=20_000)
    assert (second.wait_ns >= 0).all()
    assert int((first.wait_ns >= 0).sum()) == n - dropped
    waits = second if late else first
    truth = wait[keep] if late else wait
    known = waits.wait_ns >= 0
    assert np.abs(waits.wait_ns - truth)[known].max() == 0


def test_ends_that_do_not_agree_match_nothing() -> None:
    rng = np.random.default_rng(1)
    ends = [np.sort(rng.integers(0, 10**10, 50)) for _ in range(2)]
    for found in align([_device(e - 1000, e) for e in ends]):
        assert (found.wait_ns == -1).all()


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "_WORTH_BYTES", 0)
    monkeypatch.setattr(_pool, "cores", lambda: 2)


@pytest.mark.usefixtures("many_cores")
def test_workers_give_what_one_process_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = two_ranks(tmp_path)
    seen: list[tuple[int, int]] = []
    apart = read_kineto(files, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    monkeypatch.setattr(_pool, "cores", lambda: 1)
    together = read_kineto(files)
    assert apart.header == together.header
    assert apart.ops.equals(together.ops)


@pytest.mark.usefixtures("many_cores")
def test_an_error_of_a_worker_is_the_same_error(tmp_path: Path) -> None:
    files = two_ranks(tmp_path)
    files[1].write_text("{")
    with pytest.raises(DataError, match=r"rank-1\.json"):
        read_kineto(files)


@pytest.mark.usefixtures("many_cores")
@pytest.mark.skipif(sys.platform == "win32", reason="names of other encodings")
def test_workers_read_any_file_name(tmp_path: Path) -> None:
    names = [os.fsdecode(b"\xff rank-0.json"), "Ranghöhe rank-1.json"]
    files = [f.rename(f.with_name(n)) for f, n in zip(two_ranks(tmp_path), names, strict=True)]
    assert read_kineto(files).header.ranks == (0, 1)


@pytest.mark.usefixtures("many_cores")
def test_a_worker_that_dies_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(DataError, match="the process that read it ended"):
        read_kineto(two_ranks(tmp_path))


def test_real_ranks_agree_on_the_ends_of_what_they_share(shared_data: Path) -> None:
    files = [shared_data / "kineto" / f"sampled_rank-{r}.json.gz" for r in (0, 1)]
    header = read_kineto(files).header
    one, two = header.rank_times
    # Same node, same clock; the traces are samples, which share half of their collectives.
    assert two.clock_offset_s == pytest.approx(0.0, abs=1e-3)
    assert one.matched == two.matched == 5
    assert one.transfer_s == pytest.approx(two.transfer_s)
    assert not header.quality.reliable("wait")


def test_files_of_different_jobs_are_said(tmp_path: Path) -> None:
    def of(worlds: tuple[int, int]) -> bool:
        files = [
            write(tmp_path, [kernel(0, 10)], f"rank-{r}.json",
                  distributedInfo={"rank": r, "world_size": w})
            for r, w in enumerate(worlds)
        ]  # fmt: skip
        warnings = read_kineto(files).header.quality.warnings
        return any("different sizes (2, 8 GPUs)" in w for w in warnings)

    assert of((2, 8))
    assert not of((2, 2))
