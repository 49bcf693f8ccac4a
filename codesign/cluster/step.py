"""Step time of many plans on many systems, from the times of their ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codesign.cluster.contention import Contention
from codesign.cluster.efficiency import DEFAULT, Efficiency
from codesign.cluster.grid import OpTimes, TimeCache, Timed, time_kinds
from codesign.cluster.job import NARROW, Job
from codesign.cluster.memory import Memory, memory_of
from codesign.cluster.ops import step_kinds
from codesign.cluster.plan import RECOMPUTE, Plans
from codesign.cluster.power import sustained
from codesign.cluster.schedule import bubble_s
from codesign.cluster.shares import Shares

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

GRAPHED = {"none": 1.0, "partial": 0.45, "full": 0.0}
"""Share of host time that remains under CUDA graphs (assumed)."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds of a step, (systems, plans) each; the parts add up to ``step_s``."""

    job: Job
    plans: Plans
    step_s: Array
    parts: dict[str, Array]
    """``compute, tp, cp, ep, pp, dp, bubble, optimizer, host, fixed``: exposed wall time."""
    memory: Memory
    fits: NDArray[np.bool_]

    @property
    def tokens_per_s_gpu(self) -> Array:
        """Throughput of one GPU."""
        result: Array = self.job.tokens / self.step_s / self.job.gpus
        return result


@dataclass(frozen=True)
class _Block:
    """One layer (or an end of the model) in one micro-batch: seconds by what it does."""

    forward: Array
    """Compute of the forward pass."""
    inputs: Array
    """Compute of the gradients of inputs, attention and memory-bound ops."""
    weights: Array
    """Compute of the gradients of weights."""
    tp: Array
    """Exposed collectives, by kind, of both passes."""
    cp: Array
    ep: Array
    hidden: Array
    """Collectives that run behind its compute."""

    @property
    def compute(self) -> Array:
        return self.forward + self.inputs + self.weights

    @property
    def exposed(self) -> Array:
        return self.tp + self.cp + self.ep

    def plus(self, other: _Block, times: Array | float = 1.0) -> _Block:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Block(*(a + times * b for a, b in pairs))


def step_times(
    job: Job, plans: Plans, model: OpTimes, systems: Sequence[System],
    efficiency: Efficiency = DEFAULT, cache: TimeCache | None = None,
) -> StepTimes:  # fmt: skip
    """Step times of ``plans`` on ``systems``; whether they fit is said, not enforced."""
    shares, kinds = step_kinds(job, plans)
    timed = time_kinds(kinds, model, systems, cache)
    parts = compose(job, shares, timed, systems, efficiency)
    memory = memory_of(shares)
    capacity = np.array([s.gpu.hbm_capacity_bytes for s in systems])
    return StepTimes(job, plans, total_s(parts), parts, memory, memory.fits(capacity))


def forward_share(
    job: Job, plans: Plans, model: OpTimes, systems: Sequence[System],
    efficiency: Efficiency = DEFAULT,
) -> Array:  # fmt: skip
    """(systems, plans) seconds of the batch's forward passes alone: a reference or reward
    model of the same shape, pipeline filled and drained once.
    """
    shares, kinds = step_kinds(job, plans)
    timed = time_kinds(kinds, model, systems)
    blocks = _Blocks(job, plans, timed, efficiency, systems)
    stages = [blocks.stage(shares, name) for name in ("first", "mid", "last")]
    # A third of what is exposed belongs to the forward pass, of each kind.
    passes = [b.forward + b.exposed / 3.0 for b in stages]
    pace = np.stack(passes).max(axis=0)
    filled: Array = shares.micro_batches * pace + (plans.pp - 1) / plans.vpp * pace
    return filled


def total_s(parts: dict[str, Array]) -> Array:
    """The step from its parts."""
    values = list(parts.values())
    return sum(values[1:], values[0])


