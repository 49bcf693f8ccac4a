"""BF16 GEMMs that could multiply in FP8, MXFP8 or NVFP4, the cast of activations paid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.model import BYTES_PER_ELEMENT, PEAK_OF_PRECISION
from codesign.recommend.software.draft import Draft, shrunk
from codesign.recommend.software.look import Array, Look, Mask
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent
from codesign.workload.accounting import add_work

LEAST_SHARE = 0.01
WIDE = ("bf16", "fp16")
KEPT = r"lm_head|logits|router|gate_proj_router|embed|classifier"
"""Names of GEMMs that are kept in BF16 for accuracy, as published FP8 recipes do."""
DIM_STEP = {"fp8": 16, "mxfp8": 32, "nvfp4": 32}
"""k and n must be multiples of it: 16-byte loads, whole scaling blocks."""
ARCHITECTURES = {
    "fp8": ("hopper", "ada", "blackwell", "cdna3", "cdna4"),
    "mxfp8": ("blackwell", "cdna4"), "nvfp4": ("blackwell",),
}  # fmt: skip
"""Families whose tensor cores take the format; a software emulation does not count."""


def narrower(target: str) -> Callable[[Look], Draft | str | None]:
    """The rule for one format."""
    return lambda look: narrow_gemms(look, target)


def narrow_gemms(look: Look, target: str) -> Draft | str | None:
    """BF16 GEMMs of weights that the format makes faster, the cast of activations included.

    At stake is their time; the bound is the model's ratio of the two precisions on this GPU,
    op by op. Ops that would lose by the cast stay as they are.
    """
    wide = look.of_class("gemm", "grouped_gemm") & np.isin(look.text("precision"), WIDE)
    if float(look.step.exposed_s[wide].sum()) < LEAST_SHARE * look.step_s:
        return None
    rows = np.flatnonzero(wide & _fits(look, target))
    if not rows.size:
        return None
    slow = _no_faster(look, target)
    if slow is not None:
        return slow or None
    ops = look.ops.iloc[rows]
    recast = add_work(ops.assign(precision=target, bytes=float("nan")))
    before, after = look.modelled(ops), look.modelled(recast)
    if before is None or after is None or not np.isfinite(after / before).any():
        return f"no model tells what a {target} GEMM takes with the cast of its activations"
    ratio = np.where(np.isfinite(after / before), after / before, 1.0)
    gains = ratio < 1.0
    rows, ratio = rows[gains], ratio[gains]
    at_stake = float(look.step.exposed_s[rows].sum())
    bound = float((look.step.exposed_s[rows] * ratio).sum())
    if at_stake - bound < LEAST_SHARE * look.step_s:
        return None
    cast = _cast_s(look, rows, target)
    return Draft(
        shrunk(look, rows, ratio), rows,
        f"GEMMs of {seconds(at_stake)} ({percent(at_stake / look.step_s)} of the step) multiply in "
        f"BF16 or FP16 with dims that {target.upper()} takes: {ops_in_words(look, rows)}",
        at_stake, bound,
        f"the fitted model's {target.upper()} time over its time now, op by op; the cast of the "
        f"activations is in it, {seconds(cast)} at the least by HBM alone; ops that the cast "
        "would slow down stay",
    )  # fmt: skip


def _no_faster(look: Look, target: str) -> str | None:
    """Why the format gains nothing on this part; None if it multiplies faster than BF16 in it.

    Empty where its instructions do not take the format, whose rate it may have for another.
    """
    gpu, key = look.base.gpu, PEAK_OF_PRECISION[target]
    narrow, own = look.peak(target), look.peak("bf16") or look.peak("fp16")
    if narrow is None:
        return (
            f"{gpu.name} has no dense {key.upper()} peak (peak_dense.{key} of its spec): nothing "
            f"multiplies faster in {target.upper()} on it"
        )
    if own is not None and narrow <= own * 1.01:
        return (
            f"{gpu.name} multiplies in {key.upper()} at its BF16 rate: {target.upper()} gains x1.00"
        )
    takes = own is not None and gpu.architecture.startswith(ARCHITECTURES[target])
    return None if takes else ""


def _fits(look: Look, target: str) -> Mask:
    """(ops,) weights of whole blocks, not kept wide for accuracy; batched GEMMs have none."""
    step = DIM_STEP[target]
    fits = ~look.named(KEPT) & (look.number("batch", 1.0) <= 1)
    for column in ("n", "k"):
        dim = look.number(column, 0.0)
        fits &= (dim > 0) & (dim % step == 0)
    return np.asarray(fits & (look.number("m", 0.0) > 0))


def _cast_s(look: Look, rows: NDArray[np.intp], target: str) -> float:
    """Seconds of reading (m, k) in BF16 and writing it narrow, once a call."""
    size = look.number("m")[rows] * look.number("k")[rows] * look.number("count", 1.0)[rows]
    moved: Array = size * (BYTES_PER_ELEMENT["bf16"] + BYTES_PER_ELEMENT[target])
    return float(moved.sum()) / look.base.gpu.hbm_bandwidth_bytes_per_s
