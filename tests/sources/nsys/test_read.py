from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.sources.nsys import read_nsys
from tests.sources.nsys.exports import Export, pid

DATA = Path(
    os.environ.get("CODESIGN_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data")
).joinpath("nsys")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.sqlite"


def by_name(ops: object) -> dict[str, object]:
    return {r["name"]: r for _, r in ops.iterrows()}  # type: ignore[attr-defined]


def test_two_devices_at_the_same_time_are_two_at_full_use(path: Path) -> None:
    export = Export()
    for device in (0, 1):
        export.gpu(device)
        export.kernel(1000, 1100, device=device, corr=device + 1)
        export.launch(900, corr=device + 1)
    char = read_nsys(export.save(path))
    assert [s.device for s in char.header.steps] == ["0", "1"]
    for step in char.header.steps:
        assert step.time_s == pytest.approx(1e-7)
        assert step.compute_s == step.time_s
        assert step.idle_s == 0.0
    assert char.header.gpus == 2
    # The ops are of one GPU, never the sum of both.
    assert char.ops["time_s"].sum() == pytest.approx(1e-7)
    assert char.header.system == "hgx-h100"


def test_a_correlation_id_belongs_to_its_process(path: Path) -> None:
    export = Export()
    export.kernel(2000, 2100, name="first", corr=5, process=1)
    export.kernel(2200, 2300, name="second", corr=5, process=2)
    export.launch(1000, corr=5, process=1)
    export.launch(1950, corr=5, process=2)
    # A range on the second process alone: a join by the bare id would also hold the first.
    export.range(1900, 1990, "mine", process=2)
    char = read_nsys(export.save(path))
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.quality.orphan_kernels == 0
    names = by_name(char.ops)
    assert set(names) == {"first", "mine"}
    assert names["mine"]["kernel"] == "second"
    assert not any("correlation" in w for w in char.header.quality.warnings)


def test_a_kernel_under_a_start_end_range_alone_is_attributed_to_it(path: Path) -> None:
    export = Export()
    export.kernel(2000, 2100, corr=1)
    export.launch(1000, corr=1, thread=2)
    export.range(900, 1500, "forward", kind=60, thread=1)
    char = read_nsys(export.save(path))
    assert list(char.ops["name"]) == ["forward"]
    assert not any("not attributed" in n for n in char.header.notes)


def test_ranges_that_hold_no_launch_are_counted_by_type(path: Path) -> None:
    export = Export()
    export.kernel(2000, 2100, corr=1)
    export.launch(1000, corr=1)
    export.range(5000, 6000, "late", kind=60)
    export.range(900, 1100, "around")
    export.range(950, None, "never closed")
    char = read_nsys(export.save(path))
    assert list(char.ops["name"]) == ["around"]
    assert "1 NVTX ranges of type 60 not attributed: no launch inside" in char.header.notes
    assert "1 NVTX ranges have no end and were left out" in char.header.notes
    assert not any("type 59" in n for n in char.header.notes)


def test_the_innermost_push_pop_range_goes_before_a_start_end_range(path: Path) -> None:
    export = Export()
    for corr, at in ((1, 1000), (2, 1300), (3, 1700)):
        export.kernel(at + 5000, at + 5100, corr=corr)
        export.launch(at, corr=corr)
    export.range(900, 2000, "whole", kind=60)
    export.range(950, 1500, "outer")
    export.range(1200, 1400, "inner", by_id=True)
    char = read_nsys(export.save(path))
    assert {n: r["count"] for n, r in by_name(char.ops).items()} == {
        "outer": 1, "inner": 1, "whole": 1,
    }  # fmt: skip


def test_numbered_ranges_are_one_op_and_precision_digits_stay(path: Path) -> None:
    export = Export()
    for i in range(4):
        export.kernel(1000 + 100 * i, 1050 + 100 * i, corr=i)
        export.launch(10 * i, corr=i, length=5)
        export.range(10 * i - 1, 10 * i + 8, f"layer_{i} conv2d fp8")
    char = read_nsys(export.save(path))
    assert list(char.ops["name"]) == ["layer_# conv2d fp8"]
    assert list(char.ops["count"]) == [4]


def test_shapes_that_pytorch_writes_into_its_ranges(path: Path) -> None:
    export = Export()
    export.kernel(1000, 2000, name="nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NTN", corr=1)
    export.launch(100, corr=1)
    export.range(90, 200, "aten::mm, op_id = 7, sizes = [[8, 4], [4, 2]], input_op_ids = []")
    row = read_nsys(export.save(path)).ops.iloc[0]
    assert (row["op_class"], row["m"], row["n"], row["k"]) == ("gemm", 8, 2, 4)
    assert row["flops"] == 128


