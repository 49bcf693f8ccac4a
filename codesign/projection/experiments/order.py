"""The order of a workload's levers, projected without newer silicon, against shipped parts.

Three parts changed mainly one thing: H200 its HBM bandwidth, GB200 against B200 (for work
that stays inside 8 GPUs) SMs x clock, B300 against B200 its power. The effect of a lever is the
elasticity d ln(gain) / d ln(lever): parts moved their levers by different amounts, and a gain
of 5 % for a clock of +11 % is worth more than one of 5 % for a bandwidth of +43 %. The 4 % of
HBM bandwidth that GB200 has over B200 are taken off by the effect that H200 showed; its power,
which microbenchmarks hardly feel, is not. Two levers whose measured effects differ by less than
their noise have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign._common.scores import Z_90, LeverEvidence, LeverOrderRow
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever, lever_value
from codesign.hardware.model import System
from codesign.projection.backtest import MIN_SHARE, restricted, shared_rows
from codesign.projection.projector import project
from codesign.projection.step import step_of

SYSTEM = "hgx-h100"
PARTS = (
    ("hbm_bandwidth", "hgx-h100", "hgx-h200"),
    ("sm_clock", "hgx-b200", "gb200-nvl72"),
    ("power", "hgx-b200", "hgx-b300"),
)
"""(lever, system before, system after): what mainly changed between two shipped parts. HBM
bandwidth comes first, since the others are corrected by its effect."""
HOLD_OUT = ("h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300", "rtx-pro-6000-server")
"""GPUs that the projecting model must not have seen: H200 and all of Blackwell."""
GAIN_NOISE_SD = 0.02
"""Assumed noise of a measured gain (log): the same GEMM differs by 1 to 5 % between
frameworks, and a step is the sum of many."""
DECIDED_Z = Z_90


def lever_orders(
    db: Any,
    model: Any,
    recipes: Sequence[str] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[LeverOrderRow, ...]:
    """One row for every recipe, by default those shipped.

    ``model`` has seen none of `HOLD_OUT`. A recipe that cannot be composed on the parts, or of
    which too little was measured on both, is left out; ``note`` is told why.
    """
    from codesign.workload.recipe import list_recipes

    found = []
    for name in list_recipes() if recipes is None else recipes:
        note(f"lever order of {name}")
        try:
            found.append(lever_order(db, model, name))
        except (DataError, InsufficientDataError) as error:
            note(f"{name}: {error}")
    return tuple(found)


def lever_order(db: Any, model: Any, recipe: str) -> LeverOrderRow:
    """The levers of one recipe. Raises InsufficientDataError where too little was measured.

    Raises UsageError if the model has seen what it is to project without.
    """
    seen = sorted(set(HOLD_OUT) & set(model.trained_on))
    if seen:
        raise UsageError(f"lever order: the model was fitted on {', '.join(seen)}")
    chars: dict[str, Any] = {}
    evidence: list[LeverEvidence] = []
    shares = []
    for lever, before, after in PARTS:
        here, there = (_composed(chars, db, recipe, s) for s in (before, after))
        rows = shared_rows(here, there)
        shares.append(float(step_of(here).exposed_s[rows].sum()) / step_of(here).step_time_s)
        if shares[-1] < MIN_SHARE:
            raise InsufficientDataError(
                f"{shares[-1]:.0%} of the step was measured on both {before} and {after}, expected "
                f"at least {MIN_SHARE:.0%}"
            )
        if before == SYSTEM:
            base_char = restricted(here, rows)
        times = [step_of(restricted(c, rows)).step_time_s for c in (here, there)]
        pair = load_system(before), load_system(after)
        own = moved(*pair, lever)
        beside = evidence[0].measured * moved(*pair, "hbm_bandwidth") if evidence else 0.0
        evidence.append(LeverEvidence(
            lever, before, after, factor=float(np.exp(own)),
            measured=(float(np.log(times[0] / times[1])) - beside) / own,
            measured_sd=GAIN_NOISE_SD / own,
            projected=_projected(base_char, model, lever, float(np.exp(own))),
        ))  # fmt: skip
    ends = sorted({f"{100 * share:.0f}" for share in (min(shares), max(shares))}, key=float)
    note = f"scored on {' to '.join(ends)} % of the step"
    return ordered(recipe, evidence, tuple(model.trained_on), note)


def ordered(
    workload: str, evidence: Sequence[LeverEvidence], trained_on: tuple[str, ...], note: str = ""
) -> LeverOrderRow:
    """Levers by measured effect, and the decided pairs that the projection reverses."""
    ranked = sorted(evidence, key=lambda e: -e.measured)
    decided, wrong = 0, []
    for index, larger in enumerate(ranked):
        for smaller in ranked[index + 1 :]:
            if not told_apart(larger, smaller):
                continue
            decided += 1
            if larger.projected <= smaller.projected:
                wrong.append((larger.lever, smaller.lever))
    return LeverOrderRow(workload, SYSTEM, tuple(ranked), decided, tuple(wrong), trained_on, note)


def told_apart(larger: LeverEvidence, smaller: LeverEvidence) -> bool:
    """Whether what the parts showed of two levers differs by more than the noise of kernels."""
    noise = float(np.hypot(larger.measured_sd, smaller.measured_sd))
    return larger.measured - smaller.measured > DECIDED_Z * noise


def _composed(known: dict[str, Any], db: Any, recipe: str, system: str) -> Any:
    from codesign.sources.compose import compose
    from codesign.workload.recipe import load_recipe

    if system not in known:
        known[system] = compose(load_recipe(recipe), db, load_system(system))
    return known[system]


def moved(before: System, after: System, lever: str) -> float:
    """ln(after / before) of a lever; of the clock, that of SMs x clock."""
    names = ("sm_clock", "sm_count") if lever == "sm_clock" else (lever,)
    return float(sum(np.log(lever_value(after, n) / lever_value(before, n)) for n in names))


def _projected(char: Any, model: Any, lever: str, factor: float) -> float:
    """Elasticity on `SYSTEM` over the step that the part took."""
    base = load_system(SYSTEM)
    gain = project(char, model, [apply_lever(base, lever, factor)], 0, base=base).gain[0]
    return float(np.log(gain.value) / np.log(factor))
