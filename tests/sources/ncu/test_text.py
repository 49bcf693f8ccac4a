from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.sources.ncu import read_ncu

PAGE = """\
==PROF== Connected to process 2468 (./a.out)
==PROF== Profiling "gemm" - 0: 0%....50%....100% - 8 passes
[2468] a.out@127.0.0.1
  void gemm<int, 4>(const float *, int) (196, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    SM Frequency            cycle/nsecond         1.50
    Elapsed Cycles                  cycle        3,000
    Duration                      usecond         2.00
    DRAM Throughput                     %        58.13
    Waves Per SM                                  0.91
    ----------------------- ------------- ------------

    OPT   This kernel, Context 1, is small.

    Section: Memory Workload Analysis
    ----------------- ------------ ------------
    Metric Name        Metric Unit Metric Value
    ----------------- ------------ ------------
    Memory Throughput Gbyte/second       300.00
    ----------------- ------------ ------------

  softmax, 2021-Mar-01 12:00:00, Context 1, Stream 7
    Section: Command line profiler metrics
    -------------------- ----------- ------------
    Metric Name          Metric Unit Metric Value
    -------------------- ----------- ------------
    dram__bytes.sum            Kbyte        52.50
    -------------------- ----------- ------------
"""  # noqa: E501


def test_the_page_that_is_printed_without_csv(tmp_path: Path) -> None:
    path = tmp_path / "ncu.txt"
    path.write_text(PAGE)
    table = read_ncu(path)
    assert list(table["kernel"]) == ["void gemm<int, 4>(const float *, int)", "softmax"]
    gemm, softmax = table.iloc[0], table.iloc[1]
    assert (gemm["grid"], gemm["block"], gemm["process"]) == ("(196, 1, 1)", "(256, 1, 1)", "2468")
    assert gemm["duration_s"] == pytest.approx(2e-6)
    assert gemm["sm_clock_hz"] == pytest.approx(1.5e9)
    assert gemm["Elapsed Cycles [cycle]"] == 3000
    assert gemm["Waves Per SM"] == 0.91
    assert gemm["dram_bytes"] == pytest.approx(300e9 * 2e-6)
    assert softmax["dram_bytes"] == 52_500
    assert softmax["dram_bytes_by"] == "counter"


def test_a_decimal_comma_is_refused_here_too(tmp_path: Path) -> None:
    path = tmp_path / "ncu.txt"
    path.write_text(PAGE.replace("58.13", "58,13"))
    with pytest.raises(DataError, match=r"ncu.txt:12: 58,13 has a decimal comma"):
        read_ncu(path)
