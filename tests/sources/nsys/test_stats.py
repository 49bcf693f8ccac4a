from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import CodesignError, DataError
from codesign.sources import read
from codesign.sources.nsys import read_nsys_stats

DATA = Path(
    os.environ.get("CODESIGN_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data")
).joinpath("nsys")
HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Name\n"
GEMM = '66.6,2000,4,500.0,500.0,"void gemm_bf16<int, 4>(T1, T2)"\n'
NCCL = "33.3,1000,3,333.3,333.0,ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)\n"


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kern_sum.csv"
    path.write_text(text)
    return path


def test_the_real_table_against_its_own_sums() -> None:
    path = DATA / "summary_cuda_gpu_kern_sum.csv"
    if not path.is_file():
        pytest.skip("the shared data are not here")
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    char = read_nsys_stats(path)
    total_ns = sum(int(r["Total Time (ns)"]) for r in rows)
    assert len(char.ops) == len(rows) == 113
    assert char.ops["time_s"].sum() == pytest.approx(total_ns * 1e-9, rel=1e-12)
    assert char.ops["count"].sum() == sum(int(r["Instances"]) for r in rows)
    # The printed percentages are rounded and add up to 99.5; the shares of the ops to 1.
    first = char.ops.iloc[0]
    assert first["time_s"] / char.ops["time_s"].sum() == pytest.approx(0.249, abs=5e-4)
    assert "gemvx::kernel<int, int, __nv_bfloat16" in first["kernel"]
    assert (first["op_class"], first["precision"]) == ("gemm", "bf16")


def test_quoted_names_counts_and_classes(tmp_path: Path) -> None:
    char = read_nsys_stats(table(tmp_path, HEADER + GEMM + NCCL))
    assert list(char.ops["time_s"]) == pytest.approx([2e-6, 1e-6])
    assert list(char.ops["count"]) == [4, 3]
    assert char.ops["kernel"].iloc[0] == "void gemm_bf16<int, 4>(T1, T2)"
    assert list(char.ops["op_class"]) == ["gemm", "collective"]
    assert char.ops["collective"].iloc[1] == "all_reduce"
    assert char.header.totals == pytest.approx({"kernels": 7, "kernel_time_s": 3e-6})
    assert char.ops["exposed_s"].isna().all()
    assert not char.header.quality.reliable("idle")
    char.save(tmp_path / "c.parquet")


@pytest.mark.parametrize(("unit", "factor"), [("us", 1e-6), ("msec", 1e-3), ("s", 1.0)])
def test_units_stand_in_the_headers(tmp_path: Path, unit: str, factor: float) -> None:
    header = HEADER.replace("(ns)", f"({unit})")
    # Old versions write Time(%) and Average.
    header = header.replace("Time (%)", "Time(%)").replace("Avg", "Average")
    char = read_nsys_stats(table(tmp_path, header + GEMM))
    assert char.ops["time_s"].iloc[0] == pytest.approx(2000 * factor)


def test_lines_before_and_a_report_after_the_table(tmp_path: Path) -> None:
    text = "Processing [a.sqlite] with [cuda_gpu_kern_sum.py]... \n\n" + HEADER + GEMM
    text += "\nProcessing [a.sqlite] with [osrt_sum.py]...\nTime (%),Total Time (ns)\n1,2\n"
    assert len(read_nsys_stats(table(tmp_path, text)).ops) == 1


def test_memory_operations_are_copies_and_not_kernels(tmp_path: Path) -> None:
    text = "Time (%),Total Time (ns),Count,Avg (ns),Operation\n"
    text += "100.0,900,9,100.0,[CUDA memcpy Host-to-Device]\n"
    char = read_nsys_stats(table(tmp_path, text))
    assert list(char.ops["op_class"]) == ["copy"]
    assert char.header.totals["kernels"] == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no table of `nsys stats"),
        ("a,b\n1,2\n", "no table of `nsys stats"),
        (HEADER, "no device activity"),
        (HEADER + GEMM.replace("2000", "2100"), r":2: total 2100 is not 4 calls of 500.0"),
        (HEADER + GEMM.replace("2000", "lots"), r":2: 'lots' is not a number"),
        (HEADER + "66.6,2000\n", r":2: 2 columns"),
        (HEADER.replace("(ns)", "(weeks)") + GEMM, "expected a unit in parentheses"),
        (HEADER.replace(" (ns)", "") + GEMM, "expected a unit in parentheses"),
        (HEADER + GEMM.replace(",4,", ",0,"), "whole number above 0"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_nsys_stats(table(tmp_path, text))
    assert "\n" not in str(caught.value)


@settings(max_examples=60)
@given(at=st.integers(0, 300), junk=st.binary(max_size=20), cut=st.integers(0, 300))
def test_mutated_tables_give_a_result_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes, cut: int
) -> None:
    raw = (HEADER + GEMM + NCCL).encode()
    path = tmp_path_factory.mktemp("fuzz") / "kern_sum.csv"
    path.write_bytes((raw[:at] + junk + raw[at:])[:cut])
    try:
        told = read_nsys_stats(path).header.workload
    except CodesignError as error:
        told = str(error)
    assert "\n" not in told


