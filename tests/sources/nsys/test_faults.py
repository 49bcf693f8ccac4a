"""Faults that users of other readers met, in an export of Nsight Systems. Times in ns."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.sources.nsys import read_nsys
from codesign.workload.characterization import Characterization
from tests.sources.nsys.exports import Export

US = 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


def read(export: Export, path: Path) -> Characterization:
    export.gpu(0)
    return read_nsys(export.save(path))


def test_a_kernel_before_its_launch_has_no_latency(path: Path) -> None:
    export = Export()
    export.launch(100, corr=1)
    export.kernel(98, 108, corr=1)
    char = read(export, path)
    assert char.header.totals["kernel_time_s"] == pytest.approx(10e-9)
    assert "launch_latency_median_s" not in char.header.totals
    assert char.header.quality.skewed_launches == 1


def test_a_duration_over_the_next_slice_is_clipped_and_named(path: Path) -> None:
    export = Export()
    for corr, (start, end) in enumerate([(0, 10**6), (100, 110), (120, 130)], 1):
        export.launch(start * US, corr=corr)
        export.kernel(start * US, end * US, corr=corr, name=f"k{corr}_gemm")
    char = read(export, path)
    assert char.header.totals["busy_s"] == pytest.approx(120e-6)
    assert char.header.totals["span_s"] == pytest.approx(130e-6)
    assert char.header.quality.clipped_events == 1
    assert any(w.startswith("k1_gemm") and "1e+06 us" in w for w in char.header.quality.warnings)


def test_kernels_of_a_graph_launch_are_rows_with_unknown_work(path: Path) -> None:
    export = Export()
    export.launch(0, corr=9, name="cudaGraphLaunch_v10000")
    for start, length, name in ((10, 10, "gemm_a"), (30, 20, "softmax_b"), (60, 30, "copy_kernel")):
        export.kernel(start * US, (start + length) * US, corr=9, name=name)
    char = read(export, path)
    assert len(char.ops) == 3
    assert char.ops["time_s"].sum() == pytest.approx(60e-6)
    assert set(char.ops["op_class"]) == {"gemm", "softmax", "copy"}
    assert char.ops["flops"].isna().all()
    assert any("0 % of GPU time has shapes" in w for w in char.header.quality.warnings)


def test_graph_replays_without_kernels_make_idle_unreliable(path: Path) -> None:
    export = Export()
    for i in range(10):
        export.launch(i * 1000 * US, corr=i + 1, name="cudaGraphLaunch_v10000")
    for i in (0, 1):
        export.kernel((i * 1000 + 10) * US, (i * 1000 + 910) * US, corr=i + 1)
    quality = read(export, path).header.quality
    assert quality.launch_coverage == pytest.approx(0.2)
    assert not quality.reliable("idle")
    assert not quality.reliable("launch")


def test_steps_without_kernels_and_one_that_is_all_time(path: Path) -> None:
    export = Export()
    for i in range(4):
        export.range(i * 1000 * US, (i * 1000 + 999) * US, f"ProfilerStep#{i}")
    for corr, (start, length) in enumerate([(1010, 1), (1020, 1), (1030, 900)], 1):
        export.launch(start * US - 10, corr=corr)
        export.kernel(start * US, (start + length) * US, corr=corr)
    header = read(export, path).header
    assert len(header.steps) == 4
    assert not header.quality.reliable("step_time")
    assert any("3 of 4 steps hold no kernels" in w for w in header.quality.warnings)
    assert any("is 100% of all kernel time" in w for w in header.quality.warnings)


def test_utilization_is_a_union_and_never_a_sum(path: Path) -> None:
    export = Export()
    export.launch(0, corr=1)
    export.launch(1, corr=2)
    export.kernel(0, 100 * US, corr=1, stream=7)
    export.kernel(50 * US, 150 * US, corr=2, stream=20, name="ncclDevKernel_AllReduce_Sum_bf16")
    totals = read(export, path).header.totals
    assert totals["busy_s"] == totals["span_s"] == pytest.approx(150e-6)
    assert totals["kernel_time_s"] == pytest.approx(200e-6)
    assert totals["overlap_s"] == pytest.approx(50e-6)
    assert totals["exposed_comm_s"] == pytest.approx(50e-6)


def test_a_control_byte_in_a_name_is_replaced(path: Path) -> None:
    export = Export()
    export.launch(0, corr=1)
    export.kernel(0, 10, corr=1, name="gemm\x01evil")
    name = read(export, path).ops["name"].iloc[0]
    assert name.isprintable()


def test_launches_whose_kernels_were_dropped_lower_the_coverage(path: Path) -> None:
    export = Export()
    for i in range(10):
        export.launch(i * 100 * US, corr=i + 1)
        if i >= 3:
            export.kernel((i * 100 + 10) * US, (i * 100 + 20) * US, corr=i + 1)
    quality = read(export, path).header.quality
    assert quality.launch_coverage == pytest.approx(0.7)
    assert any("launch coverage 70%" in w for w in quality.warnings)


def test_launches_that_record_a_graph_ask_for_no_kernel(path: Path) -> None:
    export = Export()
    export.launch(0, corr=1, name="cudaStreamBeginCapture_v10000")
    for i in range(5):
        export.launch((10 + i) * US, corr=2 + i)
    export.launch(20 * US, corr=8, name="cudaStreamEndCapture_v10000")
    export.launch(30 * US, corr=9, name="cudaGraphLaunch_v10000")
    export.kernel(40 * US, 50 * US, corr=9)
    quality = read(export, path).header.quality
    assert quality.launch_coverage == 1.0
    assert quality.reliable("idle")


@pytest.mark.parametrize("shift", [7, 370, 500, 990])
@pytest.mark.parametrize("kind", [59, 60])
def test_each_process_marks_its_own_steps(path: Path, shift: int, kind: int) -> None:
    """Ranks of one node in one report: a process and a GPU each, out of step."""
    export = Export()
    for rank in range(2):
        for step in range(3):
            begin = shift * rank + 1000 * step
            export.range(
                begin, begin + 990, f"step {10 * rank + step}", kind=kind, process=1 + rank
            )
            export.launch(begin + 10, corr=step, process=1 + rank)
            export.kernel(
                begin + 100, begin + 400, device=rank, corr=step, process=1 + rank, stream=7
            )
    steps = read_nsys(export.save(path)).header.steps
    for rank in range(2):
        mine = [s for s in steps if s.device == str(rank)]
        assert [s.name for s in mine] == [f"step {10 * rank + i}" for i in range(3)]
        for step in mine:
            assert (step.kernels, step.time_s, step.idle_s) == (
                1, pytest.approx(990e-9), pytest.approx(690e-9)
            )  # fmt: skip


def test_a_table_that_stands_under_two_versions_counts_once(path: Path) -> None:
    export = Export()
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL_V2"):
        for i in range(3):
            export.kernel(100 * i, 100 * i + 40, corr=i, table=table)
    for i in range(3):
        export.launch(100 * i - 10, corr=i)
    header = read_nsys(export.save(path)).header
    assert header.totals["kernels"] == 3
    assert header.totals["kernel_time_s"] == pytest.approx(120e-9)
    assert any("3 device events stand in the file twice" in w for w in header.quality.warnings)


@pytest.mark.parametrize("column", ["start", "end"])
def test_a_table_without_times_is_named(path: Path, column: str) -> None:
    export = Export()
    export.kernel(0, 10)
    rows = export.tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    export.tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [
        {k: v for k, v in row.items() if k != column} for row in rows
    ]
    with pytest.raises(DataError, match=f"CUPTI_ACTIVITY_KIND_KERNEL has no column '{column}'"):
        read_nsys(export.save(path))


@pytest.mark.parametrize("processes", [1, 2])
def test_without_process_ids_launches_of_one_process_are_joined(path: Path, processes: int) -> None:
    export = Export()
    for i in range(4):
        export.launch(100 * i - 10, corr=i, process=1 + i % processes)
        export.kernel(100 * i, 100 * i + 40, corr=i)
    export.tables["CUPTI_ACTIVITY_KIND_KERNEL"] = [
        {k: v for k, v in row.items() if k != "globalPid"}
        for row in export.tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    ]
    quality = read_nsys(export.save(path)).header.quality
    assert (quality.launch_coverage, quality.orphan_kernels) == (
        (1.0, 0) if processes == 1 else (0.0, 4)
    )


@pytest.mark.parametrize(
    ("start", "end"),
    [(-(2**63), 10), (0, 2**63 - 1), (-(2**62) - 1, 2**62), (0, 11 * 86_400 * 10**9), (20, 10)],
)
def test_times_that_cannot_be_are_dropped_and_counted(path: Path, start: int, end: int) -> None:
    export = Export()
    export.kernel(start, end, corr=1, stream=8)
    export.kernel(100, 150, corr=2)
    export.launch(start, corr=1)
    export.launch(90, corr=2)
    export.range(start, end, "all")
    header = read_nsys(export.save(path)).header
    assert header.totals["kernels"] == 1
    assert header.totals["span_s"] == pytest.approx(50e-9)
    assert header.quality.dropped_events == 1
