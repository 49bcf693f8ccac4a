"""A transformer by the fields of its Hugging Face config.json, and what they imply."""

from __future__ import annotations

import math

import msgspec

from codesign._common.text import quoted


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dimensions of a decoder-only transformer, named as Hugging Face names them."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    intermediate_size: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    tie_word_embeddings: bool = False
    sliding_window: int | None = None
    windowed_layers: int | None = None
    """Layers whose attention has the sliding window; null: all where there is one."""
    gated: bool = True
    """Whether MLPs and experts have a gate beside their up-projection (SwiGLU, GeGLU)."""
    num_experts: int | None = None
    num_local_experts: int | None = None
    n_routed_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int | None = None
    n_shared_experts: int = 0
    first_k_dense_replace: int = 0
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    num_nextn_predict_layers: int = 0
    """Multi-token prediction layers. Their work is left out: they are dropped when serving."""
    swiglu_limit: float | None = None
    """Gate and up are clamped to this before the activation (gpt-oss); null or 0: they are not."""
    biased_experts: bool = False
    """Whether the projections of the experts have biases."""
    scaled_rotary: bool = False
    """Whether the rotary embedding also scales queries and keys (YaRN's factor other than 1)."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 0 if name in _MAY_BE_ZERO else 1
            if isinstance(value, bool) or name == "swiglu_limit":
                continue
            if isinstance(value, int | float) and not least <= value <= _LARGEST:
                raise ValueError(f"{name} = {value}, expected {least} to {_LARGEST}")
        _check_limit(self.swiglu_limit)
        if not self.mla and not self.head_dim and self.hidden_size % self.num_attention_heads:
            raise ValueError("hidden_size is not a multiple of num_attention_heads; give head_dim")
        if self.num_attention_heads % self.kv_heads:
            raise ValueError("num_attention_heads is not a multiple of num_key_value_heads")
        if self.mla and None in (self.qk_nope_head_dim, self.qk_rope_head_dim, self.v_head_dim):
            raise ValueError(
                "kv_lora_rank needs qk_nope_head_dim, qk_rope_head_dim and v_head_dim beside it"
            )
        if self.experts and not self.num_experts_per_tok:
            raise ValueError("a model with experts needs num_experts_per_tok")
        if self.experts and self.num_experts_per_tok and self.num_experts_per_tok > self.experts:
            raise ValueError("num_experts_per_tok is larger than the number of experts")
        if self.dense_layers and self.intermediate_size is None:
            raise ValueError("dense layers need intermediate_size")
        if self.windowed_layers is not None and self.sliding_window is None:
            raise ValueError("windowed_layers needs sliding_window beside it")
        if (self.windowed_layers or 0) > self.num_hidden_layers:
            raise ValueError("windowed_layers is larger than num_hidden_layers")
        if self.first_k_dense_replace > self.num_hidden_layers:
            raise ValueError("first_k_dense_replace is larger than num_hidden_layers")

    @property
    def mla(self) -> bool:
        """Whether attention is multi-head latent attention (DeepSeek)."""
        return self.kv_lora_rank is not None

    @property
    def kv_heads(self) -> int:
        """Key-value heads; as many as query heads where the config is silent."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def qk_dim(self) -> int:
        """Size of a query and key head."""
        if self.mla:
            return (self.qk_nope_head_dim or 0) + (self.qk_rope_head_dim or 0)
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def v_dim(self) -> int:
        """Size of a value head."""
        return (self.v_head_dim or 0) if self.mla else self.qk_dim

    @property
    def experts(self) -> int:
        """Routed experts of a MoE layer; 0 for a dense model."""
        return self.num_experts or self.n_routed_experts or self.num_local_experts or 0

    @property
    def expert_intermediate(self) -> int:
        """Intermediate size of one expert (Mixtral writes it as ``intermediate_size``)."""
        return self.moe_intermediate_size or self.intermediate_size or 0

    @property
    def dense_layers(self) -> int:
        """Layers with a plain MLP."""
        return self.first_k_dense_replace if self.experts else self.num_hidden_layers

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.num_hidden_layers - self.dense_layers

    def kv_heads_per_rank(self, tp: int) -> int:
        """Key-value heads of a tensor-parallel rank; one is copied once tp exceeds their number."""
        return max(1, self.kv_heads // tp)

    def attention_projections(self, tp: int = 1) -> list[tuple[str, int, int]]:
        """(name, outputs, inputs) of the attention's weights on one rank, a GEMM each.

        The MLA down-projections are small and kept whole on every rank.
        """
        hidden, heads = self.hidden_size, self.num_attention_heads // tp
        output = ("o_proj", hidden, heads * self.v_dim)
        if not self.mla:
            qkv = (heads + 2 * self.kv_heads_per_rank(tp)) * self.qk_dim
            return [("qkv_proj", qkv, hidden), output]
        kv_lora = self.kv_lora_rank or 0
        latent = kv_lora + (self.qk_rope_head_dim or 0)
        kv_b = ("kv_b_proj", heads * ((self.qk_nope_head_dim or 0) + self.v_dim), kv_lora)
        if self.q_lora_rank is None:
            queries = [("q_proj", heads * self.qk_dim, hidden), ("kv_a_proj", latent, hidden)]
        else:
            # Both down-projections read the same input and run as one GEMM.
            queries = [("q_a_kv_a_proj", self.q_lora_rank + latent, hidden),
                       ("q_b_proj", heads * self.qk_dim, self.q_lora_rank)]  # fmt: skip
        return [*queries, kv_b, output]

    def attention_parameters(self, tp: int = 1) -> int:
        """Weights of one layer's attention on one rank, norms left out."""
        return sum(n * k for _, n, k in self.attention_projections(tp))

    @property
    def windows(self) -> tuple[tuple[int, int | None], ...]:
        """(layers, window of their attention): those with one, then those without."""
        all_of = self.num_hidden_layers
        if self.sliding_window is None:
            return ((all_of, None),)
        with_one = all_of if self.windowed_layers is None else self.windowed_layers
        kinds = ((with_one, self.sliding_window), (all_of - with_one, None))
        return tuple(kind for kind in kinds if kind[0])

    @property
    def ups(self) -> int:
        """Projections into the MLP's intermediate size: gate and up, or up alone."""
        return 2 if self.gated else 1

    def mlp_parameters(self, intermediate: int) -> int:
        """Weights of an MLP: gate (if it has one), up and down (not two matrices of 4 h)."""
        return (self.ups + 1) * self.hidden_size * intermediate

    def embedding_parameters(self) -> int:
        """Input embedding plus the output head, once if they are tied."""
        return self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)

    def parameters(self, active: bool = False) -> int:
        """Weights of the model, norms left out (under 0.01 %).

        ``active``: only those that one token meets, as the models' cards count them.
        """
        experts = (self.num_experts_per_tok or 0) if active else self.experts
        expert = self.mlp_parameters(self.expert_intermediate)
        dense = self.dense_layers * self.mlp_parameters(self.intermediate_size or 0)
        router = self.hidden_size * self.experts
        moe = self.moe_layers * (expert * (experts + self.n_shared_experts) + router)
        attention = self.num_hidden_layers * self.attention_parameters()
        return attention + dense + moe + self.embedding_parameters()

    def kv_bytes_per_token(self, element_bytes: float) -> float:
        """Cached keys and values of one token over all layers, by key-value heads.

        MLA caches the latent and the rotary key: ``kv_lora_rank + qk_rope_head_dim``.
        """
        if self.mla:
            elements = (self.kv_lora_rank or 0) + (self.qk_rope_head_dim or 0)
        else:
            elements = self.kv_heads * (self.qk_dim + self.v_dim)
        return self.num_hidden_layers * elements * element_bytes


def _check_limit(value: object) -> None:
    """A limit is a magnitude, no size: any finite number, 1/2 as well as 7."""
    if value is None:
        return
    # Text and truth values are as little a limit as -1 is.
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if not 0 <= number < math.inf:
        raise ValueError(f"swiglu_limit = {quoted(value)}, expected a finite number, 0 or more")


_LARGEST = 10**7
_MAY_BE_ZERO = frozenset({"n_shared_experts", "first_k_dense_replace", "num_nextn_predict_layers",
                          "windowed_layers"})  # fmt: skip
