from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.sources.ncu import characterize_ncu, read_ncu
from tests.sources.ncu.pages import details, lines, raw

DATA = Path(
    os.environ.get("CODESIGN_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data")
).joinpath("ncu")
GEMM = "void gemm_bf16<int, 4>(Params)"
# 2 MB read and 1 MB written in 10 us.
METRICS = [
    ("dram__bytes_read.sum", "Mbyte", "2.00"),
    ("dram__bytes_write.sum", "Kbyte", "1,000.0"),
    ("gpu__time_duration.sum", "us", "10.00"),
    ("Elapsed Cycles", "cycle", "13,485"),
    ("SM Frequency", "Ghz", "1.99"),
    ("Compute (SM) Throughput", "%", "9.15"),
    ("DRAM Throughput", "%", "19.66"),
    ("Memory Throughput", "%", "20"),
    ("Memory Throughput", "Gbyte/s", "300"),
    ("Static Shared Memory Per Block", "Kbyte/block", "1.02"),
    ("Cluster Scheduling Policy", "", "PolicySpread"),
    ("flop_count_hp.sum", "", "n/a"),
]


def page(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    return path


def test_units_of_every_cell_become_si(tmp_path: Path) -> None:
    row = read_ncu(page(tmp_path, details([(GEMM, METRICS)]))).iloc[0]
    assert row["kernel"] == GEMM
    assert row["dram_bytes"] == pytest.approx(3e6)
    assert row["dram_bytes_by"] == "counter"
    assert row["duration_s"] == pytest.approx(1e-5)
    assert row["dram_bytes_per_s"] == pytest.approx(3e11)
    assert row["Elapsed Cycles [cycle]"] == 13485
    assert row["sm_clock_hz"] == pytest.approx(1.99e9)
    assert (row["sm_percent"], row["dram_percent"], row["memory_percent"]) == (9.15, 19.66, 20)
    assert row["Static Shared Memory Per Block [byte/block]"] == pytest.approx(1020)
    assert "flop_count_hp.sum" not in row
    assert "Cluster Scheduling Policy" not in row


def test_a_raw_page_has_its_units_below_the_header(tmp_path: Path) -> None:
    units = {
        "dram__bytes.sum": "Mbyte", "gpu__time_duration.sum": "nsecond",
        "smsp__cycles_elapsed.avg.per_second": "cycle/nsecond", "launch__grid_size": "",
        "device__attribute_display_name": "",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    }  # fmt: skip
    values = {
        "dram__bytes.sum": "1,536.5", "gpu__time_duration.sum": "2,000,000",
        "smsp__cycles_elapsed.avg.per_second": "1.5", "launch__grid_size": "4,096",
        "device__attribute_display_name": "NVIDIA H100 80GB HBM3",
    }  # fmt: skip
    path = page(tmp_path, raw(units, [(GEMM, values), ("softmax", {})]))
    table = read_ncu(path)
    assert list(table["kernel"]) == [GEMM, "softmax"]
    row = table.iloc[0]
    assert row["dram_bytes"] == pytest.approx(1.5365e9)
    assert row["duration_s"] == pytest.approx(2e-3)
    assert row["sm_clock_hz"] == pytest.approx(1.5e9)
    assert row["launch__grid_size"] == 4096
    assert table["sm_percent"].isna().all()
    assert characterize_ncu(path).header.system == "hgx-h100"


def test_details_and_raw_of_one_kernel_agree(tmp_path: Path) -> None:
    names = {n: u for n, u, _ in METRICS if "__" in n and u}
    values = {n: v for n, _, v in METRICS}
    first = read_ncu(page(tmp_path, details([(GEMM, METRICS)]))).iloc[0]
    second = read_ncu(page(tmp_path, raw(names, [(GEMM, values)]))).iloc[0]
    for column in ("dram_bytes", "dram_read_bytes", "dram_write_bytes", "duration_s"):
        assert first[column] == second[column]


def test_bytes_by_rate_where_they_were_not_counted(tmp_path: Path) -> None:
    metrics = [("Duration", "us", "10"), ("Memory Throughput", "Gbyte/second", "300")]
    row = read_ncu(page(tmp_path, details([(GEMM, metrics)]))).iloc[0]
    assert row["dram_bytes"] == pytest.approx(3e6)
    assert row["dram_bytes_by"] == "rate x duration"


def test_what_the_profiler_and_the_program_say_is_no_table(tmp_path: Path) -> None:
    text = "==PROF== Connected to process 371693 (gemm)\n2208 2048 5608 0 358.15\n"
    text += '"quoted", says the program\n==WARNING== Clocks could not be locked.\n'
    text += details([(GEMM, METRICS)]) + "==PROF== Disconnected from process 371693\n"
    table = read_ncu(page(tmp_path, text))
    assert len(table) == 1
    assert table.attrs["warnings"] == ["Clocks could not be locked."]


def test_two_tables_in_one_file_count_their_kernels_apart(tmp_path: Path) -> None:
    text = details([(GEMM, METRICS)]) + details([("softmax", METRICS)])
    assert list(read_ncu(page(tmp_path, text))["kernel"]) == [GEMM, "softmax"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no table of Nsight Compute"),
        ("==ERROR== ERR_NVGPUCTRPERM\n", "no table of Nsight Compute.*ERR_NVGPUCTRPERM"),
        (details([]), "no device activity"),
        (details([(GEMM, [("dram__bytes.sum", "byte", "1.234,5")])]), "decimal comma.*LC_ALL=C"),
        (details([(GEMM, [("a", "%", "13,485"), ("b", "%", "19,66")])]), "decimal comma"),
        (raw({"dram__bytes.sum": "byte"}, [(GEMM, {})]).replace('"byte"', '"byte"\n"x"', 1), ""),
        (lines([["ID", "Kernel Name", "a"], ["0", "k", "1"]]), "units of the columns"),
        ("x" * 2_000_000, "a line of over"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path: Path, text: str, says: str) -> None:
    if not says:
        assert len(read_ncu(page(tmp_path, text))) == 1
        return
    with pytest.raises(DataError, match=says) as caught:
        read_ncu(page(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_launches_of_one_kernel_and_grid_are_one_op(tmp_path: Path) -> None:
    other = [("gpu__time_duration.sum", "us", "30"), ("dram__bytes.sum", "Mbyte", "1")]
    text = details([(GEMM, METRICS), (GEMM, METRICS)]) + details([(GEMM, other)], "(8, 1, 1)")
    path = page(tmp_path, text)
    char = characterize_ncu(path, system="hgx-b200")
    assert list(char.ops["count"]) == [2, 1]
    assert list(char.ops["time_s"]) == pytest.approx([2e-5, 3e-5])
    assert list(char.ops["bytes"]) == pytest.approx([6e6, 1e6])
    assert char.ops["name"].nunique() == 2
    assert set(char.ops["op_class"]) == {"gemm"}
    assert set(char.ops["precision"]) == {"bf16"}
    assert char.ops["exposed_s"].isna().all()
    quality = char.header.quality
    assert not any(quality.reliable(q) for q in ("idle", "exposed", "steps", "step_time", "launch"))
    assert any("clock" in w for w in quality.warnings)
    assert char.header.totals["kernel_time_s"] == pytest.approx(5e-5)
    char.save(tmp_path / "c.parquet")


def test_bytes_of_some_launches_are_not_the_bytes_of_all(tmp_path: Path) -> None:
    timed = [("gpu__time_duration.sum", "us", "10")]
    char = characterize_ncu(page(tmp_path, details([(GEMM, METRICS), (GEMM, timed)])))
    assert char.ops["bytes"].isna().all()
    assert char.header.quality.known_work_share == 0.0
    assert char.header.system is None


def test_a_share_above_the_peak_is_reported_and_not_clamped(tmp_path: Path) -> None:
    metrics = [("Duration", "us", "10"), ("DRAM Throughput", "%", "112.5")]
    path = page(tmp_path, details([(GEMM, metrics)]))
    assert read_ncu(path)["dram_percent"].iloc[0] == 112.5
    warnings = characterize_ncu(path).header.quality.warnings
    assert any("112.5" in w and "invalid" in w for w in warnings)


def test_without_durations_there_is_nothing_to_characterize(tmp_path: Path) -> None:
    path = page(tmp_path, details([(GEMM, [("dram__bytes.sum", "byte", "7")])]))
    with pytest.raises(DataError, match="no durations"):
        characterize_ncu(path)
    with pytest.raises(UsageError, match="unknown system"):
        characterize_ncu(page(tmp_path, details([(GEMM, METRICS)])), system="nonesuch")


REAL = sorted(DATA.glob("kernel_*.csv")) if DATA.is_dir() else []


@pytest.mark.skipif(not REAL, reason="the shared data are not here")
def test_real_pages_agree_with_themselves() -> None:
    assert len(REAL) == 9
    for path in REAL:
        row = read_ncu(path).iloc[0]
        # Two independent counters: bytes by sector count, and the rate over the duration.
        # Both are printed with two decimals.
        rate = row["Memory Throughput [byte/s]"]
        assert row["dram_bytes"] / row["duration_s"] == pytest.approx(rate, rel=0.005)
        assert row["Duration [s]"] == row["gpu__time_duration.sum [s]"]
        cycles = row["Elapsed Cycles [cycle]"]
        assert cycles / row["sm_clock_hz"] == pytest.approx(row["duration_s"], rel=0.02)
        assert characterize_ncu(path).header.quality.known_work_share == 1.0


@pytest.mark.skipif(not REAL, reason="the shared data are not here")
def test_the_real_log_with_a_preamble() -> None:
    row = read_ncu(DATA / "cublaslt_ncu.log").iloc[0]
    assert row["duration_s"] == pytest.approx(406.24e-6)
    assert row["sm_percent"] == 23.59
    assert row["sm_clock_hz"] == pytest.approx(1239496049.13)
    # Cycles were counted; the clock says how long they took.
    assert row["duration_s"] == pytest.approx(508757 / 1239496049.13, rel=0.02)


@settings(max_examples=60)
@given(at=st.integers(0, 1500), junk=st.binary(max_size=30), cut=st.integers(0, 3000))
def test_mutated_pages_give_a_result_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes, cut: int
) -> None:
    text = details([(GEMM, METRICS[:4])]).encode()
    path = tmp_path_factory.mktemp("fuzz") / "page.csv"
    path.write_bytes((text[:at] + junk + text[at:])[:cut])
    try:
        told = characterize_ncu(path).header.workload
    except CodesignError as error:
        told = str(error)
    assert "\n" not in told


def test_a_page_that_ends_inside_a_row_was_cut_off(tmp_path: Path) -> None:
    text = details([(GEMM, METRICS)])
    rows = text.splitlines(keepends=True)
    row = rows[3]  # a metric; two like it stand before
    before = "".join(rows[:3])
    for cut in range(1, len(row) - 1):
        with pytest.raises(DataError, match=r"kernels\.csv:4: the file ends inside a .* cut off"):
            read_ncu(page(tmp_path, before + row[:cut]))
    assert len(read_ncu(page(tmp_path, before))) == 1
    assert len(read_ncu(page(tmp_path, before + row.rstrip("\n")))) == 1


@pytest.mark.parametrize("text", ["-5", "-0.001"])
def test_a_time_below_zero_names_file_and_kernel(tmp_path: Path, text: str) -> None:
    units = {"gpu__time_duration.sum": "ns"}
    path = page(tmp_path, raw(units, [("k1", {"gpu__time_duration.sum": text})]))
    with pytest.raises(DataError, match=r"kernels\.csv: kernel 'k1' has a duration of -"):
        characterize_ncu(path)


@pytest.mark.parametrize("text", ["1e999", "inf", "nan", "-inf"])
def test_a_time_that_is_no_number_is_unknown(tmp_path: Path, text: str) -> None:
    units = {"gpu__time_duration.sum": "ns"}
    values = [("k1", {"gpu__time_duration.sum": text}), ("k2", {"gpu__time_duration.sum": "7"})]
    char = characterize_ncu(page(tmp_path, raw(units, values)))
    times = dict(zip(char.ops["kernel"], char.ops["time_s"], strict=True))
    assert times["k2"] == pytest.approx(7e-9)
    assert times["k1"] is pd.NA
    assert "1 kernels have no duration" in char.header.quality.warnings
