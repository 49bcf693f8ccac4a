"""Exact nanoseconds."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.sources.kineto import read_kineto
from codesign.sources.kineto._times import INVALID_NS, MISSING_ID, one_ns, to_ids, to_ns
from tests.sources.kineto.traces import kernel


@given(st.integers(0, 8_796_000_000_000_000))
def test_float_microseconds_give_the_written_nanosecond(ns: int) -> None:
    found = to_ns([float(f"{ns // 1000}.{ns % 1000:03d}"), 0.5])
    assert found is not None
    assert found.tolist() == [ns, 500]


@given(st.integers(0, 2 * 10**18))
def test_text_gives_the_written_nanosecond(ns: int) -> None:
    assert one_ns(f"{ns // 1000}.{ns % 1000:03d}") == ns


def test_epoch_floats_are_refused_rather_than_rounded() -> None:
    assert to_ns([1682725898236567.123]) is None
    whole = to_ns([1682725898236567])
    assert whole is not None
    assert whole.tolist() == [1682725898236567000]


@pytest.mark.parametrize("value", [None, "", "soon", "NaN", "Infinity", "1e400", "9" * 80, 2**60])
def test_what_is_no_time(value: int | str | None) -> None:
    assert one_ns(value) == INVALID_NS


def test_epoch_times_with_decimals_keep_every_nanosecond(tmp_path: Path) -> None:
    text = (
        '[{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":1682725898236567.125,'
        '"dur":0.001,"args":{"device":0,"stream":7}},'
        '{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":1682725898236569.128,'
        '"dur":0.002,"args":{"device":0,"stream":7}}]'
    )
    path = tmp_path / "t.json"
    path.write_text(text)
    totals = read_kineto(path).header.totals
    # 2.003 us between the starts and 2 ns of the second kernel.
    assert Decimal(str(round(totals["span_s"], 12))) == Decimal("2.005E-6")
    assert totals["kernel_time_s"] == pytest.approx(3e-9)


def test_ids() -> None:
    found = to_ids([1, "2", None, "x", 2**64 + 5, 3.0, -7])
    assert found.tolist() == [1, 2, MISSING_ID, MISSING_ID, 5, 3, MISSING_ID]
    assert kernel(0, 1)["ph"] == "X"
