"""Tiled matrix multiply on SMs: waves, tensor rate, operand feed, split-K.

One multiply is cut into output tiles; an SM works on one at a time, so a count of
tiles that does not fill the last wave wastes SMs. The kernel library picks the tile
that is fastest for the shape: here the best of `TILES` x `SPLITS`, evaluated on each
hardware on its own, so that an SM lever re-quantizes instead of scaling. The minimum
of functions that fall in every capability falls itself. Libraries that do not tune look
at the rows alone; `tuned_share` weighs that tile in (TensorRT-LLM fits 1.0, the CUTLASS
dispatch of vLLM and SGLang 0.3 to 0.5 in fp8).

A multiply of milliseconds, repeated as benchmarks and steps repeat it, meets the power limit:
parts with few watts for their rate and clock lose a part of the clock there, down to
(`clock_headroom` / `full_headroom`)^(1/3) where it lasts much longer than `sustained_s`.
A100 loses nothing, H100 and H200 a tenth, L40S and B200 a quarter and more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.op_model import POWER_CLOCK_EXPONENT, Terms

REFERENCE_CLOCK_HZ = 1.8e9
"""Clock at which fixed on-chip times are stated."""
TILES = ((64, 32), (64, 64), (128, 32), (128, 64), (64, 128), (128, 128), (128, 256), (256, 128))
FEW_ROWS, FEW_ROWS_TILE, USUAL_TILE = 64, (64, 64), (128, 128)
"""The tile of a library that looks at the rows alone: CUTLASS's dispatch in vLLM and SGLang."""
SPLITS = (1, 2, 4, 8, 16)
_SMALLEST_K = 128.0
"""Split-K slices shorter than this are not made."""
_NEVER_S = 1e6


@dataclass(frozen=True)
class Multiply:
    """A set of equal multiplies run together; each field is (ops,)."""

    m: Array
    n: Array
    k: Array
    groups: Array
    """Multiplies in one launch: batch, or experts hit."""
    in_bytes: Array
    """Bytes of an input element."""
    precision: Array
    """Index into PRECISIONS."""
    block_scaled: Array
    """1.0 where inputs carry a scale for each block of k."""


@dataclass(frozen=True)
class TileRates:
    """Fitted constants of the tile model, in natural units."""

    tensor_efficiency: float
    feed_bytes_per_clock_sm: float
    wave_s: float
    ceil_share: float
    split_s: float
    k_clocks: float
    l2_bytes_per_clock_sm: float
    overlap_p: float
    tuned_share: float
    """Weight of the fastest tile against the one that the rows alone would choose."""
    synchronous_share: float
    """Tensor efficiency of parts without asynchronous tensor instructions, over the others'."""
    full_headroom: float
    """`clock_headroom` from which a lasting multiply keeps the clock of the peak."""
    sustained_s: float
    """Kernel time at which half of the loss of clock is there."""
    software_scaling_share: float
    """Tensor efficiency where SMs rescale block-scaled sums, over that of the instructions."""


def memory_terms(bytes_unique: Array, heff: float, l2_share: float, rates: TileRates,
                 hw: HardwareArrays) -> tuple[Array, Array]:  # fmt: skip
    """(HBM seconds, L2 seconds) of moving ``bytes_unique`` once.

    What is repeated inside L2 does not reach HBM: the share that does rises from
    0 to 1 around a working set of ``l2_share`` of L2.
    """
    ratio = bytes_unique / (l2_share * hw.l2_capacity_bytes)
    squared = ratio * ratio
    missed = squared / (1.0 + squared)
    hbm_s = bytes_unique * missed / (heff * hw.hbm_bandwidth_bytes_per_s)
    l2_s = bytes_unique / (rates.l2_bytes_per_clock_sm * hw.sm_count * hw.boost_clock_hz)
    return hbm_s, l2_s


