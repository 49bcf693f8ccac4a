"""A post-training (RL) step: rollout, reference and reward forward, training, weight sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.cluster.efficiency import DEFAULT, Efficiency
from codesign.cluster.grid import OpTimes, without_power
from codesign.cluster.job import Job
from codesign.cluster.plan import Plan, Plans
from codesign.cluster.rollout import Rollout, RolloutTimes, rollout_times
from codesign.cluster.step import forward_share, step_times
from codesign.hardware.model import BYTES_PER_ELEMENT

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]


class Placement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which GPUs do what."""

    kind: Literal["colocated", "disaggregated"] = "colocated"
    """``colocated``: all GPUs take turns. ``disaggregated``: two pools of their own."""
    rollout_gpus: int = 0
    """Of the rollout's own pool; the job's GPUs train."""
    overlapped: bool = False
    """Disaggregated, one step off policy: the pools work at the same time."""


COLOCATED = Placement()


@dataclass(frozen=True)
class PostTraining:
    """Seconds of a step by what it does, (systems,) each."""

    rollout: RolloutTimes
    reference_s: Array
    train_s: Array
    sync_s: Array
    step_s: Array
    gpus: int

    def parts(self, index: int) -> dict[str, float]:
        """Seconds on one system."""
        return {
            "prefill": float(self.rollout.prefill_s[index]),
            "decode": float(self.rollout.decode_s[index]),
            "reference": float(self.reference_s[index]), "train": float(self.train_s[index]),
            "sync": float(self.sync_s[index]),
        }  # fmt: skip


def post_training_step(
    job: Job, plan: Plan, rollout: Rollout, model: OpTimes, systems: Sequence[System],
    placement: Placement = COLOCATED, *, reference_models: int = 1,
    efficiency: Efficiency = DEFAULT,
) -> PostTraining:  # fmt: skip
    """One step: what ``rollout`` generates is scored and trained on by ``job``'s ``plan``.

    ``job.sequence_length`` and ``global_batch`` are those of packed training sequences; pack
    the rollout's tokens with `training_job`. ``reference_models`` is the number of forward
    passes of the policy's size beside training (reference, reward, old policy).
    Raises UsageError where the placement has no GPUs for the rollout.
    """
    split = placement.kind == "disaggregated"
    if split and placement.rollout_gpus < 1:
        raise UsageError("disaggregated placement needs rollout_gpus")
    pool = placement.rollout_gpus if split else job.gpus
    made = rollout_times(job.model, rollout, pool, model, systems)
    plans = Plans.of([plan])
    train = step_times(job, plans, model, systems, efficiency).step_s[:, 0]
    reference = reference_models * forward_share(job, plans, model, systems, efficiency)[:, 0]
    sync = weight_sync_s(job, plan, rollout, placement, model, systems)
    if split and placement.overlapped:
        step = np.maximum(made.total_s, reference + train) + sync
    else:
        step = made.total_s + reference + train + sync
    total = job.gpus + (placement.rollout_gpus if split else 0)
    return PostTraining(made, reference, train, sync, step, total)


def training_job(job: Job, rollout: Rollout) -> Job:
    """``job`` with a batch that holds the rollout's tokens, packed into its sequences.

    Rounded up to a multiple of the job's own batch, so that its plan still divides it.
    """
    tokens = rollout.sequences * rollout.mean_length
    sequences = -(-tokens // job.sequence_length)
    batch = int(-(-sequences // job.global_batch) * job.global_batch)
    return msgspec.structs.replace(job, global_batch=batch)


def weight_sync_s(
    job: Job, plan: Plan, rollout: Rollout, placement: Placement, model: OpTimes,
    systems: Sequence[System],
) -> Array:  # fmt: skip
    """(systems,) seconds to bring the trained weights to the rollout's shards.

    Colocated: each GPU gathers its shard of the rollout from the ranks that hold parts of it,
    all at once. Disaggregated: every shard is broadcast from a trainer to the replicas.
    """
    import pandas as pd

    width = max(rollout.tp, rollout.ep)
    shard = job.model.parameters() * BYTES_PER_ELEMENT[rollout.precision] / width
    if placement.kind == "colocated":
        holders = max(plan.tp * plan.pp * plan.ep // width, 2)
        row = {"collective": "all_gather", "message_bytes": shard, "group_size": holders,
               "group_stride": 1.0}  # fmt: skip
    else:
        replicas = max(placement.rollout_gpus // width, 1)
        row = {"collective": "broadcast", "message_bytes": shard, "group_size": replicas + 1,
               "group_stride": width}  # fmt: skip
    ops = pd.DataFrame([{"op_class": "collective", "count": 1.0, "phase": "sync", **row}])
    times: Array = model.times(ops, [without_power(s) for s in systems])[:, 0]
    return times
