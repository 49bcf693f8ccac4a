"""Whatever the bytes: a characterization that adds up, or one clear error."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codesign._common.errors import DataError, UsageError
from codesign.sources.kineto import read_kineto
from tests.sources.kineto.traces import annotation, kernel, launch, op

_SEED = json.dumps(
    {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "traceEvents": [
            annotation(0, 500, "ProfilerStep#1"),
            op(1, 50, "aten::mm", 3, [[8, 8], [8, 8]], ["float", "float"], ["", ""]),
            launch(5, 1, **{"External id": 3}),
            kernel(60.125, 30, "gemm", corr=1, **{"External id": 3}),
            kernel(70, 30, "ncclDevKernel_AllReduce", stream=20, **{
                "Collective name": "allreduce", "In msg nelems": 5, "dtype": "Float",
                "Out msg nelems": 5, "Group size": 2}),
            kernel(120, 9, "k"),
        ],
        "distributedInfo": {"rank": 0},
    }, indent=1,
).encode()  # fmt: skip

_scalar = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from([-1, 2**63, 2**64, "NaN", "1e999", 1e308, "7", "stream 7", "\ud800"]),
)  # fmt: skip
_value = st.recursive(
    _scalar,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3),
    max_leaves=6,
)
_key = st.sampled_from(
    ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "correlation", "External id",
     "Input Dims", "Input type", "device", "stream", "Group size", "Collective name", "id"]
)  # fmt: skip


def read(path: Path, **options: Any) -> None:
    error: Exception | None
    try:
        char = read_kineto(path, **options)
    except (DataError, UsageError) as caught:
        error = caught
    else:
        error = None
    if error is not None:
        assert "\n" not in str(error)
        return
    header = char.header
    assert header.step_time_s is not None
    total = float(char.ops["exposed_s"].sum()) + header.idle_s
    assert total == pytest.approx(header.step_time_s, rel=1e-9, abs=1e-12)
    char.save(path.with_suffix(".parquet"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


_quiet = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
_modes = st.fixed_dictionaries({"allow_truncated": st.booleans(), "repair": st.booleans()})


@_quiet
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(_SEED)), st.integers(0, 12), st.binary(max_size=6)),
        min_size=1, max_size=4,
    ),
    cut=st.integers(0, len(_SEED)) | st.none(), options=_modes,
)  # fmt: skip
def test_mutated_bytes(
    folder: Path, edits: list[tuple[int, int, bytes]], cut: int | None, options: dict[str, bool]
) -> None:
    data = _SEED
    for place, removed, added in edits:
        data = data[:place] + added + data[place + removed :]
    path = folder / "t.json"
    path.write_bytes(data[:cut])
    read(path, **options)


@_quiet
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 5), st.booleans(), _key, _value), min_size=1, max_size=4
    ),
    options=_modes,
)
def test_mutated_values(
    folder: Path, changes: list[tuple[int, bool, str, Any]], options: dict[str, bool]
) -> None:
    document = json.loads(_SEED)
    for event, inner, key, value in changes:
        target = document["traceEvents"][event]
        if inner and isinstance(target.get("args"), dict):
            target = target["args"]
        target[key] = value
    path = folder / "t.json"
    path.write_text(json.dumps(document))
    read(path, **options)


@_quiet
@given(data=st.binary(max_size=300), options=_modes)
def test_any_bytes(folder: Path, data: bytes, options: dict[str, bool]) -> None:
    path = folder / "t.json"
    for content in (data, b"[" + data, b'{"traceEvents":[' + data, gzip.compress(_SEED) + data):
        path.write_bytes(content)
        read(path, **options)


@_quiet
@given(place=st.integers(0, 10_000), bit=st.integers(0, 7), options=_modes)
def test_damaged_gzip(folder: Path, place: int, bit: int, options: dict[str, bool]) -> None:
    data = bytearray(gzip.compress(_SEED))
    data[place % len(data)] ^= 1 << bit
    path = folder / "t.json.gz"
    path.write_bytes(data)
    read(path, **options)


_REAL = ("kineto_edge/triton_example.json.gz", "kineto/mi300_gaunernst_bert-small-uncased__1016001"
         ".json.gz", "kineto/sampled_rank-1.json.gz")  # fmt: skip


@pytest.mark.parametrize("name", _REAL)
@settings(max_examples=15, deadline=60_000, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(
        st.tuples(
            st.floats(0, 1), st.integers(0, 400),
            st.binary(max_size=20) | st.sampled_from([
                b'"', b"\\", b"}", b"{", b"]}", b"[", b",,", b"\n", b"\0", b"\xff", b"NaN",
                b'}, {"ph": "X", "cat": "kernel", ', b'"dur": -1, ', b"[" * 2000,
            ]),
        ),
        min_size=1, max_size=4,
    ),
    moved=st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5000)) | st.none(),
    cut=st.floats(0, 1) | st.none(), options=_modes,
)  # fmt: skip
def test_mutated_real_files(
    shared_data: Path, folder: Path, name: str, edits: list[tuple[float, int, bytes]],
    moved: tuple[float, float, int] | None, cut: float | None, options: dict[str, bool],
) -> None:  # fmt: skip
    """Bytes changed, a passage repeated elsewhere, the end cut off."""
    data = gzip.decompress((shared_data / name).read_bytes())
    for place, removed, added in edits:
        at = int(place * len(data))
        data = data[:at] + added + data[at + removed :]
    if moved is not None:
        start, to = (int(f * len(data)) for f in moved[:2])
        data = data[:to] + data[start : start + moved[2]] + data[to:]
    path = folder / "t.json"
    path.write_bytes(data if cut is None else data[: int(cut * len(data))])
    read(path, **options)
