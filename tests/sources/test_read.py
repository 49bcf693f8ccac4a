"""Files are known by what they hold, not by their names."""

import gzip

import pytest

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.sources import read
from codesign.workload.characterization import Characterization, Header
from codesign.workload.schema import ops_frame


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.dat"
    row = {"op_class": "gemm", "name": "g", "count": 1.0, "time_s": 1.0, "evidence": "measured"}
    Characterization(Header("w", None), ops_frame([row])).save(path)
    return path


def test_a_characterization_is_read_under_any_name(saved):
    assert read(saved).header.workload == "w"
    assert read([str(saved)]).header.workload == "w"


def test_a_trace_is_read_plain_and_zipped(shared_data):
    path = next((shared_data / "kineto").glob("*.json.gz"))
    assert len(read(path).ops)


def test_an_nccl_tests_log_is_read(shared_data):
    char = read(shared_data / "nccl_tests" / "nccl_allreduce.log")
    assert set(char.ops["collective"]) == {"all_reduce"}


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"hello", gzip.compress(b"hello")])
def test_anything_else_says_what_is_supported(tmp_path, content):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"trace\.json.*characterization.*trace"):
        read(path)


def test_a_broken_archive_is_a_data_error(tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}' * 50)[:12] + b"\xff" * 40)
    with pytest.raises(CodesignError, match=r"trace\.json\.gz"):
        read(path)


def test_a_missing_file_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"none\.json"):
        read(tmp_path / "none.json")


def test_a_characterization_among_several_files_is_a_usage_error(saved, tmp_path):
    trace = tmp_path / "a.json"
    trace.write_text('{"traceEvents": []}')
    with pytest.raises(UsageError, match=r"run\.dat"):
        read([trace, saved])
    with pytest.raises(UsageError, match="no file"):
        read([])


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("nsys/h100_matmul.sqlite", "19 kernels"),
        ("nsys/summary_cuda_gpu_kern_sum.csv", "summary"),
        ("ncu/kernel_0001.ncu.details.csv", "ncu"),
        ("ncu/cublaslt_ncu.log", "ncu"),
    ],
)
def test_profiler_files_are_told_apart(shared_data, tmp_path, name, method):
    # Under a name that says nothing.
    copy = tmp_path / "file"
    copy.write_bytes((shared_data / name).read_bytes())
    char = read(copy)
    assert len(char.ops)
    if method == "19 kernels":
        assert char.header.totals["kernels"] == 19
    elif method == "ncu":
        assert char.header.capture_method == "nsight-compute"
    else:
        assert char.header.step_time_s is None
