"""What one rank of each plan works on: tokens, layers, parameters, groups. All (plans,) arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.job import Job
from codesign.cluster.plan import Plans

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Quantities of one rank, by plan; those of stages are of the fullest ones."""

    job: Job
    plans: Plans
    tokens: Array
    """Of a forward pass in the tensor-parallel regions."""
    sharded_tokens: Array
    """In norms and residuals: a tp-th of them (sequence parallelism)."""
    micro_batches: Array
    layers_mid: Array
    """Layers of a stage that has its full share; the last one takes what is left."""
    layers_last: Array
    dense_first: Array
    """Plain layers (of a model with experts) in the first stage; the rest have experts."""

    @classmethod
    def of(cls, job: Job, plans: Plans) -> Shares:
        """Shares of ``plans``."""
        model = job.model
        tokens = plans.micro_batch * job.sequence_length / plans.cp
        chunks = plans.pp * plans.vpp
        each = np.ceil(model.num_hidden_layers / chunks) * plans.vpp
        last = np.maximum(model.num_hidden_layers - each * (plans.pp - 1), 0)
        return cls(
            job=job, plans=plans, tokens=tokens, sharded_tokens=tokens / plans.tp,
            micro_batches=job.global_batch / (plans.dp * plans.micro_batch),
            layers_mid=np.minimum(each, model.num_hidden_layers).astype(np.float64),
            layers_last=np.where(plans.pp == 1, model.num_hidden_layers, last).astype(np.float64),
            dense_first=np.minimum(each, float(model.dense_layers)),
        )  # fmt: skip

    def by_tp(self, values: dict[int, float]) -> Array:
        """(plans,) value of each plan's tp."""
        return np.array([values[t] for t in self.plans.tp.tolist()], dtype=np.float64)

    @property
    def tps(self) -> list[int]:
        """The tensor-parallel degrees that occur."""
        return sorted(set(self.plans.tp.tolist()))

    @property
    def attention_parameters(self) -> Array:
        """Of one layer on one rank."""
        model = self.job.model
        return self.by_tp({t: float(model.attention_parameters(t)) for t in self.tps})

    @property
    def plain_parameters(self) -> Array:
        """Of one layer without experts on one rank."""
        model, tp = self.job.model, self.plans.tp
        return self.attention_parameters + model.mlp_parameters(model.intermediate_size or 0) / tp

    @property
    def shared_parameters(self) -> Array:
        """Of one layer with experts on one rank, the routed experts left out."""
        model, tp = self.job.model, self.plans.tp
        shared = model.n_shared_experts * model.expert_intermediate
        router = model.hidden_size * model.experts
        return self.attention_parameters + model.mlp_parameters(shared) / tp + router

    @property
    def expert_parameters(self) -> Array:
        """Of one layer's routed experts on one rank."""
        model = self.job.model
        whole = model.experts * model.mlp_parameters(model.expert_intermediate)
        result: Array = whole / self.plans.ep
        return result

    @property
    def vocabulary_parameters(self) -> Array:
        """Of the embedding or of the head on one rank."""
        model = self.job.model
        result: Array = model.vocab_size * model.hidden_size / self.plans.tp
        return result

    @property
    def rows(self) -> Array:
        """Token-expert rows that this rank's experts compute in a pass, balanced."""
        return self.sharded_tokens * (self.job.model.num_experts_per_tok or 0)

    @property
    def dense_group(self) -> Array:
        """Ranks that share the gradients of everything but routed experts."""
        result: Array = (self.plans.dp * self.plans.cp).astype(np.float64)
        return result

    @property
    def expert_group(self) -> Array:
        """Ranks that share the gradients of a routed expert."""
        p = self.plans
        result: Array = np.maximum(p.tp * p.cp * p.dp / p.ep, 1.0)
        return result

    def stage_layers(self, stage: str) -> tuple[Array, Array, Array]:
        """(plain, expert, mtp) layers of the ``first``, ``mid`` or ``last`` stage."""
        model, one = self.job.model, self.plans.pp == 1
        count = self.layers_last if stage == "last" else self.layers_mid
        mtp = np.full(len(self.plans), float(self.job.mtp_layers if stage == "last" else 0))
        if stage == "first":
            mtp = np.where(one, float(self.job.mtp_layers), mtp)
        if not model.experts:
            return count, np.zeros_like(count), mtp
        plain = self.dense_first if stage == "first" else np.where(one, self.dense_first, 0.0)
        return plain, count - plain, mtp
