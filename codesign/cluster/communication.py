"""Collectives of one rank, over all plans at once: kinds, bytes, groups and their placement.

Ranks nest tp, cp, dp, pp from the inside out; an NVLink domain holds consecutive ranks. The
fitted collective model works out how many of a group's ranks share a domain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.grid import Kind
from codesign.cluster.job import Job
from codesign.cluster.plan import Ints
from codesign.cluster.shares import Shares
from codesign.workload.formulas import wire_bytes

Array = NDArray[np.float64]

ACTIVATION_BYTES = 2.0
MAX_BUCKET = 2.0**28
"""Parameters of the largest bucket: larger ones are reduced in parts."""


def communication_kinds(job: Job, shares: Shares) -> list[Kind]:
    """Every collective of a step."""
    return [*_tensor(job, shares), *_context(job, shares), *_experts(job, shares),
            *_pipeline(job, shares), *_data(job, shares)]  # fmt: skip


def _collective(
    block: str, part: str, what: str, message_bytes: Array, size: Array | Ints,
    stride: Array | Ints, calls: Array, topk: int | None = None,
) -> Kind:  # fmt: skip
    used = np.where((size > 1) & (message_bytes > 0), calls, 0.0)
    dims: dict[str, Array] = {
        "message_bytes": np.ceil(message_bytes), "group_size": np.asarray(size, dtype=np.float64),
        "group_stride": np.asarray(stride, dtype=np.float64),
    }  # fmt: skip
    fixed: dict[str, object] = {"collective": what, "phase": "forward"}
    if topk:
        fixed["topk"] = float(topk)
    sent = _sent_bytes(what, dims["message_bytes"], dims["group_size"], topk)
    return Kind(block, part, "collective", dims, used, fixed, sent)


def _sent_bytes(what: str, message_bytes: Array, size: Array, topk: int | None) -> Array:
    """Bytes that a rank puts on its links; dispatch and combine carry one copy of a token for
    each rank that holds any of its ``topk`` experts, drawn evenly.
    """
    ranks = np.maximum(size, 1.0)
    if topk and what in ("dispatch", "combine"):
        copies = ranks * (1.0 - (1.0 - 1.0 / ranks) ** topk) / topk
        message_bytes = message_bytes * copies
    return wire_bytes(what, message_bytes, ranks)


def _tensor(job: Job, s: Shares) -> Iterator[Kind]:
    """Gathers and scatters around the attention and the MLP of a layer (sequence parallelism).

    ``tp.f`` and ``tp.b`` stand between dependent GEMMs; ``tp.h`` run beside the gradient of a
    weight or an input: the input gathered again, its gradient scattered.
    """
    model, p = job.model, s.plans
    one = np.ones(len(p))
    size = s.tokens * model.hidden_size * ACTIVATION_BYTES
    regions = {"layer": 1.0, "plain": 1.0, "moe": 1.0 if model.n_shared_experts else 0.0}
    for block, times in regions.items():
        for part, whats in (("tp.f", ("all_gather", "reduce_scatter")), ("tp.b", ("all_gather",)),
                            ("tp.h", ("all_gather", "reduce_scatter"))):  # fmt: skip
            for what in whats:
                yield _collective(block, part, what, size, p.tp, one, times * one)
    for block, part, what in (("embed", "tp.f", "reduce_scatter"), ("embed", "tp.b", "all_gather"),
                              ("head", "tp.f", "all_gather"), ("head", "tp.h", "all_gather"),
                              ("head", "tp.h", "reduce_scatter")):  # fmt: skip
        yield _collective(block, part, what, size, p.tp, one, one)


def _context(job: Job, s: Shares) -> Iterator[Kind]:
    """Keys and values to all ranks of cp and their gradients back, or heads exchanged."""
    model, p = job.model, s.plans
    one = np.ones(len(p))
    heads = model.num_attention_heads / p.tp
    kv = heads if model.mla else s.by_tp({t: float(model.kv_heads_per_rank(t)) for t in s.tps})
    kv_width = kv * (model.qk_dim + model.v_dim)
    if job.framework.cp_exchange == "all_to_all":
        width = heads * (model.qk_dim + model.v_dim) + kv_width
        size = s.tokens * width * ACTIVATION_BYTES
        plan = [("cp.f", "all_to_all", 1.0), ("cp.b", "all_to_all", 1.0)]
    else:
        size = s.tokens * p.cp * kv_width * ACTIVATION_BYTES
        plan = [("cp.f", "all_gather", 1.0), ("cp.b", "all_gather", 1.0),
                ("cp.b", "reduce_scatter", 1.0)]  # fmt: skip
    for part, what, calls in plan:
        yield _collective("layer", part, what, size, p.cp, p.tp, calls * one)


def _experts(job: Job, s: Shares) -> Iterator[Kind]:
    """Dispatch and combine; in the backward pass their gradients travel back."""
    model, p = job.model, s.plans
    if not model.moe_layers:
        return
    topk = model.num_experts_per_tok or 1
    size = s.sharded_tokens * topk * model.hidden_size * ACTIVATION_BYTES
    one = np.ones(len(p))
    plain = job.framework.dispatcher == "all_to_all"
    for part in ("ep.f", "ep.b"):
        for what in ("all_to_all", "all_to_all") if plain else ("dispatch", "combine"):
            yield _collective("moe", part, what, size, p.ep, one, one, topk)


def _pipeline(job: Job, s: Shares) -> Iterator[Kind]:
    """One activation to the next stage; each rank sends its tp-th."""
    p = s.plans
    size = s.sharded_tokens * job.model.hidden_size * ACTIVATION_BYTES
    yield _collective("step", "pp", "send_recv", size, np.minimum(p.pp, 2), p.tp * p.cp * p.dp,
                      np.ones(len(p)))  # fmt: skip


def _data(job: Job, s: Shares) -> Iterator[Kind]:
    """Gradients reduced and parameters gathered, one layer (or the vocabulary) at a time.

    ZeRO 1 and 2: one reduce-scatter and one all-gather a step. ZeRO 3 (FSDP): two gathers
    and one reduce-scatter a micro-batch. ZeRO 0: one all-reduce a step (Rajbhandari et al.
    2020, arXiv:1910.02054, section 7). How often is the step model's business.
    """
    if job.lora:
        return
    p = s.plans
    experts = np.zeros(len(p))
    plain = {"plain": s.plain_parameters, "vocabulary": s.vocabulary_parameters}
    held: list[tuple[str, Array, Array, Array | Ints]] = [
        (block, size, s.dense_group, p.tp) for block, size in plain.items()
    ]
    if job.model.moe_layers:
        experts = s.expert_parameters
        held.append(("moe", s.shared_parameters, s.dense_group, p.tp))
        held.append(("moe", experts, s.expert_group, p.ep))
    reduced = p.zero == 0
    wide, narrow = job.gradient_bytes, min(job.weight_bytes, 2.0)
    for block, parameters, group, stride in held:
        parts = np.ceil(parameters / MAX_BUCKET)
        size = parameters / np.maximum(parts, 1.0)
        for part, what, element, mask in (
            ("dp.gradients", "all_reduce", wide, reduced),
            ("dp.gradients", "reduce_scatter", wide, ~reduced),
            ("dp.parameters", "all_gather", narrow, ~reduced),
        ):
            yield _collective(block, part, what, size * element, group, stride, parts * mask)
