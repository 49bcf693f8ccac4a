"""Times of ops: exact, interpolated, sliced, modelled, refused."""

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import DataError, UsageError
from codesign.hardware import load_system
from codesign.workload.schema import ops_frame, validate_ops

from .conftest import op

pytestmark = pytest.mark.perfdb
H100 = "h100-sxm"


def gemm(m, n, k, **more):
    return op(op_class="gemm", m=m, n=n, k=k, **more)


def one(db, ops, gpu=H100, **options):
    result = db.measure(ops, gpu, **options)
    validate_ops(result)
    return result.iloc[0]


@pytest.fixture(scope="module")
def table(folder):
    frame = pd.read_parquet(folder / "h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.parquet")
    frame = frame[frame["gemm_dtype"] == "bfloat16"]
    return frame.set_index(["m", "n", "k"])["latency"] / 1000


def test_random_measured_shapes_return_their_measured_value(db, table):
    some = table.sample(40, random_state=1)
    rows = [{"op_class": "gemm", "name": "g", "precision": "bf16", "m": m, "n": n, "k": k,
             "count": 1.0, "evidence": "assumed"} for m, n, k in some.index]  # fmt: skip
    result = db.measure(ops_frame(rows), H100)
    assert (result["evidence"] == "measured").all()
    np.testing.assert_allclose(result["time_s"].to_numpy(dtype=float), some.to_numpy())


@pytest.mark.parametrize("framework", ["sglang", "vllm"])
def test_kernels_of_another_framework_have_their_own_times(folder, db, table, framework):
    path = folder / f"h100_sxm/gemm/{framework}"
    raw = pd.read_parquet(next(path.glob("0.[25]*4*/gemm_perf.parquet")))
    own = raw[(raw["gemm_dtype"] == "bfloat16")].set_index(["m", "n", "k"])["latency"] / 1000
    shape = (64, 4096, 4096)
    row = one(db, gemm(*shape), framework=framework)
    assert row["time_s"] == pytest.approx(float(own[shape]))
    assert row["time_s"] != pytest.approx(float(table[shape]), rel=1e-6)
    assert framework in row["source"]


def test_commands_offer_the_frameworks_that_there_are():
    from codesign.cli._common import FRAMEWORKS as offered
    from codesign.sources.perfdb.database import FRAMEWORKS

    assert offered == FRAMEWORKS


def test_an_unknown_framework_is_a_usage_error(db):
    with pytest.raises(UsageError, match=r"unknown framework .jax."):
        db.measure(gemm(64, 4096, 4096), H100, framework="jax")


def test_count_multiplies_the_time_of_a_step(db, table):
    row = one(db, gemm(64, 4096, 4096, count=7.5))
    assert row["time_s"] == pytest.approx(7.5 * table[64, 4096, 4096])


def test_between_measured_rows_lies_between_their_times(db, table):
    low, high = table[4096, 8192, 8192], table[8192, 8192, 8192]
    row = one(db, gemm(6000, 8192, 8192))
    assert row["evidence"] == "interpolated"
    assert low < row["time_s"] < high


def test_between_measured_weights_lies_between_their_times(db, table):
    corners = [table[4096, n, k] for n in (4096, 5120) for k in (6144, 7168)]
    row = one(db, gemm(4096, 4608, 6656))
    assert row["evidence"] == "interpolated"
    assert min(corners) < row["time_s"] < max(corners)


def test_leaving_a_row_out_costs_little(db):
    from codesign.sources.perfdb._curve import Curve
    from codesign.sources.perfdb._gemm import GemmTable

    data = db.table(H100, "gemm_perf")
    index = GemmTable.of(data.rows, "bf16", data.source)
    rng = np.random.default_rng(7)
    errors = []
    for key in sorted(index.curves)[::3]:
        curve = index.curves[key]
        i = int(rng.integers(1, len(curve.x) - 1))
        without = Curve(np.delete(curve.x, i), np.delete(curve.time_s, i))
        errors.append(abs(without.at(curve.x[i]) / curve.time_s[i] - 1))
    assert np.median(errors) < 0.03


@pytest.mark.parametrize(
    ("shape", "said"),
    [((10**7, 4096, 4096), "m = 10000000"), ((1, 4096, 10**6), "k = 1000000"),
     ((64, 8, 4096), "n = 8")],
)  # fmt: skip
def test_outside_is_refused_in_one_line_that_names_everything(db, shape, said):
    with pytest.raises(DataError, match="--allow-extrapolation") as caught:
        one(db, gemm(*shape, name="my_gemm"))
    message = str(caught.value)
    assert said in message
    assert "my_gemm" in message
    assert "measured 1.." in message or "measured 32.." in message
    assert "\n" not in message


def test_outside_is_labelled_where_it_is_allowed(db):
    row = one(db, gemm(64, 8, 4096), allow_extrapolation=True)
    assert row["evidence"] == "extrapolated"
    assert 0 < row["time_s"] < 1e-4


def test_a_gemm_larger_than_the_table_is_its_measured_parts(db, table):
    row = one(db, gemm(4096, 131072, 4096))
    assert row["evidence"] == "modelled"
    assert row["time_s"] == pytest.approx(2 * table[4096, 65536, 4096])
    assert row["source"].startswith("2 x GEMM of 4096 x 65536 x 4096")


def test_a_precision_that_was_not_measured_is_a_data_error(db):
    with pytest.raises(DataError, match=r"nvfp4.*measured: bf16, fp8, fp8_block"):
        one(db, gemm(64, 4096, 4096, precision="nvfp4"))


