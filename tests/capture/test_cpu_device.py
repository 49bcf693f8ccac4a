"""A CPU's trace as if it had a device, on traces of a few events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from codesign._common.errors import DataError
from codesign.capture.cpu_device import add_device, has_device, load
from codesign.sources.kineto import read_kineto

Event = dict[str, Any]


def op(name: str, ts: float, dur: float, tid: int = 1, cat: str = "cpu_op", **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur,
            "args": {"External id": int(ts * 10) + tid, **args}}  # fmt: skip


def kernels(*events: Event, **more: Any) -> list[tuple[str, float, float]]:
    trace: Event = {"traceEvents": list(events), **more}
    add_device(trace)
    found = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
    return sorted((e["name"], e["ts"], e["dur"]) for e in found)


def test_only_work_becomes_a_kernel() -> None:
    assert kernels(
        op("aten::linear", 0, 100),
        op("aten::t", 1, 5),
        op("aten::transpose", 2, 3),
        op("aten::addmm", 10, 80),
        op("aten::expand", 11, 2),
        op("aten::copy_", 15, 10),  # the bias, part of the product
        op("autograd::engine::evaluate_function: AddBackward0", 200, 50),
        op("AddBackward0", 205, 40),
        op("aten::add", 210, 20),
        op("c10d::allreduce_", 300, 10),
    ) == [("aten::add", 210, 20), ("aten::addmm", 10, 80)]


def test_an_op_that_only_calls_others_does_not_count_beside_them() -> None:
    names = [k[0] for k in kernels(
        op("aten::mean", 0, 50), op("aten::sum", 5, 20), op("aten::div_", 30, 10),
        op("aten::_grouped_mm", 100, 90), op("aten::mm", 110, 20), op("aten::mm", 140, 20),
    )]  # fmt: skip
    assert names == ["aten::_grouped_mm", "aten::div_", "aten::sum"]


def test_threads_are_streams_of_their_own() -> None:
    assert kernels(op("aten::mm", 0, 100, tid=1), op("aten::add", 10, 50, tid=2)) == [
        ("aten::add", 10, 50), ("aten::mm", 0, 100),
    ]  # fmt: skip


def test_what_gloo_does_is_a_collective_with_its_message(tmp_path: Path) -> None:
    trace: Event = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 4, "pg_count": 1},
        "traceEvents": [
            op("ProfilerStep#1", 0, 1000, cat="user_annotation"),
            op("aten::add", 0, 400, **{"Input Dims": [[8], [8]], "Input type": ["float", "float"]}),
            op("gloo:all_gather", 300, 500, tid=2, cat="user_annotation",
               **{"Input Dims": [[1000]], "Input type": ["float"]}),
        ],
    }  # fmt: skip
    assert not has_device(trace)
    add_device(trace)
    assert has_device(trace)
    path = tmp_path / "rank-0.json"
    path.write_bytes(msgspec.json.encode(trace))
    char = read_kineto(path)
    (row,) = char.ops[char.ops["op_class"] == "collective"].to_dict("records")
    assert (row["collective"], row["group_size"]) == ("all_gather", 4)
    assert row["message_bytes"] == 4 * 4 * 1000  # the total over ranks
    assert row["time_s"] == pytest.approx(500e-6)
    assert row["exposed_s"] == pytest.approx(400e-6)  # the rest hides behind the sum
    assert char.header.idle_s == pytest.approx(200e-6)


def test_the_end_that_gloo_notes_late_is_no_work_of_the_next_step() -> None:
    def step(number: int, ts: float) -> Event:
        return op(f"ProfilerStep#{number}", ts, 100, cat="user_annotation")

    def talk(ts: float, dur: float) -> Event:
        return op("gloo:all_reduce", ts, dur, tid=2, cat="user_annotation")

    late = kernels(step(1, 0), step(2, 100), talk(50, 52), talk(160, 40))
    assert [k[1:] for k in late] == [(50, 50), (160, 40)]
    # One that really goes on while the next step runs stays as long as it is.
    assert kernels(step(1, 0), step(2, 100), talk(50, 80))[0][1:] == (50, 80)


def test_attention_takes_its_place_and_keeps_its_kernels_name() -> None:
    name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    event = op(name, 0, 10, **{
        "Input Dims": [[1]] * 6 + [[], [], [], []], "Input type": [""] * 10,
        "Concrete Inputs": [""] * 6 + ["0.", "True", "", ""],
    })  # fmt: skip
    assert kernels(event) == [(name, 0, 10)]
    assert event["name"] == "aten::_scaled_dot_product_flash_attention_backward"
    # On a GPU the causal flag is the twelfth argument.
    assert event["args"]["Concrete Inputs"][11] == "True"


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    for content in (b"[1, 2]", b"{", b""):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(DataError, match=r"x\.json"):
            load(tmp_path / "x.json")
