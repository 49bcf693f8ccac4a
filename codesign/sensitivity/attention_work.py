"""Shapes of attention ops: tiles, padded work and bytes, shared by prefill and decode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sensitivity.hardware_arrays import PRECISION_INDEX, Array, HardwareArrays
from codesign.sensitivity.op_model import numbers, strings

TILE = 128.0
"""Query rows and key columns of one tile: what current fused kernels work in."""
DECODE_MAX_Q = 8
"""Query tokens a sequence up to which a cached sequence is read as in decode."""
WINDOW_TILES = 1.5
"""Tiles beyond its window that a block of queries visits: the two ends straddle tiles."""
BACKWARD_WORK = 2.5
"""Five matrix products in the backward pass against two forward (Dao 2022, section 3)."""


@dataclass(frozen=True)
class AttentionShape:
    """Dims of attention rows as float arrays (ops,), nulls resolved."""

    batch: Array
    heads: Array
    kv_heads: Array
    q_len: Array
    kv_len: Array
    dim: Array
    dim_v: Array
    window: Array
    """Keys that a query sees at most; infinite without a window."""
    causal: NDArray[np.bool_]
    precision: NDArray[np.str_]
    kv_precision: NDArray[np.str_]
    backward: NDArray[np.bool_]


def shape_of(ops: pd.DataFrame) -> AttentionShape:
    """The dims of ``ops``; a null precision is bf16, a null ``kv_precision`` is its own."""
    dim = numbers(ops, "head_dim")
    dim_v = numbers(ops, "head_dim_v")
    precision = strings(ops, "precision", "bf16")
    kv_precision = strings(ops, "kv_precision")
    if "causal" in ops:
        causal = ops["causal"].fillna(value=True).to_numpy(dtype=np.bool_)
    else:
        causal = np.ones(len(ops), dtype=np.bool_)
    return AttentionShape(
        batch=numbers(ops, "batch", 1.0),
        heads=numbers(ops, "heads"),
        kv_heads=numbers(ops, "kv_heads"),
        q_len=numbers(ops, "q_len"),
        kv_len=numbers(ops, "kv_len"),
        dim=dim,
        dim_v=np.where(np.isnan(dim_v), dim, dim_v),
        window=numbers(ops, "window", np.inf),
        causal=causal,
        precision=precision,
        kv_precision=np.where(kv_precision == "", precision, kv_precision),
        backward=strings(ops, "phase") == "backward",
    )


def is_attention(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Rows of the class whose dims are known and whose count is positive."""
    dims = ("heads", "kv_heads", "q_len", "kv_len", "head_dim", "count")
    known = np.all([numbers(ops, name) > 0 for name in dims], axis=0)
    result: NDArray[np.bool_] = (strings(ops, "op_class") == "attention") & known
    return result