def test_steps_by_ranges_that_look_like_steps(path: Path) -> None:
    export = Export()
    for i in range(3):
        export.range(1000 * i, 1000 * i + 1000, f"iteration {i}")
        export.launch(1000 * i + 10, corr=i)
        export.kernel(1000 * i + 100, 1000 * i + 400, corr=i)
    char = read_nsys(export.save(path))
    assert char.header.quality.steps_by == "annotation"
    assert char.header.quality.steps_found == 3
    assert char.header.step_time_s == pytest.approx(1e-6)
    assert char.ops["time_s"].sum() == pytest.approx(3e-7)
    assert char.header.idle_s == pytest.approx(7e-7)


def test_communication_is_exposed_only_where_nothing_computes(path: Path) -> None:
    export = Export()
    export.kernel(0, 100, name="sgemm_128x64", stream=7)
    export.kernel(50, 150, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL", stream=20)
    char = read_nsys(export.save(path))
    step = char.header.steps[0]
    assert (step.compute_s, step.exposed_comm_s) == pytest.approx((1e-7, 5e-8))
    assert step.idle_s == 0.0
    comm = char.ops[char.ops["op_class"] == "collective"].iloc[0]
    assert comm["collective"] == "all_reduce"
    assert comm["exposed_s"] == pytest.approx(5e-8)
    assert char.header.totals["kernel_time_s"] == pytest.approx(2e-7)


def test_copies_carry_their_bytes(path: Path) -> None:
    export = Export()
    export.kernel(0, 100)
    export.copy(200, 300, 4096, kind=1)
    export.copy(400, 500, 1024, kind=1)
    export.copy(600, 700, 10, kind=8)
    export.add("CUPTI_ACTIVITY_KIND_MEMSET", start=800, end=810, deviceId=0, contextId=1,
               streamId=7, correlationId=9, globalPid=pid(1), value=0, bytes=64)  # fmt: skip
    rows = by_name(read_nsys(export.save(path)).ops)
    assert rows["Memcpy HtoD"]["bytes"] == 5120
    assert rows["Memcpy DtoD"]["bytes"] == 10
    assert rows["Memset (Device)"]["bytes"] == 64
    assert {rows[n]["op_class"] for n in rows if n.startswith("Mem")} == {"copy"}


def test_graph_launches_recorded_whole_say_that_their_kernels_are_unknown(path: Path) -> None:
    export = Export()
    for i in range(2):
        export.launch(100 * i, corr=i, name="cudaGraphLaunch_v10000")
        export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=1000 * i + 50, end=1000 * i + 950,
                   deviceId=0, contextId=1, streamId=7, correlationId=i, globalPid=pid(1),
                   graphId=3, graphExecId=4)  # fmt: skip
    # Of the second launch the kernels are there too: they count, and the record does not.
    export.kernel(1100, 1200, corr=1)
    export.kernel(1300, 1500, corr=1)
    char = read_nsys(export.save(path))
    assert char.header.totals["kernel_time_s"] == pytest.approx(9e-7 + 3e-7)
    assert "CUDA graph 3" in set(char.ops["name"])
    assert any(
        "1 CUDA graph launches were recorded whole" in w for w in char.header.quality.warnings
    )
    assert not char.header.quality.reliable("exposed")
    assert char.ops["flops"].isna().all()


def test_tables_with_a_version_suffix_and_few_columns(path: Path) -> None:
    export = Export()
    export.add("CUPTI_ACTIVITY_KIND_KERNEL_V3", start=0, end=100, deviceId=0, streamId=7,
               correlationId=1, shortName=export.text("saxpy"))  # fmt: skip
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=200, end=300, deviceId=0, streamId=7,
               correlationId=2, shortName=export.text("sgemm"))  # fmt: skip
    char = read_nsys(export.save(path))
    assert set(char.ops["kernel"]) == {"saxpy", "sgemm"}
    assert char.header.system is None


def test_devices_of_a_process_are_translated_to_the_nodes_own(path: Path) -> None:
    export = Export()
    for process, gpu in ((1, 4), (2, 6)):
        export.gpu(gpu)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=process)
        export.kernel(0, 100, process=process, device=0, corr=1)
    char = read_nsys(export.save(path))
    assert [s.device for s in char.header.steps] == ["4", "6"]
    assert [s.compute_s for s in char.header.steps] == pytest.approx([1e-7, 1e-7])


