from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.sources.nccl_tests import read_nccl_tests
from codesign.workload.accounting import busbw

DATA = Path(
    os.environ.get("CODESIGN_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")
).joinpath("nccl_tests")

_HALF = "     time   algbw   busbw #wrong"
NEW_HEADER = (
    f"#       size         count      type   redop    root{_HALF}{_HALF}\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n"
)
SUMMARY = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n"


def ranks(n: int = 8, device: str = "NVIDIA H100 80GB HBM3", per_host: int = 8) -> str:
    return "# Using devices\n" + "".join(
        f"#  Rank {r:2d} Group  0 Pid {1000 + r} on host{r // per_host} device {r % per_host:2d}"
        f" [0000:1b:00] {device}\n"
        for r in range(n)
    )


def start(binary: str = "all_reduce") -> str:
    return (
        "# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703\n"
        f"# Collective test starting: {binary}_perf\n"
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n#\n"
    )


def log(tmp_path: Path, text: str, name: str = "run.log") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


# 1e9 B over 8 ranks in 5 ms: 200 GB/s algbw, 2 x 7/8 of it on the bus.
_RESULT = "   5000.0  200.00  350.00      0"
ROW = f"  1000000000     250000000     float     sum      -1{_RESULT}{_RESULT}\n"


def test_the_bus_bandwidth_of_one_second_by_hand(tmp_path: Path) -> None:
    char = read_nccl_tests(log(tmp_path, start() + ranks() + NEW_HEADER + ROW + SUMMARY))
    assert list(char.ops["name"]) == ["all_reduce", "all_reduce.in_place"]
    row = char.ops.iloc[0]
    assert (row["time_s"], row["message_bytes"], row["group_size"]) == (5e-3, 10**9, 8)
    assert row["precision"] == "fp32"
    assert row["evidence"] == "measured"
    assert row["domain_span"] == 8
    assert row["wire_bytes"] == 1.75e9
    assert char.header.system == "hgx-h100"
    assert char.header.software == {"nccl-tests": "2.17.1", "nccl": "22703"}
    assert char.header.quality.warnings == ()
    assert not char.header.quality.reliable("idle")
    assert char.header.step_time_s is None
    char.save(tmp_path / "c.parquet")


@pytest.mark.parametrize("name", ["allreduce", "allgather", "alltoall"])
def test_published_logs_agree_with_their_own_bus_bandwidth(name: str) -> None:
    path = DATA / f"nccl_{name}.log"
    if not path.is_file():
        pytest.skip("the shared data are not here")
    char = read_nccl_tests(path)
    assert char.header.system == "hgx-a100-40gb"
    printed = {
        (int(line.split()[0]), place): float(line.split()[at])
        for line in path.read_text().splitlines()
        if line.split()[1:] and line.split()[0].isdigit() and line.split()[0] != "0"
        for place, at in (("", -6), ("in_place", -2))
    }
    ours = busbw(char.ops) / 1e9
    assert len(char.ops) == len(printed)
    for (_, row), value in zip(char.ops.iterrows(), ours, strict=True):
        place = "in_place" if row["name"].endswith(".in_place") else ""
        assert value == pytest.approx(
            printed[int(row["message_bytes"]), place], rel=0.002, abs=0.02
        )
    zero = 2 if name == "allreduce" else 5
    assert char.header.notes == (f"{zero} rows of size 0 skipped",)


def test_what_stands_between_the_rows_is_passed_over(tmp_path: Path) -> None:
    noise = "host:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM size 8 8 float\n"
    glued = (
        "           8             2     float     sum      -1host:1:2 [0] NCCL INFO Launch mode\n"
    )
    text = start() + noise + ranks() + NEW_HEADER + noise + ROW + glued + noise + SUMMARY
    char = read_nccl_tests(log(tmp_path, text))
    assert list(char.ops["message_bytes"]) == [10**9, 10**9]
    assert char.header.quality.dropped_events == 1
    assert any("1 rows mixed with other output" in w for w in char.header.quality.warnings)


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "    "])
def test_launchers_put_a_prefix_before_every_line(tmp_path: Path, prefix: str) -> None:
    plain = start() + ranks() + NEW_HEADER + ROW + SUMMARY
    text = "".join(prefix + line + "\n" for line in plain.splitlines())
    char = read_nccl_tests(log(tmp_path, text))
    assert list(char.ops["time_s"]) == [5e-3, 5e-3]
    assert char.header.system == "hgx-h100"


def test_redop_none_and_in_place_columns_that_do_not_apply(tmp_path: Path) -> None:
    row = "  8000000000     250000000     float    none      -1    10000  800.00  700.00      0"
    row += "   N/A   N/A   N/A   N/A\n"
    text = start("alltoall") + ranks() + NEW_HEADER + row + SUMMARY
    char = read_nccl_tests(log(tmp_path, text))
    assert list(char.ops["name"]) == ["all_to_all"]
    assert char.ops["wire_bytes"].iloc[0] == 7e9


