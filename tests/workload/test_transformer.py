"""The op list of a step: conservation over parallelism, and hand sums."""

import msgspec
import pytest

from codesign.workload.accounting import hardware_flops, model_flops
from codesign.workload.recipe import Moe, Parallelism, list_recipes, load_recipe
from codesign.workload.schema import validate_ops
from codesign.workload.sharding import Shards
from codesign.workload.transformer import assumptions, build_ops

SFT = load_recipe("llama-3.1-8b-sft")
PRETRAIN = load_recipe("llama-3.1-70b-pretrain-bf16")
DEEPSEEK = load_recipe("deepseek-v3-pretrain-fp8")
DECODE = load_recipe("llama-3.1-70b-decode-b16")
QWEN = load_recipe("qwen3-235b-a22b-rollout-decode")
MATMUL = ["gemm", "grouped_gemm", "attention"]


def with_(recipe, **changes):
    parallelism = {k: changes.pop(k) for k in list(changes) if k in Parallelism.__struct_fields__}
    p = msgspec.structs.replace(recipe.parallelism, **parallelism)
    return msgspec.structs.replace(recipe, parallelism=p, **changes)


def row(ops, name, phase=None):
    found = ops[ops["name"] == name]
    if phase:
        found = found[found["phase"] == phase]
    assert len(found) == 1, f"{name}: {len(found)} rows"
    return found.iloc[0]


@pytest.mark.parametrize("name", list_recipes())
def test_every_op_of_the_shipped_recipes_has_known_work(name):
    ops = build_ops(load_recipe(name))
    validate_ops(ops)
    assert ops["time_s"].isna().all()
    assert ops["phase"].notna().all()
    matmul = ops["op_class"].isin(MATMUL)
    collective = ops["op_class"] == "collective"
    assert (ops.loc[matmul, "flops"] > 0).all()
    assert (ops.loc[~collective, "bytes"] > 0).all()
    assert (ops.loc[collective, "wire_bytes"] > 0).all()
    assert not ops.duplicated(["op_class", "name", "phase", "message_bytes"]).any()


@pytest.mark.parametrize("name", ["llama-3.1-8b-sft", "llama-3.1-70b-pretrain-bf16"])
def test_training_flops_are_six_per_parameter_and_token_plus_attention(name):
    recipe = load_recipe(name)
    model = recipe.model
    # The lookup of an input embedding multiplies nothing.
    weights = model.parameters() - model.vocab_size * model.hidden_size
    tokens, s = recipe.tokens_per_step, recipe.sequence_length
    # Causal attention, forward and twice backward: 12 h s / 2 a token and layer.
    attention = 6 * model.num_hidden_layers * model.num_attention_heads * model.qk_dim * (s + 1)
    expected = tokens * (6 * weights + attention) / recipe.parallelism.gpus
    assert model_flops(build_ops(recipe)) == pytest.approx(expected, rel=1e-3)


def test_moe_training_flops_follow_the_active_parameters():
    model = DEEPSEEK.model
    weights = model.parameters(active=True) - model.vocab_size * model.hidden_size
    heads = model.num_attention_heads * (192 + 128)
    attention = 3 * model.num_hidden_layers * heads * (DEEPSEEK.sequence_length + 1)
    expected = DEEPSEEK.tokens_per_step * (6 * weights + attention) / 2048
    assert model_flops(build_ops(DEEPSEEK)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("recipe", "change"),
    [
        (PRETRAIN, {"tp": 1, "sequence_parallel": False}),
        (PRETRAIN, {"tp": 4}),
        (PRETRAIN, {"pp": 1, "virtual_pipeline": 1}),
        (PRETRAIN, {"pp": 8}),
        (PRETRAIN, {"cp": 4, "dp": 4}),
        (PRETRAIN, {"dp": 64}),
        (PRETRAIN, {"sequence_parallel": False}),
        (DEEPSEEK, {"ep": 8}),
        (DEEPSEEK, {"ep": 1}),
        (DEEPSEEK, {"pp": 4}),
        (QWEN, {"ep": 1}),
        (QWEN, {"tp": 1, "dp": 8}),
    ],
)
def test_all_gpus_together_do_the_same_flops_a_token_however_they_are_split(recipe, change):
    def per_token(r):
        return model_flops(build_ops(r)) * r.parallelism.gpus / r.tokens_per_step

    # Routers are copied over tp where their tokens are: under 0.5 %.
    assert per_token(with_(recipe, **change)) == pytest.approx(per_token(recipe), rel=5e-3)


