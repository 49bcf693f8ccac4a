"""Collectives of one GPU: tensor, data, expert, context and pipeline parallelism.

Ranks nest tp, cp, dp, pp from the inside out, so the members of a tp group are
neighbours, those of a dp group tp x cp apart, those of a pp group a whole replica
apart; expert groups are neighbours inside tp x cp x dp.
Names are ``kind.collective``; the kind is what a recipe's ``overlap`` speaks of.
"""

from __future__ import annotations

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.moe import tokens_to_route
from codesign.workload.sharding import Shards
from codesign.workload.transformer_layers import Share
from codesign.workload.transformer_rows import Row


def collective(
    kind: str, what: str, message_bytes: float, *, size: int, stride: int, count: float,
    precision: str, phase: str, topk: int | None = None,
) -> list[Row]:  # fmt: skip
    """One collective, or none where the group is a single rank."""
    if size == 1 or count == 0 or message_bytes == 0:
        return []
    dims: dict[str, object] = {
        "collective": what, "message_bytes": round(message_bytes), "group_size": size,
        "group_stride": stride, "topk": topk,
    }  # fmt: skip
    return [Row("collective", f"{kind}.{what}", count, precision, phase, dims)]


def tensor_rows(s: Share) -> list[Row]:
    """Sums of partial results over tp: once after attention and once after the MLP.

    With sequence parallelism each sum is a reduce-scatter and the region it leads
    to opens with an all-gather (Korthikanti et al. 2022, arXiv:2205.05198); in the
    backward pass the roles swap, and the gathered inputs are gathered once more for
    the weight gradients, since only their parts are kept.

    ``tp`` are those that stand between two dependent GEMMs. ``tp_backward`` are those
    that need not: an input is gathered again beside the dgrad GEMM, and its gradient
    summed beside the wgrad GEMM (Megatron-LM's asynchronous linear layer).
    """
    recipe, model = s.recipe, s.recipe.model
    p, precision = recipe.parallelism, recipe.precision.activations
    size = s.tokens * model.hidden_size * BYTES_PER_ELEMENT[precision]
    # Experts spread by all-to-all hand tokens back to their own rank: no sum over tp.
    scattered = p.ep > 1 and recipe.moe.communication == "all_to_all"
    # Shared experts are split by tp and need one all the same.
    spared = model.moe_layers if scattered and not model.n_shared_experts else 0
    regions = s.calls(2 * model.num_hidden_layers - spared)
    moe = s.calls(model.moe_layers) if scattered else 0.0
    edge = s.calls(1)
    again = 1.0 if recipe.recompute == "full" else 0.0
    rows: list[Row] = []

    def add(what: str, count: float, phase: str, kind: str = "tp", message: float = size) -> None:
        rows.extend(collective(kind, what, message, size=p.tp, stride=1, count=count,
                               precision=precision, phase=phase))  # fmt: skip

    if p.sequence_parallel:
        for what in ("all_gather", "reduce_scatter"):
            add(what, regions + edge, s.phase)  # embedding scatters, head gathers
        if recipe.training:
            add("all_gather", (1.0 + again) * regions + edge, "backward")
            add("reduce_scatter", again * regions, "backward")
            for what in ("all_gather", "reduce_scatter"):
                add(what, regions + edge, "backward", "tp_backward")
    else:
        add("all_reduce", regions + edge, s.phase)  # once more after the embedding
        add("all_gather", moe, s.phase)
        if recipe.training:
            add("all_reduce", again * regions, "backward")
            add("all_gather", (1.0 + again) * moe, "backward")
            # Each region's input, and the head's.
            add("all_reduce", regions + edge, "backward", "tp_backward")
    if not recipe.training:
        logits = s.sampled_rows * model.vocab_size * BYTES_PER_ELEMENT[recipe.precision.lm_head]
        add("all_gather", edge, s.phase, "tp", logits)  # each rank has its part of the vocabulary
    return rows


