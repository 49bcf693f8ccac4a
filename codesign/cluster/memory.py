"""HBM that a plan takes on its fullest GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.plan import RECOMPUTE, SCHEDULES
from codesign.cluster.schedule import chunks_in_flight
from codesign.cluster.shares import Shares

Array = NDArray[np.float64]

WIDE = 2.0
LOGIT_BYTES = 4.0
"""Logits are kept once, in fp32; the unfused loss keeps three copies of it."""
UNFUSED_LOGIT_BYTES = 10.0
SPEC_TO_DEVICE = 1.068
"""Bytes that a device reports / the GB it is sold as: H100 81,559 MiB of "80 GB", H200 143,771
of 141, B200 183,359 of 180, GB200 189,471 of 186 (nvidia-smi): the GB are nearly GiB."""
RESERVED_BYTES = 4e9
"""Beside what the framework allocates: CUDA context, NCCL and NVLS buffers, workspaces."""
FRAGMENTATION = 0.03
"""Share of what is allocated that the caching allocator cannot use (assumed)."""
WORKSPACE_BYTES = 1e8


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest rank by what holds them, (plans,) each."""

    weights_bytes: Array
    gradients_bytes: Array
    optimizer_bytes: Array
    activations_bytes: Array
    buffers_bytes: Array
    """Logits, gathered layers, the weight gradients that autograd is handed."""

    @property
    def allocated_bytes(self) -> Array:
        """What the framework's allocator holds at most."""
        total: Array = sum(
            (getattr(self, f.name) for f in fields(self)), np.zeros_like(self.weights_bytes)
        )
        return total

    @property
    def needed_bytes(self) -> Array:
        """HBM that must be there: allocated, fragments, and what others reserve."""
        result: Array = self.allocated_bytes * (1.0 + FRAGMENTATION) + RESERVED_BYTES
        return result

    def parts(self, index: int) -> dict[str, float]:
        """Bytes of one plan by what holds them."""
        return {f.name.removesuffix("_bytes"): float(getattr(self, f.name)[index])
                for f in fields(self)}  # fmt: skip

    def fits(self, capacity_bytes: Array) -> NDArray[np.bool_]:
        """(systems, plans) whether the plans fit a GPU of each capacity (systems,)."""
        device = SPEC_TO_DEVICE * capacity_bytes[:, None]
        result: NDArray[np.bool_] = self.needed_bytes[None, :] <= device
        return result


def memory_of(shares: Shares) -> Memory:
    """The fuller of the first stage (embedding, most activations) and the last (head, logits)."""
    first, last = _stage(shares, "first"), _stage(shares, "last")
    fuller = first.allocated_bytes >= last.allocated_bytes
    return Memory(*(np.where(fuller, getattr(first, f.name), getattr(last, f.name))
                    for f in fields(Memory)))  # fmt: skip


def _stage(s: Shares, stage: str) -> Memory:
    job, p = s.job, s.plans
    plain, moe = _layers(s, stage)
    layers, experts, vocabulary = _parameters(s, stage)
    dense_shard = np.where(p.zero >= 1, s.dense_group, 1.0)
    expert_shard = np.where(p.zero >= 1, s.expert_group, 1.0)
    kept = [np.where(p.zero >= level, 1.0 / dense_shard, 1.0) for level in (2, 3)]
    kept_experts = [np.where(p.zero >= level, 1.0 / expert_shard, 1.0) for level in (2, 3)]
    wide = job.weight_bytes
    weights = (layers * wide + vocabulary * WIDE) * kept[1] + experts * wide * kept_experts[1]
    gradients = (layers + vocabulary) * kept[0] + experts * kept_experts[0]
    state = (layers + vocabulary) / dense_shard + experts / expert_shard
    trained = 0.0 if job.lora else 1.0
    return Memory(
        weights_bytes=weights,
        gradients_bytes=trained * gradients * job.gradient_bytes,
        optimizer_bytes=trained * state * (4.0 + 2.0 * job.moment_bytes),
        activations_bytes=_activations(s, stage, plain, moe),
        buffers_bytes=_buffers(s, stage) + WORKSPACE_BYTES,
    )


def _layers(s: Shares, stage: str) -> tuple[Array, Array]:
    """(plain, expert) layers of a stage; an MTP layer is built as the model's last ones are."""
    plain, moe, mtp = s.stage_layers(stage)
    return (plain, moe + mtp) if s.job.model.experts else (plain + mtp, moe)


def _parameters(s: Shares, stage: str) -> tuple[Array, Array, Array]:
    """Parameters on a rank of the stage: (layers without routed experts, those, vocabulary).

    DualPipe runs the pipeline from both ends: a rank has two stages, the first and the last
    (with embedding and head) or two from the middle, whichever are more.
    """
    p = s.plans

    def of(name: str, vocabularies: Array | float) -> tuple[Array, Array, Array]:
        plain, moe = _layers(s, name)
        held = plain * s.plain_parameters + moe * s.shared_parameters
        return held, moe * s.expert_parameters, s.vocabulary_parameters * vocabularies

    both = 1.0 if s.job.model.tie_word_embeddings else 2.0
    alone = of(stage, np.where(p.pp == 1, both, 1.0))
    ends = [a + b for a, b in zip(of("first", 1.0), of("last", 1.0), strict=True)]
    middle = [2.0 * a for a in of("mid", 0.0)]
    more = sum(ends, np.zeros(len(p))) >= sum(middle, np.zeros(len(p)))
    dual = p.schedule == SCHEDULES.index("dualpipe")
    layers, experts, vocabulary = (
        np.where(dual, np.where(more, e, m), a) for e, m, a in zip(ends, middle, alone, strict=True)
    )
    return layers, experts, vocabulary


