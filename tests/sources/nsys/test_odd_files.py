"""Databases that are legal and odd: the right value or one clear line. Times in ns."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.sources.nsys import read_nsys
from codesign.workload.characterization import Characterization
from tests.sources.nsys.exports import Export


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Five kernels of 100 ns, each with its launch."""
    export = Export()
    export.gpu(0)
    for i in range(5):
        export.launch(1000 * i, corr=i)
        export.kernel(1000 * i + 50, 1000 * i + 150, corr=i)
    return export.save(tmp_path / "run.sqlite")


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def kernel_ns(char: Characterization) -> int:
    return round(char.header.totals["kernel_time_s"] * 1e9)


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "StringIds", "NVTX_EVENTS"])
def test_a_view_in_place_of_a_table_is_named_and_never_run(path: Path, table: str) -> None:
    """This one has no end."""
    change(
        path,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE VIEW {table} AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT x AS start, x AS end, x AS id, 'a' AS value, 59 AS eventType FROM c",
    )
    with pytest.raises(DataError, match=f"{table} is a view"):
        read_nsys(path)


@pytest.mark.parametrize("statement", ["DROP TABLE StringIds", "DELETE FROM StringIds"])
def test_kernels_without_names_count_and_say_so(path: Path, statement: str) -> None:
    change(path, statement)
    char = read_nsys(path)
    assert kernel_ns(char) == 500
    assert char.header.quality.orphan_kernels == 0
    assert set(char.ops["op_class"]) == {"other"}
    assert any(w.startswith("5 kernels have no name") for w in char.header.quality.warnings)


def test_one_name_that_is_not_there_is_counted(path: Path) -> None:
    change(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 999 WHERE correlationId=3")
    char = read_nsys(path)
    assert kernel_ns(char) == 500
    assert any(w.startswith("1 kernels have no name") for w in char.header.quality.warnings)


def test_texts_that_are_bytes_are_shown_as_text(path: Path) -> None:
    change(path, "UPDATE StringIds SET value = CAST(value AS BLOB)")
    assert "sgemm_128x64" in set(read_nsys(path).ops["kernel"])


def test_reading_leaves_nothing_beside_the_file(path: Path) -> None:
    """A database that was closed in write-ahead mode: SQLite makes two files to look at it."""
    change(path, "PRAGMA journal_mode = WAL")
    assert path.read_bytes()[18:20] == b"\2\2"
    assert kernel_ns(read_nsys(path)) == 500
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_what_another_program_has_not_merged_yet_counts(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 4")
    connection.commit()
    assert kernel_ns(read_nsys(path)) == 400
    connection.close()


def test_a_database_in_use_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, timeout=0.05, **k))
    connection = connect(path)
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DataError, match="is locked; another program is writing it"):
        read_nsys(path)
    connection.rollback()
    connection.close()


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_texts_in_another_encoding(encoding: str, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute(f"PRAGMA encoding = '{encoding}'")
    for table, columns in (
        ("StringIds", "id INTEGER, value TEXT"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "start INTEGER, end INTEGER, demangledName INTEGER"),
    ):
        connection.execute(f"CREATE TABLE {table} ({columns})")
    connection.execute("INSERT INTO StringIds VALUES (1, 'sgemm_ä')")
    connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 25, 1)")
    connection.commit()
    connection.close()
    char = read_nsys(other)
    assert kernel_ns(char) == 20
    assert list(char.ops["kernel"]) == ["sgemm_ä"]


@pytest.mark.parametrize("lost", [1, 100, 4096, 9000])
def test_a_file_without_its_last_pages_is_never_half_read(path: Path, lost: int) -> None:
    """SQLite takes a missing page for an empty one: names and launches would just be gone."""
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    with pytest.raises(DataError, match=f"cut short, {len(data) - lost} of {len(data)} bytes"):
        read_nsys(path)


def test_names_of_tables_have_no_case(path: Path) -> None:
    before = kernel_ns(read_nsys(path))
    for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"):
        change(path, f"ALTER TABLE {name} RENAME TO copied",
               f"ALTER TABLE copied RENAME TO {name.lower()}")  # fmt: skip
    char = read_nsys(path)
    assert kernel_ns(char) == before > 0
    assert not any("no name" in w for w in char.header.quality.warnings)


def test_times_that_cannot_be_are_named_where_none_is_left(path: Path) -> None:
    change(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5")
    with pytest.raises(DataError, match=r"rows with a possible time \(\d+ have none\)"):
        read_nsys(path)