def expert_rows(s: Share) -> list[Row]:
    """Dispatch and combine; in the backward pass their gradients travel back."""
    recipe, model, p = s.recipe, s.recipe.model, s.recipe.parallelism
    if not model.moe_layers or p.ep == 1 or recipe.moe.communication == "all_reduce":
        return []
    topk = model.num_experts_per_tok or 0
    elements = tokens_to_route(s) * topk * model.hidden_size
    wide, sent = recipe.precision.activations, recipe.precision.dispatched
    calls = s.calls(model.moe_layers)
    plan = [("dispatch", sent, calls, s.phase), ("combine", wide, calls, s.phase)]
    if recipe.training:
        again = 1 if recipe.recompute == "full" else 0
        plan += [
            # The gradient of a combine is a dispatch, and the other way round.
            ("dispatch", sent, calls * (1 + again), "backward"),
            ("combine", wide, calls * (1 + again), "backward"),
        ]
    rows: list[Row] = []
    for what, precision, count, phase in plan:
        rows += collective("ep", what, elements * BYTES_PER_ELEMENT[precision], size=p.ep,
                           stride=1, count=count, precision=precision, phase=phase,
                           topk=topk)  # fmt: skip
    return rows


def data_rows(s: Share, shards: Shards) -> list[Row]:
    """Gradients reduced and parameters gathered over data parallelism, layer by layer."""
    recipe = s.recipe
    if not recipe.training:
        return []
    full = recipe.parallelism.zero == 3
    # FSDP shards parameters, so each pass gathers them, and each backward pass again.
    passes = s.passes if full else 1
    gathers = [("forward", passes)] + ([("backward", passes)] if full else [])
    narrow, wide = recipe.precision.parameters, recipe.precision.gradients
    rows: list[Row] = []
    for bucket in shards.buckets:
        for phase, times in gathers:
            rows += collective("dp_parameters", "all_gather",
                               bucket.parameters * BYTES_PER_ELEMENT[narrow],
                               size=bucket.group_size, stride=bucket.group_stride,
                               count=bucket.count * times, precision=narrow,
                               phase=phase)  # fmt: skip
        rows += collective("dp_gradients", "reduce_scatter",
                           bucket.parameters * BYTES_PER_ELEMENT[wide],
                           size=bucket.group_size, stride=bucket.group_stride,
                           count=bucket.count * passes, precision=wide,
                           phase="backward")  # fmt: skip
    return rows


def context_rows(s: Share) -> list[Row]:
    """Keys and values gathered over cp before attention; their gradients scattered back."""
    recipe, model, p = s.recipe, s.recipe.model, s.recipe.parallelism
    precision = recipe.precision.activations
    if model.mla:
        width = (model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0)
    else:
        width = model.kv_heads_per_rank(p.tp) * (model.qk_dim + model.v_dim)
    size = s.tokens * p.cp * width * BYTES_PER_ELEMENT[precision]
    plan = [("all_gather", s.phase)]
    if recipe.training:
        plan += [("all_gather", "backward"), ("reduce_scatter", "backward")]
    rows: list[Row] = []
    for what, phase in plan:
        rows += collective("cp", what, size, size=p.cp, stride=p.tp,
                           count=s.calls(model.num_hidden_layers), precision=precision,
                           phase=phase)  # fmt: skip
    return rows


def pipeline_rows(s: Share) -> list[Row]:
    """Activations to the next stage, gradients back; each rank sends its tp-th."""
    recipe, model, p = s.recipe, s.recipe.model, s.recipe.parallelism
    precision = recipe.precision.activations
    size = s.sharded_tokens * model.hidden_size * BYTES_PER_ELEMENT[precision]
    # The last of p stages (and of v chunks in turn) sends nothing on: the mean over stages.
    sends = s.passes * (p.pp * p.virtual_pipeline - 1) / p.pp
    rows: list[Row] = []
    for phase in [s.phase, *(["backward"] if recipe.training else [])]:
        rows += collective("pp", "send_recv", size, size=min(p.pp, 2), stride=p.tp * p.cp * p.dp,
                           count=sends, precision=precision, phase=phase)  # fmt: skip
    return rows
