"""What a projection of a job says: step, throughput, MFU and HFU, breakdown, memory, scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from codesign._common.errors import UsageError
from codesign._common.scores import Z_90, Interval
from codesign.cluster.candidates import DEFAULT_LIMITS, Limits, enumerate_plans, why_not
from codesign.cluster.efficiency import DEFAULT, RESIDUAL_SD, Efficiency
from codesign.cluster.grid import OpTimes, TimeCache
from codesign.cluster.job import LARGEST, Job
from codesign.cluster.memory import SPEC_TO_DEVICE
from codesign.cluster.ops import UP_PROJECTIONS
from codesign.cluster.plan import Plan
from codesign.cluster.records import ClusterProjection, NeighbourLoss, Placed, SystemProjection
from codesign.cluster.search import Found, evaluate, explain, no_fit, search
from codesign.hardware.model import PEAK_OF_PRECISION
from codesign.workload.formulas import (
    attention_backward_flops,
    attention_flops,
    attention_pairs,
)

if TYPE_CHECKING:
    from codesign.hardware.model import System

__all__ = ["ClusterProjection", "NeighbourLoss", "Placed", "SystemProjection", "model_flops",
           "neighbours", "placed", "project_job", "scaling_curve"]  # fmt: skip


def model_flops(job: Job) -> float:
    """FLOPs a step that the model needs, over all GPUs; the embedding is a lookup."""
    return _flops(job, again=False, recompute="none")


def _flops(job: Job, *, again: bool, recompute: str) -> float:
    """``again``: with the product that flash attention's backward pass does twice."""
    model = job.model
    vocabulary = float(model.vocab_size * model.hidden_size)
    active = float(model.parameters(active=True))
    layers = active - vocabulary * (1 if model.tie_word_embeddings else 2)
    if job.mtp_layers:
        expert = model.mlp_parameters(model.expert_intermediate)
        chosen = (model.num_experts_per_tok or 0) + model.n_shared_experts
        layers += job.mtp_layers * (model.attention_parameters() + expert * chosen
                                    + 2.0 * model.hidden_size**2)  # fmt: skip
    heads = vocabulary * (1 + min(job.mtp_layers, 1))
    passes = 2.0 if job.lora else 3.0
    forward = 2.0 * layers * job.tokens
    length = job.sequence_length
    d, v = float(model.qk_dim), float(model.v_dim)
    n = float(model.num_attention_heads)
    kinds = [*model.windows, (job.mtp_layers, None)]
    pairs = job.global_batch * sum(
        layers * float(attention_pairs(length, length, True, window or np.inf))
        for layers, window in kinds
    )
    core = attention_flops(pairs, n, d, v)
    back = attention_backward_flops(pairs, n, d, v) if again else 2.0 * core
    once_more = (forward + core) if recompute == "full" else 0.0
    if recompute == "selective":
        again_in_layer = sum(
            outputs * inputs for name, outputs, inputs in model.attention_projections()
            if name in UP_PROJECTIONS
        )  # fmt: skip
        once_more = 2.0 * job.tokens * again_in_layer * sum(layers for layers, _ in kinds)
    return passes * (forward + 2.0 * heads * job.tokens) + core + back + once_more


def placed(job: Job, found: Found) -> Placed:
    """A found plan with its utilizations."""
    gpu = found.system.gpu
    peak = gpu.peak_dense_flops_per_s.get(PEAK_OF_PRECISION[job.precision])
    rate = found.step_s * job.gpus * peak if peak else None
    hardware = _flops(job, again=True, recompute=found.plan.recompute)
    spread = math.exp(Z_90 * RESIDUAL_SD)
    return Placed(
        system=found.system.name, gpus=job.gpus, plan=str(found.plan),
        step_s=Interval(found.step_s, found.step_s / spread, found.step_s * spread),
        tokens_per_s_gpu=found.tokens_per_s_gpu,
        mfu=model_flops(job) / rate if rate else None, hfu=hardware / rate if rate else None,
        breakdown=found.parts, memory_bytes=found.memory, needed_bytes=found.needed_bytes,
        fits=found.needed_bytes <= SPEC_TO_DEVICE * gpu.hbm_capacity_bytes,
    )  # fmt: skip