def test_an_unknown_gpu_says_which_there_are(db):
    with pytest.raises(UsageError, match="h200-sxm"):
        one(db, gemm(64, 64, 64), gpu="h20")


def test_a_memory_bound_op_runs_at_an_attainable_bandwidth(db):
    # 1 GB: BabelStream's triad attains 2.97 TB/s on H100.
    row = one(db, op(op_class="norm", m=65536, n=4096, bytes=1e9))
    assert row["evidence"] == "modelled"
    assert 1e9 / row["time_s"] == pytest.approx(2.97e12, rel=0.06)


def test_a_tiny_memory_bound_op_still_takes_a_launch(db):
    row = one(db, op(op_class="elementwise", m=1, n=1, bytes=4.0))
    assert 1e-6 < row["time_s"] < 4e-6


def test_memory_bound_time_never_falls_with_bytes(db):
    sizes = np.geomspace(1e3, 1e11, 60)
    rows = [{"op_class": "copy", "name": "c", "bytes": size, "count": 1.0, "evidence": "assumed"}
            for size in sizes]  # fmt: skip
    for gpu in (H100, "a100-80gb-sxm", "gb200"):
        times = db.measure(ops_frame(rows), gpu)["time_s"].to_numpy(dtype=float)
        assert (times[1:] >= times[:-1] * (1 - 1e-12)).all()  # equal up to rounding on plateaus


def test_unknown_bytes_are_an_error_not_a_guess(db):
    with pytest.raises(DataError, match="bytes are unknown"):
        one(db, op(op_class="other", name="mystery"))


def attention(**more):
    values = {"batch": 1, "heads": 32, "kv_heads": 8, "head_dim": 128, "q_len": 8192,
              "kv_len": 8192, "causal": True, **more}  # fmt: skip
    return op(op_class="attention", **values)


def test_attention_backward_costs_more_than_twice_the_forward(db):
    forward = one(db, attention(phase="forward", name="attention"))
    backward = one(db, attention(phase="backward", name="attention.backward"))
    again = one(db, attention(phase="backward", name="attention.recompute"))
    assert forward["evidence"] == "measured"
    assert backward["evidence"] == "modelled"
    assert "assumed" in backward["source"]
    # Five products against two, at a lower rate: FlashAttention's papers show 2.5 to 4.
    assert 2.5 < backward["time_s"] / forward["time_s"] < 4
    assert again["time_s"] == forward["time_s"]


def test_attention_between_batches_and_lengths_is_bounded_by_its_corners(db):
    def decode(batch, kv_len):
        return one(db, attention(batch=batch, q_len=1, kv_len=kv_len))

    corners = [decode(b, k)["time_s"] for b in (16, 32) for k in (4096, 8192)]
    middle = decode(24, 6000)
    assert middle["evidence"] == "interpolated"
    assert min(corners) < middle["time_s"] < max(corners)


def test_a_mask_free_call_does_twice_the_work(db):
    masked = one(db, attention())
    full = one(db, attention(causal=False))
    assert full["time_s"] / masked["time_s"] == pytest.approx(2.0, rel=1e-3)
    assert full["evidence"] == "modelled"


def test_mla_in_both_forms_is_measured(db):
    absorbed = attention(heads=16, kv_heads=1, head_dim=576, head_dim_v=512, batch=64, q_len=1,
                         kv_len=4096)  # fmt: skip
    full = attention(heads=128, kv_heads=128, head_dim=192, head_dim_v=128, q_len=4096, kv_len=4096)
    assert one(db, absorbed)["evidence"] == "measured"
    assert one(db, full)["evidence"] == "measured"


def moe(**more):
    values = {"m": 16384, "n": 2048, "k": 7168, "experts": 32, "experts_total": 256, "topk": 8,
              "fused": "moe_gated", "distribution": "balanced", "precision": "fp8_block",
              **more}  # fmt: skip
    return op(op_class="grouped_gemm", **values)


def test_moe_is_the_measured_row_of_its_group(db, folder):
    table = pd.read_parquet(folder / "h100_sxm/moe/trtllm/1.3.0rc20/moe_perf.parquet")
    # 16384 tokens of 8 ranks x top-8 of 256 experts: 16384 rows and 32 experts a rank.
    row = table.query(
        "hidden_size == 7168 and inter_size == 2048 and num_experts == 256 and topk == 8 and "
        "moe_ep_size == 8 and moe_tp_size == 1 and num_tokens == 16384 and "
        "distribution == 'balanced' and moe_dtype == 'fp8_block'"
    ).iloc[0]
    ours = one(db, moe())
    assert ours["evidence"] == "measured"
    assert ours["time_s"] == pytest.approx(row["latency"] / 1000)


def test_moe_of_near_dims_is_interpolated_and_names_its_model(db):
    row = one(db, moe(n=1792))
    assert row["evidence"] == "interpolated"
    assert "n=" in row["source"]
    assert row["time_s"] < one(db, moe())["time_s"]


def test_moe_beyond_the_rows_is_refused_or_labelled(db):
    with pytest.raises(DataError, match="outside the measured range"):
        one(db, moe(m=10**7))
    row = one(db, moe(m=10**7), allow_extrapolation=True)
    assert row["evidence"] == "extrapolated"


def test_measure_leaves_its_input_alone(db):
    ops = gemm(64, 4096, 4096)
    before = ops.copy()
    db.measure(ops, load_system("hgx-h100"))
    pd.testing.assert_frame_equal(ops, before)
