"""Launches of merged ranks are numbered alike; those that record a graph ask for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization

from .traces import Event, kernel, launch, op, write

US = 1e-6
GRAPH = "cudaGraphLaunch"


def two_ranks(shift_us: float, first: int = 1) -> list[Event]:
    """Ten launches on each of two ranks, the second later, each kernel 4 us after its launch."""
    events: list[Event] = []
    for rank, (shift, name) in enumerate([(0.0, "aten::mm"), (shift_us, "aten::bmm")]):
        for i in range(10):
            begin, corr = 100 * i + shift, i + (1 if rank == 0 else first)
            events += [
                {**op(begin, 8, name, dims=[]), "pid": 100 + rank, "tid": 100 + rank},
                launch(begin + 1, corr, pid=100 + rank),
                kernel(begin + 5, 15 - rank, corr=corr, device=rank),
            ]
    return events


@pytest.mark.parametrize("shift_us", [0.5, 3, 4, 37, 99, 250])
@pytest.mark.parametrize("first", [1, 4])
def test_a_kernel_is_of_the_rank_whose_device_it_ran_on(
    tmp_path: Path, shift_us: float, first: int
) -> None:
    char = read_kineto(write(tmp_path, two_ranks(shift_us, first)))
    # The first rank has the longer kernels, so that the ops are its own.
    assert set(char.ops["name"]) == {"aten::mm"}
    assert char.header.totals["launch_latency_median_s"] == pytest.approx(4 * US)
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.quality.skewed_launches == 0


def test_kernels_of_one_rank_answer_no_launches_of_another(tmp_path: Path) -> None:
    lost = [e for e in two_ranks(3) if e["cat"] != "kernel" or e["args"]["device"] == 0]
    quality = read_kineto(write(tmp_path, lost)).header.quality
    assert quality.launch_coverage == 0.5  # 10 kernels, 20 launches
    assert not quality.reliable("idle")


@pytest.mark.parametrize(("devices", "coverage"), [((0, 1), 1.0), ((0, 0), 0.5)])
def test_graphs_of_several_ranks_are_answered_by_device(
    tmp_path: Path, devices: tuple[int, int], coverage: float
) -> None:
    events = [launch(0, 9, GRAPH, pid=100), launch(2, 9, GRAPH, pid=200)]
    events += [kernel(10 + 20 * i, 10, corr=9, device=devices[i % 2]) for i in range(6)]
    assert read_kineto(write(tmp_path, events)).header.quality.launch_coverage == coverage


def test_two_processes_on_one_device_answer_for_themselves(tmp_path: Path) -> None:
    events: list[Event] = []
    for i in range(10):
        events += [launch(100 * i, i + 1, pid=100), launch(100 * i + 50, i + 1, pid=200),
                   kernel(100 * i + 10, 10, corr=i + 1),
                   kernel(100 * i + 60, 10, corr=i + 1)]  # fmt: skip
    char = read_kineto(write(tmp_path, events))
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.totals["launch_latency_median_s"] == pytest.approx(10 * US)


def recorded(prefix: str, end: bool = True) -> list[Event]:
    """A graph of six kernels is recorded at 100 us to 200 us, and run once."""
    events = [launch(0, 1), kernel(10, 10, corr=1), launch(100, 2, f"{prefix}StreamBeginCapture")]
    events += [launch(110 + 10 * i, 3 + i) for i in range(6)]
    events += [launch(200, 20, f"{prefix}StreamEndCapture")] if end else []
    events += [launch(300, 21, f"{prefix}GraphLaunch")]
    return events + [kernel(310 + 20 * i, 10, corr=21) for i in range(6)]


def coverage(char: Characterization) -> float | None:
    return char.header.quality.launch_coverage


@pytest.mark.parametrize("prefix", ["cuda", "cu", "hip"])
def test_launches_that_record_a_graph_ask_for_no_kernel(tmp_path: Path, prefix: str) -> None:
    char = read_kineto(write(tmp_path, recorded(prefix)))
    assert coverage(char) == 1.0
    assert char.header.quality.reliable("idle")


def test_a_recording_that_began_before_the_capture(tmp_path: Path) -> None:
    events = [e for e in recorded("cuda") if "Begin" not in e["name"]]
    assert coverage(read_kineto(write(tmp_path, events))) == 1.0


def test_other_launches_that_lack_kernels_still_count(tmp_path: Path) -> None:
    # 8 launches ask, 2 were answered; without its end a recording may have ended anywhere.
    assert coverage(read_kineto(write(tmp_path, recorded("cuda", end=False)))) == 0.25
    # Those of another process recorded nothing.
    other = [{**e, "pid": 200} if "Capture" in e["name"] else e for e in recorded("cuda")]
    assert coverage(read_kineto(write(tmp_path, other))) == 0.25
    # An end without a begin, after a whole recording: nothing was recorded before it.
    stray = [*recorded("cuda"), launch(400, 50), launch(410, 60, "cudaStreamEndCapture")]
    assert coverage(read_kineto(write(tmp_path, stray))) == pytest.approx(2 / 3)
    late = [*recorded("cuda"), *(launch(400 + i, 50 + i) for i in range(2))]
    assert coverage(read_kineto(write(tmp_path, late))) == 0.5


@pytest.mark.parametrize(("corr", "asked"), [(0, True), (0, False), (7, True)])
def test_one_id_on_every_launch_hides_no_overlap(tmp_path: Path, corr: int, asked: bool) -> None:
    """An id that a runtime gives to all (0: none) does not make branches of a graph of them."""
    events = [kernel(5, 1_000_000, "a", corr=corr), kernel(105, 10, "b", corr=corr),
              kernel(125, 10, "c", corr=corr)]  # fmt: skip
    if asked:
        events += [launch(0, corr), launch(100, corr), launch(120, corr)]
    header = read_kineto(write(tmp_path, events)).header
    assert header.totals["kernel_time_s"] == pytest.approx(120 * US)
    assert header.quality.clipped_events == 1


@pytest.mark.parametrize("lost", [0, 3, 7])
def test_an_id_that_is_used_again_asks_again(tmp_path: Path, lost: int) -> None:
    events = [launch(100 * i, 5) for i in range(10)]
    events += [kernel(100 * i + 10, 10, corr=5) for i in range(lost, 10)]
    char = read_kineto(write(tmp_path, events))
    assert coverage(char) == pytest.approx((10 - lost) / 10)
    assert char.header.totals["launch_latency_median_s"] == pytest.approx(10 * US)


@pytest.mark.parametrize("shift_us", [0.5, 3, 4, 37])
def test_ranks_of_one_process_number_have_their_own_launches(
    tmp_path: Path, shift_us: float
) -> None:
    events = [{**e, "pid": 100} if e["cat"] == "cuda_runtime" else e for e in two_ranks(shift_us)]
    char = read_kineto(write(tmp_path, events))
    assert coverage(char) == 1.0
    assert char.header.totals["launch_latency_median_s"] == pytest.approx(4 * US)
    half = [e for e in events if e["cat"] != "kernel" or e["args"]["device"] == 0]
    assert coverage(read_kineto(write(tmp_path, half))) == 0.5


@pytest.mark.parametrize("copies", [1, 2])
def test_a_call_inside_a_call_and_a_launch_that_stands_twice_ask_once(
    tmp_path: Path, copies: int
) -> None:
    events: list[Event] = []
    for i in range(5):
        events += [launch(100 * i, i + 1, dur=20), kernel(100 * i + 30, 10, corr=i + 1),
                   launch(100 * i + 5, i + 1, "cuLaunchKernel", cat="cuda_driver")]  # fmt: skip
    char = read_kineto(write(tmp_path, events * copies))
    assert coverage(char) == 1.0
    assert char.header.totals["kernel_time_s"] == pytest.approx(50 * US)


@pytest.mark.parametrize("shift_us", [0.5, 3, 37])
@pytest.mark.parametrize("first", [1, 1001])
def test_ranks_that_each_see_one_gpu_have_a_device_each(
    tmp_path: Path, shift_us: float, first: int
) -> None:
    """CUDA_VISIBLE_DEVICES makes every rank's GPU number 0, on stream 7."""
    events = []
    for rank, (shift, number) in enumerate([(0.0, 1), (shift_us, first)]):
        for i in range(10):
            begin, corr = 100 * i + shift, number + i
            events += [launch(begin, corr, pid=100 + rank), kernel(begin + 5, 90, corr=corr)]
    header = read_kineto(write(tmp_path, events)).header
    assert {s.device for s in header.steps} == {"0 of process 100", "0 of process 101"}
    assert [s.compute_s for s in header.steps] == pytest.approx([900 * US] * 2)
    assert header.quality.clipped_events == 0
    assert header.gpus == 2
    assert any("merged ranks" in w for w in header.quality.warnings)


def test_processes_that_share_a_gpu_keep_one_device(tmp_path: Path) -> None:
    """On streams of their own, as under MPS, or one after another."""
    events: list[Event] = []
    for i in range(10):
        events += [launch(100 * i, i + 1, pid=100), kernel(100 * i + 5, 40, corr=i + 1),
                   launch(100 * i, i + 51, pid=200), kernel(100 * i + 50, 40, corr=i + 51),
                   launch(100 * i, i + 101, pid=300),
                   kernel(100 * i + 5, 90, corr=i + 101, stream=8)]  # fmt: skip
    header = read_kineto(write(tmp_path, events)).header
    assert [s.device for s in header.steps] == ["0"]
    assert header.totals["busy_s"] == pytest.approx(900 * US)
