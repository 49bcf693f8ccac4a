"""Files that are legal and odd, or no files at all: the right value or one clear line."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path

import pandas as pd
import pytest

from codesign._common.errors import DataError
from codesign.sources import read
from codesign.sources.kineto import decode, read_kineto
from codesign.sources.kineto.metadata import distributed
from codesign.workload.characterization import Characterization
from tests.sources.kineto.traces import document, kernel, launch, write

EVENTS = [kernel(20 * i, 10, f"k{i}", corr=i) for i in range(5)]
LAUNCHES = [launch(20 * i - 5, i) for i in range(5)]
GOOD = document(EVENTS + LAUNCHES)


def put(folder: Path, content: bytes, name: str = "t.json") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def kernels(char: Characterization) -> tuple[float, int]:
    """Kernels and their time in us."""
    return char.header.totals["kernels"], round(char.header.totals["kernel_time_s"] * 1e6)


@pytest.mark.parametrize("reader", [read, read_kineto, Characterization.load])
def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path, reader: object) -> None:
    pipe = tmp_path / "rank-0.json"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match=r"rank-0\.json: cannot read: no ordinary file"):
        reader(pipe)  # type: ignore[operator]


@pytest.mark.parametrize("cut", [1, 4, 7, 8])
def test_gzip_without_its_whole_trailer_is_read_with_a_warning(tmp_path: Path, cut: int) -> None:
    char = read_kineto(put(tmp_path, gzip.compress(GOOD.encode())[:-cut]))
    assert kernels(char) == (5, 50)
    assert any("ends early" in w for w in char.header.quality.warnings)


@pytest.mark.parametrize("trailer", [b"\0" * 8, b"\xff" * 4])
def test_content_that_its_checksum_denies_is_no_silent_result(
    tmp_path: Path, trailer: bytes
) -> None:
    """What unpacks to whole JSON may still be other numbers than were written."""
    packed = gzip.compress(GOOD.encode())
    path = put(tmp_path, packed[: -len(trailer)] + trailer)
    with pytest.raises(DataError, match=r"after 10 complete events.*damaged.*--allow-truncated"):
        read_kineto(path)
    char = read_kineto(path, allow_truncated=True)
    assert kernels(char) == (5, 50)
    assert not char.header.quality.complete


@pytest.mark.parametrize("events", [1, 7, 9])
def test_all_before_the_damage_of_a_gzip_stream_is_there(tmp_path: Path, events: int) -> None:
    """To the byte: a flushed block, then one of a type that deflate does not have."""
    whole = json.dumps(EVENTS + LAUNCHES).encode()
    end = len(json.dumps((EVENTS + LAUNCHES)[:events])) - 1
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(whole[: end + 40]) + packer.flush(zlib.Z_FULL_FLUSH)
    path = put(tmp_path, packed + b"\x07" * 300)
    with pytest.raises(DataError, match=f"after {events} complete events.*damaged"):
        read_kineto(path)
    char = read_kineto(path, allow_truncated=True)
    assert kernels(char) == (min(events, 5), 10 * min(events, 5))
    assert not char.header.quality.complete


@pytest.mark.parametrize("nuls", [1, 4096, 2_000_000])
def test_room_reserved_and_never_written(tmp_path: Path, nuls: int) -> None:
    """A writer that died leaves NUL bytes: a whole document is read, half of one is cut."""
    assert kernels(read_kineto(put(tmp_path, GOOD.encode() + b"\0" * nuls))) == (5, 50)
    bare = json.dumps(EVENTS + LAUNCHES).encode()
    assert kernels(read_kineto(put(tmp_path, bare + b"\0" * nuls))) == (5, 50)
    cut = put(tmp_path, bare[:-1] + b",\n" + b"\0" * nuls)
    with pytest.raises(DataError, match="truncated after 10 complete events"):
        read_kineto(cut)
    char = read_kineto(cut, allow_truncated=True)
    assert kernels(char) == (5, 50)
    assert not char.header.quality.complete


def test_two_lists_of_events_are_never_half_read(tmp_path: Path) -> None:
    """Parsers keep the last of two equal keys, so that each reader would see another half."""
    path = put(tmp_path, (GOOD[:-1] + f', "traceEvents": {json.dumps(EVENTS)}}}').encode())
    with pytest.raises(DataError, match="second list of traceEvents"):
        read_kineto(path)
    assert kernels(read_kineto(path, repair=True)) == (5, 50)


@pytest.mark.parametrize("other", ["null", "0", "-1.5e3", '"text"', "true"])
def test_what_is_no_event_costs_no_event_beside_it(tmp_path: Path, other: str) -> None:
    for text in (
        GOOD.replace('"traceEvents": [', f'"traceEvents": [{other}, '),
        GOOD.replace("]}", f", {other}]}}"),
        GOOD.replace('}}, {"ph"', f'}}}}, {other}, {{"ph"', 1),
    ):
        assert text != GOOD
        path = put(tmp_path, text.encode())
        with pytest.raises(DataError, match=r"byte \d+ \(line 1\).*--repair"):
            read_kineto(path)
        char = read_kineto(path, repair=True)
        assert kernels(char) == (5, 50)
        assert char.header.quality.dropped_events == 1


def test_whole_numbers_with_a_point_are_the_same_device_and_stream(tmp_path: Path) -> None:
    spelled = [
        kernel(0, 10, corr=1), kernel(20, 10, corr=2, device=0.0, stream=7.0),  # type: ignore[arg-type]
        kernel(40, 10, corr=3, device="0", stream="7"),  # type: ignore[arg-type]
    ]  # fmt: skip
    for event in spelled:
        event["pid"], event["tid"] = 1, 2
    char = read_kineto(write(tmp_path, spelled))
    assert kernels(char) == (3, 30)
    assert {s.device for s in char.header.steps} == {"0"}


@pytest.mark.parametrize(
    ("stated", "rank"), [(-1, 4), (10**30, 4), ("x", 4), (None, 4), (7, 7), ("7", 7)]
)
def test_a_rank_that_cannot_be_is_none(tmp_path: Path, stated: object, rank: int) -> None:
    """Then the file's name tells it, as it does for files that record no rank."""
    info = {"rank": stated, "world_size": 8}
    path = write(tmp_path, EVENTS, "rank-4.json", distributedInfo=info)
    char = read_kineto(path)
    assert char.header.ranks == (rank,)
    char.save(tmp_path / "c.parquet")
    assert Characterization.load(tmp_path / "c.parquet").header.ranks == (rank,)