def test_mla_down_projections_are_computed_on_every_tensor_parallel_rank():
    def per_token(r):
        return model_flops(build_ops(r)) * r.parallelism.gpus / r.tokens_per_step

    extra = per_token(with_(DEEPSEEK, tp=4)) - per_token(DEEPSEEK)
    assert extra == pytest.approx(3 * 6 * 61 * 7168 * (1536 + 512 + 64), rel=1e-6)


def test_context_parallel_ranks_divide_the_work():
    # 8 ranks of one sequence do an eighth each, not the whole each.
    alone = model_flops(build_ops(with_(SFT, dp=1)))
    shared = model_flops(build_ops(with_(SFT, dp=1, cp=8)))
    assert shared == pytest.approx(alone / 8, rel=1e-3)


def test_gated_mlp_forward_of_one_token():
    one = with_(SFT, phase="prefill", sequence_length=1, dp=1, zero=1, lm_head_chunks=1)
    ops = build_ops(one)
    mlp = row(ops, "gate_up_proj")["flops"] + row(ops, "down_proj")["flops"]
    assert mlp == 32 * 352_321_536


def test_backward_gemms_have_their_own_shapes():
    ops = build_ops(SFT)
    forward, dgrad, wgrad = (row(ops, f"qkv_proj{s}") for s in ("", ".dgrad", ".wgrad"))
    assert (forward["m"], forward["n"], forward["k"]) == (8192, 6144, 4096)
    assert (dgrad["m"], dgrad["n"], dgrad["k"]) == (8192, 4096, 6144)
    assert {wgrad["m"], wgrad["n"]} == {4096, 6144}
    assert wgrad["k"] == 8192
    assert forward["flops"] == dgrad["flops"] == wgrad["flops"]


def test_full_recomputation_adds_one_forward_of_the_layers_to_hardware_flops_only():
    none = build_ops(with_(SFT, recompute="none"))
    full = build_ops(with_(SFT, recompute="full"))
    forward = none[(none["phase"] == "forward") & (none["name"] != "lm_head")]
    assert model_flops(full) == model_flops(none)
    added = hardware_flops(full) - hardware_flops(none)
    assert added == pytest.approx(float(forward["flops"].sum()), rel=1e-12)


def test_attention_shards_by_query_heads_and_caches_by_key_value_heads():
    attention = row(build_ops(DECODE), "attention")
    assert (attention["heads"], attention["kv_heads"]) == (16, 2)
    assert (attention["q_len"], attention["kv_len"], attention["batch"]) == (1, 4096, 16)
    cache = 80 * 16 * 4096 * 2 * (128 + 128) * 2
    assert attention["bytes"] == pytest.approx(cache, rel=0.01)


def test_decode_reads_every_weight_and_the_cache_once():
    ops = build_ops(DECODE)
    gemms = ops[ops["op_class"] == "gemm"]
    weights = (70.55e9 - 128256 * 8192) * 2 / 4
    assert float(gemms["bytes"].sum()) == pytest.approx(weights, rel=0.03)


def test_moe_rows_are_tokens_times_topk_over_the_group():
    experts = row(build_ops(DEEPSEEK), "experts")
    assert experts["m"] == 4096 * 8
    assert (experts["experts"], experts["n"], experts["k"]) == (4, 2048, 7168)
    spread = row(build_ops(QWEN), "experts")
    # Two groups of 64 tokens over 8 GPUs of 16 experts each.
    assert spread["m"] * 8 == 2 * 64 * 8
    assert spread["experts"] == 16


