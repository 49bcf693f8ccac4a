"""Generation in a post-training step: how many sequences are alive, and how long that takes.

Sequences of a replica share one batch. While prompts wait, a finished sequence is replaced;
then the batch decays until the longest one is done, which is when GPUs idle most.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign._common.errors import UsageError
from codesign.cluster.grid import OpTimes, without_power
from codesign.cluster.memory import FRAGMENTATION, RESERVED_BYTES, SPEC_TO_DEVICE
from codesign.workload.model_config import ModelConfig
from codesign.workload.recipe import Parallelism, Precision, PrecisionName, Recipe

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

SEGMENTS = 24
"""Parts of the rollout with one batch and one context each."""


class Rollout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is generated in a step, and how a replica is spread."""

    prompts: int
    samples: int
    """Responses to each prompt."""
    prompt_length: int
    response_mean: float
    """Mean tokens of a response."""
    response_cv: float = 0.6
    """Standard deviation / mean of their lengths (log-normal)."""
    response_max: int = 16384
    tp: int = 1
    ep: int = 1
    precision: PrecisionName = "bf16"
    max_batch: int = 256
    """Sequences that a replica decodes at a time, at most."""

    def __post_init__(self) -> None:
        for name in ("prompts", "samples", "prompt_length", "response_max", "tp", "ep",
                     "max_batch"):  # fmt: skip
            if not 1 <= getattr(self, name) <= 10**7:
                raise ValueError(f"{name} = {getattr(self, name)}, expected 1 to 10000000")
        if not 1 <= self.response_mean <= self.response_max or not 0 <= self.response_cv <= 10:
            raise ValueError("response_mean is from 1 to response_max, response_cv from 0 to 10")

    @property
    def sequences(self) -> int:
        """Responses of a step."""
        return self.prompts * self.samples

    @property
    def mean_length(self) -> float:
        """Tokens of a prompt and its response, after the cut at ``response_max``."""
        return self.prompt_length + float(self.lengths(4096).mean())

    def lengths(self, count: int) -> Array:
        """(count,) lengths at even quantiles of the distribution: no randomness."""
        from scipy.stats import norm

        spread = np.sqrt(np.log1p(self.response_cv**2))
        level = np.log(self.response_mean) - spread**2 / 2
        z = norm.ppf((np.arange(count) + 0.5) / count)
        raw = np.exp(level + spread * z)
        result: Array = np.clip(np.round(raw), 1, self.response_max)
        return result


@dataclass(frozen=True)
class Segment:
    """Decoding steps with about one batch and context."""

    steps: float
    batch: float
    context: float


def segments(
    lengths: Array, slots: int, prompt_length: int, parts: int = SEGMENTS
) -> list[Segment]:
    """The batch over time: sequences in their order, ``slots`` at once, refilled while any wait.

    Steps x batch over all segments is the number of tokens generated.
    """
    order = lengths[_shuffled(len(lengths))]
    busy: list[float] = []
    start = np.zeros(len(order))
    for i, length in enumerate(order):
        start[i] = heapq.heappop(busy) if len(busy) >= slots else 0.0
        heapq.heappush(busy, start[i] + length)
    end = start + order
    # Even parts of the tokens: short segments where many sequences are alive.
    events = np.unique(np.concatenate([start, end]))
    alive = np.array([((start <= t) & (end > t)).sum() for t in events[:-1]], dtype=np.float64)
    tokens = np.concatenate([[0.0], np.cumsum(alive * np.diff(events))])
    cuts = np.unique(np.interp(np.linspace(0, tokens[-1], parts + 1), tokens, events))
    found = []
    for a, b in pairwise(cuts.tolist()):
        made = float(np.interp(b, events, tokens) - np.interp(a, events, tokens))
        inside = np.clip(np.minimum(end, b) - np.maximum(start, a), 0, None)
        age = (np.minimum(end, b) + np.maximum(start, a)) / 2 - start
        context = prompt_length + float((inside * age).sum() / max(inside.sum(), 1e-12))
        found.append(Segment(b - a, made / (b - a), context))
    return found


