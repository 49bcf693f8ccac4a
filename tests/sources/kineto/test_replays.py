"""Replays of a CUDA graph that were recorded in part: idle time that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization

from .traces import Event, kernel, launch, write

GRAPH = "cudaGraphLaunch"


def replay(number: int, begin_us: float, kernels: list[int]) -> list[Event]:
    """A launch and those kernels of its graph that were recorded: 20 of 45 us each, 50 us apart."""
    names = [(i, f"gemm_{i % 7}") for i in kernels]
    made = [kernel(begin_us + 50 * i, 45, name, corr=number) for i, name in names]
    return [launch(begin_us - 10, number, GRAPH), *made]


def read(folder: Path, *replays: list[Event]) -> Characterization:
    return read_kineto(write(folder, [e for events in replays for e in events]))


def warned(char: Characterization) -> list[str]:
    return [w for w in char.header.quality.warnings if "graph replays" in w]


ALL = list(range(20))


@pytest.mark.parametrize(
    "part", [ALL[:2], ALL[-3:], ALL[5:9], [0, 19], ALL[::3]],
    ids=["first", "last", "middle", "ends", "every third"],
)  # fmt: skip
def test_replays_recorded_in_part_make_idle_unreliable(tmp_path: Path, part: list[int]) -> None:
    replays = [replay(i, 1000 * i, ALL if i in (3, 7) else part) for i in range(1, 11)]
    char = read(tmp_path, *replays)
    assert char.header.quality.launch_coverage == 1.0  # every launch has some kernel
    (text,) = warned(char)
    # The first and the last replay may have been cut by the capture's begin and end.
    held = 2 * 20 + 8 * len(part)
    assert f"hold {held} of the " in text
    assert int(text.split(" of the ")[1].split()[0]) >= 8 * 20 + 2 * len(part)
    assert not char.header.quality.reliable("idle")
    assert not char.header.quality.reliable("launch")


def test_whole_replays_of_several_graphs_are_no_fault(tmp_path: Path) -> None:
    """A draft model's graph has some kernels of the large one's, and runs one after another."""
    events, begin = [], 0.0
    for i in range(10):
        count = 20 if i % 4 == 3 else 3
        events.append(replay(i + 1, begin, ALL[:count]))
        begin += 50 * count + 100
    char = read(tmp_path, *events)
    assert not warned(char)
    assert char.header.quality.reliable("idle")


def test_a_few_lost_kernels_and_a_capture_that_ends_are_no_fault(tmp_path: Path) -> None:
    replays = [replay(i, 1000 * i, ALL if i < 10 else ALL[:5]) for i in range(1, 11)]
    replays[2] = replay(3, 3000, ALL[:17])  # 3 of 185
    assert not warned(read(tmp_path, *replays))


def test_other_kernels_are_another_graph(tmp_path: Path) -> None:
    other = [{**e, "name": "softmax"} if e["cat"] == "kernel" else e
             for e in replay(2, 2000, ALL[:4])]  # fmt: skip
    assert not warned(read(tmp_path, replay(1, 1000, ALL), other, replay(3, 3000, ALL)))