def test_experts_split_by_tp_see_all_tokens_of_the_group():
    experts = row(build_ops(with_(QWEN, ep=1)), "experts")
    assert experts["m"] == 64 * 8
    assert (experts["n"], experts["experts"]) == (1536 // 4, 128)


def test_replicated_tokens_need_no_dispatch():
    recipe = with_(QWEN, dp=1, ep=4, moe=Moe(communication="all_reduce"))
    ops = build_ops(recipe)
    assert not ops["name"].str.startswith("ep.").any()
    assert row(ops, "tp.all_reduce")["count"] == 2 * 94 + 1
    assert row(ops, "experts")["m"] == 64 * 8 / 4


def test_dispatch_carries_a_copy_for_each_expert_chosen():
    dispatch = row(build_ops(DEEPSEEK), "ep.dispatch", "forward")
    assert dispatch["message_bytes"] == pytest.approx(4096 * 8 * 7168 * (1 + 4 / 128))
    assert (dispatch["group_size"], dispatch["group_stride"], dispatch["topk"]) == (64, 1, 8)
    sent = dispatch["wire_bytes"] / dispatch["count"] / dispatch["message_bytes"]
    assert sent == pytest.approx(63 / 64)


def test_tensor_parallel_sums_twice_a_layer_and_direction():
    ops = build_ops(DECODE)
    summed = row(ops, "tp.all_reduce")
    assert summed["count"] == 2 * 80 + 1  # and once after the embedding
    assert summed["message_bytes"] == 16 * 8192 * 2
    assert not build_ops(SFT)["name"].str.startswith("tp.").any()


def test_tensor_parallel_ranks_gather_the_logits_they_sample_from():
    logits = row(build_ops(DECODE), "tp.all_gather")
    assert logits["count"] == 1
    assert logits["message_bytes"] == 16 * 128256 * 2


def test_backward_sums_that_a_weight_gradient_can_hide_are_kept_apart():
    # Megatron-LM: of a region's gather and scatter, forward; gather of the sum's gradient, gather
    # of the input once more, scatter of its gradient, backward. Two regions in 80 layers.
    per_stage = 32 / 4
    regions, edge = 2 * 80 * per_stage, per_stage
    ops = build_ops(PRETRAIN)
    counts = {(r["name"], r["phase"]): r["count"] for _, r in ops.iterrows()
              if r["name"].startswith("tp")}  # fmt: skip
    assert counts == {
        ("tp.all_gather", "forward"): regions + edge,
        ("tp.reduce_scatter", "forward"): regions + edge,
        ("tp.all_gather", "backward"): regions + edge,
        ("tp_backward.all_gather", "backward"): regions + edge,
        ("tp_backward.reduce_scatter", "backward"): regions + edge,
    }
    plain = build_ops(with_(PRETRAIN, sequence_parallel=False))
    summed = row(plain, "tp_backward.all_reduce")
    assert summed["count"] == regions + edge  # each region's input, and the head's


def test_sequence_parallelism_sends_as_much_as_the_all_reduces_it_replaces():
    split = build_ops(PRETRAIN)
    whole = build_ops(with_(PRETRAIN, sequence_parallel=False))

    def sent(ops):
        tp = ops["name"].str.startswith("tp.") & (ops["phase"] == "forward")
        return float(ops.loc[tp, "wire_bytes"].sum())

    assert sent(split) == pytest.approx(sent(whole), rel=0.01)


@pytest.mark.parametrize(("recipe", "stride"), [(SFT, 1), (PRETRAIN, 8)])
def test_data_parallel_groups_step_over_the_tensor_parallel_ones(recipe, stride):
    ops = build_ops(recipe)
    dp = ops[ops["name"].str.startswith("dp_")]
    assert (dp["group_stride"] == stride).all()
    assert (dp["group_size"] == recipe.parallelism.dp).all()


@pytest.mark.parametrize("recipe", [SFT, PRETRAIN, DEEPSEEK])
def test_every_gradient_is_reduced_once_a_pass_in_its_precision(recipe):
    ops = build_ops(recipe)
    reduced = ops[ops["name"] == "dp_gradients.reduce_scatter"]
    volume = float((reduced["message_bytes"] * reduced["count"]).sum())
    passes = recipe.micro_batches if recipe.parallelism.zero == 3 else 1
    assert volume == pytest.approx(4 * passes * Shards.of(recipe).parameters, rel=1e-6)


@pytest.mark.parametrize("recipe", [SFT, PRETRAIN, DEEPSEEK])
def test_shards_of_all_gpus_hold_the_model(recipe):
    p, shards = recipe.parallelism, Shards.of(recipe)
    # Each parameter's optimizer state is on one GPU of the job.
    whole = shards.optimized * p.gpus
    assert whole == pytest.approx(recipe.model.parameters(), rel=0.01)
    adamw = row(build_ops(recipe), "adamw")
    assert adamw["m"] == pytest.approx(shards.optimized, abs=1)


def test_expert_gradients_meet_only_copies_of_the_same_experts():
    ops = build_ops(DEEPSEEK)
    reduced = ops[ops["name"] == "dp_gradients.reduce_scatter"]
    groups = set(zip(reduced["group_size"], reduced["group_stride"], strict=True))
    assert groups == {(128, 1), (2, 64)}


def test_mla_dims_in_training_and_absorbed_in_decode():
    attention = row(build_ops(DEEPSEEK), "attention")
    assert [attention[c] for c in ("heads", "kv_heads", "head_dim", "head_dim_v")] == [
        128, 128, 192, 128]  # fmt: skip
    decode = with_(DEEPSEEK, phase="decode", pp=1, schedule="1f1b", dp=64, batch=32,
                   recompute="none")  # fmt: skip
    ops = build_ops(decode)
    attention = row(ops, "attention")
    assert [attention[c] for c in ("heads", "kv_heads", "head_dim", "head_dim_v")] == [
        128, 1, 576, 512]  # fmt: skip
    assert not (ops["name"] == "kv_b_proj").any()
    # kv_b's weights are the same 512 x (128 + 128) a head, absorbed or not.
    absorbed = row(ops, "q_absorb")["flops"] + row(ops, "v_absorb")["flops"]
    assert absorbed == 61 * 2 * 32 * 128 * 512 * 256


def test_sliding_window_reaches_the_attention_row():
    windowed = msgspec.structs.replace(SFT.model, sliding_window=4096)
    ops = build_ops(with_(SFT, model=windowed))
    call = row(ops, "attention")
    assert call["flops"] / call["count"] / 32 == 12_885_950_464


def test_prefill_needs_logits_of_the_last_tokens_only():
    recipe = load_recipe("llama-3.1-70b-rollout-prefill")
    assert row(build_ops(recipe), "lm_head")["m"] == 8


def test_vocabulary_chunks_split_the_head_and_keep_its_work():
    chunked, whole = build_ops(SFT), build_ops(with_(SFT, lm_head_chunks=1))
    assert row(chunked, "lm_head")["n"] == 128256 / 4
    assert row(chunked, "lm_head")["flops"] == row(whole, "lm_head")["flops"]


def test_pipeline_neighbours_are_a_replica_apart():
    sent = row(build_ops(PRETRAIN), "pp.send_recv", "forward")
    assert sent["group_stride"] == 8 * 16
    # 32 micro-batches x 5 chunks on 4 stages: the last chunk of the last stage sends none on.
    assert sent["count"] * 4 == 32 * (4 * 5 - 1)


def test_assumptions_name_what_was_assumed():
    said = assumptions(DEEPSEEK)
    assert "quantiz" in said["quantization"]
    assert "0.0389" in said["pipeline"]
    assert said["pipeline"].endswith("1 chunk a stage")
    assert DEEPSEEK.overlap["ep"].reason in said["overlap ep"]
    assert "multi-token" in said["left out"]
    assert "FSDP's copies" not in said["left out"]
    assert "quantization" not in assumptions(SFT)
    assert "FSDP's copies" in assumptions(SFT)["left out"]