def test_launches_without_kernels_make_idle_time_unreliable(path: Path) -> None:
    export = Export()
    for i in range(10):
        export.launch(100 * i, corr=i)
        if i < 7:
            export.kernel(100 * i + 10, 100 * i + 50, corr=i)
    export.launch(5000, corr=99, returned=2)  # a call that failed asks for nothing
    quality = read_nsys(export.save(path)).header.quality
    assert quality.launch_coverage == pytest.approx(0.7)
    assert not quality.reliable("idle")


def test_what_the_profiler_says_it_lost(path: Path) -> None:
    export = Export()
    export.kernel(0, 100)
    for severity, text in (
        (1, "Profiling has started."),
        (2, "Not all CUDA events might have been collected."),
        (3, "CPU sampling is not supported here."),
    ):
        export.add("DIAGNOSTIC_EVENT", timestamp=0, severity=severity, text=text)
    quality = read_nsys(export.save(path)).header.quality
    assert not quality.reliable("idle")
    said = [w for w in quality.warnings if w.startswith("the profiler says")]
    assert len(said) == 2


def test_a_kernel_without_an_end_is_dropped_and_counted(path: Path) -> None:
    export = Export()
    export.kernel(0, 100)
    export.kernel(200, 150)
    char = read_nsys(export.save(path))
    assert char.header.quality.dropped_events == 1
    assert char.header.totals["kernels"] == 1


def test_the_real_capture(tmp_path: Path) -> None:
    real = DATA / "h100_matmul.sqlite"
    if not real.is_file():
        pytest.skip("the shared data are not here")
    char = read_nsys(real)
    connection = sqlite3.connect(f"file:{real}?mode=ro", uri=True)
    kernels, total = connection.execute(
        "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ).fetchone()
    connection.close()
    assert char.header.totals["kernels"] == kernels == 19
    assert char.header.totals["kernel_time_s"] == pytest.approx(total * 1e-9, rel=1e-12)
    assert char.header.system == "hgx-h100"
    assert char.header.quality.launch_coverage == 1.0
    assert char.header.software["nsys_schema"] == "3.16.1"
    whole = char.ops["exposed_s"].sum() + char.header.idle_s
    assert whole == pytest.approx(char.header.step_time_s, rel=1e-12)
    char.save(tmp_path / "c.parquet")


def test_no_device_activity_is_a_data_error(path: Path) -> None:
    export = Export()
    export.range(0, 100, "cpu only")
    with pytest.raises(DataError, match="no device activity"):
        read_nsys(export.save(path))


@pytest.mark.parametrize("content", [b"", b"{}", b"SQLite format 3\x00" + b"\x07" * 3000])
def test_what_is_no_database_is_one_line(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"SQLite|cannot be read as an Nsight") as caught:
        read_nsys(path)
    assert "\n" not in str(caught.value)


def test_other_databases_and_missing_files(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match="no device activity"):
        read_nsys(path)
    with pytest.raises(DataError, match="cannot read"):
        read_nsys(path.with_name("none.sqlite"))
    with pytest.raises(UsageError, match="unknown system"):
        read_nsys(path, system="nonesuch")


def test_text_where_an_integer_belongs_names_the_table(path: Path) -> None:
    export = Export()
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start="soon", end=5, deviceId=0, shortName=1)
    with pytest.raises(DataError, match="table CUPTI_ACTIVITY_KIND_KERNEL: expected integers"):
        read_nsys(export.save(path))


@settings(max_examples=40)
@given(at=st.integers(0, 40_000), junk=st.binary(min_size=1, max_size=200), cut=st.booleans())
def test_damaged_files_give_a_result_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes, cut: bool
) -> None:
    export = Export()
    export.gpu(0)
    for i in range(50):
        export.launch(10 * i, corr=i)
        export.kernel(100 * i, 100 * i + 50, corr=i)
        export.range(10 * i, 10 * i + 9, f"step {i}")
    path = export.save(tmp_path_factory.mktemp("fuzz") / "report.sqlite")
    raw = path.read_bytes()
    at %= len(raw)
    path.write_bytes(raw[:at] if cut else raw[:at] + junk + raw[at + len(junk) :])
    try:
        told = read_nsys(path).header.workload
    except CodesignError as error:
        told = str(error)
    assert "\n" not in told
