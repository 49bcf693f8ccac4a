import math
import os

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codesign._common.errors import DataError
from codesign.workload.characterization import (
    MAX_ROWS,
    Characterization,
    Header,
    Quality,
    Reliability,
    SourceFile,
)
from codesign.workload.recipe import load_recipe
from codesign.workload.schema import COLUMNS, ops_frame, validate_ops
from codesign.workload.transformer import build_ops

HEADER = Header(
    workload="w 設計", system="hgx-h100", phase="decode", parallelism={"tp": 4}, step_time_s=0.02,
    sources=(SourceFile("t.json", "ab" * 32, 12),), ranks=(0, 3),
    quality=Quality(warnings=("few steps",), reliability={"idle": Reliability(False, ("why",))}),
)  # fmt: skip
ROW = {"op_class": "gemm", "name": "g", "count": 1.0, "evidence": "measured"}


def test_round_trip_keeps_every_value_null_and_type(tmp_path):
    ops = build_ops(load_recipe("qwen3-235b-a22b-rollout-decode"))
    path = tmp_path / "c.parquet"
    Characterization(HEADER, ops).save(path)
    back = Characterization.load(path)
    assert back.header == HEADER
    pd.testing.assert_frame_equal(back.ops, ops)


def test_the_same_content_makes_the_same_file(tmp_path):
    ops = ops_frame([ROW])
    for name in ("a", "b"):
        Characterization(HEADER, ops).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_unjudged_quantities_are_reliable_and_judged_ones_say_so():
    assert HEADER.quality.reliable("flops")
    assert not HEADER.quality.reliable("idle")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"{}", b"\x00" * 100])
def test_files_that_are_not_parquet(tmp_path, content):
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.parquet") as caught:
        Characterization.load(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        Characterization.load(tmp_path / "gone.parquet")


def test_parquet_of_something_else(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="not a characterization"):
        Characterization.load(tmp_path / "x.parquet")


def rewrite(path, header):
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"codesign": header}), path)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b'{"workload": "w", "system": null, "schema_version": 99}', "schema version 99"),
        (b'{"workload": 3, "system": null, "schema_version": 2}', "header"),
        (b"not json", "header"),
        (b"[]", "header"),
        (b'{"a":' + b"[" * 100_000, "header"),
        (b'{"workload": "w", "system": null, "schema_version": 2, "idle_s": -1}', "idle_s = -1"),
        (b'{"workload": "w", "system": null, "schema_version": 2, "gpus": 0}', "gpus = 0"),
    ],
)
def test_a_foreign_header_is_refused(tmp_path, header, reason):
    path = tmp_path / "x.parquet"
    Characterization(HEADER, ops_frame([ROW])).save(path)
    rewrite(path, header)
    with pytest.raises(DataError, match=reason):
        Characterization.load(path)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"name": [["a"]]}), "single values"),
        (pa.Table.from_arrays([pa.array(["a"])] * 2, names=["name", "name"]), "twice"),
        (pa.table({"name": pa.nulls(MAX_ROWS + 1)}), "rows"),
        (pa.table({"name": ["a"], "m": ["x"]}), r"x\.parquet: column 'm'"),
    ],
)
def test_what_no_ops_table_looks_like_is_refused_before_it_is_read(tmp_path, table, reason):
    path = tmp_path / "x.parquet"
    header = {b"codesign": msgspec.json.encode(HEADER)}
    pq.write_table(table.replace_schema_metadata(header), path)
    with pytest.raises(DataError, match=reason):
        Characterization.load(path)


def test_text_that_cannot_be_encoded_is_replaced(tmp_path):
    path = tmp_path / "x.parquet"
    header = msgspec.structs.replace(HEADER, workload="a\udcff", notes=("\udcff",))
    Characterization(header, ops_frame([ROW])).save(path)
    assert Characterization.load(path).header.workload == "a?"


def test_a_file_name_that_is_no_utf_8(tmp_path):
    path = tmp_path / "run-\udcff.parquet"
    Characterization(HEADER, ops_frame([ROW])).save(path)
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [b"run-\xff.parquet"]
    assert Characterization.load(path).header == HEADER
    assert Characterization.load(str(path)).header == HEADER


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"op_class": "matmul"}, "op_class"),
        ({"precision": "fp12"}, "precision"),
        ({"evidence": "guessed"}, "evidence"),
        ({"time_s": -1.0}, "time_s"),
        ({"m": -4}, "m = -4"),
        ({"time_s": math.inf}, "time_s = inf"),
        ({"count": math.inf}, "count = inf"),
        ({"count": None}, "count"),
        ({"name": None}, "name"),
        ({"collective": "gossip"}, "collective"),
    ],
)
def test_rows_out_of_contract_are_refused_with_their_place(changes, named):
    ops = ops_frame([ROW, {**ROW, **changes}])
    with pytest.raises(DataError, match=named) as caught:
        validate_ops(ops, "file.parquet")
    assert "row 1" in str(caught.value)
    assert str(caught.value).startswith("file.parquet: ")


def test_unknown_columns_and_wrong_types_are_refused():
    with pytest.raises(DataError, match="colour"):
        ops_frame([{**ROW, "colour": "red"}])
    with pytest.raises(DataError, match="'m' is not Int64"):
        ops_frame([{**ROW, "m": "many"}])
    with pytest.raises(DataError, match="differ"):
        validate_ops(ops_frame([ROW])[["op_class", "name"]])


def test_a_header_change_leaves_the_ops():
    char = Characterization(HEADER, ops_frame([ROW]))
    renamed = char.with_header(workload="other")
    assert renamed.header == msgspec.structs.replace(HEADER, workload="other")
    assert renamed.ops is char.ops
    assert list(renamed.ops.columns) == list(COLUMNS)
