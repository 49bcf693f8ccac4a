"""One odd value in a trace takes no other value with it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.sources.kineto import _bytestream, read_kineto

from .traces import document, kernel, launch, write

US = 1e-6


@pytest.mark.parametrize("odd", [{"a": 1}, [0, 1], True, [[]]])
def test_an_odd_argument_leaves_device_stream_and_launch(tmp_path: Path, odd: object) -> None:
    odd_one = {"Process Group Ranks": odd, "Collective name": "allreduce", "dtype": "BFloat16",
               "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 2}  # fmt: skip
    events = [
        launch(0, 1), launch(1, 2),
        kernel(10, 40, "ncclDevKernel_AllReduce", corr=1, device=3, stream=20, **odd_one),
        # On another stream at the same time: nothing is clipped if the stream is known.
        kernel(20, 50, "gemm", corr=2, device=3, stream=7),
    ]  # fmt: skip
    char = read_kineto(write(tmp_path, events))
    assert {s.device for s in char.header.steps} == {"3"}
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.quality.clipped_events == 0
    row = char.ops[char.ops["op_class"] == "collective"].iloc[0]
    assert (row["message_bytes"], row["group_size"]) == (2048, 2)
    assert any("unexpected types" in w for w in char.header.quality.warnings)


@pytest.mark.parametrize("rank", [3, "3", 3.0, "3.0"])
def test_a_rank_is_known_whatever_stands_beside_it(tmp_path: Path, rank: object) -> None:
    info = {"rank": rank, "world_size": None, "backend": {"x": 1}, "nccl_version": [2, 27]}
    header = read_kineto(write(tmp_path, [kernel(0, 10)], distributedInfo=info)).header
    assert header.ranks == (3,)


@pytest.mark.parametrize("odd", [None, 7, {"id": 1, "name": None}, {"id": [], "name": "Foo X1"}])
def test_an_odd_device_hides_no_other(tmp_path: Path, odd: object) -> None:
    devices = [odd, {"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    header = read_kineto(write(tmp_path, [kernel(0, 10)], deviceProperties=devices)).header
    assert header.system == "hgx-h100"


def test_a_trace_of_begins_and_ends_says_what_it_lacks(tmp_path: Path) -> None:
    events = [{**kernel(100, 10), "ph": "B"}, {**kernel(110, 0), "ph": "E"}]
    with pytest.raises(DataError, match=r"no device activity.*2 device events that are not compl"):
        read_kineto(write(tmp_path, events))


@pytest.mark.parametrize("text", ["1_000", "1,000", "\u0661", "0x10", "--1", "1e", ".", "1 000"])
def test_text_that_only_looks_like_a_number_is_no_time(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="expected microseconds"):
        read_kineto(write(tmp_path, [kernel(0, 10), kernel(text, 10)]))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("padding", [0, 1, 100])
def test_members_of_a_gzip_file_may_begin_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, padding: int
) -> None:
    """bgzip and appended files have many members; where one is read in parts, it still is one."""
    monkeypatch.setattr(_bytestream, "_READ_BYTES", size)
    text = document([launch(0, 1), kernel(10, 10, corr=1), kernel(30, 10)]).encode()
    packed = [gzip.compress(text[i : i + 50]) for i in range(0, len(text), 50)]
    path = tmp_path / "trace.json.gz"
    path.write_bytes((b"\0" * padding).join(packed) + b"\0" * padding)
    assert read_kineto(path).header.totals["kernel_time_s"] == pytest.approx(20 * US)


@pytest.mark.parametrize("size", [2**62, "1" * 18, 1e30, -5])
def test_a_copy_of_impossible_size_moves_an_unknown_number(tmp_path: Path, size: object) -> None:
    copy = {**kernel(20, 10, "Memcpy HtoD (Pinned -> Device)", bytes=size), "cat": "gpu_memcpy"}
    char = read_kineto(write(tmp_path, [kernel(0, 10), copy]))
    row = char.ops[char.ops["op_class"] == "copy"].iloc[0]
    assert row["time_s"] == pytest.approx(10 * US)
    assert row.isna()["bytes"]
