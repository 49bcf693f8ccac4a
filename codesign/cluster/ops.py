"""The ops of a training step of one rank, over all plans at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.communication import communication_kinds
from codesign.cluster.grid import Kind
from codesign.cluster.job import Job
from codesign.cluster.plan import Plans
from codesign.cluster.shares import Shares
from codesign.workload.formulas import adamw_bytes

Array = NDArray[np.float64]

ACTIVATION_BYTES = 2.0
# Passes over an (m, n) array by memory-bound op, forward and backward, as fused kernels
# make them; those of `workload.transformer_rows`.
_NORM, _ROTARY, _SWIGLU, _UNGATED = (4.0, 4.0), (2.0, 2.0), (3.0, 5.0), (2.0, 3.0)
# Without fused kernels, as Megatron-LM runs them one by one. Rotary embedding that also scales:
# two products, halves turned and joined, their sum, joined with what is not rotated.
_ROTARY_APART = (12.0, 13.0)
# Gate and up clamped, each alone, and joined again; masks of both on the way back.
_CLAMPS = (8.0, 15.0)
# Bias x probability, added expert by expert, joined; its gradients by tokens and by columns.
_BIASES = (6.0, 6.0)
UP_PROJECTIONS = ("q_b_proj", "kv_b_proj")
"""MLA's up-projections, done again under selective recomputation."""
_SHUFFLES = {"all_to_all": 6.0, "fused": 4.0, "hybrid": 2.0}
"""Passes over the rows of routed tokens each way, by dispatcher: permuted and restored on both
sides of the exchange, or only where the exchange's own kernels do not."""


def step_kinds(job: Job, plans: Plans) -> tuple[Shares, list[Kind]]:
    """Shares of the plans and every kind of op of a step."""
    shares = Shares.of(job, plans)
    builder = _Builder(job, shares)
    kinds = [*builder.attention(), *builder.plain(), *builder.moe(), *builder.head(),
             *builder.optimizer()]  # fmt: skip
    return shares, kinds + communication_kinds(job, shares)


