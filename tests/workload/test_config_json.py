"""Configurations as their authors write them, against published parameter counts."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.errors import DataError
from codesign.workload.config_json import read_config

MIXTRAL: dict[str, Any] = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "rope_theta": 1e6, "sliding_window": None, "vocab_size": 32000,
    "tie_word_embeddings": False, "router_aux_loss_coef": 0.02,
}  # fmt: skip
QWEN2: dict[str, Any] = {
    "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
    "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4, "sliding_window": 131072, "use_sliding_window": False,
    "tie_word_embeddings": False, "vocab_size": 152064,
}  # fmt: skip
QWEN2_MOE: dict[str, Any] = {
    "model_type": "qwen2_moe", "hidden_act": "silu", "decoder_sparse_step": 1,
    "hidden_size": 3584, "intermediate_size": 18944, "max_window_layers": 28,
    "moe_intermediate_size": 2560, "num_attention_heads": 28, "num_experts": 64,
    "num_experts_per_tok": 8, "num_hidden_layers": 28, "num_key_value_heads": 4,
    "shared_expert_intermediate_size": 20480, "sliding_window": 65536,
    "use_sliding_window": False, "vocab_size": 151936, "tie_word_embeddings": False,
}  # fmt: skip
GLM: dict[str, Any] = {
    "model_type": "glm4_moe", "attention_bias": True, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 5120, "partial_rotary_factor": 0.5, "intermediate_size": 12288,
    "max_position_embeddings": 131072, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 3,
    "moe_intermediate_size": 1536, "n_routed_experts": 160, "n_shared_experts": 1,
    "norm_topk_prob": True, "num_attention_heads": 96, "num_experts_per_tok": 8,
    "num_hidden_layers": 92, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
    "routed_scaling_factor": 2.5, "use_qk_norm": True, "vocab_size": 151552,
    "tie_word_embeddings": False,
}  # fmt: skip
GPT_OSS: dict[str, Any] = {
    "model_type": "gpt_oss", "attention_bias": True, "experts_per_token": 4, "head_dim": 64,
    "hidden_act": "silu", "hidden_size": 2880, "initial_context_length": 4096,
    "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention"] * 18,
    "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 36,
    "num_key_value_heads": 8, "num_local_experts": 128, "sliding_window": 128,
    "swiglu_limit": 7.0, "vocab_size": 201088, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
GEMMA2: dict[str, Any] = {
    "model_type": "gemma2", "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584, "intermediate_size": 14336,
    "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "vocab_size": 256000,
    "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
}  # fmt: skip
MINITRON: dict[str, Any] = {
    "model_type": "nemotron", "head_dim": 128, "hidden_act": "relu2", "hidden_size": 4096,
    "intermediate_size": 16384, "mlp_bias": False, "norm_eps": 1e-5, "num_attention_heads": 48,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "partial_rotary_factor": 0.5,
    "tie_word_embeddings": False, "vocab_size": 256000,
}  # fmt: skip
LLAMA1: dict[str, Any] = {
    "model_type": "llama", "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 22016,
    "num_attention_heads": 64, "num_hidden_layers": 80, "vocab_size": 32000,
    "_name_or_path": "somewhere",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "total_b", "active_b"),
    [
        (MIXTRAL, 46.7, 12.9), (QWEN2, 7.6, 7.6), (QWEN2_MOE, 57.4, 14.2), (GLM, 355.0, 32.0),
        (GPT_OSS, 116.8, 5.7), (GEMMA2, 9.24, 9.24), (MINITRON, 8.3, 8.3), (LLAMA1, 65.2, 65.2),
    ],
)  # fmt: skip
def test_published_counts(config: dict[str, Any], total_b: float, active_b: float) -> None:
    """Model cards, in 10^9, both embeddings counted. GLM-4.5: 355 of which the MTP layer 4."""
    model = read_config(config, "config.json")
    assert model.parameters() / 1e9 == pytest.approx(total_b, rel=0.012)
    assert model.parameters(active=True) / 1e9 == pytest.approx(active_b, rel=0.06)


def test_windows_by_what_a_family_says() -> None:
    assert read_config(QWEN2, "c").windows == ((28, None),)
    assert read_config(GPT_OSS, "c").windows == ((18, 128), (18, None))
    assert read_config(GEMMA2, "c").windows == ((21, 4096), (21, None))
    mistral = {**LLAMA1, "model_type": "mistral", "sliding_window": 4096}
    assert read_config(mistral, "c").windows == ((80, 4096),)
    used = {**QWEN2, "use_sliding_window": True, "max_window_layers": 20}
    assert read_config(used, "c").windows == ((8, 131072), (20, None))
    silent = {k: v for k, v in QWEN2.items() if k != "use_sliding_window"}
    assert read_config(silent, "c").windows == ((28, None),)


def test_what_fused_kernels_leave_out_is_kept() -> None:
    yarn = {"rope_type": "yarn", "factor": 32.0}
    model = read_config({**GPT_OSS, "rope_scaling": yarn}, "c")
    assert (model.swiglu_limit, model.biased_experts, model.scaled_rotary) == (7.0, True, True)
    # DeepSeek-V3's two factors cancel; Llama 3.1's rotary embedding does not scale.
    both = {**yarn, "mscale": 1.0, "mscale_all_dim": 1.0}
    assert not read_config({**GLM, "rope_scaling": both}, "c").scaled_rotary
    assert not read_config({**GLM, "rope_scaling": {"rope_type": "llama3"}}, "c").scaled_rotary
    assert not read_config(GLM, "c").biased_experts


@pytest.mark.parametrize(
    ("given", "kept"),
    [(7.0, 7.0), (7, 7.0), (1, 1.0), (0.5, 0.5), (1e-3, 1e-3), (1e9, 1e9),
     (None, None), (0, None), (0.0, None), (-0.0, None)],
)  # fmt: skip
def test_a_clamp_at_any_magnitude_and_none_at_zero(given: float | None, kept: float | None) -> None:
    """As the checkpoint's code has it: clamped where there is a limit, null and 0 are none."""
    assert read_config({**GPT_OSS, "swiglu_limit": given}, "c").swiglu_limit == kept


