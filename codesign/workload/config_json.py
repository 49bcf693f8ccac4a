"""A model's config.json as its authors publish it -> the fields of `ModelConfig`.

What changes shapes or work is understood or refused; what changes neither is left out by name.
A key that is in no list here is refused too: it could be either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codesign._common.errors import DataError
from codesign._common.records import convert
from codesign._common.text import printable, quoted
from codesign.workload.model_config import ModelConfig

Config = dict[str, Any]

# Fields that change neither shapes nor work.
_IGNORED = frozenset({
    "architectures", "attention_bias", "attention_dropout", "attention_multiplier",
    "attn_logit_softcapping", "auto_map", "aux_loss_alpha", "bos_token_id",
    "cache_implementation", "dtype", "embd_pdrop", "embedding_multiplier", "eos_token_id",
    "ep_size", "expert_bias", "final_logit_softcapping", "hidden_dropout", "init_method",
    "initial_context_length", "initializer_range", "input_jitter_noise", "logits_scaling",
    "max_position_embeddings", "mlp_bias", "model_type", "moe_router_enable_expert_bias",
    "moe_router_score_function", "moe_router_topk_scaling_factor", "n_group", "norm_eps",
    "norm_head", "norm_softmax", "norm_topk_prob", "output_dropout", "output_router_logits",
    "pad_token_id", "partial_rotary_factor", "pretraining_tp", "qk_layernorm", "qk_norm",
    "qkv_bias", "quantization_config", "query_pre_attn_scalar", "resid_pdrop",
    "residual_multiplier", "rms_norm_eps", "rope_interleave", "rope_local_base_freq",
    "rope_parameters", "rope_scaling", "rope_theta", "rotary_dim", "routed_scaling_factor",
    "router_aux_loss_coef", "router_dtype", "router_jitter_noise", "router_z_loss_coef",
    "scale_depth", "scale_emb", "score_function", "scoring_func", "seq_aux",
    "topk_group", "topk_method", "torch_dtype", "transformers_version", "use_bias", "use_cache",
    "use_expert_bias", "use_qk_norm", "use_qkv_bias", "use_rmsnorm",
})  # fmt: skip
_ALIASES = {
    "experts_per_token": "num_experts_per_tok", "moe_k": "num_experts_per_tok",
    "moe_topk": "num_experts_per_tok", "num_experts_per_token": "num_experts_per_tok",
    "moe_num_experts": "num_experts", "num_shared_experts": "n_shared_experts",
    "num_shared_expert": "n_shared_experts", "moe_num_shared_experts": "n_shared_experts",
    "hidden_activation": "hidden_act", "ffn_hidden_size": "intermediate_size",
    "num_dense_layers": "first_k_dense_replace",
}  # fmt: skip
_TIED = ("gemma", "cohere")
"""Families whose configurations leave tie_word_embeddings out where it is true."""
_GATED = {"silu", "swish", "swiglu", "geglu"}
_UNGATED = {"relu", "relu2", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"}
_REFUSED = {
    "index_topk": "attention to chosen tokens only",
    "attention_chunk_size": "attention in chunks",
    "interleave_moe_layer_step": "layers with and without experts in turn",
    "moe_layers": "layers with and without experts in turn",
    "hybrid_override_pattern": "layers without attention",
    "layers_block_type": "layers without attention",
    "attn_layer_period": "layers without attention",
    "full_attention_interval": "layers of linear attention",
    "linear_num_key_heads": "layers of linear attention",
    "linear_attn_config": "layers of linear attention", "mamba_d_state": "layers without attention",
    "ssm_cfg": "layers without attention", "block_configs": "layers of unlike shapes",
    "d_model": "this form of configuration", "n_embd": "this form of configuration",
    "multi_query": "this form of configuration",
}  # fmt: skip


def read_config(content: object, where: str) -> ModelConfig:
    """The shape that a config.json, or the same fields in YAML, describes.

    Raises DataError naming ``where`` and the key for what is malformed or not supported.
    """
    if not isinstance(content, Mapping):
        raise DataError(f"{where}: expected the fields of a config.json")
    return convert(config_fields(content, where), ModelConfig, where)


def config_fields(content: Mapping[Any, Any], where: str) -> Config:
    """``content`` in `ModelConfig`'s own names. Of a model that also sees or hears, its text
    part: the other towers are no part of the job. Raises DataError.
    """
    config = {str(k): v for k, v in content.items() if not str(k).startswith("_")}
    inner = config.get("text_config")
    if isinstance(inner, Mapping) and "hidden_size" not in config:
        outer = {k: config[k] for k in ("tie_word_embeddings",) if k in config}
        config = {**outer, **{str(k): v for k, v in inner.items() if not str(k).startswith("_")}}
    if config.get("is_encoder_decoder"):
        raise _unsupported(where, "is_encoder_decoder", "a decoder alone is modelled")
    for key, what in _REFUSED.items():
        value = config.pop(key, None)
        if key == "interleave_moe_layer_step" and value == 1:
            continue
        if value is not None:
            raise _unsupported(where, key, what)
    _rename(config, where)
    kind = str(config.get("model_type") or "")
    _activation(config, kind, where)
    _windows(config, kind, where)
    _dense_layers(config, where)
    _shared_experts(config, where)
    _not_fused(config, kind)
    if kind.startswith(_TIED):
        config.setdefault("tie_word_embeddings", True)
    absent = [k for k in ("n_shared_experts", "first_k_dense_replace", "num_nextn_predict_layers",
                          "tie_word_embeddings") if config.get(k, 0) is None]  # fmt: skip
    return {k: v for k, v in config.items() if k not in _IGNORED and k not in absent}


def _unsupported(where: str, key: str, what: str) -> DataError:
    return DataError(printable(f"{where}: {key}: not supported: {what}"))


def _rename(config: Config, where: str) -> None:
    for other, name in _ALIASES.items():
        if other not in config:
            continue
        value = config.pop(other)
        if config.get(name) is None:
            config[name] = value
        elif value is not None and value != config[name]:
            raise DataError(f"{where}: {other} = {quoted(value)}, but {name} = "
                            f"{quoted(config[name])}")  # fmt: skip
    counts = {k: config[k] for k in ("num_experts", "n_routed_experts", "num_local_experts")
              if config.get(k)}  # fmt: skip
    if len({str(v) for v in counts.values()}) > 1:
        raise DataError(f"{where}: {' and '.join(counts)} differ")
    for key in ("num_experts", "n_routed_experts", "num_local_experts"):
        if config.get(key) == 0:  # As dense models of a family with experts say it.
            del config[key]


def _activation(config: Config, kind: str, where: str) -> None:
    """Which MLP: most activations tell whether there is a gate; Gemma gates its GELU."""
    name = config.pop("hidden_act", None)
    if not isinstance(name, str | None):
        raise DataError(f"{where}: hidden_act = {quoted(name)}, expected a name")
    if name is None or "gated" in config or name in _GATED or kind.startswith("gemma"):
        return
    if name not in _UNGATED:
        raise _unsupported(where, f"hidden_act = {quoted(name)}", "unknown whether it has a gate")
    config["gated"] = False


def _not_fused(config: Config, kind: str) -> None:
    """What fused kernels commonly leave out: clamps, biases of experts, scaled queries."""
    limit = config.get("swiglu_limit")
    # False, "" and [] are no number: they stay, to be refused.
    if limit is None or (limit == 0 and not isinstance(limit, bool)):
        config.pop("swiglu_limit", None)
    if kind == "gpt_oss":  # Its projections all have biases, whatever attention_bias says.
        config.setdefault("biased_experts", True)
    rotary = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(rotary, Mapping) or "yarn" not in (rotary.get("rope_type"),
                                                         rotary.get("type")):  # fmt: skip
        return
    # DeepSeek's two factors are equal and cancel (arXiv:2309.00071 has one alone).
    both = rotary.get("mscale"), rotary.get("mscale_all_dim")
    if not both[0] or both[0] != both[1]:
        config.setdefault("scaled_rotary", True)


def _windows(config: Config, kind: str, where: str) -> None:
    """How many layers have the sliding window."""
    layers = config.get("num_hidden_layers")
    types = config.pop("layer_types", None)
    used = config.pop("use_sliding_window", not kind.startswith("qwen"))
    first = config.pop("max_window_layers", None)
    pattern = config.pop("sliding_window_pattern", {"gemma2": 2, "gemma3_text": 6}.get(kind))
    if isinstance(types, list):
        unknown = [t for t in types if t not in ("full_attention", "sliding_attention")]
        if unknown:
            raise _unsupported(where, "layer_types", f"layers of {quoted(unknown[0])}")
        if len(types) != layers:
            raise DataError(f"{where}: layer_types names {len(types)} layers of {layers}")
        windowed = types.count("sliding_attention")
        if windowed and not config.get("sliding_window"):
            raise DataError(f"{where}: layer_types has windows but sliding_window is not given")
    elif not config.get("sliding_window") or not used:
        windowed = 0
    elif isinstance(pattern, int) and isinstance(layers, int) and pattern > 0:
        windowed = layers - layers // pattern  # Every pattern-th sees all.
    elif kind.startswith("qwen") and isinstance(first, int) and isinstance(layers, int):
        windowed = max(layers - first, 0)
    else:
        return
    if windowed == 0:
        config["sliding_window"] = None
        config.pop("windowed_layers", None)
    elif windowed != layers:
        config["windowed_layers"] = windowed


def _dense_layers(config: Config, where: str) -> None:
    """Layers without experts must be the first ones."""
    step, only = config.pop("decoder_sparse_step", 1), config.pop("mlp_only_layers", None)
    frequency, kinds = config.pop("moe_layer_freq", 1), config.pop("mlp_layer_types", None)
    interval = config.pop("moe_layer_interval", 1)
    start = config.pop("moe_layer_start_index", None)
    end = config.pop("moe_layer_end_index", None)
    if not any(config.get(k) for k in ("num_experts", "n_routed_experts", "num_local_experts")):
        return
    turns = "layers with and without experts in turn"
    for key, value in (("mlp_only_layers", only), ("mlp_layer_types", kinds)):
        if not isinstance(value, list | None):
            raise DataError(f"{where}: {key} = {quoted(value)}, expected a list")
    if isinstance(frequency, list):
        kinds = ["sparse" if x else "dense" for x in frequency]
        frequency = 1
    for key, value in (("decoder_sparse_step", step), ("moe_layer_freq", frequency),
                       ("moe_layer_interval", interval)):  # fmt: skip
        if value not in (1, None):
            raise _unsupported(where, f"{key} = {quoted(value)}", turns)
    if end is not None and end != -1 and end != (config.get("num_hidden_layers") or 0) - 1:
        raise _unsupported(where, "moe_layer_end_index", turns)
    dense: int | None = start
    if only:
        if [x for x in range(len(only)) if x not in only]:
            raise _unsupported(where, "mlp_only_layers", turns)
        dense = len(only)
    if kinds is not None:
        dense = next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
        if "dense" in kinds[dense:]:
            raise _unsupported(where, "mlp_layer_types or moe_layer_freq", turns)
    if dense is not None:
        config["first_k_dense_replace"] = dense


def _shared_experts(config: Config, where: str) -> None:
    """Shared experts by their width together, as some write them."""
    config.pop("qk_head_dim", None)
    keys = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    width = next((config.pop(k) for k in keys if config.get(k)), None)
    for key in keys:
        config.pop(key, None)
    one = config.get("moe_intermediate_size") or config.get("intermediate_size")
    if not width or not one or config.get("n_shared_experts"):
        return
    if not isinstance(width, int) or not isinstance(one, int) or width % one:
        raise _unsupported(where, f"a shared expert of width {quoted(width)}",
                           f"a multiple of the routed experts' {quoted(one)} is")  # fmt: skip
    config["n_shared_experts"] = width // one