def project_job(
    job: Job, model: OpTimes, systems: Sequence[System], efficiency: Efficiency = DEFAULT, *,
    plan: Plan | None = None, reoptimize: bool = True, scaling: Sequence[int] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> ClusterProjection:  # fmt: skip
    """Project a job onto systems, at ``plan`` and, with ``reoptimize``, at each one's best.

    ``scaling``: other numbers of GPUs at which the best plan is found, the batch in proportion.
    Raises UsageError if there is no plan to evaluate, none fits any system, or a system has no
    tensor cores for the job's precision.
    """
    if plan is None and not reoptimize:
        raise UsageError(f"{job.name}: no plan given and none asked for; re-optimize")
    for system in systems:
        _check_precision(job, system)
    warnings: list[str] = []
    cache = TimeCache(model, tuple(systems))
    used: list[Found | None] = [None] * len(systems)
    if plan is not None:
        reason = why_not(job, plan)
        if reason is not None and not reoptimize:
            raise UsageError(f"{job.name}: plan {plan} cannot run: {reason}{_instead(job, limits)}")
        if reason is None:
            used = list(evaluate(job, plan, model, systems, efficiency, cache))
        else:
            warnings.append(f"the plan in use ({plan}) is left out: {reason}")
    best: list[Found | None] = [None] * len(systems)
    tried = int(plan is not None)
    if reoptimize:
        include = [plan] if used[0] is not None and plan is not None else []
        result = search(job, model, systems, efficiency, limits=limits, include=include,
                        cache=cache)  # fmt: skip
        best, tried = list(result.found), result.tried
    rows = []
    for i, system in enumerate(systems):
        fixed, own = used[i], best[i]
        near = () if own is None else neighbours(job, own, model, efficiency, limits)
        curve = scaling_curve(job, model, system, efficiency, scaling, limits) if reoptimize else ()
        if reoptimize and own is None:
            warnings.append(no_fit(job, system, limits))
        rows.append(SystemProjection(
            system.name, None if fixed is None else placed(job, fixed),
            None if own is None else placed(job, own), near, curve,
        ))  # fmt: skip
    if used == best == [None] * len(systems):
        raise UsageError(warnings[-1])
    return ClusterProjection(
        job.name, job.gpus, job.global_batch, job.sequence_length, job.precision, tuple(rows),
        tried, tuple(warnings),
    )  # fmt: skip


def _instead(job: Job, limits: Limits) -> str:
    """What to do about a plan that cannot run: nothing to say where none can."""
    try:
        enumerate_plans(job, limits)
    except UsageError:
        return ""
    return "; --reoptimize looks for one that can"


def _check_precision(job: Job, system: System) -> None:
    peak = PEAK_OF_PRECISION[job.precision]
    known = system.gpu.peak_dense_flops_per_s
    if peak not in known:
        raise UsageError(
            f"{system.name}: {system.gpu.name} has no {peak} tensor cores, so {job.name} cannot "
            f"train in {job.precision} on it; its peaks: {', '.join(sorted(known))}"
        )


def neighbours(
    job: Job,
    own: Found,
    model: OpTimes,
    efficiency: Efficiency = DEFAULT,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[NeighbourLoss, ...]:
    """What the closest neighbour of each choice loses."""
    closest: dict[str, NeighbourLoss] = {}
    for n in explain(job, own, model, efficiency, limits):
        closest.setdefault(n.changed, NeighbourLoss(n.changed, str(n.plan), n.loss, n.reason))
    return tuple(closest.values())


def scaling_curve(
    job: Job, model: OpTimes, system: System, efficiency: Efficiency, scaling: Sequence[int],
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Placed, ...]:  # fmt: skip
    """Best plans at other numbers of GPUs, the batch in proportion; those that fit."""
    points = []
    cache = TimeCache(model, (system,))
    for gpus in scaling:
        batch = max(round(job.global_batch * gpus / job.gpus), 1)
        if max(gpus, batch) > LARGEST:
            continue
        other = msgspec.structs.replace(job, gpus=gpus, global_batch=batch)
        try:
            enumerate_plans(other, limits)
        except UsageError:
            continue
        found = search(other, model, [system], efficiency, limits=limits, cache=cache).found[0]
        if found is not None:
            points.append(placed(other, found))
    return tuple(points)