@pytest.mark.parametrize(
    "value",
    [-1.0, -1, -1e-9, float("nan"), float("inf"), float("-inf"), True, False, "7.0", "", [], [7.0],
     {}],
)  # fmt: skip
def test_a_limit_that_is_no_magnitude_is_refused_in_one_line(value: object) -> None:
    with pytest.raises(DataError, match=r"^c: swiglu_limit") as caught:
        read_config({**GPT_OSS, "swiglu_limit": value}, "c")
    assert "\n" not in str(caught.value)


def test_text_part_of_a_model_that_also_sees() -> None:
    seen = {"model_type": "some_vl", "text_config": MIXTRAL, "vision_config": {"hidden_size": 1}}
    assert read_config(seen, "c") == read_config(MIXTRAL, "c")


def test_plain_layers_in_front_however_written() -> None:
    deep = {**GLM, "num_hidden_layers": 6}
    first = read_config({**deep, "first_k_dense_replace": 2}, "c")
    bare = {k: v for k, v in deep.items() if k != "first_k_dense_replace"}
    assert read_config({**bare, "mlp_only_layers": [0, 1]}, "c") == first
    assert read_config({**bare, "moe_layer_freq": [0, 0, 1, 1, 1, 1]}, "c") == first
    assert read_config({**bare, "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 4}, "c") == first
    assert read_config({**bare, "moe_layer_start_index": 2}, "c") == first


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"decoder_sparse_step": 2}, "decoder_sparse_step"),
        ({"moe_layer_freq": [0, 1, 0, 1]}, "moe_layer_freq"),
        ({"mlp_only_layers": [3]}, "mlp_only_layers"),
        ({"interleave_moe_layer_step": 2}, "interleave_moe_layer_step"),
        ({"index_topk": 2048}, "index_topk"),
        ({"linear_num_key_heads": 16}, "linear"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
        ({"layer_types": ["full_attention"] * 3}, "names 3 layers of 32"),
        ({"hidden_act": "xielu"}, "xielu"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"shared_expert_intermediate_size": 5000}, "shared expert"),
        ({"num_experts": 16}, "differ"),
        ({"experts_per_token": 4}, "experts_per_token"),
        ({"some_new_mixer": 3}, "some_new_mixer"),
    ],
)  # fmt: skip
def test_refused_by_name_in_one_line(more: dict[str, Any], named: str) -> None:
    """What would change shapes or work and is not modelled, or may."""
    with pytest.raises(DataError, match=named) as caught:
        read_config({**MIXTRAL, **more}, "config.json")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("config.json")


_KEYS = {*MIXTRAL, *QWEN2_MOE, *GLM, *GPT_OSS, "text_config", "mlp_only_layers", "moe_layer_freq",
         "mlp_layer_types", "sliding_window_pattern", "moe_layer_start_index"}  # fmt: skip
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**12),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-1, 9), max_size=4),
)


@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(sorted(_KEYS)), _VALUES, max_size=4))
def test_any_value_loads_or_is_a_data_error(more: dict[str, Any]) -> None:
    with contextlib.suppress(DataError):
        read_config({**GLM, **more}, "c")


def test_work_of_windows_and_of_mlps_without_a_gate() -> None:
    """By hand, a token of a layer: 2 FLOPs a weight, so 4 x h x w without a gate; attention of
    half the layers meets a window of 4 of 8 keys: 1 + 2 + 3 + 4 x 5 = 26 pairs, not 36.
    """
    from codesign.workload.recipe import decode_recipe
    from codesign.workload.transformer import build_ops

    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "vocab_size": 100, "intermediate_size": 96, "sliding_window": 4,
             "windowed_layers": 1, "gated": False}  # fmt: skip
    recipe = decode_recipe(
        {"name": "x", "title": "x", "phase": "prefill", "model": shape, "sequence_length": 8},
        "recipe",
    )
    ops = build_ops(recipe)
    by_name = ops.groupby("name")["flops"].sum()
    assert by_name["up_proj"] + by_name["down_proj"] == 2 * 8 * 4 * 64 * 96
    assert by_name["attention"] == (26 + 36) * 4 * 2 * (16 + 16)
