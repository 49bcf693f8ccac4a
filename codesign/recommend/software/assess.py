"""Rules put to workloads: which find something, which must be silent, and what it gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign.recommend.carriers import op_shares
from codesign.recommend.schema import (
    Interval,
    SoftwareFinding,
    SoftwareResult,
    SoftwareSilence,
)
from codesign.recommend.software.draft import Draft, Effect, Reach, Rule, step_after
from codesign.recommend.software.look import Look
from codesign.recommend.software.registry import RULES
from codesign.recommend.wording import joined, percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codesign.hardware.model import System
    from codesign.recommend.schema import Level, OpShare
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

ALWAYS = ("steps", "step_time")
"""Without a step there is nothing that a gain could be of."""
MOST_IDLE = 0.99
"""Share of a captured step from which on it is none: a start, a compilation, a lost capture."""
LEAST_GAIN = 0.005
"""Gains of a workload below 1 + this are not worth a reader's line."""
SHOWN_OPS = 6
_LEVELS: tuple[Level, ...] = ("low", "medium", "high")


def software(
    chars: Mapping[str, Characterization], weights: Mapping[str, float], base: System, model: Any,
    rules: Sequence[Rule] = RULES,
) -> tuple[tuple[SoftwareResult, ...], tuple[SoftwareSilence, ...]]:  # fmt: skip
    """What the rules say of a portfolio, the largest gain first, and where they are silent.

    ``weights``: share of GPU-hours by workload. Portfolio gain is 1 / sum(weight / gain),
    as for levers; a workload in which a rule finds nothing gains 1. One without
    weight is not looked at.
    """
    looks = {name: Look(chars[name], base, model) for name, weight in weights.items() if weight > 0}
    results: list[SoftwareResult] = []
    silent: dict[tuple[str, str, str], list[str]] = {}
    for rule in rules:
        findings = []
        for name, look in looks.items():
            found = assess(look, rule, name)
            if isinstance(found, str):
                silent.setdefault((rule.key, rule.title, found), []).append(name)
            elif found is not None:
                findings.append(found)
        if findings:
            results.append(_result(rule, findings, weights))
    results.sort(key=lambda r: (-r.gain.value, r.rule))
    keys = {r.rule for r in results}
    shown = tuple(_with_rivals(r, keys) for r in results)
    return shown, tuple(
        SoftwareSilence(key, title, reason, tuple(names))
        for (key, title, reason), names in silent.items()
    )


def assess(look: Look, rule: Rule, name: str | None = None) -> SoftwareFinding | str | None:
    """One rule on one workload: a finding, the reason to be silent, or None for nothing."""
    reason = unreliable(look, rule)
    if reason:
        return reason
    draft = rule.look(look)
    if draft is None or isinstance(draft, str):
        return draft
    if rule.kernel_side and look.launch_bound:
        return (
            "between kernels the device waits for launches half as long as it computes or longer: "
            "what gets shorter on it would only wait longer"
        )
    found = _finding(look, rule, draft, name or look.char.header.workload)
    return None if found.gain.value - 1 < LEAST_GAIN else found


def unreliable(look: Look, rule: Rule) -> str:
    """Why the characterization cannot carry the rule; empty if it can."""
    if rule.captured and look.composed:
        return "composed from single kernels: there is no captured step to see it in"
    quality = look.char.header.quality
    for quantity in (*ALWAYS, *rule.needs):
        if not quality.reliable(quantity):
            reasons = quality.reliability[quantity].reasons
            what = quantity.replace("_", " ")
            return f"{what} not reliable: {'; '.join(reasons) or 'no reason given'}"
    idle = look.step.fixed_idle_s
    if not look.composed and idle > MOST_IDLE * look.step_s:
        return (
            f"the device works for {percent(1 - idle / look.step_s)} of the step alone: that is no "
            "step of steady work; capture it again once it is warm, with all of its kernels"
        )
    return ""


