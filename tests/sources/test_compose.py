"""Recipes composed from measured kernels: what must add up, and what must be said."""

import pytest

from codesign._common.errors import DataError, UsageError
from codesign.workload.characterization import Characterization
from codesign.workload.recipe import list_recipes, load_recipe

pytestmark = pytest.mark.perfdb
SFT = "llama-3.1-8b-sft"
DECODE = "llama-3.1-70b-decode-b16"


@pytest.fixture(scope="module")
def db():
    pytest.importorskip("aiconfigurator_core")
    from codesign.sources.perfdb import PerfDB

    return PerfDB()


def composed(db, name, system=None, **options):
    from codesign.sources.compose import compose

    return compose(load_recipe(name), db, system, **options)


@pytest.fixture(scope="module")
def shipped(db):
    return {name: composed(db, name) for name in list_recipes()}


def test_the_step_is_the_sum_of_its_parts(shipped):
    for name, char in shipped.items():
        header, ops = char.header, char.ops
        exposed_s = float(ops["exposed_s"].sum())
        assert header.step_time_s == pytest.approx(exposed_s + header.idle_s, rel=1e-12), name
        assert header.bubble_s <= header.idle_s
        assert (ops["exposed_s"] <= ops["time_s"]).all()
        assert ops["time_s"].gt(0).all(), name


def test_only_collectives_hide_and_never_behind_more_than_there_is(shipped):
    for name, char in shipped.items():
        ops = char.ops
        compute = ~ops["op_class"].isin(["collective", "copy"])
        assert (ops.loc[compute, "exposed_s"] == ops.loc[compute, "time_s"]).all(), name
        hidden_s = float((ops["time_s"] - ops["exposed_s"]).sum())
        assert hidden_s <= float(ops.loc[compute, "time_s"].sum())


def test_every_row_says_where_its_time_comes_from(shipped):
    for name, char in shipped.items():
        assert char.ops["source"].notna().all(), name
        assert set(char.ops["evidence"]) <= {"measured", "interpolated", "modelled", "assumed",
                                             "extrapolated"}  # fmt: skip
        refused = load_recipe(name).extrapolation == "refuse"
        assert not (refused and (char.ops["evidence"] == "extrapolated").any()), name


def test_gaps_between_kernels_are_not_claimed(shipped):
    for char in shipped.values():
        quality = char.header.quality
        assert not quality.reliable("idle")
        assert not quality.reliable("launch")
        assert quality.reliability["idle"].reasons


def test_provenance_names_each_table_by_hash(shipped, db):
    header = shipped[SFT].header
    assert header.system == "hgx-h100"
    assert header.software["gemm_perf"] == "trtllm 1.3.0rc20"
    names = [s.name for s in header.sources]
    assert any(name.endswith("gemm_perf.parquet") for name in names)
    assert all(len(s.sha256) == 64 and s.bytes > 0 for s in header.sources)
    assert names == sorted(names)
    assert not any(name.startswith("/") for name in names)
    assert header.assumptions["attention backward efficiency"].startswith("0.75")


# Published throughput that a composition without host gaps should meet from above, not by far:
# torchtitan's Llama-3.1-8B on 8 H100 6,667 tokens/s/GPU (less recomputation); DeepSeek-V3's own
# pre-training 14.8e12 tokens in 2.664e6 GPU hours = 1,543 on H800.
@pytest.mark.parametrize(
    ("name", "tokens_per_s_per_gpu"), [(SFT, 6667), ("deepseek-v3-pretrain-fp8", 1543)]
)
def test_throughput_is_near_what_was_published(shipped, name, tokens_per_s_per_gpu):
    header = shipped[name].header
    ours = header.tokens_per_step / header.gpus / header.step_time_s
    assert 0.9 < ours / tokens_per_s_per_gpu < 1.6


def test_a_decode_gains_from_bandwidth_and_a_training_step_does_not(db):
    # H200 is H100 with 1.43 times the memory bandwidth.
    gains = {}
    for name in (DECODE, "llama-3.1-70b-pretrain-bf16"):
        times = [composed(db, name, s).header.step_time_s for s in ("hgx-h100", "hgx-h200")]
        gains[name] = times[0] / times[1]
    assert 1.15 < gains[DECODE] < 1.43
    assert gains["llama-3.1-70b-pretrain-bf16"] < 1.06


def test_the_file_is_the_same_each_time(db, tmp_path):
    paths = [tmp_path / f"{i}.parquet" for i in range(2)]
    for path in paths:
        composed(db, DECODE).save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert Characterization.load(paths[0]).header.workload == DECODE


def test_a_shape_outside_the_tables_is_refused_unless_allowed(db):
    import msgspec

    from codesign.sources.compose import compose

    recipe = load_recipe("deepseek-v3-pretrain-fp8")
    strict = msgspec.structs.replace(recipe, extrapolation="refuse")
    with pytest.raises(DataError, match=r"experts.*outside the measured range"):
        compose(strict, db)
    allowed = compose(strict, db, allow_extrapolation=True)
    assert any("extrapolated" in warning for warning in allowed.header.quality.warnings)


def test_a_system_without_tables_is_a_usage_error(db):
    with pytest.raises(UsageError, match=r"no measured kernels.*h100-sxm"):
        composed(db, SFT, "mi300x-platform")