HOST = (
    "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n"
    "90.0,9000,3,3000.0,cudaDeviceSynchronize\n10.0,1000,5,200.0,cudaLaunchKernel\n"
)
DEVICE = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,6000,3,2000.0,sgemm\n"


def test_calls_on_the_host_are_no_device_time(tmp_path: Path) -> None:
    path = tmp_path / "cuda_api_sum.csv"
    path.write_text(HOST)
    with pytest.raises(DataError, match=r"calls on the host.*cuda_gpu_kern_sum"):
        read_nsys_stats(path)


def test_of_all_reports_in_one_file_the_kernels_count(tmp_path: Path) -> None:
    """As ``nsys stats`` prints them one after the other."""
    path = tmp_path / "all.csv"
    path.write_text(f"Processing [a.sqlite] with [cuda_api_sum.py]...\n{HOST}\n{DEVICE}\n{HOST}")
    char = read_nsys_stats(path)
    assert list(char.ops["kernel"]) == ["sgemm"]
    assert char.header.totals["kernel_time_s"] == pytest.approx(6e-6)


def test_rows_of_the_host_between_those_of_the_device_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cuda_api_gpu_sum.csv"
    path.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Category,Operation\n"
        "60.0,9000,3,3000.0,CUDA_API,cudaLaunchKernel\n"
        "30.0,6000,3,2000.0,CUDA_KERNEL,sgemm\n"
        "10.0,500,1,500.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]\n"
    )
    ops = read_nsys_stats(path).ops.set_index("kernel")
    assert ops["time_s"].to_dict() == pytest.approx(
        {"sgemm": 6e-6, "[CUDA memcpy Host-to-Device]": 0.5e-6}
    )


def test_regions_of_openmp_are_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "openmp_sum.csv"
    path.write_text("Time (%),Total Time (ns),Count,Avg (ns),Name\n100.0,9000,3,3000.0,Parallel\n")
    with pytest.raises(DataError, match="no table"):
        read_nsys_stats(path)


GERMAN = '"60,0","6.000","3","2.000,0",sgemm\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DEVICE.replace("100.0,6000,3,2000.0,sgemm\n", GERMAN), "decimal comma"),
        # One call: total and average agree in either reading.
        (DEVICE.replace("100.0,6000,3,2000.0", '"100","6.000",1,"6.000"'), "decimal comma"),
        (DEVICE.rstrip() + '\n5.0,1000,1,1000.0,"void kern<fl', r":3: a cell without its end"),
        ("Start (ns),Duration (ns),CorrId,GrdX,Name\n1,2,3,1,k\n", "cuda_gpu_kern_sum"),
    ],
)
def test_tables_of_other_locales_kinds_or_cut_are_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "summary.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=says):
        read(path)


@pytest.mark.parametrize("mean", ["Average", "Avg (ns)", "Average (ns)"])
@pytest.mark.parametrize("unit", ["ns", "us", "\u00b5s", "\u03bcs"])
def test_units_of_old_and_new_headers(tmp_path: Path, unit: str, mean: str) -> None:
    """2021's tables have the unit of the times once, at the total: 3 calls of 2 us."""
    total, each = ("6000", "2000.0") if unit == "ns" else ("6.0", "2.0")
    header = f"Time(%),Total Time ({unit}),Instances,{mean.replace('ns', unit)},Name\n"
    path = tmp_path / "kern_sum.csv"
    path.write_text(header + f"100.0,{total},3,{each},sgemm\n", encoding="utf-8")
    ops = read_nsys_stats(path).ops
    assert ops["time_s"].sum() == pytest.approx(6e-6)
    assert ops["count"].sum() == 3
