"""Files that were put together of several: events twice, ranks with steps of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization
from tests.sources.kineto.traces import Event, annotation, kernel, launch, write

US = 1e-6
FIVE = [kernel(20 * i, 10, f"k{i}", corr=i) for i in range(5)]
LAUNCHES = [launch(20 * i - 5, i) for i in range(5)]


def warned(char: Characterization, text: str) -> bool:
    return any(text in w for w in char.header.quality.warnings)


@pytest.mark.parametrize("again", [FIVE, [*FIVE, *LAUNCHES], [*LAUNCHES, *reversed(FIVE)]])
def test_an_event_that_stands_twice_counts_once_and_is_said(
    tmp_path: Path, again: list[Event]
) -> None:
    char = read_kineto(write(tmp_path, [*FIVE, *LAUNCHES, *again]))
    assert char.header.totals["kernels"] == 5
    assert char.header.totals["kernel_time_s"] == pytest.approx(50 * US)
    assert float(char.ops["count"].sum()) == 5
    assert char.header.quality.launch_coverage == 1.0
    assert warned(char, "5 device events stand in the file twice")


@pytest.mark.parametrize(
    "second",
    [
        kernel(0, 10, "k", corr=1, stream=8),  # beside it on another stream
        kernel(0, 10, "k", corr=2),  # by another launch
        kernel(0, 10, "other", corr=1),
        kernel(0, 10, "k", corr=1, device=1),
    ],
)
def test_what_differs_in_place_name_or_launch_is_another(tmp_path: Path, second: Event) -> None:
    char = read_kineto(write(tmp_path, [kernel(0, 10, "k", corr=1), second]))
    assert not warned(char, "twice")
    assert sum(s.kernels for s in char.header.steps) == 2


def test_branches_of_one_graph_launch_may_be_alike(tmp_path: Path) -> None:
    alike = [kernel(0, 10, "k", corr=1), kernel(0, 10, "k", corr=1)]
    char = read_kineto(write(tmp_path, [*alike, launch(-5, 1, "cudaGraphLaunch")]))
    assert char.header.totals["kernels"] == 2
    assert char.header.totals["busy_s"] == pytest.approx(10 * US)


def ranks(shift_us: float, first: int) -> list[Event]:
    """Four steps of 100 us on each of two ranks: the second begins later, with other numbers."""
    events = []
    for rank, (shift, number) in enumerate([(0.0, 0), (shift_us, first)]):
        for step in range(4):
            begin = shift + 100 * step
            mark = annotation(begin, 99, f"ProfilerStep#{number + step}")
            events.append({**mark, "pid": 100 + rank})
            for i in range(4):
                corr = 4 * step + i
                events.append(launch(begin + 20 * i + 1, corr, pid=100 + rank))
                events.append(kernel(begin + 20 * i + 5, 15, corr=corr, device=rank))
    return events


@pytest.mark.parametrize(("shift_us", "first"), [(7, 0), (37, 10), (50, 2), (99, 1)])
def test_each_merged_rank_has_the_steps_that_it_marked(
    tmp_path: Path, shift_us: float, first: int
) -> None:
    char = read_kineto(write(tmp_path, ranks(shift_us, first)))
    for device, number in (("0", 0), ("1", first)):
        steps = [s for s in char.header.steps if s.device == device]
        assert [s.name for s in steps] == [f"ProfilerStep#{number + i}" for i in range(4)]
        for step in steps:
            assert step.kernels == 4
            assert step.compute_s == pytest.approx(60 * US)
            assert step.time_s == pytest.approx(99 * US)
            assert step.idle_s == pytest.approx(39 * US)
    assert not warned(char, "outside of all steps")


def test_a_process_that_only_marks_steps_marks_those_of_the_others(tmp_path: Path) -> None:
    marks = [{**annotation(50 * i, 49, f"ProfilerStep#{i}"), "pid": 1} for i in range(2)]
    work = [kernel(10, 20, corr=1), launch(5, 1), kernel(60, 20, corr=2), launch(55, 2)]
    char = read_kineto(write(tmp_path, [*marks, *work]))
    assert [s.kernels for s in char.header.steps] == [1, 1]


def test_marked_steps_that_overlap_are_counted(tmp_path: Path) -> None:
    marks = [annotation(-10, 60, "ProfilerStep#1"), annotation(30, 80, "ProfilerStep#2")]
    char = read_kineto(write(tmp_path, [*FIVE, *LAUNCHES, *marks]))
    assert warned(char, "1 marked steps begin inside of another")
    assert warned(char, "2 kernels (20.0 µs) lie outside of all steps")
    apart = [annotation(-10, 40, "ProfilerStep#1"), annotation(30, 80, "ProfilerStep#2")]
    assert not warned(read_kineto(write(tmp_path, [*FIVE, *LAUNCHES, *apart])), "inside of another")


def test_device_events_that_are_not_complete_ones_are_counted(tmp_path: Path) -> None:
    begin = {**kernel(100, 10, "b"), "ph": "B"}
    end = {**kernel(110, 0, "b"), "ph": "E"}
    char = read_kineto(write(tmp_path, [*FIVE, begin, end]))
    assert char.header.totals["kernels"] == 5
    assert warned(char, "2 device events that are not complete ones")


def test_a_rank_written_as_text_is_a_rank(tmp_path: Path) -> None:
    path = write(tmp_path, FIVE, distributedInfo={"rank": "3", "world_size": "8"})
    header = read_kineto(path).header
    assert (header.ranks, header.gpus) == ((3,), 8)
    assert not any("does not record" in note for note in header.notes)
    assert json.loads(path.read_text())["distributedInfo"]["rank"] == "3"