def is_decode(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Few query tokens against a longer cache: the cache is read once, split over SMs."""
    q_len, kv_len = numbers(ops, "q_len"), numbers(ops, "kv_len")
    result: NDArray[np.bool_] = (q_len <= DECODE_MAX_Q) & (kv_len > q_len)
    return result


def is_latent(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """MLA: query and value heads differ in size."""
    shape = shape_of(ops)
    result: NDArray[np.bool_] = shape.dim != shape.dim_v
    return result


def is_portable(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Kernels written in Triton: several times slower than each vendor's own on the same op."""
    names = strings(ops, "kernel")
    result: NDArray[np.bool_] = np.char.find(names, "triton") >= 0
    return result


def without_window(shape: AttentionShape, rows: NDArray[np.bool_]) -> AttentionShape:
    """``shape`` with all keys visible in ``rows``."""
    return replace(shape, window=np.where(rows, np.inf, shape.window))


def element_bytes(precision: NDArray[np.str_]) -> Array:
    """Bytes of one element by precision name."""
    sizes = {name: BYTES_PER_ELEMENT[name] for name in np.unique(precision)}
    return np.array([sizes[name] for name in precision], dtype=np.float64)


def precision_index(precision: NDArray[np.str_]) -> Array:
    """Index of `HardwareArrays.peaks_flops_per_s` by precision name."""
    return np.array([PRECISION_INDEX[name] for name in precision], dtype=np.float64)


def tiled_keys(shape: AttentionShape) -> tuple[Array, Array, Array]:
    """Query blocks of a head, key columns that they visit in all, and the longest visit.

    Columns are in whole tiles. A causal block ``i`` sees the keys up to its last row
    (lower-right aligned), a window leaves it one window and the tiles that it straddles.
    """
    blocks = np.ceil(shape.q_len / TILE)
    padded = np.ceil(shape.kv_len / TILE) * TILE
    cap = np.minimum(
        np.where(np.isfinite(shape.window), shape.window + WINDOW_TILES * TILE, np.inf), padded
    )
    before = np.maximum(padded - blocks * TILE, 0.0)
    # Block i (1 ... blocks) visits min(before + i * TILE, cap) columns: a ramp, then flat.
    ramp = np.clip(np.floor((cap - before) / TILE), 0.0, blocks)
    causal_sum = ramp * before + TILE * ramp * (ramp + 1) / 2 + (blocks - ramp) * cap
    columns = np.where(shape.causal, causal_sum, blocks * cap)
    longest = np.where(shape.causal, np.minimum(before + blocks * TILE, cap), cap)
    return blocks, columns, longest


EXP_PER_CLOCK_SM = 16.0
"""Exponentials that an SM's special-function units finish per clock (CUDA C++ Programming
Guide, throughput of native arithmetic, compute capability 8.0 to 10.0)."""
_FAST_EXP = {"blackwell-ultra": 32.0, "rubin": 32.0}
"""Doubled in Blackwell Ultra (NVIDIA, "Inside NVIDIA Blackwell Ultra": 10.7 against 5
tera-exponentials/s). Rubin is assumed to keep it."""
_SYNCHRONOUS = ("volta", "ampere", "ada", "blackwell-pro")
"""SMs whose tensor instructions take operands from registers and wait (mma.sync): no
warp-group or fifth-generation MMA, hence other kernels."""


def exp_per_clock_sm(hw: HardwareArrays) -> Array:
    """(systems, 1) exponentials per SM and clock."""
    rates = [_FAST_EXP.get(name, EXP_PER_CLOCK_SM) for name in hw.architectures]
    return np.asarray(rates, dtype=np.float64).reshape(-1, 1)


def synchronous(hw: HardwareArrays) -> NDArray[np.bool_]:
    """(systems, 1) whether the SMs lack asynchronous tensor instructions."""
    flags = [name in _SYNCHRONOUS for name in hw.architectures]
    return np.asarray(flags, dtype=np.bool_).reshape(-1, 1)


_TENSOR_MEMORY = ("blackwell", "blackwell-ultra", "rubin")
"""SMs whose tensor cores keep their accumulators in a memory of their own, not in registers
(fifth-generation MMA): blocks no longer fill the register file."""


def tensor_memory(hw: HardwareArrays) -> NDArray[np.bool_]:
    """(systems, 1) whether the SMs have tensor memory."""
    flags = [name in _TENSOR_MEMORY for name in hw.architectures]
    return np.asarray(flags, dtype=np.bool_).reshape(-1, 1)


def between(one: Array, other: Array, share: float | Array) -> Array:
    """``one`` at share 0, ``other`` at share 1, between them on the log scale."""
    result: Array = one * (other / one) ** share
    return result


def missed_in_l2(fill: Array) -> Array:
    """Share of bytes used again that comes from HBM, by their size over what L2 keeps.

    A set that fits stays; one that does not is evicted before it comes round again
    (least recently used), so the turn is sharp: an eighth power. Decode tables show it: a
    cache of 67 % of H100's L2 never reaches HBM, one of 134 % does wholly.
    """
    power = fill**8
    missed: Array = power / (1.0 + power)
    return missed