def compose(
    job: Job, shares: Shares, timed: Timed, systems: Sequence[System], efficiency: Efficiency
) -> dict[str, Array]:  # fmt: skip
    """Exposed seconds of a step by what they go to, (systems, plans) each, from the times of
    its ops. See docs/cluster.md for the equations.
    """
    plans, m = shares.plans, shares.micro_batches
    blocks = _Blocks(job, plans, timed, efficiency, systems)
    stages = {name: blocks.stage(shares, name) for name in ("first", "mid", "last")}
    host = {name: blocks.host(shares, name) for name in stages}
    gap = {name: blocks.gap(shares, name) for name in stages}
    passes = {name: np.maximum(b.compute + b.exposed + gap[name], host[name])
              for name, b in stages.items()}  # fmt: skip
    one = plans.pp == 1
    mids = np.maximum(plans.pp - 2, 0)
    # The slowest stage sets the pace.
    options = [passes["first"], np.where(mids > 0, passes["mid"], 0.0),
               np.where(one, 0.0, passes["last"])]  # fmt: skip
    order = np.stack(options).argmax(axis=0)
    slowest = _pick(order, [stages["first"], stages["mid"], stages["last"]])
    pace = np.stack(options).max(axis=0)
    everything = passes["first"] + mids * passes["mid"] + np.where(one, 0.0, passes["last"])
    ahead = slowest.forward + slowest.exposed / 3
    back = slowest.inputs + slowest.exposed * 2 / 3
    # What the host adds to a pass fills a bubble as gradients of weights do: were it left out,
    # shorter gradients would make the bubble of a host-bound step longer.
    bubble = bubble_s(plans, ahead, back, pace - ahead - back, everything - pace)
    send = blocks.part("step", "pp")
    # Two sends a micro-batch and chunk; interleaved ones overlap but for the pipeline's ends.
    shown = np.where((plans.vpp > 1) & job.framework.pp_overlap, 0.1, 1.0)
    pipeline = 2 * plans.vpp * send * (m * shown + 2 * (plans.pp - 1) / plans.vpp)
    data, lost = blocks.data(shares, stages["first"], pace, m)
    optimizer = blocks.optimizer(shares)
    return {
        "compute": m * slowest.compute,
        "tp": m * slowest.tp, "cp": m * slowest.cp, "ep": m * slowest.ep,
        "host": m * np.maximum(pace - slowest.compute - slowest.exposed, 0.0),
        "bubble": bubble, "pp": pipeline,
        "dp": data + lost, "optimizer": optimizer,
        "fixed": efficiency.step_s + 0.0 * pace,
    }  # fmt: skip


def _pick(order: NDArray[np.intp], blocks: list[_Block]) -> _Block:
    names = vars(blocks[0])
    return _Block(*(np.choose(order, [vars(b)[n] for b in blocks]) for n in names))


