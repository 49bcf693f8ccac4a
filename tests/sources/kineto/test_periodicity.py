"""Steps of captures that mark none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codesign.sources.kineto import read_kineto, steps
from codesign.sources.kineto.periodicity import find_periods
from tests.sources.kineto.traces import Event, kernel, write

LAYER = ["norm", "qkv", "attention", "out", "norm", "up", "act", "down"]
STEP = ["embedding", *LAYER * 12, "final_norm", "head", "argmax"]


def events(names: list[str], gap_before: str = "embedding", gap_us: int = 500) -> list[Event]:
    """Kernels of 10 us, back to back but for a pause before one of them."""
    found, now = [], 0
    for name in names:
        now += gap_us if name == gap_before else 0
        found.append(kernel(now, 10, name))
        now += 10
    return found


def test_steps_are_found_among_layers_that_repeat_too(tmp_path: Path) -> None:
    header = read_kineto(write(tmp_path, events(STEP * 5))).header
    assert header.quality.steps_by == "periodicity"
    assert header.quality.steps_found == 5
    assert [s.kernels for s in header.steps] == [100] * 5
    # 100 kernels of 10 us and the pause before the next step; the last one has none after it.
    assert [round(s.time_s * 1e6) for s in header.steps] == [1500] * 4 + [1000]
    assert header.quality.reliable("step_time")
    assert any("periodicity" in w for w in header.quality.warnings)


def test_a_capture_that_begins_and_ends_inside_a_step(tmp_path: Path) -> None:
    names = (STEP * 6)[37:-20]
    header = read_kineto(write(tmp_path, events(names))).header
    assert header.quality.steps_found == 4
    assert {s.kernels for s in header.steps} == {100}


def test_layers_of_one_step_are_not_steps(tmp_path: Path) -> None:
    header = read_kineto(write(tmp_path, events(STEP))).header
    assert header.quality.steps_by == "none"
    assert not header.quality.reliable("step_time")


def test_two_repetitions_prove_nothing(tmp_path: Path) -> None:
    assert read_kineto(write(tmp_path, events(STEP * 2))).header.quality.steps_by == "none"


def test_a_step_may_hold_a_few_other_kernels(tmp_path: Path) -> None:
    names = STEP * 5
    names[130:130] = ["log"] * 3
    assert read_kineto(write(tmp_path, events(names))).header.quality.steps_found == 5


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_no_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = np.arange(2000) * 10
    assert find_periods(start, start + 9, rng.integers(0, 40, 2000)) is None


def test_order_over_streams_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    parts = [np.append([99], rng.permutation(np.repeat(np.arange(9), 5))) for _ in range(7)]
    names = np.concatenate(parts)
    start = np.arange(len(names)) * 10 + (np.cumsum(names == 99) * 50)
    periods = find_periods(start, start + 9, names)
    assert periods is not None
    assert len(periods.start) == 7
    assert periods.kernels == 46


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("nccl_data.json.gz", 2700 // 3),
        ("worker0.1623143089861.pt.trace.json.gz", 8772 // 6),
        ("h100_gaunernst_bert-small-uncased__1016001.json.gz", None),
        ("sglang_Qwen3-8B_decode.json.gz", None),
    ],
)
def test_real_captures_without_their_marks(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, name: str, kernels: int | None
) -> None:
    empty = np.zeros(0, dtype=np.int64)
    monkeypatch.setattr(steps, "_annotated", lambda *_: ([], empty, empty, "annotation", 0))
    header = read_kineto(shared_data / "kineto" / name).header
    assert header.quality.steps_by == ("none" if kernels is None else "periodicity")
    if kernels is not None:
        # A few kernels of the last step may stand before the first border.
        assert [s.kernels for s in header.steps] == pytest.approx(
            [kernels] * len(header.steps), rel=0.01
        )
