"""HBM that a recipe needs on one GPU: an estimate, to tell what fits."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.moe import expert_rows_per_gpu
from codesign.workload.recipe import Recipe
from codesign.workload.sharding import Shards
from codesign.workload.transformer_layers import Share


@dataclass(frozen=True)
class Footprint:
    """Bytes on one GPU by what holds them. Workspaces and fragmentation are left out."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    kv_cache_bytes: float

    @property
    def total_bytes(self) -> float:
        """The sum."""
        return (
            self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
            + self.activations_bytes + self.kv_cache_bytes
        )  # fmt: skip


def footprint(recipe: Recipe) -> Footprint:
    """Weights, gradients and optimizer exactly by their shards; activations by what the
    backward pass reads (flash attention, nothing offloaded); the KV cache by heads held.
    """
    shards, p = Shards.of(recipe), recipe.parallelism
    size = BYTES_PER_ELEMENT
    if not recipe.training:
        weights = sum(b.total * size[_served_in(recipe, b.name)] for b in shards.buckets)
        return Footprint(weights, 0.0, 0.0, 0.0, _kv_cache(recipe))
    # FSDP keeps its shard and at most two gathered layers.
    held = shards.parameters
    gathered = 2.0 * max(b.parameters for b in shards.buckets) if p.zero == 3 else 0.0
    kept = shards.optimized if p.zero == 3 else held
    # DualPipe runs the pipeline from both ends: a rank has the layers of two stages.
    copies = 2.0 if p.schedule == "dualpipe" else 1.0
    state = 2 * size[recipe.precision.optimizer] + size["fp32"]
    return Footprint(
        weights_bytes=copies * (kept + gathered) * size[recipe.precision.parameters],
        gradients_bytes=copies * kept * size[recipe.precision.gradients],
        optimizer_bytes=shards.optimized * state,
        activations_bytes=_activations(recipe),
        kv_cache_bytes=0.0,
    )


def _served_in(recipe: Recipe, bucket: str) -> str:
    precision = recipe.precision
    if bucket == "embeddings":
        return precision.lm_head
    return precision.experts if bucket == "experts" else precision.gemm


def _kv_cache(recipe: Recipe) -> float:
    model, tp = recipe.model, recipe.parallelism.tp
    tokens = recipe.batch * recipe.context_length if recipe.decoding else recipe.tokens_per_pass
    whole = model.kv_bytes_per_token(BYTES_PER_ELEMENT[recipe.precision.kv_cache])
    # Latents are on every rank, heads are spread until one is left.
    share = 1.0 if model.mla else model.kv_heads_per_rank(tp) / model.kv_heads
    return tokens * whole * share / recipe.parallelism.pp


def _activations(recipe: Recipe) -> float:
    """Kept for the backward pass by the first pipeline stage.

    Under 1F1B a stage of p holds p micro-batches of a p-th of the layers; interleaving
    holds 1 + (p - 1) / (p v) times that (Korthikanti et al. 2022, arXiv:2205.05198,
    section 4), DualPipe 1 + 1 / p times (arXiv:2412.19437, table 2).
    """
    model, p, s = recipe.model, recipe.parallelism, Share.of(recipe)
    flight = 1.0
    if p.virtual_pipeline > 1:
        flight += (p.pp - 1) / (p.pp * p.virtual_pipeline)
    elif p.schedule == "dualpipe":
        flight += 1 / p.pp
    layers = model.num_hidden_layers * min(1.0, recipe.micro_batches / p.pp)
    wide = BYTES_PER_ELEMENT[recipe.precision.activations]
    boundary = s.sharded_tokens * model.hidden_size * wide
    one_layer = _layer_activations(recipe, s)
    # A head chunk's logits and their gradient, and the layer being recomputed.
    logits = 2.0 * s.tokens * model.vocab_size / p.tp / recipe.lm_head_chunks * wide
    if recipe.recompute == "full":
        return layers * boundary * flight + one_layer + logits
    return layers * one_layer * flight + logits


def _layer_activations(recipe: Recipe, s: Share) -> float:
    """Mean over the layers of what one keeps: inputs of its GEMMs, attention and SwiGLU."""
    model, tp = recipe.model, recipe.parallelism.tp
    cheap_gone = recipe.recompute == "selective"
    wide = BYTES_PER_ELEMENT[recipe.precision.activations]
    swiglu = BYTES_PER_ELEMENT[recipe.precision.swiglu_input or recipe.precision.activations]
    narrow = min(wide, BYTES_PER_ELEMENT[recipe.precision.gemm])
    residual = 2.0 * s.sharded_tokens * model.hidden_size * wide
    normed = 0.0 if cheap_gone else 2.0 * s.sharded_tokens * model.hidden_size * narrow
    heads = model.num_attention_heads // tp
    kv_heads = heads if model.mla else model.kv_heads_per_rank(tp)
    qkv = heads * model.qk_dim + kv_heads * (model.qk_dim + model.v_dim)
    if model.mla:
        latent = (
            (model.q_lora_rank or 0) + (model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0)
        )
        qkv = latent if cheap_gone else qkv + latent
    attention = s.tokens * (qkv + heads * model.v_dim) * wide

    def mlp(rows: float, width: float) -> float:
        product = 0.0 if cheap_gone else rows * width * narrow
        return rows * model.ups * width * swiglu + product

    dense = mlp(s.tokens, (model.intermediate_size or 0) // tp) * model.dense_layers
    moe = 0.0
    if model.moe_layers:
        rows = expert_rows_per_gpu(s)
        width = model.expert_intermediate // (tp if recipe.parallelism.ep == 1 else 1)
        received = rows * model.hidden_size * BYTES_PER_ELEMENT[recipe.precision.dispatched]
        shared = model.n_shared_experts * model.expert_intermediate // tp
        moe = (mlp(rows, width) + received + mlp(s.tokens, shared)) * model.moe_layers
    return residual + normed + attention + (dense + moe) / model.num_hidden_layers