def _shuffled(count: int) -> NDArray[np.intp]:
    """An order in which long and short ones mix: multiples of the golden ratio."""
    return np.argsort((np.arange(count) * 0.6180339887498949) % 1.0, kind="stable")


def replica_batch(model: ModelConfig, rollout: Rollout, system: System, gpus: int) -> int:
    """Sequences whose keys and values fit a replica of ``gpus`` GPUs, at most ``max_batch``.

    Raises UsageError if the weights leave no room for one.
    """
    from codesign.hardware.model import BYTES_PER_ELEMENT

    weights = model.parameters() * BYTES_PER_ELEMENT[rollout.precision] / gpus
    device = SPEC_TO_DEVICE * system.gpu.hbm_capacity_bytes
    room = (device - RESERVED_BYTES) / (1 + FRAGMENTATION) - weights
    length = rollout.prompt_length + rollout.response_mean
    shared = gpus if not model.mla else max(gpus // rollout.tp, 1)
    one = model.kv_bytes_per_token(2.0) * length / shared
    fit = int(room / one) if room > 0 else 0
    if fit < 1:
        raise UsageError(
            f"rollout: {weights / 1e9:.0f} GB of weights a GPU leave no room for one sequence on "
            f"{system.name}; raise tp or ep"
        )
    return min(fit, rollout.max_batch)


@dataclass(frozen=True)
class RolloutTimes:
    """Seconds of a rollout on each system."""

    prefill_s: Array
    decode_s: Array
    """(systems,)"""
    tail_share: float
    """Share of the decoding time with less than half of the largest batch, first system."""
    tokens: float
    """Generated by one replica."""
    batch: int

    @property
    def total_s(self) -> Array:
        """Prefill, then decode."""
        result: Array = self.prefill_s + self.decode_s
        return result


def rollout_times(
    model_config: ModelConfig, rollout: Rollout, gpus: int, model: OpTimes,
    systems: Sequence[System],
) -> RolloutTimes:  # fmt: skip
    """Rollout over ``gpus`` GPUs in replicas of max(tp, ep) GPUs each.

    Raises UsageError if a replica does not divide the GPUs or does not hold the weights.
    """
    width = max(rollout.tp, rollout.ep)
    if gpus % width:
        raise UsageError(f"rollout: replicas of {width} GPUs do not divide {gpus} GPUs")
    replicas = gpus // width
    mine = -(-rollout.sequences // replicas)
    batch = min(replica_batch(model_config, rollout, s, width) for s in systems)
    lengths = rollout.lengths(mine)
    parts = segments(lengths, batch, rollout.prompt_length)
    dp = width // rollout.tp
    ops = [_recipe(model_config, rollout, dp, "decode", s.batch / dp, s.context) for s in parts]
    steps = np.array([s.steps for s in parts])
    each = np.stack([_step_s(r, model, systems) for r in ops], axis=1)
    decode = each @ steps
    # One prompt for all its samples: the prefix is computed once.
    passes = -(-mine // rollout.samples)
    prefill = _step_s(_recipe(model_config, rollout, dp, "prefill", 1, 0), model, systems) * passes
    low = np.array([s.batch < 0.5 * max(q.batch for q in parts) for s in parts])
    tail = float((each[0] * steps)[low].sum() / decode[0])
    return RolloutTimes(prefill / dp, decode, tail, float(lengths.sum()), batch)


def _recipe(
    model: ModelConfig, r: Rollout, dp: int, phase: str, batch: float, context: float
) -> Recipe:
    decode = phase == "decode"
    return Recipe(
        name="rollout", title="rollout", phase="decode" if decode else "prefill", model=model,
        precision=Precision(gemm=r.precision),
        parallelism=Parallelism(tp=r.tp, dp=dp, ep=r.ep),
        sequence_length=r.prompt_length, context_length=max(round(context), 1),
        batch=max(round(batch), 1),
    )  # fmt: skip


def _step_s(recipe: Recipe, model: OpTimes, systems: Sequence[System]) -> Array:
    """(systems,) seconds of one decoding step or one prompt, nothing hidden."""
    from codesign.workload.transformer import build_ops

    times = model.times(build_ops(recipe), [without_power(s) for s in systems])
    result: Array = np.nansum(times, axis=1)
    return result
