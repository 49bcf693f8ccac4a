"""What a projection of a job says, as records that files hold: no heavy import here."""

from __future__ import annotations

import msgspec

from codesign._common.scores import Interval


class Placed(msgspec.Struct, frozen=True):
    """One plan on one system."""

    system: str
    gpus: int
    plan: str
    step_s: Interval
    """90 %: how far published steps that the calibration had not seen were off."""
    tokens_per_s_gpu: float
    mfu: float | None
    """Model FLOPs / (step x dense peak of the linear layers' precision)."""
    hfu: float | None
    """With recomputation."""
    breakdown: dict[str, float]
    """Exposed seconds by what they go to; they add up to the step."""
    memory_bytes: dict[str, float]
    """On the fullest GPU by what holds them; the framework's allocations."""
    needed_bytes: float
    """With fragments and what others reserve."""
    fits: bool


class NeighbourLoss(msgspec.Struct, frozen=True):
    """A discarded plan that differs in one choice."""

    changed: str
    plan: str
    loss: float | None
    """Of step time; None where it does not fit."""
    reason: str


class SystemProjection(msgspec.Struct, frozen=True):
    """A job on one system, at the plan given and re-planned."""

    system: str
    fixed: Placed | None
    """At the plan in use, if one was given and divides the job."""
    best: Placed | None
    """At its own best plan; None where nothing fits, or where it was not asked for."""
    neighbours: tuple[NeighbourLoss, ...] = ()
    scaling: tuple[Placed, ...] = ()
    """Best plans at other numbers of GPUs, batch in proportion."""
    control: float | None = None
    """Where the NVLink domain differs from the first system's: gain of a job inside that one's
    from this domain alone. 1 exactly, or the model credits domains with something else."""


class ClusterProjection(msgspec.Struct, frozen=True):
    """A job on several systems."""

    job: str
    gpus: int
    global_batch: int
    sequence_length: int
    precision: str
    systems: tuple[SystemProjection, ...]
    tried: int
    """Plans timed."""
    warnings: tuple[str, ...] = ()


class LeverAtScale(msgspec.Struct, frozen=True):
    """One lever step for a job of many GPUs: base step time / the candidate's."""

    lever: str
    title: str
    label: str
    factor: float
    fixed: Interval
    """Both at the base's best plan."""
    replanned: Interval
    """Each at its own best plan."""
    plan: str
    """The candidate's best."""
    base_plan_fits: bool
    """Whether the base's plan fits the candidate's memory."""


class DomainAtScale(msgspec.Struct, frozen=True):
    """An NVLink domain of another size, everything else of the base kept."""

    gpus_in_domain: int
    fixed: float
    replanned: float
    plan: str


class AtScale(msgspec.Struct, frozen=True):
    """A workload of the portfolio over many GPUs of the baseline."""

    workload: str
    gpus: int
    global_batch: int
    """Sequences a step."""
    sequence_length: int
    precision: str
    plan_in_use: Placed | None
    """The recipe's, with more replicas; None where it does not divide the job."""
    best: Placed
    neighbours: tuple[NeighbourLoss, ...]
    scaling: tuple[Placed, ...]
    """Best plans at other numbers of GPUs, the batch in proportion."""
    levers: tuple[LeverAtScale, ...]
    domains: tuple[DomainAtScale, ...]
    control: tuple[DomainAtScale, ...]
    """The same domains for ``control_job``, which fits in the baseline's: 1 exactly, or the
    model would credit a domain with something else."""
    control_job: str
    tried: int
    """Plans timed."""