def tiled_terms(work: Multiply, rates: TileRates, memory_s: tuple[Array, Array],
                hw: HardwareArrays, detail: bool,
                splits: tuple[int, ...] = SPLITS) -> Terms:  # fmt: skip
    """Terms of the fastest tile: ``time`` and, if ``detail``, its ``tensor, feed, wave``.

    ``time`` is the p-norm of tensor, feed, HBM and L2 seconds plus the wave overheads.
    """
    p = rates.overlap_p
    clock = hw.boost_clock_hz
    slower = REFERENCE_CLOCK_HZ / clock
    reached = np.where(hw.asynchronous_mma > 0.0, 1.0, rates.synchronous_share)
    in_software = (work.block_scaled > 0.0) & (hw.block_scaled_mma <= 0.0)
    reached = reached * np.where(in_software, rates.software_scaling_share, 1.0)
    efficiency = rates.tensor_efficiency * reached
    per_flop_s = hw.sm_count / (hw.rate_flops_per_s(work.precision) * efficiency)
    per_flop_s = per_flop_s * hw.power_ratio**-POWER_CLOCK_EXPONENT
    per_k_s = rates.k_clocks / clock
    per_byte_s = 1.0 / (rates.feed_bytes_per_clock_sm * clock)
    memory_p = np.maximum(memory_s[0], 1e-15) ** p + memory_s[1] ** p
    partial_s = (
        8.0 * work.groups * work.m * work.n
        / (rates.l2_bytes_per_clock_sm * hw.sm_count * clock)
    )  # fmt: skip
    few = work.m <= FEW_ROWS
    best: Terms = {}
    usual: Terms = {}
    for tile_m, tile_n in TILES:
        tiles = np.ceil(work.m / tile_m) * np.ceil(work.n / tile_n) * work.groups
        operand = (np.minimum(work.m, tile_m) + np.minimum(work.n, tile_n)) * work.in_bytes
        on_k_s = 2.0 * tile_m * tile_n * per_flop_s + per_k_s
        feed_k_s = operand * per_byte_s
        per_k_p = on_k_s**p + feed_k_s**p
        for split in splits:
            fraction = tiles * split / hw.sm_count
            waves = rates.ceil_share * np.ceil(fraction)
            waves = waves + (1.0 - rates.ceil_share) * np.maximum(fraction, 1.0)
            slice_k = np.ceil(work.k / split)
            steps = waves * slice_k
            wave_s = waves * (rates.wave_s * slower)
            if split > 1:
                wave_s = wave_s + rates.split_s * slower + split * partial_s
                wave_s = wave_s + np.where(slice_k < _SMALLEST_K, _NEVER_S, 0.0)
            time_s = (steps**p * per_k_p + memory_p) ** (1.0 / p) + wave_s
            candidate = {"time": time_s}
            if detail:
                candidate |= {"tensor": steps * on_k_s, "feed": steps * feed_k_s, "wave": wave_s}
            best = _faster(best, candidate)
            if split == 1 and (tile_m, tile_n) == FEW_ROWS_TILE:
                usual = candidate
            elif split == 1 and (tile_m, tile_n) == USUAL_TILE:
                usual = {name: np.where(few, usual[name], value)
                         for name, value in candidate.items()}  # fmt: skip
    ideal_s = 2.0 * work.groups * work.m * work.n * work.k * per_flop_s / hw.sm_count
    for terms in (best, usual):
        terms["time"] = terms["time"] + throttled_s(terms["time"], ideal_s, rates, hw)
    share = rates.tuned_share
    if not detail:
        return {"time": best["time"] ** share * usual["time"] ** (1.0 - share)}
    return {name: share * value + (1.0 - share) * usual[name] for name, value in best.items()} | {
        "time": best["time"] ** share * usual["time"] ** (1.0 - share)
    }


def throttled_s(time_s: Array, tensor_s: Array, rates: TileRates, hw: HardwareArrays) -> Array:
    """Seconds that the power limit adds to a kernel of ``time_s``, ``tensor_s`` of it multiplies.

    Power goes as frequency x voltage^2 and voltage as frequency, so the clock that is held goes
    with the cube root of the watts there are: what multiplies then take beyond the kernel's time.
    The kernel never gets slower as either time falls, nor as rates grow without more watts.
    """
    slower = np.maximum(rates.full_headroom / hw.clock_headroom, 1.0) ** POWER_CLOCK_EXPONENT
    lasting = time_s / (time_s + rates.sustained_s)
    added: Array = np.maximum(slower * tensor_s - time_s, 0.0) * lasting
    return added


def _faster(best: Terms, candidate: Terms) -> Terms:
    if not best:
        return candidate
    if len(candidate) == 1:
        return {"time": np.minimum(best["time"], candidate["time"])}
    wins = candidate["time"] < best["time"]
    return {name: np.where(wins, value, best[name]) for name, value in candidate.items()}
