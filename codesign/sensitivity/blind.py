"""What was known of a GPU before anyone measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from codesign.hardware import system_of_gpu
from codesign.hardware.model import System


def unmeasured(system: System, trained_on: Sequence[str], source: System | None = None) -> System:
    """``system`` as its data sheet alone describes it, for a backtest.

    The one quantity of the hardware library that is read off the part's own kernels is
    the launch latency: with it a backtest would know the floor of every small op. A part
    that the model has not seen gets that of ``source``, the part that was measured, or
    else the median of those that the model was fitted on.
    """
    if system.gpu.name in trained_on:
        return system
    if source is not None:
        return replace(system, launch_latency_s=source.launch_latency_s)
    known = [system_of_gpu(gpu).launch_latency_s for gpu in trained_on]
    return replace(system, launch_latency_s=median(known)) if known else system
