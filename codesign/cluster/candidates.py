"""All plans of a job that its shapes allow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.cluster.job import Job
from codesign.cluster.plan import RECOMPUTE, SCHEDULES, Plan, Plans, Recompute, Schedule

LEAST_TOKENS = 512
"""Tokens of a sequence that a rank of context parallelism gets at least."""


@dataclass(frozen=True)
class Limits:
    """What a search may choose from."""

    max_tp: int = 64
    max_cp: int = 64
    max_pp: int = 32
    max_ep: int = 256
    micro_batches: tuple[int, ...] = (1, 2, 4, 8)
    zero: tuple[int, ...] = (1, 3)
    recompute: tuple[Recompute, ...] = RECOMPUTE
    schedules: tuple[Schedule, ...] = ("1f1b",)


DEFAULT_LIMITS = Limits()


def enumerate_plans(job: Job, limits: Limits = DEFAULT_LIMITS) -> Plans:
    """Plans whose degrees divide what they split, in lexicographic order.

    Raises UsageError if there is none: the batch or the shapes do not divide.
    """
    model = job.model
    heads, kv = model.num_attention_heads, model.kv_heads
    width = (model.intermediate_size or 0) if model.dense_layers else 0
    tps = [t for t in _powers(min(limits.max_tp, job.gpus))
           if not (heads % t or width % t or (kv % t and t % kv))]  # fmt: skip
    length = job.sequence_length
    cps = [c for c in _powers(min(limits.max_cp, job.gpus))
           if c == 1 or (length % (2 * c) == 0 and length // c >= LEAST_TOKENS)]  # fmt: skip
    pps = [p for p in _powers(min(limits.max_pp, model.num_hidden_layers)) if job.gpus % p == 0]
    eps = [e for e in _powers(min(limits.max_ep, model.experts or 1))
           if not model.experts or model.experts % e == 0]  # fmt: skip
    shapes = []
    for t, c, p in product(tps, cps, pps):
        if job.gpus % (t * c * p):
            continue
        dp = job.gpus // (t * c * p)
        for v in _chunks(model.num_hidden_layers, p):
            shapes += [(t, c, p, v, e, dp) for e in eps if (t * c * dp) % e == 0]
    rest = list(product(limits.zero, limits.micro_batches,
                        [RECOMPUTE.index(r) for r in limits.recompute],
                        [SCHEDULES.index(s) for s in limits.schedules]))  # fmt: skip
    if not shapes:
        raise UsageError(f"{job.name}: no plan spreads the model over {job.gpus} GPUs")
    left = np.repeat(np.array(shapes, dtype=np.int64), len(rest), axis=0)
    right = np.tile(np.array(rest, dtype=np.int64), (len(shapes), 1))
    rows = np.concatenate([left, right], axis=1)
    kept = rows[valid(job, Plans.from_rows(rows))]
    if not len(kept):
        least = min(shape[-1] for shape in shapes)
        raise UsageError(
            f"{job.name}: a batch of {job.global_batch} sequences cannot be dealt out over "
            f"{job.gpus} GPUs, which make {least} replicas or more; a multiple of {least} "
            "sequences, or another number of GPUs"
        )
    return Plans.from_rows(kept[np.lexsort(kept.T[::-1])])


def valid(job: Job, plans: Plans) -> NDArray[np.bool_]:
    """(plans,) whether the batch divides and the schedule is possible."""
    pass_size = plans.dp * plans.micro_batch
    whole = (job.global_batch % pass_size == 0) & (job.global_batch >= pass_size)
    m = job.global_batch // np.maximum(pass_size, 1)
    # Interleaved 1F1B deals micro-batches out in groups of pp.
    grouped = (plans.vpp == 1) | (m % plans.pp == 0)
    # FSDP gathers the whole model every pass: with a pipeline it is not used.
    sharded = (plans.zero < 3) | (plans.pp == 1)
    dual = plans.schedule == SCHEDULES.index("dualpipe")
    alone = np.where(dual, (plans.pp % 2 == 0) & (plans.pp > 1) & (plans.vpp == 1), True)
    zero_bubble = plans.schedule == SCHEDULES.index("zero_bubble")
    alone &= np.where(zero_bubble, (plans.pp > 1) & (plans.vpp == 1), True)
    # Their bubbles' formulas hold where the pipeline fills.
    alone &= np.where(dual | zero_bubble, m >= plans.pp, True)
    gpus = plans.tp * plans.cp * plans.pp * plans.dp == job.gpus
    result: NDArray[np.bool_] = whole & grouped & sharded & alone & gpus
    return result


def why_not(job: Job, plan: Plan) -> str | None:
    """Why a plan cannot run the job, in a few words; None where it can. Memory is left out."""
    model, p = job.model, plan
    kv, width = model.kv_heads, (model.intermediate_size or 0) if model.dense_layers else 0
    m = job.global_batch / (p.dp * p.micro_batch)
    replica = p.tp * p.cp * p.dp
    rules = (
        (p.gpus != job.gpus, f"tp x cp x pp x dp is {p.gpus} GPUs, not {job.gpus}"),
        (model.num_attention_heads % p.tp != 0,
         f"{model.num_attention_heads} heads do not divide by tp {p.tp}"),
        (kv % p.tp != 0 and p.tp % kv != 0, f"{kv} key-value heads do not divide by tp {p.tp}"),
        (width % p.tp != 0, f"intermediate size {width} does not divide by tp {p.tp}"),
        (not _filled(model.num_hidden_layers, p.pp, p.vpp),
         f"pp {p.pp} x vpp {p.vpp} leaves stages without any of {model.num_hidden_layers} layers"),
        (p.ep > 1 and not model.experts, f"ep {p.ep}, but the model has no experts"),
        (bool(model.experts) and model.experts % p.ep != 0,
         f"{model.experts} experts do not divide by ep {p.ep}"),
        (replica % p.ep != 0, f"ep {p.ep} does not divide tp x cp x dp = {replica}"),
        (p.cp > 1 and job.sequence_length % (2 * p.cp) != 0,
         f"{job.sequence_length} tokens do not divide by 2 x cp {p.cp}"),
        (not m.is_integer(), f"a batch of {job.global_batch} sequences is no multiple of dp "
         f"{p.dp} x micro-batch {p.micro_batch}"),
        (p.vpp > 1 and m % p.pp != 0, f"{m:g} micro-batches do not divide by pp {p.pp}, as "
         "interleaving needs"),
        (p.zero == 3 and p.pp > 1, "ZeRO 3 would gather the whole model every pass of a pipeline"),
        (not valid(job, Plans.of([p]))[0],
         f"schedule {p.schedule} needs more stages or micro-batches, or no interleaving"),
    )  # fmt: skip
    return next((reason for broken, reason in rules if broken), None)


def _powers(limit: int) -> list[int]:
    return [2**i for i in range(limit.bit_length()) if 2**i <= limit]


def _chunks(layers: int, pp: int) -> list[int]:
    """Chunks a stage: 1, and numbers that leave a chunk 1, 2 or 4 layers."""
    if pp == 1:
        return [1]
    each = -(-layers // pp)
    options = {1} | {max(-(-each // size), 1) for size in (1, 2, 4)}
    return sorted(v for v in options if _filled(layers, pp, v))


def _filled(layers: int, pp: int, chunks: int) -> bool:
    """Whether every stage has layers, the last one what is left (beside the head)."""
    return pp <= layers and -(-layers // (pp * chunks)) * chunks * (pp - 1) <= layers