def _activations(s: Shares, stage: str, plain: Array, moe: Array) -> Array:
    """Kept for the backward pass: layers x what one keeps x chunks in flight."""
    p, hidden = s.plans, s.job.model.hidden_size
    flight = np.minimum(1.0, s.micro_batches) if stage == "last" else (
        chunks_in_flight(p, s.micro_batches) / p.vpp)  # fmt: skip
    flight = np.where(p.pp == 1, 1.0, flight)
    attention = attention_activations(s)
    plain_b, moe_b = plain_activations(s), moe_activations(s)
    whole = plain * (attention + plain_b) + moe * (attention + moe_b)
    boundary = s.sharded_tokens * hidden * WIDE
    largest = attention + np.where(moe > 0, moe_b, plain_b)
    full = p.recompute == RECOMPUTE.index("full")
    kept = np.where(full, (plain + moe) * boundary * flight + largest, whole * flight)
    kept = np.maximum(kept * (1.0 - s.job.framework.offload), np.minimum(kept, largest))
    # Of the embedding, once a chunk in flight.
    result: Array = kept + boundary * np.where(stage == "first", flight, 0.0)
    return result


def _selective(s: Shares) -> Array:
    return np.where(s.plans.recompute == RECOMPUTE.index("selective"), 0.0, 1.0)


def attention_activations(s: Shares) -> Array:
    """Bytes kept by a layer's attention: residual, normed input, q, k, v, output, statistics."""
    model, p, narrow = s.job.model, s.plans, s.job.saved_bytes
    keep = _selective(s)
    heads = model.num_attention_heads / p.tp
    kv = heads if model.mla else s.by_tp({t: float(model.kv_heads_per_rank(t)) for t in s.tps})
    qkv = heads * model.qk_dim + kv * (model.qk_dim + model.v_dim)
    latent = 0.0
    if model.mla:
        latent = ((model.q_lora_rank or 0) + (model.kv_lora_rank or 0)) * (WIDE + narrow)
        # Up-projections done again leave the latents alone.
        qkv = qkv * keep
    residual = s.sharded_tokens * model.hidden_size * (WIDE + narrow * keep)
    out = heads * model.v_dim
    again = 0.0 if narrow == WIDE else narrow  # Cast once more for the output projection.
    result: Array = residual + s.tokens * (WIDE * (qkv + out) + again * out + latent + 4.0 * heads)
    return result


def _mlp(s: Shares, rows: Array, width: Array) -> Array:
    """Gate (if there is one) and up, and what the down-projection reads."""
    kept = s.job.model.ups * s.job.framework.swiglu_bytes + s.job.saved_bytes * _selective(s)
    result: Array = rows * width * kept
    return result


def plain_activations(s: Shares) -> Array:
    """Bytes kept by a plain MLP with its norm."""
    model, keep = s.job.model, _selective(s)
    residual = s.sharded_tokens * model.hidden_size * (WIDE + s.job.saved_bytes * keep)
    return residual + _mlp(s, s.tokens, (model.intermediate_size or 0) / s.plans.tp)


def moe_activations(s: Shares) -> Array:
    """Bytes kept by a layer's experts: residual, routed rows, gate, up and product of each."""
    model, keep = s.job.model, _selective(s)
    if not model.experts:
        return np.zeros(len(s.plans))
    width = np.full(len(s.plans), float(model.expert_intermediate))
    # The normed input serves the router (bf16), routed and shared experts.
    residual = s.sharded_tokens * model.hidden_size * (WIDE + WIDE * keep)
    routed = s.rows * model.hidden_size * s.job.saved_bytes
    shared = model.n_shared_experts * width / s.plans.tp
    probabilities = s.sharded_tokens * model.experts * 8.0
    return residual + routed + _mlp(s, s.rows, width) + _mlp(s, s.tokens, shared) + probabilities


def _buffers(s: Shares, stage: str) -> Array:
    """Logits of the last stage; gathered layers (ZeRO 3); gradients handed to autograd.

    Where gradients accumulate inside the weight-gradient GEMMs, autograd is still handed an
    empty tensor of each distinct weight's shape, in bf16 (Transformer Engine, Megatron-LM).
    """
    job, p = s.job, s.plans
    model = job.model
    has_head = (p.pp == 1) | np.array(stage == "last")
    width = np.ceil(model.vocab_size / p.tp)
    element = LOGIT_BYTES if job.framework.fused_loss else UNFUSED_LOGIT_BYTES
    logits = np.where(has_head, s.tokens * width * element, 0.0)
    largest = np.maximum(
        s.plain_parameters if model.dense_layers else 0.0, s.shared_parameters
    ) + (s.expert_parameters if model.moe_layers else 0.0)  # fmt: skip
    gathered = np.where(p.zero == 3, 2.0 * largest * (2.0 + job.gradient_bytes), 0.0)
    held = np.maximum(model.experts / p.ep, 1.0) if model.experts else 1.0
    distinct = (s.plain_parameters if model.dense_layers else s.shared_parameters) + (
        s.expert_parameters / held if model.moe_layers else 0.0)  # fmt: skip
    handed = (distinct + np.where(has_head, s.vocabulary_parameters, 0.0)) * WIDE
    return logits + gathered + (0.0 if job.lora else 1.0) * handed