class _Blocks:
    """Seconds of the model's parts in one micro-batch, overlap and calibration applied."""

    def __init__(
        self, job: Job, plans: Plans, timed: Timed, efficiency: Efficiency,
        systems: Sequence[System],
    ) -> None:  # fmt: skip
        self.clock = sustained(systems, efficiency)
        self.contention = Contention(systems, efficiency.slowdown)
        self.job, self.plans, self.timed, self.eff = job, plans, timed, efficiency
        self.shape = timed.seconds[0].shape
        self.linear = {
            "nvfp4": efficiency.gemm_nvfp4, "fp8": efficiency.gemm_narrow,
            "mxfp8": efficiency.gemm_block, "fp8_block": efficiency.gemm_block,
        }.get(job.precision, efficiency.gemm)  # fmt: skip
        narrow = job.precision in NARROW
        # Experts' rows are cast one expert at a time; bf16 has nothing to cast.
        fused = job.framework.fused_moe
        self.casts = (efficiency.grouped_fused if fused else efficiency.grouped) if narrow else 1.0
        self._made: dict[str, _Block] = {}

    def part(self, block: str, part: str) -> Array:
        return np.zeros(self.shape) + self.timed.total(block, part)

    def sent(self, block: str, kind: str, forwards: Array) -> Array:
        """Bytes that a rank sends of one kind of collective, forward passes counted."""
        there, back, beside = (self.timed.sent(block, f"{kind}.{x}") for x in "fbh")
        return np.zeros(self.shape) + forwards * there + back + beside

    def block(self, name: str) -> _Block:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> _Block:
        eff, plans, framework = self.eff, self.plans, self.job.framework
        linear = (eff.gemm if name == "head" else self.linear) * self.clock
        streams = eff.memory_fused if framework.fused_moe else eff.memory
        f, d, w = (linear * self.part(name, f"gemm.{x}") for x in "fdw")
        grouped = [linear * self.casts * self.part(name, f"grouped.{x}") for x in "fdw"]
        f, d = f + grouped[0], d + grouped[1]
        # Added up in the epilogue, once the products are there.
        w = w + grouped[2] + self.part(name, "accumulate")
        rate = framework.attention_rate
        attention = eff.attention_forward / rate * self.part(name, "attention.f")
        attention_b = eff.attention_backward / rate * self.part(name, "attention.b")
        memory, memory_b = (streams * self.part(name, f"memory.{x}") for x in "fb")
        forward = f + attention + memory
        inputs = d + attention_b + memory_b
        full = plans.recompute == RECOMPUTE.index("full")
        selective = plans.recompute == RECOMPUTE.index("selective")
        is_layer = name not in ("embed", "head")
        again = np.where(full & is_layer, forward, 0.0)
        again = again + np.where(selective, self.part(name, "selective"), 0.0)
        passes = 2.0 + np.where(full & is_layer, 1.0, 0.0)
        tp, tp_hidden = self._tensor(name, passes - 1.0, d + w)
        cp, cp_hidden = self._context(name, passes - 1.0, attention, attention_b)
        room = eff.ep_window * (forward + inputs + w) - tp_hidden - cp_hidden
        ep, ep_hidden = self._expert(name, passes - 1.0, room)
        hidden = tp_hidden + cp_hidden + ep_hidden
        lost = sum((
            self.contention.lost_s(behind, shown + behind, self.sent(name, kind, passes - 1.0))
            for kind, shown, behind in (("tp", tp, tp_hidden), ("cp", cp, cp_hidden),
                                        ("ep", ep, ep_hidden))
        ), np.zeros(self.shape))  # fmt: skip
        return _Block(forward, inputs + again + lost, w, tp, cp, ep, hidden)

    def _tensor(self, name: str, forwards: Array, gradients: Array) -> tuple[Array, Array]:
        """(exposed, hidden) tensor-parallel seconds."""
        direct = forwards * self.part(name, "tp.f") + self.part(name, "tp.b")
        beside = self.part(name, "tp.h")
        share = self.eff.tp_exposed if self.job.framework.tp_overlap else 1.0
        room = gradients if self.job.framework.tp_async else 0.0 * gradients
        left = np.maximum(beside - room, 0.0)
        return direct * share + left, direct * (1.0 - share) + beside - left

    def _context(
        self, name: str, forwards: Array, forward: Array, backward: Array
    ) -> tuple[Array, Array]:
        there, back = forwards * self.part(name, "cp.f"), self.part(name, "cp.b")
        if self.job.framework.cp_exchange != "ring":
            return there + back, np.zeros(self.shape)
        # The first of cp steps computes on the rank's own keys: nothing to wait for yet.
        exposed = np.maximum(there - forward, 0.0) + np.maximum(back - backward, 0.0)
        return exposed, there + back - exposed

    def _expert(self, name: str, forwards: Array, room: Array) -> tuple[Array, Array]:
        hybrid = self.job.framework.dispatcher == "hybrid"
        factor = self.eff.ep_hybrid if hybrid else self.eff.ep
        moved = factor * (forwards * self.part(name, "ep.f") + self.part(name, "ep.b"))
        if not self.job.framework.ep_overlap:
            return moved, np.zeros(self.shape)
        # The layer's attention is part of what hides its experts' exchange.
        if name == "moe":
            layer = self.block("layer")
            room = room + self.eff.ep_window * layer.compute - layer.hidden
        exposed = np.maximum(moved - np.maximum(room, 0.0), 0.0)
        return exposed, moved - exposed

    def stage(self, shares: Shares, stage: str) -> _Block:
        """All that a stage computes for one micro-batch."""
        plain, moe, mtp = shares.stage_layers(stage)
        if shares.job.model.experts:
            moe = moe + mtp
        else:
            plain = plain + mtp
        zero = np.zeros(self.shape)
        total = _Block(zero, zero, zero, zero, zero, zero, zero)
        total = total.plus(self.block("layer"), plain + moe)
        total = total.plus(self.block("plain"), plain).plus(self.block("moe"), moe)
        one = self.plans.pp == 1
        if stage == "first":
            total = total.plus(self.block("embed"))
        heads = np.where(one, 1.0, 0.0) if stage == "first" else np.full(len(one), 1.0)
        if stage != "mid":
            total = total.plus(self.block("head"), heads * (1.0 + np.minimum(mtp, 1.0)))
            total = total.plus(self.block("mtp"), mtp)
        return total

    def host(self, shares: Shares, stage: str) -> Array:
        """Host seconds of a micro-batch's launches on a stage."""
        plain, moe, mtp = shares.stage_layers(stage)
        layers = plain + moe + mtp
        experts = moe + (mtp if shares.job.model.experts else 0.0)
        left = GRAPHED[self.job.framework.graphs]
        host: Array = left * (layers * self.eff.host_layer_s + experts * self.eff.host_moe_s)
        return host + np.zeros(self.shape)

    def gap(self, shares: Shares, stage: str) -> Array:
        """GPU seconds of a micro-batch lost between kernels on a stage."""
        left = GRAPHED[self.job.framework.graphs]
        layers = sum(shares.stage_layers(stage), np.zeros(len(self.plans)))
        return np.zeros(self.shape) + left * self.eff.gap_s * layers

    def _held(
        self, shares: Shares, part: str, of: Callable[[str, str], Array | float] | None = None
    ) -> Array:
        """A per-layer part (its seconds, or what ``of`` says) summed over the first stage's
        layers and the vocabulary.
        """
        of = of or self.part
        plain, moe, _ = shares.stage_layers("first")
        ends = np.where(self.plans.pp == 1, 2.0, 1.0)
        total: Array = (
            plain * of("plain", part) + moe * of("moe", part) + ends * of("vocabulary", part)
            + np.zeros(self.shape)
        )  # fmt: skip
        return total

    def optimizer(self, shares: Shares) -> Array:
        """AdamW over the shard of the first stage."""
        return self._held(shares, "optimizer")

    def data(self, shares: Shares, stage: _Block, pace: Array, m: Array) -> tuple[Array, Array]:
        """Seconds a step of gradients and parameters over data parallelism: (exposed, what
        the hidden ones take from compute).

        A micro-batch takes ``pace``, whoever sets it. They hide behind what of it no other
        collective of the ``stage`` is seen in, less those that hide there already: what
        shortens compute takes no more of that room than of the pace.
        """
        gradients = self._held(shares, "dp.gradients")
        parameters = self._held(shares, "dp.parameters")
        fsdp = self.plans.zero == 3

        def all_of(p: Array, g: Array) -> Array:
            return np.where(fsdp, m * (2 * p + g), p + g)

        moved = all_of(parameters, gradients)
        if not self.job.framework.dp_overlap:
            return moved, np.zeros(self.shape)
        room = self.eff.dp_window * (pace - stage.exposed) - stage.hidden
        room = np.maximum(room, 0.0)
        # Of the passes one is forward: of three, or of four where all is computed again.
        passes = np.where(self.plans.recompute == RECOMPUTE.index("full"), 4.0, 3.0)
        forward, backward = room / passes, room * (passes - 1.0) / passes
        sharded = m * (np.maximum(parameters - forward, 0.0)
                       + np.maximum(parameters + gradients - backward, 0.0))  # fmt: skip
        # One layer's worth at either end has nothing beside it.
        layers = np.maximum(sum(shares.stage_layers("first")), 1.0)
        once = np.maximum(parameters - forward, parameters / layers) + np.maximum(
            gradients - backward, gradients / layers)  # fmt: skip
        exposed = np.where(fsdp, sharded, once)
        sent = all_of(self._held(shares, "dp.parameters", self.timed.sent),
                      self._held(shares, "dp.gradients", self.timed.sent))  # fmt: skip
        return exposed, self.contention.lost_s(moved - exposed, moved, sent)
