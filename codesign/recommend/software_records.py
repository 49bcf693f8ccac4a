"""Parts of the recommendations file: changes of software."""

from __future__ import annotations

import msgspec

from codesign._common.scores import Interval
from codesign.recommend.lever_records import Level, OpShare


class SoftwareFinding(msgspec.Struct, frozen=True):
    """What one software rule found in one workload."""

    workload: str
    evidence: str
    """What the characterization says, with numbers."""
    at_stake_s: float
    """Time of the step that it is about."""
    bound_s: float
    """Least that this time can become: the attainable bound."""
    bound: str
    """How the bound was derived."""
    gain: Interval
    """Of this workload: its step now over its step at the rule's reach."""
    ops: tuple[OpShare, ...]
    """Ops that it names; ``saved_share`` is the share of the time saved."""
    confidence: Level
    caveat: str = ""


class SoftwareResult(msgspec.Struct, frozen=True):
    """A change of software, over the portfolio: on the same scale as the levers."""

    rule: str
    title: str
    action: str
    gain: Interval
    """Of the portfolio. Its ends are those of ``reach``, not of joint draws."""
    by_workload: dict[str, Interval]
    reach: tuple[float, float, float]
    """Share of the gap to the bound taken to close: low end, value, high end."""
    reach_why: str
    confidence: Level
    confidence_why: str
    effort: Level
    effort_why: str
    confirm: str
    """The measurement that would confirm it."""
    findings: tuple[SoftwareFinding, ...]
    rivals: tuple[str, ...] = ()
    """Rules of this list that save the same time: gains do not multiply."""


class SoftwareSilence(msgspec.Struct, frozen=True):
    """A rule that could not be judged in some workloads, and why."""

    rule: str
    title: str
    reason: str
    workloads: tuple[str, ...]
