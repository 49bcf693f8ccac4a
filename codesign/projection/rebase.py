"""A characterization as it would be on hardware that levers make of its own: a what-if baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codesign._common.errors import UsageError
from codesign.projection.projector import OpTimes, check_covered, held_rows, ratios_of
from codesign.projection.step import scale_step, step_of
from codesign.projection.transfer import is_same_silicon
from codesign.workload.characterization import Characterization
from codesign.workload.schema import ops_frame

if TYPE_CHECKING:
    from codesign.hardware.model import System

_MEASURED_ONLY = ("time_sd_s", "dram_bytes", "sm_percent", "dram_percent")
"""Columns that only a measurement of the hardware itself has."""


def rebase(
    char: Characterization, model: OpTimes, base: System, changed: System
) -> Characterization:
    """``char``, measured on ``base``, with the times that the model gives it on ``changed``.

    Each row's time is measured x model(changed) / model(base); what hides what, idle time and
    the pipeline bubble follow as in a projection. Rows whose time moves are "modelled", others
    keep their evidence. Steps, ranks, counters and conditions of the capture are left out: they
    are of hardware that is no longer the baseline. The same hardware leaves every time as it was.
    Raises UsageError where ``changed`` is another GPU than ``base`` or ``char`` was not measured
    on ``base``, InsufficientDataError where the model covers no op that has a time.
    """
    if not is_same_silicon(base, changed):
        raise UsageError(
            f"{changed.name}: expected {base.name} with levers; another GPU is a baseline of its "
            "own, measured or composed there"
        )
    if char.header.system not in (None, base.name):
        raise UsageError(
            f"workload {char.header.workload} was characterized on {char.header.system}, but the "
            f"baseline that is changed is {base.name}; characterize it there, or set the baseline"
        )
    step = step_of(char)
    check_covered(char, step, held_rows(model, char, base))
    ratio = ratios_of(model.times(char.ops, [base, changed]))[0]
    scaled = scale_step(step, ratio)
    ops = char.ops.copy()
    for column in ("time_s", "wait_s"):
        ops[column] = ops[column] * ratio
    ops["exposed_s"] = scaled.exposed_s
    windows = ops["overlap_window_s"].to_numpy(dtype=np.float64, na_value=np.nan).copy()
    windows[step.windowed] = scaled.window_s
    ops["overlap_window_s"] = windows
    moved = ~np.isclose(ratio, 1.0, rtol=1e-9)
    ops.loc[moved, "evidence"] = "modelled"
    ops.loc[moved, "source"] = f"{base.name} x model({changed.name}) / model({base.name})"
    ops[list(_MEASURED_ONLY)] = None
    return Characterization(char.header, ops_frame(ops)).with_header(
        system=changed.name, step_time_s=float(scaled.step_time_s), step_time_sd_s=None,
        bubble_s=float(scaled.bubble_s), idle_s=step.fixed_idle_s + float(scaled.bubble_s),
        steps=(), rank_times=(), totals={}, conditions={},
        notes=(*char.header.notes,
               f"what-if baseline: measured on {base.name}, moved by the model to {changed.name}"),
    )  # fmt: skip
