"""What a capture leaves open of every gain: time that no projection moves, or that is unsure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codesign.projection.kernels import other_kernels
from codesign.recommend.wording import percent
from codesign.workload.notes import is_unnamed, recorded_elsewhere

if TYPE_CHECKING:
    from codesign.projection import Projection
    from codesign.recommend.study import Evaluation, Study
    from codesign.workload.characterization import Header, Quality

LEAST_HELD = 0.1
"""Share of a step from which time that is not projected, or not reliable, is told at the head."""
LEAST_IDLE = 0.3
"""Share of a step from which idle time is told, though it is reliable."""


def capture_warnings(study: Study, evaluation: Evaluation) -> list[str]:
    """A line for each fault of a workload's capture that touches the gains of all levers.

    A gain that is small since nothing could be projected, or since the device waited for the
    host, reads like a lever that is not worth it: the reader has to be told.
    """
    found: list[str] = []
    for name, weight in study.weights.items():
        if weight > 0:
            header = study.chars[name].header
            said = _of_header(header, study.base.title or study.base.name)
            said += other_kernels(header, study.model)
            said += _of_step(header.quality, evaluation.projections[name])
            found += [f"{name}: {text}" for text in said]
    return found


def other_device(header: Header) -> str:
    """The device that a capture was made on if the system stated is of another; else empty."""
    return next(filter(None, map(recorded_elsewhere, header.quality.warnings)), "")


def _of_header(header: Header, baseline: str) -> list[str]:
    found = []
    quality = header.quality
    if header.system is None or any(map(is_unnamed, header.notes)):
        found.append(f"its capture does not name the GPU; it is taken to be that of {baseline}")
    if not quality.complete:
        found.append("its input was cut short: the step is that of what could be read")
    whys = dict.fromkeys(_why(quality, q) for q in ("steps", "step_time"))
    unsure = [why for why in whys if why]
    if unsure:
        found.append(f"its step is not reliable ({'; '.join(unsure)}), nor is any gain of it")
    return found


def _of_step(quality: Quality, projection: Projection) -> list[str]:
    found = []
    idle, held = projection.idle_share, projection.held_share
    why = _why(quality, "idle")
    if why and idle >= LEAST_HELD:
        found.append(
            f"idle time, {percent(idle)} of its step, is not measured reliably by its capture "
            f"({why}): with less of it every lever gains more"
        )
    elif idle >= LEAST_IDLE:
        found.append(
            f"the device is idle for {percent(idle)} of its step, which no lever shortens: what "
            "software can do about it comes first"
        )
    if held >= LEAST_HELD:
        found.append(
            f"the model has no say on ops that take {percent(held)} of its step; they keep their "
            "time, and what a lever would do to them is in no gain"
        )
    return found


def _why(quality: Quality, quantity: str) -> str:
    """Why a quantity is not reliable; empty where it is."""
    if quality.reliable(quantity):
        return ""
    return "; ".join(quality.reliability[quantity].reasons) or "the capture does not tell"
