"""What strict JSON refuses, byte by byte; and as many lapses as a file has bytes."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from codesign.sources.kineto._mend import sanitize


@pytest.mark.parametrize(
    ("data", "clean", "lapse"),
    [
        (rb'["a\nb\\c\"d\/e\u00e9"]', rb'["a\nb\\c\"d\/e\u00e9"]', None),
        (rb'["C:\x86\W"]', rb'["C:/x86/W"]', "stray backslashes"),
        (rb'["\\\x"]', rb'["\\/x"]', "stray backslashes"),
        (rb'["\u12"]', rb'["/u12"]', "stray backslashes"),
        (rb'["\ud83d\ude00"]', rb'["\ud83d\ude00"]', None),
        (rb'["\ud83d", "\ude00"]', rb'["\u003f", "\u003f"]', "halves of surrogate pairs"),
        (b"[1, NaN, -Infinity]", b'[1, " ", "       "]', "NaN or infinite numbers"),
        (b'{"a":nan}', b'{"a":" "}', "NaN or infinite numbers"),
        (b'["NaN"]', b'["NaN"]', None),
        (b'["a\x01\x1b"]', b'["a??"]', "control bytes in names"),
        (b'["\xff\xc3"]', b'["??"]', "bytes that are not UTF-8"),
        (b"[1,\r\n\t2]", b"[1,\r\n\t2]", None),
    ],
)
def test_each_lapse_is_named_and_keeps_its_length(
    data: bytes, clean: bytes, lapse: str | None
) -> None:
    assert sanitize(data) == (clean, [lapse] if lapse else [])
    assert len(clean) == len(data)
    json.loads(clean)


@pytest.mark.parametrize(
    "unit", [b"\\", b"\\a", b"\\\\\\", b",NaN", b"\\ud800", b'"\\', b"\\u", b"a"]
)
def test_memory_follows_the_data_and_not_the_lapses(unit: bytes) -> None:
    data = b"[" + unit * (200_000 // len(unit)) + b"]"
    tracemalloc.start()
    try:
        clean, _ = sanitize(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(clean) == len(data)
    assert peak < 8 * len(data)
