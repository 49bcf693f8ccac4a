"""What a reader must know before acting: doubts, and which gains rest on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from codesign.projection import portfolio_gain, project
from codesign.projection.step import scale_step, step_of
from codesign.recommend.carriers import saved_shares
from codesign.recommend.rank import NOTHING, Pick
from codesign.recommend.wording import inside, joined, percent
from codesign.workload.characterization import Characterization

if TYPE_CHECKING:
    from codesign.recommend.study import Evaluation, Study
    from codesign.workload.caveat import Caveat

Array = NDArray[np.float64]

RESTS_ON = 0.2
"""A gain rests on ops that carry at least this part of the time it saves."""
MODEL_GAP = 0.10
"""Gap between the step as measured and as modelled above which the report warns."""
_RELIES = {
    "launch_latency": ("idle", "launch"), "nvlink_bandwidth": ("exposed",),
    "nvlink_domain": ("exposed",), "scaleout_bandwidth": ("exposed",),
}  # fmt: skip
"""Quantities of a characterization's quality block that a lever's gain needs."""
_QUANTITIES = {
    "idle": "idle time", "launch": "launch times", "exposed": "how much communication is exposed",
}  # fmt: skip
ASSUMED_INTERVAL = (
    "its effect is assumed, and its interval covers only what is modelled: whether the assumption "
    "holds is not in it"
)
_HEATS = ("sm_count", "sm_clock", "bf16_throughput", "fp8_throughput", "fp4_throughput")


@dataclass(frozen=True)
class Doubt:
    """One doubt, and the levers whose gain rests on it, each with what it says of it."""

    text: str
    levers: tuple[tuple[str, str, str], ...]
    """(lever, title, how much of its gain)"""

    def warning(self, worthwhile: Collection[str]) -> str:
        """For the head of the report; empty if no lever of ``worthwhile`` rests on it."""
        named = [(title, how) for lever, title, how in self.levers if lever in worthwhile]
        rests = joined([f"{inside(title)} ({how})" for title, how in named])
        return f"{self.text}. On it rests the gain of {rests}" if named else ""


def doubts(study: Study, evaluation: Evaluation, picks: Sequence[Pick]) -> list[Doubt]:
    """Every doubt that touches a lever with a gain, those about measurements first."""
    gaining = _gaining(picks)
    shares = {p.result.lever: saved_shares(study, evaluation, p.index) for p in gaining}
    found: list[Doubt] = []
    for name in study.weights:
        for caveat in study.chars[name].header.caveats:
            doubt = _caveat(study, evaluation, gaining, shares, name, caveat)
            found += [doubt] if doubt.levers else []
    found += _unreliable(study, gaining, shares)
    return found


def _gaining(picks: Sequence[Pick]) -> list[Pick]:
    return [p for p in picks if p.group != NOTHING and p.point is not None]


def worthwhile(study: Study, picks: Sequence[Pick]) -> set[str]:
    """Levers that gain enough for a doubt about them to matter."""
    least = study.portfolio.min_gain
    return {p.result.lever for p in _gaining(picks) if p.point and p.point.gain.value - 1 >= least}


def _caveat(
    study: Study, evaluation: Evaluation, gaining: Sequence[Pick],
    shares: dict[str, dict[str, Array]], name: str, caveat: Caveat,
) -> Doubt:  # fmt: skip
    char = study.chars[name]
    meant = np.array([caveat.concerns(str(op)) for op in char.ops["name"]], dtype=bool)
    resting = []
    for chosen in gaining:
        share = float(shares[chosen.result.lever][name][meant].sum())
        if share < RESTS_ON:
            continue
        left = _without(study, evaluation, chosen, name, np.where(meant, 1 - caveat.share, 1.0))
        assert chosen.point is not None
        how = (
            f"{percent(share)} of the time it saves; x{left:.3f} instead of "
            f"x{chosen.point.gain.value:.3f} if that time is not there"
        )
        resting.append((chosen.result.lever, chosen.result.title, how))
    return Doubt(f"{name}: {caveat.text}", tuple(resting))


def _without(study: Study, evaluation: Evaluation, chosen: Pick, name: str, kept: Array) -> float:
    """Portfolio gain if the ops of one workload took only ``kept`` (ops,) of their time."""
    reduced = _scaled(study.chars[name], kept)
    system = evaluation.systems[chosen.index]
    gains = evaluation.point_gains(chosen.index)
    other = project(reduced, study.model, [system], None, base=study.base)
    gains[name] = float(other.gain_draws[0, 0])
    values = [np.array([gains[workload]]) for workload in study.weights]
    return float(portfolio_gain(list(study.weights.values()), values)[0])


def _scaled(char: Characterization, kept: Array) -> Characterization:
    """The characterization with the time of each op multiplied, and what hides it as it was."""
    step = step_of(char)
    scaled = scale_step(step, kept)
    header = msgspec.structs.replace(
        char.header, step_time_s=float(scaled.step_time_s), bubble_s=float(scaled.bubble_s),
        idle_s=float(scaled.bubble_s) + step.fixed_idle_s,
    )  # fmt: skip
    return Characterization(
        header, char.ops.assign(time_s=step.time_s * kept, exposed_s=scaled.exposed_s)
    )


def _unreliable(
    study: Study, gaining: Sequence[Pick], shares: dict[str, dict[str, Array]]
) -> list[Doubt]:
    """Levers whose gain needs what the capture does not measure reliably."""
    resting: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for chosen in gaining:
        lever = chosen.result.lever
        weak: dict[tuple[str, str], float] = {}
        for name in study.weights:
            found: dict[str, list[str]] = {}
            for quantity in _RELIES.get(lever, ()):
                entry = study.chars[name].header.quality.reliability.get(quantity)
                if entry is not None and not entry.reliable:
                    why = "; ".join(entry.reasons) or "the capture does not tell"
                    found.setdefault(why, []).append(_QUANTITIES[quantity])
            for why, quantities in found.items():
                key = (joined(quantities), why)
                weak[key] = weak.get(key, 0.0) + float(shares[lever][name].sum())
        for key, share in weak.items():
            if share >= RESTS_ON:
                whole = "all" if share >= 0.995 else percent(share)
                resting.setdefault(key, []).append(
                    (lever, chosen.result.title, f"{whole} of the time it saves")
                )
    return [
        Doubt(f"not measured: {what} ({why})", tuple(levers))
        for (what, why), levers in resting.items()
    ]


def general_warnings(
    study: Study, evaluation: Evaluation, picks: Sequence[Pick], modelled: dict[str, float]
) -> list[str]:
    """What holds for whole workloads or kinds of levers.

    ``modelled``: step time by the fitted model / step time, by workload.
    """
    matters = worthwhile(study, picks)
    gaining = [p for p in picks if p.result.lever in matters]
    found = []
    for name, ratio in modelled.items():
        if abs(ratio - 1) > MODEL_GAP:
            found.append(_gap(study, evaluation, gaining, name, ratio))
    assumed = [inside(p.result.title) for p in gaining if p.result.status == "assumed"]
    if assumed:
        one = len(assumed) == 1
        gain, rank = ("it gains", "it ranks") if one else ("they gain", "they rank")
        found.append(
            f"no measurement varies {joined(assumed)}: what {gain} is an assumption, so {rank} "
            f"behind what was measured, whatever {gain}"
        )
    found += _composed(study, gaining)
    for chosen in gaining:
        if chosen.point is not None and chosen.point.cost is not None and chosen.point.cost.note:
            step = f"{chosen.result.title} at {chosen.point.label}"
            found.append(f"{step} {chosen.point.cost.note}")
    return found


def _gap(
    study: Study, evaluation: Evaluation, gaining: Sequence[Pick], name: str, ratio: float
) -> str:
    step_s = sum(study.chars[name].ops["exposed_s"]) + study.chars[name].header.idle_s
    resting = []
    for chosen in gaining:
        share = float(saved_shares(study, evaluation, chosen.index)[name].sum())
        if share >= 0.5:  # Nearly every lever leans on every workload a little.
            resting.append(f"{inside(chosen.result.title)} ({percent(share)} of the time it saves)")
    lean = f". On it rests the gain of {joined(resting)}" if resting else ""
    return (
        f"{name}: the fitted model puts the step of {step_s:.4g} s at {step_s * ratio:.4g} s "
        f"({(ratio - 1) * 100:+.0f} %); its gains lean on the model's ratios alone{lean}"
    )


def _composed(study: Study, gaining: Sequence[Pick]) -> list[str]:
    """One line where workloads were put together from single kernels."""
    how: dict[str, list[str]] = {}
    present = [name for name, weight in study.weights.items() if weight > 0]
    for name in present:
        header = study.chars[name].header
        if header.capture_method == "composed":
            how.setdefault(header.assumptions.get("kernel times", ""), []).append(name)
    heats = [inside(p.result.title) for p in gaining if p.result.lever in _HEATS]
    clock = (
        f"; {joined(heats)} would draw more power and {'is' if len(heats) == 1 else 'are'} "
        "projected at the same clock"
        if heats else ""
    )  # fmt: skip
    whole = len(present)
    return [
        f"{_counted(len(names), whole)} composed from kernel times{f', {text}' if text else ''}; "
        f"no end-to-end run is among them{clock}"
        for text, names in how.items()
    ]


def _counted(some: int, whole: int) -> str:
    """``all 7 workloads are``, ``1 of 7 workloads is``, ``the workload is``."""
    if whole == 1:
        return "the workload is"
    count = f"all {whole}" if some == whole else f"{some} of {whole}"
    return f"{count} workloads {'is' if some == 1 else 'are'}"
