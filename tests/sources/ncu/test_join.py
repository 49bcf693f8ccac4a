"""Counters at the ops of a trace, against sums worked out by hand."""

from __future__ import annotations

import pytest

from codesign._common.errors import DataError
from codesign.sources import read
from codesign.sources.ncu import characterize_ncu
from tests.sources.kineto.traces import kernel, launch, write
from tests.sources.ncu.pages import details

GEMM = "void cutlass::Kernel2<cutlass_80_bf16_s16816gemm>(cutlass_80_bf16_s16816gemm::Params)"
ADD = "void at::native::vectorized_elementwise_kernel<4, add>(int, add)"
MUL = "void at::native::vectorized_elementwise_kernel<4, mul>(int, mul)"


def metrics(megabytes, sm="80.5", dram="40.25"):
    return [("Duration", "us", "10"), ("dram__bytes.sum", "Mbyte", str(megabytes)),
            ("Compute (SM) Throughput", "%", sm), ("DRAM Throughput", "%", dram)]  # fmt: skip


@pytest.fixture
def trace(tmp_path):
    def save(*names):
        events = []
        for i, name in enumerate(names, 1):
            events += [launch(100 * i, i), kernel(100 * i + 10, 20, name, corr=i)]
        return write(tmp_path, events)

    return save


@pytest.fixture
def page(tmp_path):
    def save(*kernels, **options):
        path = tmp_path / "report.csv"
        path.write_text(details(kernels, **options))
        return path

    return save


def row(char, kernel_name):
    found = char.ops[char.ops["kernel"] == kernel_name]
    assert len(found) == 1
    return found.iloc[0]


def test_counters_join_by_the_whole_name(trace, page):
    path = page((GEMM, metrics("1,234.5")), (ADD, metrics("3", "10", "90")))
    char = read(trace(GEMM, GEMM, ADD, MUL), ncu=path)
    gemm = row(char, GEMM)
    assert gemm["dram_bytes"] == 2 * 1_234_500_000  # of two calls a step
    assert (gemm["sm_percent"], gemm["dram_percent"]) == (80.5, 40.25)
    assert row(char, ADD)["dram_bytes"] == 3_000_000
    assert row(char, MUL).isna()["dram_bytes"]
    assert any("counters of 2 of 2 profiled kernels, 75% of op time" in n
               for n in char.header.notes)  # fmt: skip
    assert [s.name for s in char.header.sources] == ["trace.json", "report.csv"]


def test_times_and_work_stay_those_of_the_trace(trace, page):
    plain = read(trace(GEMM, ADD))
    joined = read(trace(GEMM, ADD), ncu=page((GEMM, metrics("5"))))
    same = [c for c in plain.ops if c not in ("dram_bytes", "sm_percent", "dram_percent")]
    assert plain.ops[same].equals(joined.ops[same])


def test_launches_of_one_kernel_are_averaged(trace, page):
    path = page((GEMM, metrics("100", sm="70")), (GEMM, metrics("104", sm="80")))
    gemm = row(read(trace(GEMM), ncu=path), GEMM)
    assert gemm["dram_bytes"] == pytest.approx(102e6)
    assert gemm["sm_percent"] == pytest.approx(75)


def test_a_bare_name_joins_if_it_means_one_kernel(trace, page):
    path = page(("vectorized_elementwise_kernel", metrics("5")))
    assert row(read(trace(ADD, GEMM), ncu=path), ADD)["dram_bytes"] == 5e6
    # Of two kernels of that name it could be either: neither gets what may be the other's.
    with pytest.raises(DataError, match="none of its 1 kernels"):
        read(trace(ADD, MUL), ncu=path)


def test_launches_of_other_shapes_are_not_shared_out(tmp_path, page):
    """One kernel under two ops, profiled once small and once large."""
    from tests.sources.kineto.traces import op

    events = []
    for i, n in enumerate((64, 4096), 1):
        dims = [[n, n], [n, n]]
        events += [op(100 * i, 50, "aten::mm", i, dims, ["float", "float"]),
                   launch(100 * i + 5, i), kernel(100 * i + 20, 20, GEMM, corr=i),
                   launch(100 * i + 60, i + 10), kernel(100 * i + 70, 5, ADD, corr=i + 10),
                   ]  # fmt: skip
    path = page((GEMM, metrics("1")), (GEMM, metrics("900")), (ADD, metrics("2")))
    char = read(write(tmp_path, events), ncu=path)
    assert char.ops[char.ops["kernel"] == GEMM]["dram_bytes"].isna().all()
    assert row(char, ADD)["dram_bytes"] == 2 * 2e6
    assert any("2 ops have no counters" in w for w in char.header.quality.warnings)


def test_a_page_of_other_kernels_is_refused(trace, page):
    with pytest.raises(DataError, match=r"report\.csv: none of its 1 kernels \(other_kernel\)"):
        read(trace(GEMM), ncu=page(("other_kernel", metrics("1"))))


def test_a_page_by_itself_has_the_counters_too(page):
    path = page((GEMM, metrics("100", sm="70")), (GEMM, metrics("300", sm="80")))
    gemm = characterize_ncu(path).ops.iloc[0]
    assert gemm["dram_bytes"] == 400e6
    assert gemm["sm_percent"] == pytest.approx(75)


def test_real_pages(shared_data):
    char = read(shared_data / "ncu" / "kernel_0001.ncu.details.csv")
    assert char.ops["dram_percent"].notna().all()
    assert (char.ops["dram_percent"] <= 100).all()