def test_more_columns_and_a_timestamp_of_later_versions(tmp_path: Path) -> None:
    header = (
        "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv%"
        " time algbw busbw #wrong i_min i_max i_p99 i_cv% timestamp\n"
    )
    row = (
        "1000000000 250000000 bfloat16 sum -1 5000.0 200.00 350.00 0 4900 5100 5090 1.2"
        " 4000.0 250.00 437.50 0 3900 4100 4090 1.1 2026-01-02 03:04:05\n"
    )
    char = read_nccl_tests(log(tmp_path, start() + ranks() + header + row + SUMMARY))
    assert list(char.ops["time_s"]) == [5e-3, 4e-3]
    assert set(char.ops["precision"]) == {"bf16"}


def test_repeated_runs_become_a_mean_with_its_deviation(tmp_path: Path) -> None:
    slow = ROW.replace("5000.0  200.00  350.00", "7000.0  142.86  250.00")
    one = start() + ranks() + NEW_HEADER
    char = read_nccl_tests(log(tmp_path, one + ROW + SUMMARY + one + slow + SUMMARY))
    assert list(char.ops["time_s"]) == pytest.approx([6e-3, 6e-3])
    assert list(char.ops["time_sd_s"]) == pytest.approx([2**0.5 * 1e-3] * 2)


def test_two_tests_in_one_log_keep_their_kinds(tmp_path: Path) -> None:
    gather = ROW.replace("sum", "none").replace("350.00", "175.00")
    text = start() + ranks() + NEW_HEADER + ROW + SUMMARY
    text += start("all_gather") + ranks() + NEW_HEADER + gather + SUMMARY
    char = read_nccl_tests(log(tmp_path, text))
    assert set(char.ops["collective"]) == {"all_reduce", "all_gather"}


def test_groups_of_a_split_communicator_are_the_group_size(tmp_path: Path) -> None:
    split = ranks().splitlines()
    lines = [split[0]] + [
        line.replace("Group  0", f"Group  {i % 2}") for i, line in enumerate(split[1:])
    ]
    row = ROW.replace("350.00", "300.00")  # 2 x 3/4
    text = start() + "\n".join(lines) + "\n" + NEW_HEADER + row + SUMMARY
    char = read_nccl_tests(log(tmp_path, text))
    assert set(char.ops["group_size"]) == {4}
    assert char.header.gpus == 8


def test_ranks_on_two_hosts_share_a_domain_by_eights(tmp_path: Path) -> None:
    row = ROW.replace("350.00", "375.00")  # 2 x 15/16
    char = read_nccl_tests(log(tmp_path, start() + ranks(16) + NEW_HEADER + row + SUMMARY))
    assert set(char.ops["group_size"]) == {16}
    assert set(char.ops["domain_span"]) == {8}


def test_a_bus_bandwidth_of_another_collective_is_refused_with_the_row(tmp_path: Path) -> None:
    path = log(tmp_path, start() + ranks() + NEW_HEADER + ROW + SUMMARY)
    line = path.read_text()[: path.read_text().index("1000000000")].count("\n") + 1
    with pytest.raises(DataError, match=rf"run.log:{line}: 1000000000 B, out-of-place: busbw 350"):
        read_nccl_tests(path, collective="all_gather")


def test_the_kind_from_the_file_name_else_a_usage_error(tmp_path: Path) -> None:
    text = (start() + ranks() + NEW_HEADER + ROW + SUMMARY).replace(
        "# Collective test starting: all_reduce_perf\n", ""
    )
    named = read_nccl_tests(log(tmp_path, text, "node3-nccl_AllReduce.txt"))
    assert set(named.ops["collective"]) == {"all_reduce"}
    path = log(tmp_path, text, "results.txt")
    with pytest.raises(UsageError, match=r"such as all_reduce_perf\.log"):
        read_nccl_tests(path)
    assert len(read_nccl_tests(path, collective="all_reduce").ops) == 2
    with pytest.raises(UsageError, match="all_reduce and broadcast"):
        read_nccl_tests(log(tmp_path, text, "broadcast_then_all_reduce.log"))
    with pytest.raises(UsageError, match="unknown collective"):
        read_nccl_tests(path, collective="allreduce")


def test_a_test_of_no_known_collective_is_named(tmp_path: Path) -> None:
    path = log(tmp_path, start("hypercube") + ranks() + NEW_HEADER + ROW + SUMMARY)
    with pytest.raises(DataError, match="hypercube_perf"):
        read_nccl_tests(path)