@pytest.mark.parametrize("size", [0, -8, 10**20])
def test_a_job_of_impossible_size_is_none(tmp_path: Path, size: int) -> None:
    path = write(tmp_path, EVENTS, distributedInfo={"rank": 0, "world_size": size})
    assert read_kineto(path).header.gpus == 1
    assert distributed({}).world_size is None


def test_categories_that_hide_all_device_time_are_named(tmp_path: Path) -> None:
    event = {**EVENTS[0], "cat": "npu_kernel"}
    with pytest.raises(DataError, match=r"no device activity.*npu_kernel"):
        read_kineto(write(tmp_path, [event]))


@pytest.mark.parametrize(
    ("head", "what"),
    [(b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh91AY", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"PK\x03\x04",
     "zip")],
)  # fmt: skip
def test_other_packing_is_named_whatever_the_files_name(
    tmp_path: Path, head: bytes, what: str
) -> None:
    with pytest.raises(DataError, match=rf"{what}.*unpack it"):
        read(put(tmp_path, head + bytes(200), "rank-0.json.gz"))


@pytest.mark.parametrize("good", [0, 1])
def test_many_events_that_nothing_mends_cost_a_bounded_effort_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int
) -> None:
    """Bytes that are tried for mending grow with the file, not with its square."""
    tried = []
    mend = decode.mend_quotes
    monkeypatch.setattr(
        decode, "mend_quotes", lambda piece, *rest: tried.append(len(piece)) or mend(piece, *rest)
    )
    sizes = []
    for count in (1000, 2000):
        broken = [json.dumps({**EVENTS[0], "name": "Q"}).replace('Q"', 'x" : ')] * count
        events = [json.dumps(e) for e in EVENTS[:good]]
        path = put(tmp_path, f"[{', '.join([*events, *broken, *events])}]".encode())
        tried.clear()
        if good:
            assert read_kineto(path, repair=True).header.quality.dropped_events == count
        else:
            with pytest.raises(DataError, match="no device activity"):
                read_kineto(path, repair=True)
        sizes.append(sum(tried))
    assert sizes[1] - sizes[0] < 1000 * 2 * len(broken[0])


def test_collectives_that_nccl_tests_lacks_keep_their_recorded_name(tmp_path: Path) -> None:
    told = {"Collective name": "reduce", "In msg nelems": 8, "dtype": "Float", "Group size": 2}
    event = kernel(0, 10, "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", **told)  # type: ignore[arg-type]
    row = read_kineto(write(tmp_path, [event])).ops.iloc[0]
    assert (row["name"], row["op_class"], row["message_bytes"]) == ("reduce", "collective", 32)


TOLD = {"Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Double",
        "Group size": 2, "Process Group Ranks": "[4, 6]"}  # fmt: skip


@pytest.mark.parametrize("elements", [2**61, 2**70, -5, "many", 1e300, None])
def test_a_message_of_impossible_size_is_unknown(tmp_path: Path, elements: object) -> None:
    event = kernel(0, 10, "ncclDevKernel_AllReduce", **{**TOLD, "In msg nelems": elements})  # type: ignore[arg-type]
    row = read_kineto(write(tmp_path, [event])).ops.iloc[0]
    assert row["message_bytes"] is pd.NA
    assert row["wire_bytes"] is pd.NA
    assert row["group_size"] == 2


@pytest.mark.parametrize(
    "ranks", ["[4, 4]", "[-4, 6]", f"[{2**70}, {2**71}]", f"[0, {2**62}]", "[4, 6, 8]", "[[", ""]
)
def test_ranks_that_cannot_be_place_no_group(tmp_path: Path, ranks: str) -> None:
    h100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
    name = "ncclDevKernel_AllReduce"
    good = write(tmp_path, [kernel(0, 10, name, **TOLD)], "a.json", **h100)  # type: ignore[arg-type]
    row = read_kineto(good).ops.iloc[0]
    assert (row["group_stride"], row["domain_span"], row["message_bytes"]) == (2, 2, 64)
    told = {**TOLD, "Process Group Ranks": ranks}
    bad = write(tmp_path, [kernel(0, 10, name, **told)], "b.json", **h100)  # type: ignore[arg-type]
    row = read_kineto(bad).ops.iloc[0]
    assert row["group_stride"] is pd.NA
    assert row["domain_span"] is pd.NA
    assert row["message_bytes"] == 64


@pytest.mark.parametrize("size", [2**62, 2**70, -3, 0])
def test_a_group_of_impossible_size_is_unknown(tmp_path: Path, size: int) -> None:
    event = kernel(0, 10, "ncclDevKernel_AllReduce", **{**TOLD, "Group size": size})  # type: ignore[arg-type]
    assert read_kineto(write(tmp_path, [event])).ops.iloc[0]["group_size"] is pd.NA
