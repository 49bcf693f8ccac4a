"""Parameters of one GPU, by the group that shares their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from codesign.workload.recipe import Recipe

# Larger ones are reduced in parts, as every framework bounds its buckets: 1 GiB of fp32.
MAX_BUCKET_PARAMETERS = 2**28


@dataclass(frozen=True)
class Bucket:
    """Parameters whose gradients are reduced together: one layer's, or the embeddings'."""

    name: str
    parameters: int
    """Of one bucket on this GPU."""
    count: float
    """Buckets on this GPU, averaged over pipeline stages."""
    group_size: int
    group_stride: int

    @property
    def total(self) -> float:
        """Parameters of all its buckets on this GPU."""
        return self.parameters * self.count


@dataclass(frozen=True)
class Shards:
    """All parameters of one GPU; norms (under 0.01 %) are left out."""

    buckets: tuple[Bucket, ...]

    @classmethod
    def of(cls, recipe: Recipe) -> Shards:
        """The parameters that one GPU of the recipe computes with."""
        model, p = recipe.model, recipe.parallelism
        dp, stride, pp = p.dp * p.cp, p.tp, p.pp
        attention = model.attention_parameters(p.tp)
        dense = attention + model.mlp_parameters((model.intermediate_size or 0) // p.tp)
        shared = model.mlp_parameters(model.n_shared_experts * model.expert_intermediate // p.tp)
        moe = attention + shared + model.hidden_size * model.experts
        edge = math.ceil(model.embedding_parameters() / p.tp)
        buckets = [
            Bucket("dense layer", dense, model.dense_layers / pp, dp, stride),
            Bucket("moe layer", moe, model.moe_layers / pp, dp, stride),
            Bucket("embeddings", edge, 1 / pp, dp, stride),
        ]
        if model.experts:
            held = model.experts // p.ep
            size = held * model.mlp_parameters(model.expert_intermediate)
            if p.ep == 1:
                buckets.append(Bucket("experts", size // p.tp, model.moe_layers / pp, dp, stride))
            else:
                # Experts are not split by tp, so their copies are ep ranks apart.
                group = p.tp * p.cp * p.dp // p.ep
                buckets.append(Bucket("experts", size, model.moe_layers / pp, group, p.ep))
        return cls(tuple(_in_parts(b) for b in buckets if b.count))

    @property
    def parameters(self) -> float:
        """Parameters on this GPU."""
        return sum(b.total for b in self.buckets)

    @property
    def optimized(self) -> float:
        """Parameters whose optimizer state this GPU holds: each group shares its own."""
        return sum(b.total / b.group_size for b in self.buckets)


def _in_parts(bucket: Bucket) -> Bucket:
    parts = math.ceil(bucket.parameters / MAX_BUCKET_PARAMETERS)
    size = math.ceil(bucket.parameters / parts)
    return replace(bucket, parameters=size, count=bucket.count * parts)
