"""Steps: where they come from, and what belongs to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.sources.kineto import read_kineto
from tests.sources.kineto.traces import Event, annotation, kernel, launch, write


def test_host_steps_with_sync(tmp_path: Path) -> None:
    events = [annotation(1000 * i, 900, f"ProfilerStep#{i}") for i in range(3)]
    for i in range(3):
        events += [launch(1000 * i + 10, i), kernel(1000 * i + 100, 300 + 100 * i, corr=i)]
    header = read_kineto(write(tmp_path, events)).header
    assert [s.time_s for s in header.steps] == pytest.approx([900e-6] * 3)
    assert [s.compute_s for s in header.steps] == pytest.approx([300e-6, 400e-6, 500e-6])
    assert header.step_time_s == pytest.approx(900e-6)
    assert header.idle_s == pytest.approx(500e-6)
    assert header.quality.steps_by == "ProfilerStep"


def test_a_device_that_lags_behind_loses_no_work(tmp_path: Path) -> None:
    # The host runs ahead: three steps of 100 us, each queueing 1000 us of work.
    events: list[Event] = [annotation(100 * i, 100, f"ProfilerStep#{i}") for i in range(3)]
    for i in range(3):
        for j in range(4):
            corr = 4 * i + j
            events += [launch(100 * i + 10 + j, corr), kernel(50 + 250 * corr, 250, corr=corr)]
    char = read_kineto(write(tmp_path, events))
    assert [s.kernels for s in char.header.steps] == [4, 4, 4]
    assert [s.time_s for s in char.header.steps] == pytest.approx([1000e-6] * 3)
    assert char.header.idle_s == pytest.approx(0.0, abs=1e-12)
    assert float(char.ops["count"].sum()) == 4
    assert char.ops["time_sd_s"].tolist() == pytest.approx([0.0])


def test_the_last_step_lasts_until_its_work_is_done(tmp_path: Path) -> None:
    events = [annotation(0, 1000, "ProfilerStep#1"), launch(10, 1), launch(20, 2),
              kernel(50, 945, corr=1), kernel(998, 4, corr=2)]  # fmt: skip
    (step,) = read_kineto(write(tmp_path, events)).header.steps
    assert step.time_s == pytest.approx(1002e-6)
    assert step.kernels == 2


@pytest.mark.parametrize("name", ["train_step 3", "iteration_12", "Step #7", "step:4",
                                  "execute_32_context_0(sq0)_generation_32(sq32)"])  # fmt: skip
def test_annotations_that_mark_steps(tmp_path: Path, name: str) -> None:
    events = [annotation(0, 100, name), launch(5, 1), kernel(10, 10, corr=1)]
    quality = read_kineto(write(tmp_path, events)).header.quality
    assert (quality.steps_by, quality.steps_found) == ("annotation", 1)


def test_without_marks_the_capture_is_one_unreliable_step(tmp_path: Path) -> None:
    events = [kernel(0, 10), kernel(30, 10), annotation(0, 5, "my layer")]
    header = read_kineto(write(tmp_path, events)).header
    assert (header.quality.steps_by, header.quality.steps_found) == ("none", 0)
    assert header.step_time_s == pytest.approx(40e-6)
    assert header.idle_s == pytest.approx(20e-6)
    assert not header.quality.reliable("steps")


def test_spread_between_steps(tmp_path: Path) -> None:
    events = [annotation(1000 * i, 1000, f"ProfilerStep#{i}") for i in range(2)]
    events += [kernel(100, 100), kernel(1100, 300)]
    char = read_kineto(write(tmp_path, events))
    (row,) = char.ops.to_dict("records")
    assert row["time_s"] == pytest.approx(200e-6)
    # Sample deviation of 100 and 300.
    assert row["time_sd_s"] == pytest.approx(141.4213562e-6)


def test_collective_window_gives_back_the_measured_exposure(tmp_path: Path) -> None:
    events = [kernel(0, 100, "gemm"), kernel(50, 100, "ncclDevKernel_AllReduce", stream=20)]
    ops = read_kineto(write(tmp_path, events)).ops.set_index("op_class")
    comm = ops.loc["collective"]
    assert comm["exposed_s"] == pytest.approx(50e-6)
    assert max(0, comm["time_s"] - comm["overlap_window_s"]) == pytest.approx(comm["exposed_s"])
    assert ops.loc["gemm", "exposed_s"] == pytest.approx(100e-6)


def test_stacks_make_much_idle_time_an_upper_bound(tmp_path: Path) -> None:
    events = [annotation(0, 1000, "ProfilerStep#0"), kernel(0, 10),
              annotation(0, 5, "f.py(1): f", cat="python_function")]  # fmt: skip
    quality = read_kineto(write(tmp_path, events)).header.quality
    assert not quality.reliable("idle")
    assert "upper bound" in quality.reliability["idle"].reasons[0]


def test_host_bound_time_is_idle_with_nothing_queued(tmp_path: Path) -> None:
    # Step of 1000 us. K0 runs 100..200, launched at 90. K1 is launched at 150, while K0
    # runs, and starts at 210: 10 us of latency. K2 is launched at 600 and starts at 620:
    # the device waits for the host from 310 to 600, and 20 us more for the launch.
    events = [annotation(0, 1000, "ProfilerStep#0"),
              launch(90, 1), kernel(100, 100, corr=1), launch(150, 2), kernel(210, 100, corr=2),
              launch(600, 3), kernel(620, 300, corr=3)]  # fmt: skip
    (step,) = read_kineto(write(tmp_path, events)).header.steps
    # Idle: 0-100, 200-210, 310-620, 920-1000. Nothing queued: 0-90, 310-600, 920-1000.
    assert step.idle_s == pytest.approx(500e-6)
    assert step.host_bound_s == pytest.approx((90 + 290 + 80) * 1e-6)


def test_host_bound_time_needs_launches(tmp_path: Path) -> None:
    (step,) = read_kineto(write(tmp_path, [kernel(0, 10), kernel(50, 10)])).header.steps
    assert step.host_bound_s is None


def test_kernels_of_a_graph_wait_for_each_other_and_not_for_the_host(tmp_path: Path) -> None:
    events = [annotation(0, 100, "ProfilerStep#0"), launch(0, 9, "cudaGraphLaunch"),
              kernel(10, 10, corr=9), kernel(40, 10, corr=9), kernel(90, 10, corr=9)]  # fmt: skip
    (step,) = read_kineto(write(tmp_path, events)).header.steps
    assert step.idle_s == pytest.approx(70e-6)
    assert step.host_bound_s == pytest.approx(0.0, abs=1e-12)


def test_gaps_of_a_millisecond_are_stalls_and_shorter_ones_are_not(tmp_path: Path) -> None:
    # Kernels of 100 us at 0, 500 and 2100: gaps of 400, 1500, and 300 to the end of step 0,
    # which goes on for 900 in step 1: 1200 in all.
    events = [annotation(0, 2500, "ProfilerStep#0"), annotation(2500, 2000, "ProfilerStep#1"),
              kernel(0, 100), kernel(500, 100), kernel(2100, 100), kernel(3400, 1100)]  # fmt: skip
    first, second = read_kineto(write(tmp_path, events)).header.steps
    assert first.stall_s == pytest.approx((1500 + 300) * 1e-6)
    assert second.stall_s == pytest.approx(900e-6)
    assert first.idle_s == pytest.approx((400 + 1500 + 300) * 1e-6)


@pytest.mark.parametrize(
    "name",
    ["global_step{}", "Iteration={}", "engine step {}", "train/step:{}", "generate_step_{}",
     "step[DECODE bs={}]", "execute_{}_context_0(sq0sk0sqsq0sqsk0)_generation_4", "Step #{}"],
)  # fmt: skip
def test_marks_of_frameworks_are_steps(tmp_path: Path, name: str) -> None:
    events = [annotation(100 * i, 100, name.format(i)) for i in range(3)]
    events += [kernel(100 * i + 20, 50) for i in range(3)]
    header = read_kineto(write(tmp_path, events)).header
    assert [s.time_s for s in header.steps] == pytest.approx([100e-6] * 3)
    assert header.quality.steps_by == "annotation"


@pytest.mark.parametrize("name", ["epoch {}", "micro_batch_{}", "stepper {}", "layer_{}", "step"])
def test_other_marks_are_no_steps(tmp_path: Path, name: str) -> None:
    events = [annotation(100 * i, 100, name.format(i)) for i in range(3)]
    events += [kernel(100 * i + 20, 50, f"k{i}") for i in range(3)]
    assert read_kineto(write(tmp_path, events)).header.quality.steps_by == "none"


def test_one_kind_of_mark_counts_where_there_are_several(tmp_path: Path) -> None:
    """An engine marks its steps and, inside of each, what the scheduler chose."""
    events = [kernel(20, 50), kernel(120, 50)]
    for i in range(2):
        events.append(annotation(100 * i, 100, f"execute_{i}_context_0_generation_4"))
        events.append(annotation(100 * i + 5, 90, "step[DECODE bs=4]"))
    header = read_kineto(write(tmp_path, events)).header
    assert [s.time_s for s in header.steps] == pytest.approx([100e-6] * 2)
    assert not any("begin inside" in w for w in header.quality.warnings)