class _Builder:
    def __init__(self, job: Job, shares: Shares) -> None:
        self.job, self.shares, self.model = job, shares, job.model
        self.one = np.ones(len(shares.plans))
        self.activation = _SWIGLU if self.model.gated else _UNGATED

    def gemms(
        self, block: str, n: Array | float, k: Array | float, precision: str | None = None,
        tokens: Array | None = None, again: bool = False,
    ) -> Iterator[Kind]:  # fmt: skip
        """A linear layer: forward, gradient of its input, gradient of its weight."""
        m = self.shares.tokens if tokens is None else tokens
        n, k = n * self.one, k * self.one
        fixed: dict[str, object] = {"precision": precision or self.job.precision}
        small, large = np.minimum(n, k), np.maximum(n, k)
        shapes = {"gemm.f": (m, n, k), "gemm.d": (m, k, n), "gemm.w": (small, large, m)}
        if self.job.lora:
            del shapes["gemm.w"]
        if again:
            shapes["selective"] = (m, n, k)
        for part, dims in shapes.items():
            yield Kind(block, part, "gemm", _whole(dims), self.one, fixed)

    def memory(
        self, block: str, size: Array, passes: tuple[float, float], again: bool = False,
        calls: float = 1.0,
    ) -> Iterator[Kind]:  # fmt: skip
        """A memory-bound op over ``size`` elements of activations."""
        parts = [("memory.f", passes[0]), ("memory.b", passes[1])]
        if again:
            parts.append(("selective", passes[0]))
        for part, moved in parts:
            moved_bytes = np.ceil(moved * size * ACTIVATION_BYTES)
            yield Kind(block, part, "elementwise", {"bytes": moved_bytes}, calls * self.one)

    def attention(self) -> Iterator[Kind]:
        """Norm, projections, rotary embedding and attention of a layer (block ``layer``)."""
        model, s, tps = self.model, self.shares, self.shares.tps
        yield from self.memory("layer", s.sharded_tokens * model.hidden_size, _NORM, again=True,
                               calls=2.0)  # fmt: skip
        by_tp = {t: model.attention_projections(t) for t in tps}
        for i, (name, _, _) in enumerate(by_tp[tps[0]]):
            n = s.by_tp({t: float(by_tp[t][i][1]) for t in tps})
            k = s.by_tp({t: float(by_tp[t][i][2]) for t in tps})
            yield from self.gemms("layer", n, k, again=name in UP_PROJECTIONS)
        heads = model.num_attention_heads / s.plans.tp
        kv = heads if model.mla else s.by_tp({t: float(model.kv_heads_per_rank(t)) for t in tps})
        if model.mla:
            latent = (model.q_lora_rank or 0) + (model.kv_lora_rank or 0)
            yield from self.memory("layer", s.tokens * latent, (2.0, 3.0), again=True)
            rotated = (heads + 1) * (model.qk_rope_head_dim or 0)
            # Keys and values are laid out: read as the up-projection wrote them, one by one,
            # and written by head, each key with the rotary part that all heads share.
            read = (model.qk_nope_head_dim or 0) + model.v_dim
            laid = heads * (read + model.qk_dim + model.v_dim)
            yield from self.memory("layer", s.tokens * laid, (1.0, 1.0), again=True)
        else:
            rotated = (heads + kv) * model.qk_dim
        apart = model.scaled_rotary and not model.mla
        yield from self.memory("layer", s.tokens * rotated, _ROTARY_APART if apart else _ROTARY)
        yield from self.core(heads, kv)

    def core(self, heads: Array, kv_heads: Array) -> Iterator[Kind]:
        """Attention itself, causal; context parallelism deals it out evenly over its ranks."""
        job, model, p = self.job, self.model, self.shares.plans
        length = float(job.sequence_length) * self.one
        if job.framework.cp_exchange == "all_to_all":
            heads, kv_heads = heads / p.cp, np.maximum(kv_heads / p.cp, 1.0)
            q_len = kv_len = length
        else:
            q_len = length / p.cp
            kv_len = np.floor((length + q_len) / 2)
        dims = {
            "batch": p.micro_batch.astype(np.float64), "heads": heads, "kv_heads": kv_heads,
            "q_len": q_len, "kv_len": kv_len, "head_dim": model.qk_dim * self.one,
            "head_dim_v": model.v_dim * self.one,
        }  # fmt: skip
        dims = {name: np.maximum(np.floor(value), 1.0) for name, value in dims.items()}
        for layers, window in model.windows:
            # A stage is taken to have the model's mix of layers with and without a window.
            calls = layers / model.num_hidden_layers * self.one
            mine = dims if window is None else {**dims, "window": float(window) * self.one}
            for part, phase in (("attention.f", "forward"), ("attention.b", "backward")):
                fixed: dict[str, object] = {
                    "precision": job.framework.attention_precision, "phase": phase,
                }  # fmt: skip
                yield Kind("layer", part, "attention", mine, calls, fixed)

    def mlp(self, block: str, width: Array) -> Iterator[Kind]:
        """Gate (if there is one) and up as one GEMM, the activation, down."""
        hidden = self.model.hidden_size
        yield from self.gemms(block, self.model.ups * width, hidden)
        yield from self.memory(block, self.shares.tokens * width, self.activation, again=True)
        yield from self.gemms(block, hidden, width)

    def plain(self) -> Iterator[Kind]:
        """The MLP of layers without experts (block ``plain``)."""
        if self.model.dense_layers:
            width = (self.model.intermediate_size or 0) / self.shares.plans.tp
            yield from self.mlp("plain", width)

    def moe(self) -> Iterator[Kind]:
        """Router, shuffling, routed and shared experts (block ``moe``)."""
        model, s, fused = self.model, self.shares, self.job.framework.fused_moe
        if not model.moe_layers:
            return
        hidden, width = model.hidden_size, model.expert_intermediate
        yield from self.gemms("moe", model.experts, hidden, "bf16", s.sharded_tokens)
        yield from self.memory("moe", s.sharded_tokens * model.experts, (4.0, 4.0))
        passes = _SHUFFLES["hybrid" if fused else self.job.framework.dispatcher]
        yield from self.memory("moe", s.rows * hidden, (passes, passes))
        if not fused:
            yield from self.memory("moe", s.rows * width, self.activation, again=True)
            if model.swiglu_limit:
                yield from self.memory("moe", s.rows * width, _CLAMPS, again=True)
            if model.biased_experts:
                yield from self.memory("moe", s.rows * hidden, _BIASES)
        for n, k in ((model.ups * width, hidden), (hidden, width)):
            yield from self.grouped(float(n), float(k))
        if model.n_shared_experts:
            shared = model.n_shared_experts * width / s.plans.tp
            yield from self.mlp("moe", shared)
            yield from self.memory("moe", s.tokens * hidden, (3.0, 2.0))

    def grouped(self, n: float, k: float) -> Iterator[Kind]:
        """One multiply per expert held; its two gradients do the forward's work each."""
        model, s = self.model, self.shares
        held = np.maximum(model.experts / s.plans.ep, 1.0)
        fixed: dict[str, object] = {
            "precision": self.job.precision, "distribution": self.job.distribution,
            "topk": float(model.num_experts_per_tok or 1),
        }  # fmt: skip
        turned = {"grouped.f": (n, k), "grouped.d": (k, n), "grouped.w": (n, k)}
        if self.job.lora:
            del turned["grouped.w"]
        for part, (columns, inner) in turned.items():
            dims = {"m": np.ceil(s.rows), "n": columns * self.one, "k": inner * self.one,
                    "experts": held, "experts_total": float(model.experts) * self.one}  # fmt: skip
            yield Kind("moe", part, "grouped_gemm", dims, self.one, fixed)
            if part == "grouped.w":
                # Every expert's gradient is read and written, however few rows it got.
                moved = np.ceil(2.0 * self.job.gradient_bytes * held * columns * inner)
                yield Kind("moe", "accumulate", "elementwise", {"bytes": moved}, self.one)

    def head(self) -> Iterator[Kind]:
        """Embedding, final norm, output head and loss."""
        model, s = self.model, self.shares
        yield from self.memory("embed", s.sharded_tokens * model.hidden_size, (2.0, 2.0))
        yield from self.memory("head", s.sharded_tokens * model.hidden_size, _NORM)
        vocabulary = np.ceil(model.vocab_size / s.plans.tp)
        yield from self.gemms("head", vocabulary, model.hidden_size, "bf16")
        # Logits widened to fp32, maximum, sum of exponentials, loss; gradient in place.
        yield from self.memory("head", s.tokens * vocabulary, (6.0, 4.0))
        if self.job.mtp_layers:
            yield from self.gemms("mtp", float(model.hidden_size), 2.0 * model.hidden_size)

    def optimizer(self) -> Iterator[Kind]:
        """AdamW over this rank's shard of a plain layer, an expert layer and the vocabulary."""
        s, job = self.shares, self.job
        if job.lora:
            return
        sharded = s.plans.zero >= 1
        dense = np.where(sharded, s.dense_group, 1.0)
        expert = np.where(sharded, s.expert_group, 1.0)
        held = {"plain": s.plain_parameters / dense, "vocabulary": s.vocabulary_parameters / dense}
        if self.model.moe_layers:
            held["moe"] = s.shared_parameters / dense + s.expert_parameters / expert
        for block, parameters in held.items():
            gradient = job.gradient_bytes
            update = adamw_bytes(parameters, job.moment_bytes, gradient, job.weight_bytes)
            # The norm of the gradients is read once more before.
            size = np.ceil(update + gradient * parameters)
            yield Kind(block, "optimizer", "optimizer", {"bytes": size}, self.one)


def _whole(dims: tuple[Array, Array, Array]) -> dict[str, Array]:
    return {name: np.maximum(np.ceil(v), 1.0) for name, v in zip("mnk", dims, strict=True)}
