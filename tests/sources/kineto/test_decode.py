"""Splitting the list of events, wherever a window happens to end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.sources.kineto import decode, read_kineto
from codesign.sources.kineto._bytestream import ByteStream
from codesign.sources.kineto.decode import EventReader
from tests.sources.kineto.traces import Event, document, kernel, launch


def names(path: Path) -> list[str | None]:
    with ByteStream(path) as stream:
        reader = EventReader(stream, allow_truncated=False, repair=False)
        return [e.name for c in reader.chunks() for group in c.groups.values() for e in group]


def tricky() -> list[Event]:
    """Events whose text looks like borders between events, or like the list's end."""
    args = [
        {"list": [{"name": 1}, {"ph": "X"}, {"ts": 3}]},
        {"text": '}, {"ph": "X"}]}, "traceEvents": ['},
        {"text": 'quote \\" brace } ] , {'},
        {"nested": {"a": {"b": [[], [{}], {"c": "]}"}]}}},
    ]
    return [kernel(100 * i, 10, f"k{i}", corr=i, **args[i % 4]) for i in range(40)]


@pytest.mark.parametrize("window", [1, 7, 64, 333, 1000, 4096, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_every_window_size_sees_the_same_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, indent: int | None
) -> None:
    monkeypatch.setattr(decode, "WINDOW_BYTES", window)
    found = {"a": '"traceEvents": [', "traceEvents": tricky(), "distributedInfo": {"rank": 5}}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(found, indent=indent))
    assert names(path) == [f"k{i}" for i in range(40)]
    assert read_kineto(path).header.ranks == (5,)
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(tricky(), indent=indent) + "\n")
    assert names(bare) == [f"k{i}" for i in range(40)]


@pytest.mark.parametrize("window", [50, 400])
def test_malformed_event_is_found_in_small_windows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(decode, "WINDOW_BYTES", window)
    path = tmp_path / "t.json"
    path.write_text(document(tricky()).replace('"k20"', '"k"20"'))
    with pytest.raises(DataError, match=r"byte \d+ \(line 1\)"):
        read_kineto(path)
    char = read_kineto(path, repair=True)
    assert char.header.quality.repaired_events + char.header.quality.dropped_events == 1
    assert char.header.totals["kernels"] + char.header.quality.dropped_events == 40


def test_empty_list_and_byte_order_mark(tmp_path: Path) -> None:
    for text in ("[]", '{"traceEvents": []}', '\ufeff{"traceEvents": [ ]}', " [ ] "):
        path = tmp_path / "t.json"
        path.write_text(text, encoding="utf-8")
        assert names(path) == []


def test_long_head_before_the_events(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"INFO": ["x" * 3_000_000], "traceEvents": [kernel(0, 10)]}))
    assert len(names(path)) == 1


def test_gzip_is_told_by_content_and_may_have_members(tmp_path: Path) -> None:
    text = document([kernel(0, 10), launch(0, 1)]).encode()
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(text[:40]) + gzip.compress(text[40:]) + b"\0" * 20)
    assert len(names(path)) == 2


def test_trailing_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(document([kernel(0, 10)]) * 2)
    with pytest.raises(DataError, match="malformed"):
        read_kineto(path)
    assert read_kineto(path, repair=True).header.totals["kernels"] == 1


def test_exact_source_hash_and_size(tmp_path: Path) -> None:
    import hashlib

    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(document([kernel(0, 10)]).encode()))
    (source,) = read_kineto(path).header.sources
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert source.bytes == path.stat().st_size


def test_malformed_metadata_is_left_out_on_request(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = document([kernel(0, 10)], user="x").replace('"x"', '"x"y"')
    path.write_text(text)
    with pytest.raises(DataError, match="malformed before the events"):
        read_kineto(path)
    char = read_kineto(path, repair=True)
    assert char.header.totals["kernels"] == 1
    assert char.header.quality.repaired_events == 1
