"""Files are known by what they hold, not by their names."""

import csv
import gzip
import io

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


@pytest.mark.parametrize("content", [b"", b"\x00\x01", b"hello", gzip.compress(b"hello", mtime=0)])
def test_anything_else_says_what_is_supported(tmp_path, content):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"trace\.json.*characterization.*trace"):
        read(path)


def test_a_broken_archive_is_a_data_error(tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}' * 50, mtime=0)[:12] + b"\xff" * 40)
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


_TEXTS = (
    "ncu/kernel_0001.ncu.details.csv",
    "ncu/cublaslt_ncu.log",
    "nccl_tests/nccl_allreduce.log",
    "nsys/summary_cuda_gpu_kern_sum.csv",
)


@pytest.mark.parametrize("name", _TEXTS)
@pytest.mark.parametrize("how", ["utf-16", "utf-8-sig", "crlf", "gzip", "utf-16 gzip"])
def test_text_is_the_same_however_a_shell_wrote_it(shared_data, tmp_path, name, how):
    """PowerShell redirects as UTF-16 with CR LF; logs are kept packed."""
    plain = (shared_data / name).read_bytes()
    text = plain.decode()
    data = {
        "utf-16": text.replace("\n", "\r\n").encode("utf-16"),
        "utf-8-sig": text.encode("utf-8-sig"),
        "crlf": plain.replace(b"\n", b"\r\n"),
        "gzip": gzip.compress(plain, mtime=0),
        "utf-16 gzip": gzip.compress(text.encode("utf-16")),
    }[how]
    folder = tmp_path / "copy"
    folder.mkdir()
    path = folder / name.rpartition("/")[2]
    path.write_bytes(data)
    ops, expected = read(path).ops, read(shared_data / name).ops
    assert ops.equals(expected)


def test_a_packed_text_that_is_cut_is_one_error(shared_data, tmp_path):
    data = gzip.compress((shared_data / "nccl_tests/nccl_allreduce.log").read_bytes())
    path = tmp_path / "nccl_allreduce.log.gz"
    for share in (0.3, 0.6, 0.95):
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(DataError, match=r"log\.gz: cannot read: [^\n]*$"):
            read(path)


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>: ", "[1,12]<stdout>:", "0: ", "\x1b[32m"])
def test_a_log_with_a_launchers_prefix_is_known(shared_data, tmp_path, prefix):
    plain = shared_data / "nccl_tests" / "nccl_allreduce.log"
    path = tmp_path / "nccl_allreduce.log"
    path.write_text("".join(prefix + line for line in plain.read_text().splitlines(True)))
    char, expected = read(path), read(plain)
    assert char.ops.equals(expected.ops)
    assert char.header.quality.warnings == expected.header.quality.warnings


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_called_empty(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="the file is empty"):
        read(path)


@pytest.mark.parametrize("name", ["nsys/h100_matmul.sqlite", "xplane/tw003.xplane.pb"])
def test_a_packed_binary_says_how_to_unpack_it(shared_data, tmp_path, name):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress((shared_data / name).read_bytes(), 1))
    with pytest.raises(DataError, match="gunzip"):
        read(path)


NCCL = """# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Pid 1 on a device  0 [0x00] Tesla V100-SXM2-16GB
#  Rank  1 Pid 1 on a device  1 [0x00] Tesla V100-SXM2-16GB
#       size         count    type   redop     time   algbw   busbw  error
  1000000000     250000000   float     sum   5000.0  200.00  200.00  0e+00
"""
NCU = (
    '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    '"0","sgemm","x","Duration","us","5000"\n'
)
STATS = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,5000000,1,5000000.0,sgemm\n"


@pytest.mark.parametrize(
    ("text", "method"), [(NCCL, "nccl-tests"), (NCU, "nsight-compute"), (STATS, "nsys stats")]
)
@pytest.mark.parametrize("before", ["", "Loading modules ...\n" * 2000, "#" * 30_000 + "\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_output_of_others_may_stand_before_a_table(tmp_path, text, method, before, packed):
    """Banners of containers and launchers, however long."""
    raw = (before + text).encode()
    path = tmp_path / "all_reduce.txt"
    path.write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
    char = read(path)
    assert char.header.capture_method == method
    assert char.ops["time_s"].tolist() == pytest.approx([0.005])


_PREFIXES = ["[1,0]<stdout>:", "[1,12]<stderr>: ", "[prterun-node-1@1,0]<stdout>: ", "0: ",
             " 12: ", "\x1b[32m"]  # fmt: skip


@pytest.mark.parametrize("prefix", _PREFIXES)
@pytest.mark.parametrize("name", _TEXTS)
def test_any_text_may_come_through_a_launcher(shared_data, tmp_path, name, prefix):
    plain = shared_data / name
    path = tmp_path / name.rpartition("/")[2]
    path.write_text("".join(prefix + line for line in plain.read_text().splitlines(True)))
    assert read(path).ops.equals(read(plain).ops)


def test_a_line_that_only_looks_labelled_is_left_alone(tmp_path):
    """Labels are on every line: where the first has none, "12: " belongs to a name."""
    path = tmp_path / "kern_sum.csv"
    path.write_text(STATS.replace("sgemm", '"of two lines\n12: gemm"'))
    assert read(path).ops["kernel"].tolist() == ["of two lines 12: gemm"]


@pytest.mark.parametrize("index", [False, True])
def test_a_page_that_a_table_program_saved_again(tmp_path, index):
    """Quotes only where needed, CR LF, perhaps an index before the first column."""
    name = "void gemm<float, 4>(int, int)"
    rows = list(csv.reader(NCU.replace("sgemm", name).splitlines()))
    if index:
        rows = [[str(i - 1) if i else "", *row] for i, row in enumerate(rows)]
    out = io.StringIO("==PROF== Connected, and so on\n", newline="")
    out.read()
    csv.writer(out).writerows(rows)
    path = tmp_path / "page.csv"
    path.write_text(out.getvalue(), newline="")
    char = read(path)
    assert char.header.capture_method == "nsight-compute"
    assert char.ops["kernel"].tolist() == [name]
    assert char.ops["time_s"].tolist() == pytest.approx([0.005])


def test_cells_without_the_quotes_that_they_need_are_refused(tmp_path):
    path = tmp_path / "page.csv"
    path.write_text(NCU.replace("sgemm", "gemm<float, 4>(int, int)").replace('"', ""))
    with pytest.raises(DataError, match="more than the header's 6; were quotes lost"):
        read(path)
