import hashlib
import os
import stat

import pytest

from codesign._common.errors import DataError
from codesign._common.files import atomic_path, data_dir, read_bytes, sha256, write_text


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path):
    target = tmp_path / "out.txt"
    write_text(target, "old")

    def interrupted():
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_the_target_is_never_seen_half_written(tmp_path):
    target = tmp_path / "new.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        temporary.write_text("whole")
    assert target.read_text() == "whole"


def test_missing_folders_are_made_and_the_file_is_readable_by_others(tmp_path):
    target = tmp_path / "a" / "b" / "c.txt"
    write_text(target, "x")
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_path_under_a_file_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot write"):
        write_text(tmp_path / "file" / "below.txt", "x")


def test_text_is_utf8_and_lone_surrogates_do_not_stop_a_write(tmp_path):
    write_text(tmp_path / "t", "µ 設計 \udc80")
    assert (tmp_path / "t").read_bytes() == "µ 設計 ?".encode()


def test_reading_what_is_not_there_names_the_path(tmp_path):
    with pytest.raises(DataError, match=r"gone.*cannot read"):
        read_bytes(tmp_path / "gone")
    with pytest.raises(DataError, match=r"gone.*cannot read"):
        sha256(tmp_path / "gone")


def test_sha256_over_more_than_one_block(tmp_path):
    content = b"0123456789" * 300_000
    (tmp_path / "big").write_bytes(content)
    assert sha256(tmp_path / "big") == hashlib.sha256(content).hexdigest()


def test_shipped_folders_are_found_and_an_unknown_one_is_an_error():
    assert (data_dir("reports") / "workloads").is_dir()
    with pytest.raises(DataError, match="no-such"):
        data_dir("no-such")


def test_a_link_stays_and_the_file_behind_it_is_written(tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_or_pipe_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="no ordinary file"):
        write_text(pipe, "x")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_name_as_long_as_the_file_system_takes_is_written(tmp_path):
    path = tmp_path / ("x" * 255)
    write_text(path, "x")
    assert list(tmp_path.iterdir()) == [path]


def test_a_bounded_read_refuses_what_has_no_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="ordinary file"):
        read_bytes(pipe, 10)
    exact = tmp_path / "exact"
    exact.write_bytes(b"x" * 10)
    assert read_bytes(exact, 10) == b"x" * 10
    with pytest.raises(DataError, match="over 9 bytes"):
        read_bytes(exact, 9)
