"""Faults that users of other readers reported, re-created small, with the right value."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization
from tests.sources.kineto.traces import annotation, document, kernel, launch, op, write

US = 1e-6


def kernels(char: Characterization) -> float:
    return char.header.totals["kernels"]


def kernel_us(char: Characterization) -> float:
    return char.header.totals["kernel_time_s"] / US


def warned(char: Characterization, text: str) -> bool:
    return any(text in w for w in char.header.quality.warnings)


def five_kernels() -> list[dict[str, object]]:
    return [kernel(100 * i, 10, corr=i) for i in range(5)]


# -- reading -------------------------------------------------------------------------


def unescaped(folder: Path, name: str) -> Path:
    events = [json.dumps(e) for e in five_kernels()]
    bad = '{"ph":"X","cat":"python_function","name":"%s","pid":1,"tid":1,"ts":1,"dur":2,"args":{}}'
    events.insert(2, bad % name)
    path = folder / "trace.json"
    path.write_text('{"traceEvents":[\n' + ",\n".join(events) + "\n]}")
    return path


@pytest.mark.parametrize("name", ['<module "x">', "two\nlines", 'odd " one', 'a", "b'])
def test_unescaped_name_is_a_located_error(tmp_path: Path, name: str) -> None:
    path = unescaped(tmp_path, name)
    with pytest.raises(DataError) as caught:
        read_kineto(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    offset = int(message.split("byte ")[1].split(maxsplit=1)[0])
    start = path.read_bytes().index(b'{"ph":"X"')
    assert start <= offset <= start + 120
    # Two lines above the event: the opening, two kernels.
    assert "(line 4)" in message or "(line 5)" in message


@pytest.mark.parametrize("name", ['<module "x">', "two\nlines", 'odd " one', 'a", "b'])
def test_unescaped_name_is_repaired_on_request(tmp_path: Path, name: str) -> None:
    char = read_kineto(unescaped(tmp_path, name), repair=True)
    assert kernels(char) == 5
    assert kernel_us(char) == pytest.approx(50)
    quality = char.header.quality
    assert quality.repaired_events + quality.dropped_events == 1
    assert warned(char, "malformed event")


def test_unescaped_kernel_name_keeps_its_time(tmp_path: Path) -> None:
    events = [json.dumps(e) for e in five_kernels()]
    events[3] = events[3].replace("gemm_kernel", 'ge"mm"_kernel')
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents":[' + ", ".join(events) + "]}")
    char = read_kineto(path, repair=True)
    assert (kernels(char), kernel_us(char)) == (5, pytest.approx(50))
    assert char.header.quality.repaired_events == 1
    assert 'ge"mm"_kernel' in set(char.ops["kernel"])


def test_control_byte_in_a_name_is_read_with_one_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text = document([kernel(0, 10, "ab"), kernel(20, 10, "cd")])
    path.write_bytes(text.encode().replace(b"ab", b"a\x01b").replace(b"cd", b"c\x02d"))
    char = read_kineto(path)
    assert kernel_us(char) == pytest.approx(20)
    assert sum("control bytes" in w for w in char.header.quality.warnings) == 1
    assert not any(ord(c) < 32 for name in char.ops["kernel"] for c in name)


def test_escaped_control_character_reaches_no_output(tmp_path: Path) -> None:
    char = read_kineto(write(tmp_path, [kernel(0, 10, "a\x01b\nc")]))
    assert not any(ord(c) < 32 for c in char.ops["kernel"][0])
    char.save(tmp_path / "c.parquet")


def test_bad_utf8_nan_backslash_and_half_surrogate(tmp_path: Path) -> None:
    text = document([kernel(0, 10, "aXb", note="N"), kernel(20, 10, "cYd"), kernel(40, 10, "eZf")])
    raw = text.encode().replace(b"X", b"\xff", 2).replace(b"cYd", b"c\\Yd")
    raw = raw.replace(b"eZf", b"e\\ud800f").replace(b'"N"', b"NaN").replace(b"\xff", b"X", 1)
    path = tmp_path / "trace.json"
    path.write_bytes(raw)
    char = read_kineto(path)
    assert kernel_us(char) == pytest.approx(30)
    char.save(tmp_path / "c.parquet")


def test_file_cut_short(tmp_path: Path) -> None:
    whole = document([kernel(100 * i, 10, corr=i) for i in range(200)]).encode()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: len(whole) * 6 // 10])
    complete = cut.read_bytes().count(b'"ph"') - 1
    with pytest.raises(DataError, match=f"truncated after {complete} complete events"):
        read_kineto(cut)
    char = read_kineto(cut, allow_truncated=True)
    assert kernels(char) == complete
    assert not char.header.quality.complete
    assert not char.header.quality.reliable("steps")


def test_gzip_cut_short(tmp_path: Path) -> None:
    whole = gzip.compress(document([kernel(97.31 * i, 10, f"k{i}") for i in range(3000)]).encode())
    path = tmp_path / "cut.json.gz"
    path.write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.raises(DataError, match=r"truncated after \d+ complete events") as caught:
        read_kineto(path)
    stated = int(str(caught.value).split("after ")[1].split()[0])
    char = read_kineto(path, allow_truncated=True)
    assert 0 < kernels(char) == stated < 3000


@pytest.mark.parametrize("missing", ["]}", "}"])
def test_missing_closing_brackets(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(document(five_kernels()).removesuffix(missing))
    with pytest.raises(DataError, match="truncated after 5 complete events"):
        read_kineto(path)
    assert kernels(read_kineto(path, allow_truncated=True)) == 5


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(document(five_kernels()).encode() * 1))
    whole[len(whole) // 2] ^= 0xFF
    path = tmp_path / "bad.json.gz"
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"truncated|damaged|malformed|byte"):
        read_kineto(path)


def test_times_as_strings(tmp_path: Path) -> None:
    plain = read_kineto(write(tmp_path, [kernel(1000.5, 2.0), kernel(2000.25, 3.125)], "a.json"))
    text = [kernel("1000.5", "2.0", big=2**60), kernel("2000.25", "3.125")]
    told = read_kineto(write(tmp_path, text, "b.json"))
    assert told.header.totals == plain.header.totals
    assert kernel_us(told) == pytest.approx(5.125)


def test_unreadable_kinds_of_file(tmp_path: Path) -> None:
    for name, content in {
        "empty.json": b"", "blank.json": b"  \n", "text.json": b"hello", "none.json": b"{}",
        "null.json": b'{"traceEvents": null}', "zip.json": b"PK\x03\x04....",
        "nested.json": b'{"a": {"traceEvents": []}}', "number.json": b"3", "deep.json": b"[" * 9999,
    }.items():  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            read_kineto(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="cannot read"):
        read_kineto(tmp_path / "absent.json")
    with pytest.raises(DataError, match="cannot read"):
        read_kineto(tmp_path)
    with pytest.raises(UsageError):
        read_kineto([])


@pytest.mark.parametrize(
    ("ts", "dur"), [(10, -5), (10, None), ("soon", 5), (10, 1e15), (1e30, 5), (None, 5)]
)
def test_kernel_without_a_time_is_refused_or_dropped(
    tmp_path: Path, ts: object, dur: object
) -> None:
    path = write(tmp_path, [*five_kernels(), kernel(ts, dur, "odd_one")])
    with pytest.raises(DataError, match=r"byte \d+ \(line 1\).*odd_one") as caught:
        read_kineto(path)
    offset = int(str(caught.value).split("byte ")[1].split()[0])
    assert path.read_text()[offset:].startswith('{"ph": "X", "cat": "kernel", "name": "odd_one"')
    char = read_kineto(path, repair=True)
    assert (kernels(char), char.header.quality.dropped_events) == (5, 1)


# -- joins ---------------------------------------------------------------------------


def test_kernel_before_its_launch_has_no_latency(tmp_path: Path) -> None:
    skewed = [launch(100, 1), kernel(98, 10, corr=1)]
    char = read_kineto(write(tmp_path, skewed))
    assert kernel_us(char) == pytest.approx(10)
    assert char.header.quality.skewed_launches == 1
    assert "launch_latency_median_s" not in char.header.totals
    assert warned(char, "n/a")
    more = [*skewed, launch(200, 2), kernel(208, 10, corr=2)]
    char = read_kineto(write(tmp_path, more))
    assert char.header.totals["launch_latency_median_s"] == pytest.approx(8 * US)


def test_duration_over_the_next_slice_is_clipped(tmp_path: Path) -> None:
    events = [kernel(0, 1_000_000, "K1"), kernel(100, 10, "K2"), kernel(120, 10, "K3")]
    char = read_kineto(write(tmp_path, events))
    assert kernel_us(char) == pytest.approx(120)
    assert char.header.totals["busy_s"] == pytest.approx(120 * US)
    assert char.header.totals["span_s"] == pytest.approx(130 * US)
    assert char.header.quality.clipped_events == 1
    assert warned(char, "K1")
    assert warned(char, "1e+06 us clipped to 100 us")


def test_overlap_below_a_microsecond_is_tolerated(tmp_path: Path) -> None:
    char = read_kineto(write(tmp_path, [kernel(0, 10.9, "K1"), kernel(10, 5, "K2")]))
    assert kernel_us(char) == pytest.approx(15.9)
    assert char.header.totals["busy_s"] == pytest.approx(15 * US)
    assert char.header.quality.clipped_events == 0
    assert not any("clipped" in w for w in char.header.quality.warnings)


def test_streams_and_branches_of_a_graph_may_overlap(tmp_path: Path) -> None:
    streams = [kernel(0, 100, stream=7), kernel(50, 100, stream=8)]
    assert read_kineto(write(tmp_path, streams)).header.quality.clipped_events == 0
    graph = [launch(0, 9, "cudaGraphLaunch"), kernel(10, 100, corr=9), kernel(50, 100, corr=9)]
    char = read_kineto(write(tmp_path, graph))
    assert char.header.quality.clipped_events == 0
    assert kernel_us(char) == pytest.approx(200)


def test_graph_kernels_share_one_launch(tmp_path: Path) -> None:
    names = ["nvjet_tst_128x64_h_bz_TNT", "flash_fwd_kernel", "void rms_norm_kernel<float>"]
    events = [
        op(0, 90, "aten::mm", 5, [[8, 8], [8, 8]], ["float", "float"]),
        launch(10, 9, "cudaGraphLaunch", **{"External id": 5}),
        *(kernel(100 * (i + 1), 10 * (i + 1), n, corr=9) for i, n in enumerate(names)),
    ]
    char = read_kineto(write(tmp_path, events))
    assert len(char.ops) == 3
    assert char.ops["time_s"].sum() == pytest.approx(60 * US)
    assert set(char.ops["op_class"]) == {"gemm", "attention", "norm"}
    assert char.ops["flops"].isna().all()
    assert char.header.quality.shape_coverage == 0.0
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.quality.orphan_kernels == 0
    assert warned(char, "0 % of GPU time has shapes")


def test_graph_replays_without_kernels_make_idle_unreliable(tmp_path: Path) -> None:
    events = [launch(1000 * i, i, "cudaGraphLaunch") for i in range(10)]
    events += [kernel(1000 * i + 50, 900, corr=i) for i in (3, 7)]
    char = read_kineto(write(tmp_path, events))
    quality = char.header.quality
    assert quality.launch_coverage == pytest.approx(0.2)
    for quantity in ("idle", "launch", "exposed"):
        assert not quality.reliable(quantity)
        assert "8 of 10 launches" in quality.reliability[quantity].reasons[0]


def test_kernels_dropped_at_the_start(tmp_path: Path) -> None:
    events = [launch(100 * i, i) for i in range(10)]
    events += [kernel(100 * i + 10, 20, corr=i) for i in range(3, 10)]
    char = read_kineto(write(tmp_path, events))
    assert char.header.quality.launch_coverage == pytest.approx(0.7)
    assert warned(char, "launch coverage 70%")


def test_empty_steps_and_one_dominant_event(tmp_path: Path) -> None:
    events = [annotation(10_000 * i, 10_000, f"ProfilerStep#{i}") for i in range(4)]
    events += [launch(20_010 + i, i) for i in range(10)]
    events += [kernel(20_100 + 10 * i, 1, f"k{i}", corr=i) for i in range(9)]
    events += [kernel(20_200, 891, "giant", corr=9)]
    char = read_kineto(write(tmp_path, events))
    quality = char.header.quality
    assert (quality.steps_found, quality.steps_by) == (4, "ProfilerStep")
    assert [s.kernels for s in char.header.steps] == [0, 0, 10, 0]
    assert [s.idle_s for s in char.header.steps] == pytest.approx([1e-2, 1e-2, 9.1e-3, 1e-2])
    assert not quality.reliable("steps")
    assert not quality.reliable("step_time")
    assert warned(char, "3 of 4 steps hold no kernels")
    assert warned(char, "giant, is 99% of all kernel time")


def test_orphans_count_and_the_other_convention_is_stated(tmp_path: Path) -> None:
    events = [launch(0, 1), kernel(10, 10, corr=1), kernel(30, 5, "lost", corr=77)]
    char = read_kineto(write(tmp_path, events))
    assert kernel_us(char) == pytest.approx(15)
    assert char.header.quality.orphan_kernels == 1
    assert warned(char, "Without them kernel time is 10.0 µs")


def test_absent_kinds_of_event(tmp_path: Path) -> None:
    char = read_kineto(write(tmp_path, [kernel(0, 10)]))
    assert char.header.quality.launch_coverage is None
    with pytest.raises(DataError, match="no device activity") as caught:
        read_kineto(write(tmp_path, [op(0, 10, "aten::mm")]))
    assert caught.value.exit_code == 3
    with pytest.raises(DataError, match="no device activity"):
        read_kineto(write(tmp_path, []))


@pytest.mark.parametrize(
    ("cat", "name"),
    [("xpu_runtime", "urEnqueueKernelLaunch"), ("cuda_driver", "cuLaunchKernelEx"),
     ("privateuse1_runtime", "LaunchKernel"), ("mtia_runtime", "launch"),
     ("Runtime", "cudaLaunchKernel"), ("cuda_runtime", "hipExtModuleLaunchKernel")],
)  # fmt: skip
def test_launches_of_every_back_end(tmp_path: Path, cat: str, name: str) -> None:
    events = [launch(0, 1, name, cat), kernel(10, 10, corr=1),
              annotation(0, 1, "x", cat="quantum_runtime"),
              annotation(5, 1, "y", cat="quantum_runtime")]  # fmt: skip
    char = read_kineto(write(tmp_path, events))
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.quality.orphan_kernels == 0
    assert sum("quantum_runtime" in w for w in char.header.quality.warnings) == 1


def test_two_ranks_merged_in_one_file(tmp_path: Path) -> None:
    events = [kernel(0, 100, device=0), kernel(0, 100, device=1)]
    char = read_kineto(write(tmp_path, events))
    steps = {s.device: s for s in char.header.steps}
    assert set(steps) == {"0", "1"}
    for step in steps.values():
        assert step.compute_s / step.time_s == pytest.approx(1.0)
    assert char.header.totals["busy_s"] == pytest.approx(100 * US)
    assert char.header.quality.clipped_events == 0


def test_merged_ranks_of_two_nodes_have_the_same_device_number(tmp_path: Path) -> None:
    events = [kernel(0, 100), kernel(0, 100) | {"pid": 1000}]
    header = read_kineto(write(tmp_path, events)).header
    assert {s.device for s in header.steps} == {"0 of process 0", "0 of process 1000"}
    assert [s.compute_s for s in header.steps] == pytest.approx([100e-6] * 2)
    assert header.quality.clipped_events == 0


def test_a_device_of_one_process_is_called_by_its_number(tmp_path: Path) -> None:
    events = [kernel(0, 10) | {"pid": 4711}, kernel(20, 10) | {"pid": 4711}]
    assert {s.device for s in read_kineto(write(tmp_path, events)).header.steps} == {"0"}


def test_correlation_ids_of_two_processes(tmp_path: Path) -> None:
    events = [
        launch(0, 5, pid=100), launch(1000, 5, pid=200),
        kernel(10, 10, corr=5, device=0), kernel(1010, 10, corr=5, device=1),
    ]  # fmt: skip
    char = read_kineto(write(tmp_path, events))
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.totals["launch_latency_median_s"] == pytest.approx(10 * US)
    assert warned(char, "merged ranks")


# -- ranks ---------------------------------------------------------------------------


def test_one_file_without_a_rank_is_rank_0(tmp_path: Path) -> None:
    char = read_kineto(write(tmp_path, [kernel(0, 10)]))
    assert char.header.ranks == (0,)
    assert any("rank 0" in n for n in char.header.notes)


def test_ranks_from_names_or_an_error_that_names_both(tmp_path: Path) -> None:
    named = [write(tmp_path, [kernel(0, 10 + i)], f"rank-{i}.json") for i in (3, 1)]
    char = read_kineto(named)
    assert char.header.ranks == (1, 3)
    assert kernel_us(char) == pytest.approx(11)
    plain = [write(tmp_path, [kernel(0, 10)], n) for n in ("a.json", "b.json")]
    with pytest.raises(UsageError) as caught:
        read_kineto(plain)
    assert all(str(p) in str(caught.value) for p in plain)
    twice = [write(tmp_path, [kernel(0, 10)], f"{n}_3.json") for n in "ab"]
    with pytest.raises(UsageError, match="both rank 3"):
        read_kineto(twice)


def test_recorded_rank_beats_the_name(tmp_path: Path) -> None:
    path = write(tmp_path, [kernel(0, 10)], "rank-3.json", distributedInfo={"rank": 6})
    assert read_kineto(path).header.ranks == (6,)


# -- metrics -------------------------------------------------------------------------


def test_busy_time_is_a_union_never_a_sum(tmp_path: Path) -> None:
    events = [kernel(0, 100, "gemm"), kernel(50, 100, "ncclDevKernel_AllReduce", stream=20)]
    totals = read_kineto(write(tmp_path, events)).header.totals
    expected = {"busy_s": 150, "span_s": 150, "kernel_time_s": 200, "overlap_s": 50,
                "exposed_comm_s": 50, "comm_s": 100, "compute_s": 100}  # fmt: skip
    assert {k: totals[k] / US for k in expected} == pytest.approx(expected)


def test_gpu_annotation_is_not_device_time(tmp_path: Path) -> None:
    events = [annotation(0, 100, "nccl:all_reduce", cat="gpu_user_annotation"),
              kernel(0, 100, "ncclDevKernel_AllReduce")]  # fmt: skip
    char = read_kineto(write(tmp_path, events))
    assert kernel_us(char) == pytest.approx(100)
    assert char.ops["time_s"].sum() == pytest.approx(100 * US)
