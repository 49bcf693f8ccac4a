"""Columns read from a database's pages against what SQLite itself says."""

from __future__ import annotations

import random
import sqlite3

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codesign._common.errors import DataError
from codesign.sources.nsys._database import MISSING, NO_TIME, open_database
from codesign.sources.nsys._pages import NotPlainError, PageFile

NAMES = ("start", "end", "a", "b", "c")
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300) | st.sampled_from(
    [0, 1, -1, 127, 128, 255, 32767, 32768, 2**23, 2**31, 2**47, -(2**47) - 1]
)  # fmt: skip
QUIET = settings(max_examples=60,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip


def save(path, rows, columns="start INTEGER, end INTEGER, a INTEGER, b INTEGER, c INTEGER",
         page=4096):  # fmt: skip
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {page}")
    connection.execute(f"CREATE TABLE T ({columns})")
    marks = ",".join("?" * len(rows[0])) if rows else ""
    if rows:
        connection.executemany(f"INSERT INTO T VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path


def expected(rows):
    """By hand: NULL is what its column says."""
    null = [NO_TIME, NO_TIME, MISSING, MISSING, MISSING]
    return {name: [null[i] if r[i] is None else r[i] for r in rows] for i, name in enumerate(NAMES)}


def through_pages(path, names=NAMES):
    with open_database(path) as database:
        found = database._from_pages("T", names)
    return None if found is None else {n: v.tolist() for n, v in found.items()}


@QUIET
@given(rows=st.lists(st.tuples(*[st.none() | integers] * 5), max_size=60),
       page=st.sampled_from([512, 1024, 4096, 65536]))  # fmt: skip
def test_any_integers_in_any_page_size(tmp_path, rows, page):
    path = save(tmp_path / "t.sqlite", rows, page=page)
    assert through_pages(path) == expected(rows)


@pytest.mark.parametrize("page", [512, 4096])
def test_a_table_of_many_pages_keeps_its_order(tmp_path, page):
    random.seed(3)
    rows = [
        (i * 1000, i * 1000 + 7, random.choice([None, 5, i]), i % 300, -i) for i in range(40_000)
    ]
    path = save(tmp_path / "t.sqlite", rows, page=page)
    assert through_pages(path) == expected(rows)


def test_both_ways_say_the_same_of_a_real_export(shared_data):
    path = shared_data / "nsys" / "h100_matmul.sqlite"
    read = 0
    with open_database(path) as database:
        pages = database._pages
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME",
                      "CUPTI_ACTIVITY_KIND_MEMCPY"):  # fmt: skip
            names = sorted(database.columns(table)) if database.tables(table) else []
            if not names:
                continue
            database._pages = pages
            fast = database._from_pages(table, names)
            database._pages = None
            slow = database.integers(table, names)
            assert fast is not None
            for name in names:
                np.testing.assert_array_equal(fast[name], slow[name])
            read += 1
    assert read >= 2


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("start INTEGER, end INTEGER, a, b, c", [(1, 2, "text", 3, 4)]),
        ("start INTEGER, end INTEGER, a REAL, b, c", [(1, 2, 1.5, 3, 4)]),
        ("start INTEGER PRIMARY KEY, end INTEGER, a, b, c", [(1, 2, 3, 4, 5)]),
        ("start INTEGER, end INTEGER, a, b, c TEXT", [(1, 2, 3, 4, "x" * 9000)]),
        ("start INTEGER, end INTEGER, a, b, c PRIMARY KEY) WITHOUT ROWID --", []),
    ],
)
def test_what_is_not_plain_is_left_to_sqlite(tmp_path, columns, rows):
    path = save(tmp_path / "t.sqlite", rows, columns if ") WITHOUT" not in columns else
                "start INTEGER, end INTEGER, a, b, c, PRIMARY KEY (c)")  # fmt: skip
    assert through_pages(path) is None or not rows


def test_a_key_that_stands_in_the_rows_number_is_read(tmp_path):
    path = save(tmp_path / "t.sqlite", [(7, 2, 3, 4, 5)],
                "start INTEGER PRIMARY KEY, end INTEGER, a, b, c")  # fmt: skip
    with open_database(path) as database:
        assert database.integers("T", NAMES)["start"].tolist() == [7]


def test_columns_added_later_are_null_in_old_rows(tmp_path):
    path = save(tmp_path / "t.sqlite", [(1, 2, 3)], "start INTEGER, end INTEGER, a INTEGER")
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE T ADD COLUMN b INTEGER")
    connection.execute("INSERT INTO T VALUES (4, 5, 6, 7)")
    connection.commit()
    connection.close()
    assert through_pages(path)["b"] == [MISSING, 7]


def test_a_log_beside_the_file_holds_newer_rows(tmp_path):
    path = tmp_path / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE T (start INTEGER, end INTEGER, a, b, c)")
    connection.execute("INSERT INTO T VALUES (1, 2, 3, 4, 5)")
    connection.commit()
    with pytest.raises(NotPlainError):
        PageFile(path)
    with open_database(path) as database:
        assert database.integers("T", NAMES)["a"].tolist() == [3]
    connection.close()


@QUIET
@given(place=st.integers(0, 10**6), change=st.binary(min_size=1, max_size=40))
def test_damage_is_an_error_or_what_sqlite_reads(tmp_path, place, change):
    rows = [(i, i + 1, i % 7, None, i * 10**9) for i in range(3000)]
    path = save(tmp_path / "t.sqlite", rows)
    content = bytearray(path.read_bytes())
    place = 4096 + place % (len(content) - 4096)
    content[place : place + len(change)] = change
    path.write_bytes(bytes(content))
    with open_database_or_error(path) as database:
        if database is None:
            return
        try:
            found = database._from_pages("T", NAMES)
        except sqlite3.Error:
            return
        if found is not None:
            assert {len(v) for v in found.values()} == {len(found["start"])}


class open_database_or_error:
    def __init__(self, path):
        self.manager = open_database(path)

    def __enter__(self):
        try:
            return self.manager.__enter__()
        except DataError:
            return None

    def __exit__(self, *_):
        return True
