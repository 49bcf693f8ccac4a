"""Reading: broken rows, repeats, rows of another GPU, versions."""

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import DataError, UsageError
from codesign.sources.perfdb._tables import read_raw

DEVICE = "NVIDIA H100 80GB HBM3"


def write(root, rows, version="1.0", stem="gemm_perf", kind="gemm", folder="h100_sxm"):
    path = root / folder / kind / "trtllm" / version / f"{stem}.parquet"
    path.parent.mkdir(parents=True)
    pd.DataFrame(rows).to_parquet(path)
    return path


def gemm(latency, m=1, device=DEVICE, version="1.0"):
    return {"version": version, "device": device, "gemm_dtype": "bfloat16",
            "m": m, "n": 64, "k": 64, "latency": latency}  # fmt: skip


def test_bad_rows_are_dropped_and_counted(tmp_path):
    write(tmp_path, [gemm(1.0), gemm(-1.0, 2), gemm(np.nan, 3), gemm(0.0, 4), gemm(np.inf, 5),
                     gemm(9.0, 6, "NVIDIA H200")])  # fmt: skip
    raw = read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm")
    assert raw.frame["latency"].tolist() == [1.0]
    assert raw.dropped == {"time not positive": 4, "measured on another GPU": 1}


def test_repeats_become_their_median(tmp_path):
    write(tmp_path, [gemm(1.0), gemm(2.0), gemm(10.0), gemm(4.0, 2)])
    raw = read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm")
    assert raw.frame.set_index("m")["latency"].to_dict() == {1: 2.0, 2: 4.0}
    assert raw.dropped == {"repeated shape, median kept": 2}


def test_the_version_is_that_of_the_rows_not_of_the_folder(tmp_path):
    write(tmp_path, [gemm(1.0, version="0.9")], version="1.0")
    assert read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm").version == "0.9"


def test_the_version_that_most_gpus_have_is_read(tmp_path):
    for folder, versions in {"h100_sxm": ("1.9", "1.10", "2.0"), "h200_sxm": ("1.9", "1.10"),
                             "b200_sxm": ("1.8",)}.items():  # fmt: skip
        device = {"h100_sxm": DEVICE, "h200_sxm": "NVIDIA H200", "b200_sxm": "NVIDIA B200"}[folder]
        for version in versions:
            write(tmp_path, [gemm(1.0, device=device, version=version)], version, folder=folder)
    read = {f: read_raw(tmp_path, f, "gemm_perf", "trtllm").version
            for f in ("h100_sxm", "h200_sxm", "b200_sxm")}  # fmt: skip
    assert read == {"h100_sxm": "1.10", "h200_sxm": "1.10", "b200_sxm": "1.8"}


def test_a_table_that_was_not_measured_is_none(tmp_path):
    assert read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm") is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"m": 1, "n": 2, "k": 3, "latency": 1.0}], "gemm_dtype"),
        ([gemm(1.0, device="NVIDIA H200")], "no usable row"),
    ],
)
def test_a_changed_layout_is_a_data_error(tmp_path, rows, message):
    path = write(tmp_path, rows)
    with pytest.raises(DataError, match=message) as caught:
        read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm")
    assert str(path) in str(caught.value)


def test_an_unreadable_file_is_a_data_error(tmp_path):
    path = write(tmp_path, [gemm(1.0)])
    path.write_bytes(b"PAR1 but not really")
    with pytest.raises(DataError, match=r"gemm_perf\.parquet"):
        read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm")


@pytest.mark.perfdb
def test_every_gpu_has_its_tables(db):
    assert {"a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200", "l40s"} <= set(db.gpus())
    for gpu in db.gpus():
        for op_class in ("gemm", "attention", "grouped_gemm", "collective"):
            assert len(db.training_ops(gpu, op_class)) > 500, (gpu, op_class)


@pytest.mark.perfdb
def test_training_ops_are_the_measured_rows(db, folder):
    ops = db.training_ops("b200-sxm", "gemm")
    table = pd.read_parquet(folder / "b200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.parquet")
    assert len(ops) == len(table)
    assert (ops["evidence"] == "measured").all()
    assert ops["source"].unique().tolist() == [f"{db.name} trtllm 1.3.0rc20 gemm_perf"]
    assert ops["time_s"].sum() == pytest.approx(table["latency"].sum() / 1000)
    assert ops["flops"].sum() == pytest.approx((2.0 * table["m"] * table["n"] * table["k"]).sum())


def test_a_file_that_is_another_gpus_under_other_labels_is_left_out(tmp_path):
    """The earlier GPU keeps its rows, in whatever order the copy has them."""
    rows = [gemm(1.0 + m / 7, m) for m in range(1, 13)]
    write(tmp_path, rows)
    write(tmp_path, [{**r, "device": "NVIDIA H200"} for r in rows[::-1]], folder="h200_sxm")
    own = [{**r, "device": "NVIDIA B200", "latency": r["latency"] * 0.5} for r in rows]
    write(tmp_path, own, folder="b200_sxm")
    assert len(read_raw(tmp_path, "h100_sxm", "gemm_perf", "trtllm").frame) == 12
    assert read_raw(tmp_path, "h200_sxm", "gemm_perf", "trtllm") is None
    assert len(read_raw(tmp_path, "b200_sxm", "gemm_perf", "trtllm").frame) == 12
    copied = read_raw(tmp_path, "h200_sxm", "gemm_perf", "trtllm", copies=True)
    assert copied.original == "h100-sxm"
    assert sorted(copied.frame["latency"]) == pytest.approx([r["latency"] for r in rows])
    for own in ("h100_sxm", "b200_sxm"):
        assert read_raw(tmp_path, own, "gemm_perf", "trtllm", copies=True) is None


@pytest.mark.perfdb
def test_the_copied_multi_node_tables_are_left_out(db, folder):
    """One network was measured, once: H200's DeepEP rows over several nodes are H100's."""
    for stem, rows in (("wideep_deepep_normal_perf", 437), ("wideep_deepep_ll_perf", 95)):
        path = f"comm/sglang/0.5.6.post2/{stem}.parquet"
        mine, other = (
            pd.read_parquet(folder / gpu / path).drop(columns=["device", "version", "framework"])
            for gpu in ("h200_sxm", "h100_sxm")
        )
        by = list(mine.columns)
        assert mine.sort_values(by, ignore_index=True).equals(
            other[by].sort_values(by, ignore_index=True)
        )
        assert db.dropped("h200-sxm")[stem] == {"a copy of h100_sxm": rows}
    spans = db.training_ops("h200-sxm", "collective")["group_size"]
    assert spans.max() == 8


@pytest.mark.perfdb
def test_unknown_names_say_what_exists(db):
    with pytest.raises(UsageError, match="h100-sxm"):
        db.training_ops("h100", "gemm")
    with pytest.raises(UsageError, match="grouped_gemm"):
        db.training_ops("h100-sxm", "conv")
    with pytest.raises(UsageError, match="vllm"):
        db.training_ops("h100-sxm", "gemm", framework="tgi")


@pytest.mark.perfdb
def test_sms_of_an_exchange_stay_visible(db):
    ops = db.training_ops("h100-sxm", "collective")
    kernels = ops.loc[ops["name"] == "deepep_normal", "kernel"].unique()
    assert {"deepep sms=4", "deepep sms=20", "deepep sms=24"} <= set(kernels)
    assert set(ops.loc[ops["name"] == "deepep_normal", "group_size"]) == {8, 16, 32, 64}
