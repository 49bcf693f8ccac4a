"""Forward rows of one GPU: attention, MLP, experts, embedding and head."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codesign.workload.recipe import Recipe
from codesign.workload.transformer_rows import Row, gemm, memory


@dataclass(frozen=True)
class Share:
    """The part of the model and of the tokens that one representative GPU works on.

    Pipeline stages are averaged: a stage's counts are the model's divided by the
    stages, fractions included, as a balanced pipeline comes out.
    """

    recipe: Recipe
    phase: str
    tokens: int
    """Tokens of a forward pass in the tensor-parallel regions."""
    sharded_tokens: int
    """Tokens in norms and residuals: a tp-th of them with sequence parallelism."""
    passes: int
    """Forward passes a step."""

    @classmethod
    def of(cls, recipe: Recipe) -> Share:
        """The share of a recipe's GPU."""
        p = recipe.parallelism
        tokens = recipe.tokens_per_pass
        sharded = math.ceil(tokens / p.tp) if p.sequence_parallel else tokens
        phase = "forward" if recipe.training else "decode" if recipe.decoding else "prefill"
        return cls(recipe, phase, tokens, sharded, recipe.micro_batches)

    @property
    def sampled_rows(self) -> int:
        """Rows of logits a pass: prefill needs those of each sequence's last token only."""
        if self.recipe.training:
            return self.tokens
        return self.recipe.batch if self.recipe.decoding else self.recipe.micro_batch

    def calls(self, layers: int) -> float:
        """Calls a step of an op that ``layers`` layers of the model have once each."""
        return layers * self.passes / self.recipe.parallelism.pp

    def gemm(self, name: str, n: int, k: int, layers: int, precision: str | None = None) -> Row:
        """A GEMM over the tokens."""
        precision = precision or self.recipe.precision.gemm
        return gemm(name, self.tokens, n, k, count=self.calls(layers), precision=precision,
                    phase=self.phase)  # fmt: skip

    def memory(self, op_class: str, name: str, m: int, n: int, layers: int) -> Row:
        """A memory-bound op over (m, n) activations."""
        return memory(op_class, name, m, n, count=self.calls(layers),
                      precision=self.recipe.precision.activations, phase=self.phase)  # fmt: skip


def attention_rows(s: Share) -> list[Row]:
    """Norm, projections, rotary embedding and attention of every layer."""
    model, tp = s.recipe.model, s.recipe.parallelism.tp
    layers, heads = model.num_hidden_layers, model.num_attention_heads // tp
    rows = [s.memory("norm", "attention_norm", s.sharded_tokens, model.hidden_size, layers)]
    for name, n, k in model.attention_projections(tp):
        if name == "kv_b_proj" and s.recipe.decoding:
            rows += _absorbed(s, heads)
        else:
            rows.append(s.gemm(name, n, k, layers))
    if model.mla:
        rope = model.qk_rope_head_dim or 0
        rotated = (heads + 1) * rope
        rows.append(s.memory("norm", "kv_norm", s.tokens, model.kv_lora_rank or 0, layers))
        if model.q_lora_rank:
            rows.append(s.memory("norm", "q_norm", s.tokens, model.q_lora_rank, layers))
    else:
        rotated = (heads + model.kv_heads_per_rank(tp)) * model.qk_dim
    rows.append(s.memory("elementwise", "rotary", s.tokens, rotated, layers))
    return [*rows, *_attention(s, heads)]


def _absorbed(s: Share, heads: int) -> list[Row]:
    """MLA decode works on the latent: kv_b is multiplied into queries and outputs."""
    model = s.recipe.model
    latent = model.kv_lora_rank or 0
    layers = model.num_hidden_layers
    q = s.gemm("q_absorb", latent, model.qk_nope_head_dim or 0, layers, "bf16")
    v = s.gemm("v_absorb", model.v_dim, latent, layers, "bf16")
    for row in (q, v):
        row.dims["batch"] = heads
    return [q, v]


def _attention(s: Share, heads: int) -> list[Row]:
    recipe, model = s.recipe, s.recipe.model
    p = recipe.parallelism
    kv_heads = heads if model.mla else model.kv_heads_per_rank(p.tp)
    d, v = model.qk_dim, model.v_dim
    if recipe.decoding:
        batch, q_len, kv_len = recipe.batch, 1, recipe.context_length
        if model.mla:
            latent = model.kv_lora_rank or 0
            kv_heads, d, v = 1, latent + (model.qk_rope_head_dim or 0), latent
    else:
        # Context parallelism deals out blocks so that each rank has as many pairs as
        # the next: a causal block of q = s / cp rows with (s + q) / 2 keys has just those.
        batch, q_len = recipe.micro_batch, recipe.sequence_length // p.cp
        kv_len = (recipe.sequence_length + q_len) // 2
    cached = recipe.precision.attention if recipe.training else recipe.precision.kv_cache
    dims: dict[str, object] = {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "q_len": q_len, "kv_len": kv_len,
        "head_dim": d, "head_dim_v": v if v != d else None, "causal": True,
        "kv_precision": cached,
    }  # fmt: skip
    return [
        Row("attention", "attention", s.calls(layers), recipe.precision.attention, s.phase,
            {**dims, "window": window})
        for layers, window in model.windows
    ]  # fmt: skip


def mlp_rows(s: Share) -> list[Row]:
    """Norm of every layer, and the plain MLP of those that have one."""
    model, tp = s.recipe.model, s.recipe.parallelism.tp
    rows = [s.memory("norm", "mlp_norm", s.sharded_tokens, model.hidden_size,
                     model.num_hidden_layers)]  # fmt: skip
    if not model.dense_layers:
        return rows
    width = (model.intermediate_size or 0) // tp
    return rows + one_mlp(s, "", width, model.dense_layers)


def one_mlp(s: Share, prefix: str, width: int, layers: int) -> list[Row]:
    """Gate (if there is one) and up as one GEMM, the activation, down; ``width`` is this GPU's
    intermediate size.
    """
    model = s.recipe.model
    hidden = model.hidden_size
    up, activation = ("gate_up_proj", "swiglu") if model.gated else ("up_proj", "activation")
    return [
        s.gemm(f"{prefix}{up}", model.ups * width, hidden, layers),
        s.memory("elementwise", f"{prefix}{activation}", s.tokens, width, layers),
        s.gemm(f"{prefix}down_proj", hidden, width, layers),
    ]


def edge_rows(s: Share) -> list[Row]:
    """Embedding, final norm, output head and loss, which one pipeline stage has."""
    recipe, model = s.recipe, s.recipe.model
    rows_out = s.sampled_rows
    vocabulary = math.ceil(model.vocab_size / recipe.parallelism.tp / recipe.lm_head_chunks)
    chunks = s.calls(1) * recipe.lm_head_chunks
    head = gemm("lm_head", rows_out, vocabulary, model.hidden_size, count=chunks,
                precision=recipe.precision.lm_head, phase=s.phase)  # fmt: skip
    last = "cross_entropy" if recipe.training else "sampling"
    return [
        s.memory("embedding", "embedding", s.sharded_tokens, model.hidden_size, 1),
        s.memory("norm", "final_norm", s.sharded_tokens, model.hidden_size, 1),
        head,
        memory("softmax", last, rows_out, vocabulary, count=chunks,
               precision=recipe.precision.lm_head, phase=s.phase),
    ]  # fmt: skip
