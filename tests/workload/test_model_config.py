"""Published parameter counts as an independent check of the shapes."""

import msgspec
import pytest

from codesign.workload.model_config import ModelConfig
from codesign.workload.recipe import load_recipe

LLAMA_405B = ModelConfig(
    hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128,
    num_key_value_heads=8, vocab_size=128256,
)  # fmt: skip
QWEN3_30B = ModelConfig(
    hidden_size=2048, intermediate_size=6144, num_hidden_layers=48, num_attention_heads=32,
    num_key_value_heads=4, head_dim=128, vocab_size=151936, num_experts=128,
    num_experts_per_tok=8, moe_intermediate_size=768,
)  # fmt: skip
MIXTRAL = ModelConfig(
    hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
    num_key_value_heads=8, vocab_size=32000, num_local_experts=8, num_experts_per_tok=2,
)  # fmt: skip
LLAMA_8B = load_recipe("llama-3.1-8b-sft").model
LLAMA_70B = load_recipe("llama-3.1-70b-pretrain-bf16").model
DEEPSEEK_V3 = load_recipe("deepseek-v3-pretrain-fp8").model
QWEN3_235B = load_recipe("qwen3-235b-a22b-rollout-decode").model


@pytest.mark.parametrize(
    ("model", "billions"),
    [(LLAMA_8B, 8.03), (LLAMA_70B, 70.6), (LLAMA_405B, 405.9), (DEEPSEEK_V3, 671.0),
     (QWEN3_235B, 235.1), (QWEN3_30B, 30.5), (MIXTRAL, 46.7)],
)  # fmt: skip
def test_total_parameters_as_the_model_cards_say(model, billions):
    assert model.parameters() / 1e9 == pytest.approx(billions, rel=0.002)


@pytest.mark.parametrize(
    ("model", "billions"),
    # Cards round to 37, 22, 3.3 and 12.9, and disagree on whether the embedding counts.
    [(DEEPSEEK_V3, 37.0), (QWEN3_235B, 22.0), (QWEN3_30B, 3.3), (MIXTRAL, 12.9)],
)
def test_active_parameters_as_the_model_cards_say(model, billions):
    assert model.parameters(active=True) / 1e9 == pytest.approx(billions, rel=0.02)


def test_cache_bytes_go_by_key_value_heads():
    # 32 layers, 8 key-value heads of 128, fp16
    assert LLAMA_8B.kv_bytes_per_token(2.0) == 131_072


def test_mla_caches_the_latent():
    # DeepSeek-V3: (512 + 64) numbers a layer, about 70 kB a token in bf16
    assert DEEPSEEK_V3.kv_bytes_per_token(2.0) == 61 * 576 * 2


def test_gated_mlp_has_three_matrices():
    # h 4096, ffn 14336, one token: FLOPs are twice the weights
    assert 2 * LLAMA_8B.mlp_parameters(14336) == 352_321_536


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_shards_of_the_attention_add_up(tp):
    assert tp * LLAMA_70B.attention_parameters(tp) == LLAMA_70B.attention_parameters()


def test_key_value_heads_are_copied_beyond_their_number():
    # Qwen3-235B has 4: each of 8 ranks holds a whole one.
    assert QWEN3_235B.kv_heads_per_rank(8) == 1
    (name, outputs, inputs), _ = QWEN3_235B.attention_projections(8)
    assert (name, outputs, inputs) == ("qkv_proj", (64 // 8 + 2) * 128, 4096)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 0},
        {"hidden_size": -1},
        {"vocab_size": 10**9},
        {"num_key_value_heads": 3},
        {"kv_lora_rank": 512},
        {"num_experts": 8},
        {"num_experts": 4, "num_experts_per_tok": 8},
        {"first_k_dense_replace": 99},
        {"intermediate_size": None},
        {"swiglu_limit": -0.5},
        {"swiglu_limit": float("nan")},
        {"swiglu_limit": float("inf")},
        {"swiglu_limit": True},
        {"swiglu_limit": "7"},
    ],
)
def test_impossible_configs_are_refused(changes):
    with pytest.raises(ValueError):
        msgspec.structs.replace(LLAMA_8B, **changes)


def test_tied_embeddings_count_once():
    tied = msgspec.structs.replace(LLAMA_8B, tie_word_embeddings=True)
    assert LLAMA_8B.parameters() - tied.parameters() == 128256 * 4096


@pytest.mark.parametrize("limit", [None, 0, 0.0, 0.25, 7.0])
def test_a_limit_of_the_activation_changes_no_weights(limit):
    limited = msgspec.structs.replace(MIXTRAL, swiglu_limit=limit)
    assert limited.parameters() == MIXTRAL.parameters()
