"""Forward rows of the routed and shared experts on one GPU."""

from __future__ import annotations

import math

from codesign.workload.transformer_layers import Share, one_mlp
from codesign.workload.transformer_rows import Row


def tokens_to_route(s: Share) -> int:
    """Distinct tokens that one rank sends to the experts in a forward pass.

    With expert parallelism each rank of a tensor-parallel group routes its own part;
    without it, or where every rank has all tokens, the group routes all together.
    """
    p = s.recipe.parallelism
    if p.ep == 1 or s.recipe.moe.communication == "all_reduce":
        return s.tokens
    return math.ceil(s.tokens / p.tp)


def expert_rows_per_gpu(s: Share) -> int:
    """Token-expert rows that this GPU's experts compute in a pass, under balanced routing.

    ep ranks send ``tokens_to_route`` x topk each and share the sum: the ep cancels,
    except where the tokens of a group are on all its ranks to begin with.
    """
    p, topk = s.recipe.parallelism, s.recipe.model.num_experts_per_tok or 0
    rows = tokens_to_route(s) * topk
    if p.ep > 1 and s.recipe.moe.communication == "all_reduce":
        rows = math.ceil(rows / p.ep)
    return rows


def expert_tokens_per_gpu(s: Share) -> int:
    """Distinct tokens that enter this GPU's experts in a pass, under balanced routing.

    Dispatched to ep ranks, a token reaches a given one with probability 1 - (1 - 1/ep)^topk.
    """
    p, topk = s.recipe.parallelism, s.recipe.model.num_experts_per_tok or 0
    routed = tokens_to_route(s)
    if p.ep == 1 or s.recipe.moe.communication == "all_reduce":
        return routed
    return math.ceil(routed * p.ep * -math.expm1(topk * math.log1p(-1 / p.ep)))


def moe_rows(s: Share) -> list[Row]:
    """Router, routed experts as one fused op, shared experts."""
    recipe, model = s.recipe, s.recipe.model
    layers, p = model.moe_layers, recipe.parallelism
    if not layers:
        return []
    routed = tokens_to_route(s)
    router = s.gemm("router", model.experts, model.hidden_size, layers, "bf16")
    router.dims["m"] = routed
    width = model.expert_intermediate // (p.tp if p.ep == 1 else 1)
    dims: dict[str, object] = {
        "m": expert_rows_per_gpu(s), "n": width, "k": model.hidden_size,
        "experts": model.experts // p.ep, "experts_total": model.experts,
        "topk": model.num_experts_per_tok, "tokens": expert_tokens_per_gpu(s),
        "fused": "moe_gated" if model.gated else "moe_ungated",
        "distribution": recipe.moe.distribution,
    }  # fmt: skip
    rows = [
        router,
        s.memory("softmax", "router_topk", routed, model.experts, layers),
        Row("grouped_gemm", "experts", s.calls(layers), recipe.precision.experts, s.phase, dims),
    ]
    if model.n_shared_experts:
        shared = model.n_shared_experts * model.expert_intermediate // p.tp
        rows += one_mlp(s, "shared_", shared, layers)
        rows.append(s.memory("elementwise", "shared_add", s.tokens, model.hidden_size, layers))
    return rows
