"""Relatives of the reported faults: each kind of damage, in other places and spellings."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.sources.kineto import read_kineto
from codesign.sources.kineto.ranks import rank_of_name
from codesign.workload.characterization import Characterization
from tests.sources.kineto.traces import document, kernel, launch

GOOD = document(
    [kernel(20 * i, 10, f"k{i}", corr=i) for i in range(5)]
    + [launch(20 * i - 5, i) for i in range(5)]
)


def read(folder: Path, text: str | bytes, **options: bool) -> Characterization:
    path = folder / "t.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_kineto(path, **options)


def kernels(char: Characterization) -> tuple[float, int]:
    """Kernels and their time in us."""
    return char.header.totals["kernels"], round(char.header.totals["kernel_time_s"] * 1e6)


@pytest.mark.parametrize(
    ("old", "new", "repaired"),
    [
        ('"device": 0', '"device": 0, "note": "a "b" c"', 5),
        ('"device": 0', '"device": 0, "note": "x", "y"', 5),
        ('"correlation": 3}', '"correlation": 3, "note": "say ""hi"" you"}', 2),
        ('"k2"', '"k{"ph": "X", "cat": "kernel"', 1),
        ('"k2"', '"k\n2"', 1),
        ('"k2"', '"void f<"a", "b">()"', 1),
    ],
)
def test_raw_quotes_anywhere_are_an_error_and_can_be_repaired(
    tmp_path: Path, old: str, new: str, repaired: int
) -> None:
    text = GOOD.replace(old, new)
    with pytest.raises(DataError, match=r"byte \d+ \(line \d+\).*--repair"):
        read(tmp_path, text)
    char = read(tmp_path, text, repair=True)
    assert kernels(char) == (5, 50)
    assert char.header.quality.repaired_events == repaired
    assert char.header.quality.dropped_events == 0


@pytest.mark.parametrize(
    ("old", "new"), [("}, {", "} {"), ("}, {", "},, {"), ("}]}", "}, ]}")]
)  # fmt: skip
def test_commas_amiss_are_read_with_one_warning(tmp_path: Path, old: str, new: str) -> None:
    char = read(tmp_path, GOOD.replace(old, new))
    assert kernels(char) == (5, 50)
    assert sum("commas" in w for w in char.header.quality.warnings) == 1
    assert not any("commas" in w for w in read(tmp_path, GOOD).header.quality.warnings)


@pytest.mark.parametrize("byte", [0, 1, 8, 11, 27, 31])
def test_any_control_byte_is_read_once_warned_and_never_passed_on(
    tmp_path: Path, byte: int
) -> None:
    char = read(tmp_path, GOOD.encode().replace(b'"k1"', b'"k%c1"' % byte))
    assert kernels(char) == (5, 50)
    assert sum("control bytes" in w for w in char.header.quality.warnings) == 1
    assert not re.search(r"[\x00-\x1f]", "".join(char.ops["kernel"]))


@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.85, 0.95])
@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_anywhere_says_how_many_events_are_whole(
    tmp_path: Path, share: float, packed: bool
) -> None:
    data = GOOD.encode()
    data = gzip.compress(data) if packed else data
    cut = data[: int(len(data) * share)]
    with pytest.raises(DataError, match=r"truncated after \d+ complete events") as caught:
        read(tmp_path, cut)
    found = re.search(r"after (\d+)", str(caught.value))
    assert found is not None
    if int(found[1]) == 0:
        return
    quality = read(tmp_path, cut, allow_truncated=True).header.quality
    assert not quality.complete
    assert not quality.reliable("step_time")
    assert any(f"after {found[1]} complete events" in w for w in quality.warnings)


def test_a_cut_at_any_byte_is_told_from_malformed(tmp_path: Path) -> None:
    """Inside of numbers, escapes, literals and letters of several bytes, and in what follows."""
    events = [kernel(0, 10.25, "k\n\u00e9 \U0001f600", corr=1, share=-1.25e-3, seen=True)]
    head = json.dumps({"deviceProperties": [{"id": 0, "clock": 1.5}]})[:-1]
    tail = ', "distributedInfo": {"rank": 0, "share": 0.5, "none": null}}'
    text = json.dumps([*events, launch(-5, 1)], ensure_ascii=False)
    for data in (f'{head}, "traceEvents": {text}{tail}'.encode(), text.encode()):
        assert kernels(read(tmp_path, data)) == (1, 10)
        whole = data.index(b'}}, {"ph"') + 2 if data[:1] == b"{" else data.index(b"}}, {") + 2
        for size in range(1, len(data)):
            with pytest.raises(DataError, match="truncated after"):
                read(tmp_path, data[:size])
            if size % 11:
                continue  # a whole characterization takes longer than an error
            if size < whole:
                with pytest.raises(DataError, match="before the first complete event"):
                    read(tmp_path, data[:size], allow_truncated=True)
            else:
                char = read(tmp_path, data[:size], allow_truncated=True)
                assert char.header.totals["kernels"] == 1
                assert not char.header.quality.complete


@pytest.mark.parametrize("tail", ["1.", "-", "1e", "1e+", "12", '"a\\u00', "tru", "[1."])
def test_an_event_longer_than_the_parsers_window_is_whole_wherever_that_ends(
    tmp_path: Path, tail: str
) -> None:
    """The careful way reads windows of 16 KiB; doubled commas make it the one that is taken."""
    rest = {"1.": "5", "-": "7", "1e": "5", "1e+": "5", "12": "3", '"a\\u00': 'e9"',
            "tru": "e", "[1.": "5]"}[tail]  # fmt: skip
    opening = '{"ph": "X", "cat": "kernel", "name": "long", "pid": 0, "tid": 7, "ts": 500, "dur": 3'
    opening += ', "args": {"stream": 7, "pad": "'
    middle = '", "x": ' + tail
    padding = "p" * ((1 << 14) - len(opening) - len(middle))
    text = GOOD.replace("}]}", "}, " + opening + padding + middle + rest + "}}]}")
    text = text.replace("}, {", "},, {", 1)
    assert kernels(read(tmp_path, text)) == (6, 53)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ts": 20', '"ts": "20"'), ('"ts": 20', '"ts": " 20.000 "'), ('"ts": 20', '"ts": 2.0e1'),
        ('"dur": 10', '"dur": "10.0"'), ('"correlation": 1}', '"correlation": "1"}'),
        ('"correlation": 1}', '"correlation": "0x1"}'),
        ('"correlation": 1}', '"correlation": 1.0}'),
        ('"pid": 0', '"pid": "0"'), ('"tid": 7', '"tid": "7"'), ('"stream": 7', '"stream": "7"'),
        ('"cat": "kernel"', '"cat": "Kernel"'),
    ],
)  # fmt: skip
def test_numbers_as_text_and_other_spellings_are_the_same(
    tmp_path: Path, old: str, new: str
) -> None:
    char, plain = read(tmp_path, GOOD.replace(old, new)), read(tmp_path, GOOD)
    assert old in GOOD
    assert char.header.totals == plain.header.totals
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.quality.orphan_kernels == 0


def test_ids_beyond_53_bits_stay_apart(tmp_path: Path) -> None:
    big = 2**60 + 1
    events = [kernel(20 * i + 5, 10, corr=big + i) for i in range(3)]
    events += [launch(20 * i, big + i) for i in range(3)]
    header = read(tmp_path, document(events)).header
    assert header.quality.launch_coverage == 1.0
    assert header.totals["launch_latency_median_s"] == pytest.approx(5e-6)


@pytest.mark.parametrize("args", ["null", "[1]", '"x"', "7", '{"stream": {}}'])
def test_arguments_of_any_kind_keep_the_kernel(tmp_path: Path, args: str) -> None:
    text = GOOD.replace('{"device": 0, "stream": 7, "correlation": 1}', args)
    assert kernels(read(tmp_path, text)) == (5, 50)


def test_events_without_a_category_hide_no_others(tmp_path: Path) -> None:
    odd = '{"ph": "M", "name": "process_name", "args": {"name": "p"}}, {"ph": "X", "ts": 0}, '
    text = GOOD.replace('"traceEvents": [', '"traceEvents": [' + odd)
    text = text.replace('"cat": "cuda_runtime"', '"cat": "made_up"', 1)
    char = read(tmp_path, text)
    assert kernels(char) == (5, 50)
    assert "event categories not known and left out: made_up" in char.header.quality.warnings


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-3.json", 3), ("trace_3.json.gz", 3), ("rank3.pt.trace.json", 3),
        ("node_1.rank_12.json", 12), ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34),
        ("node1_4711.1700000000000.pt.trace.json.gz", None), ("trace.json", None),
        ("franking.json", None), ("rank.3.json", 3), ("run_rank=12.json", 12),
        ("rank.1700000000000.json", None),
    ],
)  # fmt: skip
def test_rank_of_a_name_and_never_the_process_id(name: str, rank: int | None) -> None:
    assert rank_of_name(Path(name)) == rank


def test_names_with_process_ids_do_not_pass_for_ranks(tmp_path: Path) -> None:
    files = [tmp_path / f"host_{pid}.1700000000000.pt.trace.json" for pid in (100, 101)]
    for path in files:
        path.write_text(GOOD)
    with pytest.raises(UsageError, match=r"host_100.*host_101"):
        read_kineto(files)


@pytest.mark.parametrize("device", ["NVIDIA H2000", "Foo X1", "", "NVIDIA B300 SXM6 AC rev 9"])
def test_a_device_that_only_looks_known_has_no_system(tmp_path: Path, device: str) -> None:
    header = read(tmp_path, document(
        [kernel(0, 10)], deviceProperties=[{"id": 0, "name": device}]
    )).header  # fmt: skip
    assert header.system is None
    assert any("--system" in w for w in header.quality.warnings)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads peak memory of Linux")
def test_memory_does_not_grow_with_what_is_skipped(tmp_path: Path) -> None:
    frame = json.dumps({"ph": "X", "cat": "python_function", "name": "f" * 100, "ts": 1, "dur": 1})
    sizes = {}
    for count in (10, 200_000):
        path = tmp_path / f"{count}.json"
        body = ",".join([json.dumps(kernel(0, 10)), *[frame] * count])
        path.write_text(f'{{"traceEvents": [{body}]}}')
        code = (
            "import re, sys\n"
            "from codesign.sources.kineto import read_kineto\n"
            "read_kineto(sys.argv[1])\n"
            "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
        )  # fmt: skip
        sizes[count] = int(done.stdout) / 1024
    # 36 MB of text, of which a window at a time is held.
    assert sizes[200_000] - sizes[10] < 20