@pytest.mark.parametrize(
    "broken",
    [
        start() + ranks() + NEW_HEADER + ROW.replace("350.00      0", "350.00     17") + SUMMARY,
        start() + ranks() + NEW_HEADER + ROW + SUMMARY.replace("0 OK", "17 FAILED"),
        start() + ranks() + NEW_HEADER.replace("#wrong", "error")
        + ROW.replace("350.00      0", "350.00  1e+02") + SUMMARY,
    ],
)  # fmt: skip
def test_wrong_results_make_the_times_unreliable(tmp_path: Path, broken: str) -> None:
    quality = read_nccl_tests(log(tmp_path, broken)).header.quality
    assert not quality.reliable("time")
    assert any("wrong" in w for w in quality.warnings)


def test_rounding_under_the_old_error_column_is_no_fault(tmp_path: Path) -> None:
    text = start() + ranks() + NEW_HEADER.replace("#wrong", "error")
    text += ROW.replace("350.00      0", "350.00  2e-07") + SUMMARY
    assert read_nccl_tests(log(tmp_path, text)).header.quality.warnings == ()


def test_an_unknown_device_leaves_the_system_open(tmp_path: Path) -> None:
    path = log(tmp_path, start() + ranks(device="Foo X1") + NEW_HEADER + ROW + SUMMARY)
    char = read_nccl_tests(path)
    assert char.header.system is None
    assert any("Foo X1" in w for w in char.header.quality.warnings)
    assert char.ops["domain_span"].isna().all()
    assert read_nccl_tests(path, system="hgx-h200").header.system == "hgx-h200"
    with pytest.raises(UsageError):
        read_nccl_tests(path, system="nonesuch")


def test_a_log_that_stops_early_says_so(tmp_path: Path) -> None:
    whole = start() + ranks() + NEW_HEADER + ROW
    char = read_nccl_tests(log(tmp_path, whole + ROW[:60]))
    assert len(char.ops) == 2
    assert not char.header.quality.complete
    assert char.header.quality.dropped_events == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no nccl-tests table"),
        ("size count type\n1 2 float\n", "no nccl-tests table"),
        (start() + NEW_HEADER + ROW, "number of ranks is unknown"),
        (start() + ranks(1) + NEW_HEADER + ROW, "one rank"),
        (start() + ranks().replace("Rank  3", "Rnk 3") + NEW_HEADER + ROW, "ranks up to 7 but 7"),
        (start() + ranks() + NEW_HEADER.replace("busbw", "bus", 1) + ROW, "header .* is damaged"),
        (start() + ranks() + NEW_HEADER, "no row of a size above zero"),
        (start() + ranks() + NEW_HEADER.replace("time", "cputime") + ROW, "option -C"),
        (start() + ranks() + NEW_HEADER + ROW.replace("5000.0", "0.0"), "numbers above 0"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        read_nccl_tests(log(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        read_nccl_tests(tmp_path / "none.log")


@settings(max_examples=60)
@given(cut=st.integers(0, 2000), junk=st.binary(max_size=40), at=st.integers(0, 2000))
def test_mutated_logs_give_a_result_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes, at: int
) -> None:
    whole = (start() + ranks(2) + NEW_HEADER + ROW.replace("350.00", "200.00") + SUMMARY).encode()
    path = tmp_path_factory.mktemp("fuzz") / "all_reduce.log"
    path.write_bytes((whole[:at] + junk + whole[at:])[: max(cut, 0)])
    try:
        char = read_nccl_tests(path)
    except CodesignError as error:
        told = str(error)
    else:
        told = char.header.title
        assert (char.ops["time_s"] > 0).all()
    assert "\n" not in told


def test_control_sequences_of_a_terminal_are_no_part_of_a_line(tmp_path: Path) -> None:
    """``grep --color`` and progress bars clear to the end of the line, too."""
    text = start() + ranks() + NEW_HEADER + ROW + SUMMARY
    coloured = "".join(
        f"\x1b[2K\x1b[01;31m\x1b[K{line}\x1b[m\x1b[K\x1b[?25h\n" for line in text.splitlines()
    )
    ops = read_nccl_tests(log(tmp_path, coloured)).ops
    assert ops["time_s"].tolist() == [0.005, 0.005]


def test_numbers_of_another_locale_are_named_and_not_passed_over(tmp_path: Path) -> None:
    text = start() + ranks() + NEW_HEADER + ROW.replace(".", ",") + SUMMARY
    line = text[: text.index(ROW.replace(".", ","))].count("\n") + 1
    with pytest.raises(DataError, match=rf"run\.log:{line}: no row of the table can be read"):
        read_nccl_tests(log(tmp_path, text))


def test_ranks_on_another_device_than_the_system_are_said(tmp_path: Path) -> None:
    path = log(tmp_path, start() + ranks() + NEW_HEADER + ROW + SUMMARY)
    (warning,) = read_nccl_tests(path, system="hgx-h200").header.quality.warnings
    assert warning.startswith("NVIDIA H100 80GB HBM3 was recorded, but --system hgx-h200")
    assert not read_nccl_tests(path, system="hgx-h100").header.quality.warnings
