"""GEMMs that take longer than their shape needs: alignment, tiles and waves, old kernels."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.recommend.software.draft import Draft, shrunk
from codesign.recommend.software.look import Array, Look
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import joined, percent

SLOWER = 1.25
"""Measured time over the attainable from which a GEMM counts as slow: twice what the model
misses a shape by at the median."""
PEER_SHARE = 0.05
"""Share of all GEMM time that a peer must have to set the bound: no fluke does."""
PEER_INTENSITY = 4.0
"""Peers do at most this many times more or fewer FLOPs a byte."""
LEAST_SHARE = 0.01
ALIGNED_BYTES = 16
"""Tensor-core kernels load operands 16 bytes at a time; other rows need narrower loads."""
_ALIGN = re.compile(r"align(\d+)")
_TILE = re.compile(r"(?:tilesize|_|MT)(\d{2,3})x(\d{2,3})")
NARROW = ("bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4", "int8", "tf32")


def slow_gemms(look: Look) -> Draft | str | None:
    """Tensor-core GEMMs over `SLOWER` times the attainable time of their shape."""
    known = look.of_class("gemm") & np.isin(look.text("precision"), NARROW)
    for column in ("m", "n", "k", "flops"):
        known &= look.number(column, 0.0) > 0
    known &= (look.step.time_s > 0) & (look.step.exposed_s > 0)
    rows = np.flatnonzero(known)
    if not rows.size:
        return None
    bound, how = attainable(look, rows)
    if bound is None:
        return None if not _worth(look, rows) else how
    slow = look.step.time_s[rows] > SLOWER * bound
    rows, bound = rows[slow], bound[slow]
    ratio = bound / look.step.time_s[rows]
    excess = look.step.exposed_s[rows] * (1.0 - ratio)
    matters = excess >= 0.01 * excess.sum()
    rows, ratio = rows[matters], ratio[matters]
    at_stake = float(look.step.exposed_s[rows].sum())
    least = float((look.step.exposed_s[rows] * ratio).sum())
    if at_stake - least < LEAST_SHARE * look.step_s:
        return None
    causes = _causes(look, rows, 1.0 - ratio)
    return Draft(
        shrunk(look, rows, ratio), rows,
        f"GEMMs of {seconds(at_stake)} ({percent(at_stake / look.step_s)} of the step) take "
        f"{at_stake / least:.2g} times the attainable: {ops_in_words(look, rows)}; seen: "
        f"{joined(causes) if causes else 'no cause in dims or kernel names'}",
        at_stake, least, how,
        confidence=None if causes else "low",
    )  # fmt: skip


def _worth(look: Look, rows: NDArray[np.intp]) -> bool:
    return float(look.step.exposed_s[rows].sum()) >= LEAST_SHARE * look.step_s


def attainable(look: Look, rows: NDArray[np.intp]) -> tuple[Array | None, str]:
    """(rows,) seconds per step that the shapes can take, and how that is known.

    The fitted model's time where it covers the precision; else the best peer of the class:
    the highest share of the roofline that a GEMM of like intensity reaches. None where
    neither is there, with the reason. Never under the roofline itself.
    """
    roof = look.roofline_s()[rows]
    modelled = look.modelled(look.ops.iloc[rows])
    if modelled is not None and np.isfinite(modelled).all():
        text = "the fitted model's time of these shapes on this GPU, tiles and waves included"
        return np.fmax(modelled, roof), text
    reached = roof / look.step.time_s[rows]
    usable = np.isfinite(reached) & (reached <= 1.0)
    share = look.step.time_s[rows] / look.step.time_s[rows].sum()
    peers = np.flatnonzero(usable & (share >= PEER_SHARE))
    if peers.size < 2:
        return None, "neither the model nor two GEMMs of some weight set a bound for these GEMMs"
    intensity = (look.number("flops") / look.number("bytes"))[rows]
    best = np.full(len(rows), np.nan)
    for i in np.flatnonzero(usable):
        apart = np.abs(np.log(intensity[peers] / intensity[i])) <= math.log(PEER_INTENSITY)
        if apart.any():
            best[i] = max(float(reached[peers[apart]].max()), float(reached[i]))
    bound = np.where(np.isfinite(best), roof / best, look.step.time_s[rows])
    return bound, (
        "the share of the roofline that the best GEMM of like intensity reaches in this capture"
    )


def _causes(look: Look, rows: NDArray[np.intp], gap: Array) -> list[str]:
    """What dims and kernel names show, for a tenth of the excess time or more."""
    excess = look.step.exposed_s[rows] * gap
    weight: dict[str, float] = {}
    for i, value in zip(rows, excess, strict=True):
        for cause in causes(look, int(i)):
            weight[cause] = weight.get(cause, 0.0) + float(value)
    total = float(excess.sum())
    ordered = sorted(weight.items(), key=lambda item: (-item[1], item[0]))
    return [f"{cause} ({percent(w / total)} of the excess)" for cause, w in ordered
            if w >= 0.1 * total]  # fmt: skip


def causes(look: Look, index: int) -> list[str]:
    """What keeps one GEMM from its bound, as far as its dims and kernel show."""
    kernel = str(look.text("kernel")[index])
    m, n, k = (int(look.number(c)[index]) for c in "mnk")
    width = BYTES_PER_ELEMENT[str(look.text("precision")[index])]
    found = []
    step = max(int(ALIGNED_BYTES // width), 1)
    align = _ALIGN.search(kernel)
    odd = sorted({d for d in (m, n, k) if d % step})
    if align is not None and int(align[1]) * width < ALIGNED_BYTES:
        verb = "are no multiples" if len(odd) > 1 else "is no multiple"
        dims = f"; {joined([str(d) for d in odd])} {verb} of {step}" if odd else ""
        found.append(f"loads of {int(align[1]) * width:g} bytes (align{align[1]}{dims})")
    if "hopper" in look.base.gpu.architecture and re.search(r"cutlass_(75|80)_|ampere|turing",
                                                            kernel):  # fmt: skip
        found.append("kernels of an older architecture")
    tile = _TILE.search(kernel)
    if tile is not None:
        found += _quantization(look, (m, n), (int(tile[1]), int(tile[2])), index)
    return found


def _quantization(
    look: Look, dims: tuple[int, int], tile: tuple[int, int], index: int
) -> list[str]:
    batch = max(look.number("batch", 1.0)[index], 1.0)
    tiles = math.ceil(dims[0] / tile[0]) * math.ceil(dims[1] / tile[1])
    used = dims[0] * dims[1] / (tiles * tile[0] * tile[1])
    waves = tiles * batch / look.base.gpu.sm_count
    found = []
    if used < 0.75:
        found.append("tiles that hang over the edge of the output")
    if waves <= 0.5:
        found.append("fewer tiles than half the SMs: batch more rows")
    elif waves < 6 and waves / math.ceil(waves) < 0.75:
        found.append("a last wave of tiles that leaves SMs idle")
    return found
