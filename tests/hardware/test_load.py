"""Reading GPU and system files: units, names, devices, search folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError, UsageError
from codesign._common.files import data_dir
from codesign.hardware import (
    gpu_of_device,
    list_gpus,
    list_systems,
    load_gpu,
    load_system,
    system_of_gpu,
)
from codesign.hardware.load import SEARCH_VARIABLE, spec_files
from tests.hardware.conftest import Writer


def test_the_promised_parts_and_systems_are_there() -> None:
    assert set(list_gpus()) >= {
        "v100", "a100-40gb-sxm", "a100-80gb-sxm", "a100-80gb-pcie", "h100-sxm", "h100-pcie",
        "h100-nvl", "h20", "h800", "h200-sxm", "gh200", "b200-sxm", "b300-sxm", "gb200", "gb300",
        "rubin", "l4", "l40s", "rtx-pro-6000-server", "mi250x", "mi300x", "mi325x", "mi355x",
    }  # fmt: skip
    assert set(list_systems()) >= {
        "hgx-a100", "hgx-h100", "hgx-h200", "hgx-b200", "hgx-b300", "gb200-nvl72", "gb300-nvl72",
    }  # fmt: skip


def test_h100_in_si() -> None:
    # NVIDIA's data sheet, by hand into SI.
    gpu = load_gpu("h100-sxm")
    assert gpu.sm_count == 132
    assert gpu.peak_flops_per_s("bf16") == pytest.approx(989.4e12)
    assert gpu.peak_flops_per_s("mxfp8") == pytest.approx(1978.9e12)
    assert gpu.hbm_bandwidth_bytes_per_s == pytest.approx(3.35e12)
    assert gpu.nvlink_bandwidth_bytes_per_s == pytest.approx(450e9)
    assert (gpu.tensor_clock_hz, gpu.boost_clock_hz) == pytest.approx((1.83e9, 1.98e9))


def test_h200_is_h100_silicon_with_more_memory() -> None:
    h100, h200 = load_gpu("h100-sxm"), load_gpu("h200-sxm")
    assert h200.peak_dense_flops_per_s == h100.peak_dense_flops_per_s
    ratio = h200.hbm_bandwidth_bytes_per_s / h100.hbm_bandwidth_bytes_per_s
    assert ratio == pytest.approx(1.43, abs=0.005)


def test_gb200_peak_over_b200_is_sms_times_clock() -> None:
    b200, gb200 = load_gpu("b200-sxm"), load_gpu("gb200")
    ratio = gb200.peak_flops_per_s("fp8") / b200.peak_flops_per_s("fp8")
    assert ratio == pytest.approx(5.0 / 4.5, rel=1e-6)
    by_parts = (152 / 148) * gb200.tensor_clock_hz / b200.tensor_clock_hz
    assert by_parts == pytest.approx(ratio, rel=1e-3)


def test_every_shipped_value_has_a_source_and_implied_clocks_say_so() -> None:
    for name in list_gpus():
        gpu = load_gpu(name)
        wanted = {f"peak_dense.{key}" for key in gpu.peak_dense_flops_per_s}
        wanted |= {"sm_count", "clocks.tensor", "clocks.boost", "memory.capacity", "power",
                   "memory.bandwidth", "l2.capacity", "nvlink.bandwidth_per_direction"}  # fmt: skip
        assert wanted <= set(gpu.sources), name
    for name in ("b200-sxm", "gb200", "b300-sxm", "gb300", "rubin", "h100-pcie", "h100-nvl"):
        assert load_gpu(name).labels["clocks.tensor"] == "derived"
    for name in list_systems():
        system = load_system(name)
        assert "launch_latency" in system.sources, name
        assert system.labels["launch_latency"] in ("measured", "assumed"), name
        assert system.host, name
        assert "host" in system.sources, name


def test_no_source_is_a_private_code() -> None:
    for _, path in spec_files():
        assert "S0" not in path.read_text()
        assert "shared" not in path.read_text()


def test_one_system_for_each_gpu() -> None:
    assert {system_of_gpu(name).gpu.name for name in list_gpus()} == set(list_gpus())


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        ("NVIDIA H20", "h20"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb-sxm"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("Tesla V100-DGXS-32GB", "v100"),
    ],
)
def test_devices_match_exactly(device: str, gpu: str) -> None:
    assert gpu_of_device(device).name == gpu
    assert load_gpu(device).name == gpu


@pytest.mark.parametrize(
    "device", ["Foo X1", "H200", "NVIDIA H2", "nvidia h200", "NVIDIA H200 ", ""]
)
def test_an_unknown_device_is_an_error_and_never_a_guess(device: str) -> None:
    with pytest.raises(UsageError, match="--system"):
        gpu_of_device(device)


@pytest.mark.perfdb
def test_every_device_of_the_measured_tables_is_known() -> None:
    pytest.importorskip("aiconfigurator_core")
    import aiconfigurator_core
    import pyarrow.parquet as pq

    root = Path(aiconfigurator_core.__file__).parent / "systems" / "data"
    # One table per GPU is enough for its name; the Arc cards of b60 are no part of the library.
    for folder in sorted(p for p in root.iterdir() if p.is_dir() and p.name != "b60"):
        table = next(iter(sorted(folder.rglob("gemm_perf.parquet"))), None)
        if table is None:  # a folder of estimates without measurements
            continue
        for device in pq.read_table(table, columns=["device"])["device"].unique().to_pylist():
            assert gpu_of_device(device).name.startswith(folder.name.split("_")[0])


def test_unknown_names_list_what_exists() -> None:
    with pytest.raises(UsageError, match=r"unknown GPU 'h1000'.*h100-sxm"):
        load_gpu("h1000")
    with pytest.raises(UsageError, match=r"h100-sxm is a GPU, found in: hgx-h100"):
        load_system("h100-sxm")


def test_a_gpus_file_in_place_of_a_systems_says_what_is_missing() -> None:
    path = data_dir("hwspecs") / "gpus" / "h100-sxm.yaml"
    with pytest.raises(DataError, match=r"describes a GPU, .* with `gpu: h100-sxm.yaml`"):
        load_system(path)


def test_a_file_of_ones_own(system_file: Writer) -> None:
    system = load_system(str(system_file()))
    assert system.gpu.name == "mine"
    # 400 Gb/s is 50 GB/s: a factor of eight, not a generation of NICs.
    assert system.scaleout_bandwidth_bytes_per_s == 50e9
    assert system.base == "my-box"
    assert system.host == ""
    assert load_system(str(system_file({"host": "grace"}))).host == "grace"


@pytest.mark.parametrize("host", ["arm", 3, ["x86"], {}])
def test_a_host_that_no_table_was_measured_on_is_refused(system_file: Writer, host: object) -> None:
    path = system_file({"host": host})
    with pytest.raises(DataError, match=r"host: .*; allowed: x86, grace, vera"):
        load_system(path)


def test_decimal_and_binary_gigabytes_are_7_percent_apart(gpu_file: Writer) -> None:
    decimal = load_gpu(gpu_file({"memory.capacity": "80 GB"})).hbm_capacity_bytes
    binary = load_gpu(gpu_file({"memory.capacity": "80 GiB"})).hbm_capacity_bytes
    assert (decimal, binary) == (80_000_000_000, 85_899_345_920)


def test_an_edited_file_is_read_anew(gpu_file: Writer) -> None:
    assert load_gpu(gpu_file()).power_w == 700
    assert load_gpu(gpu_file({"power": "1000 W"})).power_w == 1000


def test_search_folder(gpu_file: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus").mkdir()
    gpu_file().rename(tmp_path / "gpus" / "mine.yaml")
    monkeypatch.setenv(SEARCH_VARIABLE, str(tmp_path))
    assert load_gpu("mine").sm_count == 100
    assert gpu_of_device("My X1").name == "mine"
    monkeypatch.setenv(SEARCH_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(UsageError, match="is not a folder"):
        list_gpus()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"power": 700}, "power: 700 is not a number with a unit"),
        ({"power": "-5 W"}, "power: '-5 W' must be positive"),
        ({"power": "1e300 W"}, "power: '1e300 W' is out of all proportion"),
        ({"memory.capacity": "80 B"}, "memory.capacity: '80 B' is out of all proportion"),
        ({"memory.bandwidth": "3350"}, "memory.bandwidth: '3350' is not a number with a unit"),
        ({"memory.bandwidth": "26.8 Tb/s"}, "memory.bandwidth: '26.8 Tb/s' is in bits"),
        ({"memory.capacity": "640 Gb"}, "memory.capacity: '640 Gb' is in bits"),
        (
            {"memory.bandwidth": "3 TFLOP/s"},
            "memory.bandwidth: '3 TFLOP/s' is in flop/s, not byte/s",
        ),
        ({"sm_count": 132.5}, "sm_count: expected a whole number"),
        ({"sm_count": True}, "sm_count: expected a whole number"),
        ({"sm_counts": 1}, "sm_counts: unknown key; allowed: name,"),
        ({"peak_dense.bf17": "1 TFLOP/s"}, "peak_dense.bf17: unknown key; allowed: fp64,"),
        ({"peak_dense": None}, "peak_dense: missing"),
        ({"memory": "80 GB"}, "memory: expected a mapping"),
        ({"status": "soon"}, "status: 'soon'; allowed: shipping, announced, hypothetical"),
        ({"labels": {"power": "guess"}}, "labels.power: 'guess'; allowed: recalled"),
        ({"sources": {"powr": "x"}}, "sources.powr: there is no such key"),
        ({"aliases": "NVIDIA X"}, "aliases: expected a list"),
    ],
)
def test_a_broken_file_names_file_key_and_what_was_expected(
    gpu_file: Writer, changes: dict[str, object], message: str
) -> None:
    path = gpu_file(changes)
    with pytest.raises(DataError) as error:
        load_gpu(path)
    assert f"{path}: {message}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["name: a\nname: b\n", "a: &x 1\nb: *x\n", "- 1\n", "", "{",
     "name: !!python/object:os.system {}\n", "[" * 5000],
)  # fmt: skip
def test_yaml_tricks_are_one_line_data_errors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        load_gpu(path)
    assert "bad.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        load_gpu(tmp_path / "none.yaml")
