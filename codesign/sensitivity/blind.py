"""What was known of a GPU before anyone measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import geometric_mean

from codesign.hardware import system_of_gpu
from codesign.hardware.model import System
from codesign.sensitivity.hardware_arrays import family


def unmeasured(system: System, trained_on: Sequence[str], source: System | None = None) -> System:
    """``system`` as its data sheet alone describes it, for a backtest.

    The one quantity of the hardware library that is read off the part's own kernels is
    the launch latency: with it a backtest would know the floor of every small op. A part
    that the model has not seen gets that of its own silicon family: of ``source``, the part
    that was measured, if it is one of them, else of those that the model was fitted on. A part
    of a new family gets the geometric mean over all families that are known: it is random
    among them, and errors are counted on the log.
    """
    if system.gpu.name in trained_on:
        return system
    own = family(system.gpu.architecture)
    if source is not None and family(source.gpu.architecture) == own:
        return replace(system, launch_latency_s=source.launch_latency_s)
    known = {gpu: system_of_gpu(gpu) for gpu in trained_on}
    if source is not None:
        known[source.gpu.name] = source
    families: dict[str, list[float]] = {}
    for part in known.values():
        families.setdefault(family(part.gpu.architecture), []).append(part.launch_latency_s)
    means = {name: geometric_mean(values) for name, values in families.items()}
    if not means:
        return system
    latency_s = means.get(own) or geometric_mean(means.values())
    return replace(system, launch_latency_s=latency_s)
