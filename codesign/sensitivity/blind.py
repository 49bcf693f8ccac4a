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
    that the model has not seen gets that of ``source``, the part that was measured; else
    that of its silicon family, if the model was fitted on it; else the geometric mean over
    families: it is random among them, as a new family is, and errors are counted on the log.
    """
    if system.gpu.name in trained_on:
        return system
    if source is not None:
        return replace(system, launch_latency_s=source.launch_latency_s)
    families: dict[str, list[float]] = {}
    for gpu in trained_on:
        known = system_of_gpu(gpu)
        families.setdefault(family(known.gpu.architecture), []).append(known.launch_latency_s)
    means = {name: geometric_mean(values) for name, values in families.items()}
    if not means:
        return system
    own = means.get(family(system.gpu.architecture))
    return replace(system, launch_latency_s=own or geometric_mean(means.values()))