def _finding(look: Look, rule: Rule, draft: Draft, name: str) -> SoftwareFinding:
    reach = draft.reach or rule.reach
    gain = gain_at(look, draft.effect, reach)
    return SoftwareFinding(
        workload=name, evidence=draft.evidence, at_stake_s=draft.at_stake_s,
        bound_s=draft.bound_s, bound=draft.bound, gain=gain, ops=_ops(look, draft, name),
        confidence=draft.confidence or rule.confidence, caveat=_caveat(look, rule),
    )  # fmt: skip


def gain_at(look: Look, effect: Effect, reach: Reach) -> Interval:
    """Step now over step at the reach: value, and what its two ends leave."""
    now = look.step_s
    value, lo, hi = (now / step_after(look.step, effect, r) for r in (reach.value, *_ends(reach)))
    return Interval(value, min(lo, value), max(hi, value))


def _ends(reach: Reach) -> tuple[float, float]:
    return reach.lo, reach.hi


def _ops(look: Look, draft: Draft, name: str) -> tuple[OpShare, ...]:
    exposed = look.step.exposed_s
    saved = exposed * (1.0 - draft.effect.time_ratio) + draft.effect.hidden_s
    total = float(saved.sum())
    share = saved / total if total > 0 else saved
    keep = np.zeros(len(exposed), dtype=bool)
    keep[draft.rows] = True
    part = look.ops.loc[keep]
    shares = op_shares(name, part, exposed[keep] / look.step_s, share[keep])
    return tuple(shares[:SHOWN_OPS])


def _caveat(look: Look, rule: Rule) -> str:
    """What makes the gain of a workload more or less than its step says."""
    idle = look.step.fixed_idle_s
    if rule.kernel_side and not look.composed and idle > 0.1 * look.step_s:
        judged = look.char.header.quality.reliable("idle")
        how = "" if judged else ", which this capture does not measure reliably"
        return (
            f"{percent(idle / look.step_s)} of the step is idle{how}: the gain is of the step with "
            "that time in it"
        )
    return ""


def _result(
    rule: Rule, findings: list[SoftwareFinding], weights: Mapping[str, float]
) -> SoftwareResult:
    gains = {f.workload: f.gain for f in findings}
    whole = sum(weights.values())

    def portfolio(end: str) -> float:
        hours = sum(w / getattr(gains[n], end) if n in gains else w for n, w in weights.items())
        return whole / hours

    hours = {
        f.workload: weights[f.workload] * (1.0 - 1.0 / f.gain.value) for f in findings
    }  # fmt: skip
    saved = sum(hours.values())
    if saved > 0:
        findings = [_weighed(f, hours[f.workload] / saved) for f in findings]
    weakest = min((f.confidence for f in findings), key=_LEVELS.index)
    low = [f.workload for f in findings if f.confidence != rule.confidence]
    why = rule.confidence_why
    if low:
        why += f"; less than usual in {joined(low)}, where the evidence is thinner"
    return SoftwareResult(
        rule=rule.key, title=rule.title, action=rule.action,
        gain=Interval(portfolio("value"), portfolio("lo"), portfolio("hi")),
        by_workload=gains, reach=(rule.reach.lo, rule.reach.value, rule.reach.hi),
        reach_why=rule.reach.why, confidence=weakest, confidence_why=why, effort=rule.effort,
        effort_why=rule.effort_why, confirm=rule.confirm, findings=tuple(findings),
        rivals=rule.rivals,
    )  # fmt: skip


def _weighed(finding: SoftwareFinding, share: float) -> SoftwareFinding:
    """Shares of the time saved over the portfolio, of which this workload saves ``share``."""
    replace = msgspec.structs.replace
    ops = tuple(replace(o, saved_share=o.saved_share * share) for o in finding.ops)
    return replace(finding, ops=ops)


def _with_rivals(result: SoftwareResult, keys: set[str]) -> SoftwareResult:
    both = {r for r in result.rivals if r in keys}
    both |= {r.key for r in RULES if result.rule in r.rivals and r.key in keys}
    return msgspec.structs.replace(result, rivals=tuple(sorted(both)))
