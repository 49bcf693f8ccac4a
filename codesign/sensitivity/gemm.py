"""GEMM: (m, k) x (k, n), in any precision that a tensor core takes.

    time = launch + overhead / clock + host
         + min over tiles of [p-norm(tensor, feed, HBM, L2) + waves]
         + quantizing the activations (narrow precisions)

See `tiles` for the bracket. Narrow-precision tables time the op as a framework runs it,
with the cast of its bf16 activations; that pass reads and writes m x k and is memory-bound.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sensitivity.hardware_arrays import PRECISION_INDEX, Array, HardwareArrays
from codesign.sensitivity.op_model import (
    ON_CHIP,
    Features,
    OpModel,
    Parameter,
    Terms,
    mapped,
    numbers,
    strings,
)
from codesign.sensitivity.tiles import (
    REFERENCE_CLOCK_HZ,
    Multiply,
    TileRates,
    memory_terms,
    tiled_terms,
)

OUT_BYTES = 2.0
"""Outputs leave in bf16 whatever the inputs are."""
QUANTIZED = ("fp8", "fp8_block", "mxfp8", "nvfp4", "int8")
BLOCK_SCALED = ("fp8_block", "mxfp8", "nvfp4")
ROW_SCALED = ("fp8", "int8")
"""Casts that look for the largest value of a row or tensor first; blocks are cast in passing."""
FALLBACKS = {
    "fp16": ("bf16",), "tf32": ("bf16",), "fp32": ("tf32", "bf16"), "fp64": ("bf16",),
    "fp8": ("bf16",), "fp8_block": ("fp8", "bf16"), "mxfp8": ("fp8_block", "fp8", "bf16"),
    "nvfp4": ("fp8", "bf16"), "int8": ("fp8", "bf16"),
}  # fmt: skip

TILE_PARAMETERS = (
    Parameter("launches", 0.9, 0.7, 1.3, "launch latencies in the fixed time", prior_sd=0.2),
    Parameter("overhead_s", 4e-7, 1e-9, 3e-6, "fixed on-chip time at 1.8 GHz", prior_sd=1.0),
    Parameter("host_s", 1e-7, 1e-9, 4e-5, "fixed time that no lever of the GPU moves"),
    Parameter("tensor_efficiency", 0.85, 0.1, 1.0, "reached share of the dense peak", prior_sd=0.2),
    Parameter("feed_bytes_per_clock_sm", 256.0, 100.0, 2000.0,
              "operand bytes an SM takes per clock", prior_sd=0.7),
    Parameter("wave_s", 5e-7, 1e-9, 5e-6, "fixed time of a wave at 1.8 GHz", prior_sd=1.0),
    Parameter("ceil_share", 0.4, 0.05, 1.0, "weight of whole waves against fractional ones",
              prior_sd=0.7),
    # Published STREAM triads: 83 to 89 % of the datasheet on A100, H100 and H200. Without
    # this prior, A100 against H100 alone cannot tell HBM from what scales with the SMs.
    Parameter("hbm_efficiency", 0.87, 0.5, 1.0, "reached share of HBM bandwidth", prior_sd=0.05),
    Parameter("l2_share", 0.1, 0.02, 1.0, "share of L2 whose working set repeats", prior_sd=1.0),
    Parameter("split_s", 2e-6, 1e-8, 2e-5, "fixed time of a split-K reduction", prior_sd=1.0),
    Parameter("overlap_p", 2.5, 1.3, 8.0, "p of the norm over resources", prior_sd=0.3),
    Parameter("l2_bytes_per_clock_sm", 80.0, 16.0, 500.0, "L2 bytes an SM takes per clock",
              prior_sd=0.3),
    Parameter("k_clocks", 1.0, 0.01, 5.0, "clocks per step of k beside the multiply",
              prior_sd=0.7),
    Parameter("write_cost", 1.0, 0.5, 3.0, "cost of a written byte over a read one", prior_sd=0.3),
    Parameter("quantize_passes", 1.0, 0.02, 20.0, "HBM passes of the activation cast"),
    Parameter("quantize_clocks", 0.02, 1e-5, 2.0, "SM clocks per activation byte cast",
              prior_sd=2.0),
    Parameter("quantize_s", 3e-6, 1e-8, 5e-5, "fixed time of the cast; no lever moves it"),
    Parameter("synchronous_share", 0.9, 0.3, 1.1, "tensor efficiency of parts whose tensor "
              "instructions are synchronous, over that of the others", prior_sd=0.3),
    Parameter("tuned_share", 0.9, 0.0, 1.0, "weight of the fastest tile against the usual one",
              log=False, prior_sd=0.3),
    Parameter("software_scaling_share", 0.8, 0.3, 1.0, "tensor efficiency where the SMs rescale "
              "block-scaled sums, over that of scaling instructions", prior_sd=0.3),
    Parameter("quantize_row_clocks", 100.0, 0.1, 5e3, "SM clocks per row cast", prior_sd=1.5),
    Parameter("full_headroom", 1.3, 0.3, 4.0, "watts over those at full rate and clock (H100: 1) "
              "from which lasting multiplies keep the clock", prior_sd=0.3),
    Parameter("sustained_s", 2e-3, 5e-5, 0.2, "kernel time at which half of the lost clock is lost",
              prior_sd=1.0),
)  # fmt: skip

LENT = frozenset({
    "tensor_efficiency", "feed_bytes_per_clock_sm", "ceil_share", "l2_share", "overlap_p",
    "l2_bytes_per_clock_sm", "k_clocks", "tuned_share",
})  # fmt: skip
"""Rates of the multiply itself. Where SMs rescale the sums of each block, as on Hopper, that work
is in them all; a part whose instructions scale (Blackwell) does without. What such a part reaches
is then best known from BF16: of all multiplies the one that is timed alone, without a cast."""
_IS_LENT = np.array([p.name in LENT for p in TILE_PARAMETERS])


class TiledModel(OpModel):
    """What multiplies on tiles have in common: a subclass gives the op's shape and its time."""

    reads: ClassVar[frozenset[str]] = ON_CHIP
    dims: ClassVar[tuple[str, ...]]
    """Columns that a row needs to be covered."""

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows of the class with `dims`, precision and count."""
        known = numbers(ops, "count") > 0
        for column in self.dims:
            known &= numbers(ops, column) > 0
        known &= np.isin(strings(ops, "precision"), list(PRECISION_INDEX))
        return known & np.isin(strings(ops, "op_class"), self.op_classes)

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """``tensor, l2, hbm, launch, wave, quantize, host`` and their combined ``time``."""
        return self.evaluate(theta, features, hw, detail=True)

    def combine(self, theta: Array, terms: Terms) -> Array:  # noqa: ARG002
        """The tile choice has combined them already."""
        return terms["time"]

    def times(self, theta: Array, features: Features, hw: HardwareArrays) -> Array:
        """As the combined terms, without keeping those of the winning tile."""
        return self.evaluate(theta, features, hw, detail=False)["time"]

    @abstractmethod
    def evaluate(self, theta: Array, f: Features, hw: HardwareArrays, detail: bool) -> Terms:
        """``time`` of one call, with what it is made of if ``detail``."""


def precision_features(ops: pd.DataFrame) -> Features:
    """Element size, peak, and how the inputs are cast and scaled, of each row's precision."""
    precision = strings(ops, "precision")
    return {
        "in_bytes": mapped(precision, BYTES_PER_ELEMENT),
        "precision": mapped(precision, PRECISION_INDEX),
        "quantized": np.isin(precision, QUANTIZED).astype(np.float64),
        "block_scaled": np.isin(precision, BLOCK_SCALED).astype(np.float64),
        "row_scaled": np.isin(precision, ROW_SCALED).astype(np.float64),
    }


class GemmModel(TiledModel):
    """Dense, possibly batched GEMM. Features: m, n, k, batch, in_bytes, precision, quantized."""

    name: ClassVar[str] = "gemm"
    op_classes: ClassVar[tuple[str, ...]] = ("gemm",)
    dims: ClassVar[tuple[str, ...]] = ("m", "n", "k")

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """The precision."""
        return strings(ops, "precision")

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The nearest precision that was measured, at the target precision's own peak."""
        return FALLBACKS.get(variant, ())

    def lender(self, variant: str) -> str | None:
        """BF16 for multiplies whose blocks Hopper scales in software: see `LENT`."""
        return "bf16" if variant == "fp8_block" else None

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """The same in every precision: `quantize_*` act where the activations are cast."""
        return TILE_PARAMETERS

    def features(self, ops: pd.DataFrame) -> Features:
        """Shape and element sizes of one call."""
        shape = {name: numbers(ops, name) for name in self.dims}
        return shape | {"batch": numbers(ops, "batch", 1.0)} | precision_features(ops)

    def evaluate(self, theta: Array, f: Features, hw: HardwareArrays, detail: bool) -> Terms:
        """See `TiledModel.evaluate`."""
        own, lent = np.split(theta, [len(TILE_PARAMETERS)])
        if not lent.size:
            return self._evaluate(own, f, hw, detail)
        native = hw.block_scaled_mma > 0.0
        scaled = [self._evaluate(own, f, hw, detail)] if not native.all() else []
        if native.any():
            scaled.append(self._evaluate(np.where(_IS_LENT, lent, own), f, hw, detail))
        first, last = scaled[0], scaled[-1]
        return {name: np.where(native, last[name], first[name]) for name in first}

    def _evaluate(self, theta: Array, f: Features, hw: HardwareArrays, detail: bool) -> Terms:
        rates = tile_rates(theta)
        work = Multiply(f["m"], f["n"], f["k"], f["batch"], f["in_bytes"], f["precision"],
                        f["block_scaled"])  # fmt: skip
        inputs = f["batch"] * f["in_bytes"] * f["k"] * (f["m"] + f["n"])
        unique = inputs + theta[13] * f["batch"] * OUT_BYTES * f["m"] * f["n"]
        memory_s = memory_terms(unique, float(theta[7]), float(theta[8]), rates, hw)
        best = tiled_terms(work, rates, memory_s, hw, detail)
        # Reads the bf16 activation, writes it narrow.
        rows = f["batch"] * f["m"]
        cast_bytes = f["quantized"] * rows * f["k"] * (OUT_BYTES + f["in_bytes"])
        quantize_s = cast_s(theta, f["row_scaled"] * rows, cast_bytes, hw)
        launch_s, host_s = fixed_s(theta, hw, f["quantized"])
        time_s = best["time"] + quantize_s + launch_s + host_s
        if not detail:
            return {"time": time_s}
        zero = np.zeros_like(time_s)
        return {
            "time": time_s,
            "tensor": best["tensor"],
            "l2": np.maximum(best["feed"], memory_s[1]),
            "hbm": memory_s[0],
            "launch": launch_s + zero,
            "wave": best["wave"],
            "quantize": quantize_s,
            "host": host_s + zero,
        }


def tile_rates(theta: Array) -> TileRates:
    """The part of `TILE_PARAMETERS` that the tile model takes."""
    return TileRates(
        tensor_efficiency=float(theta[3]),
        feed_bytes_per_clock_sm=float(theta[4]),
        wave_s=float(theta[5]),
        ceil_share=float(theta[6]),
        split_s=float(theta[9]),
        k_clocks=float(theta[12]),
        l2_bytes_per_clock_sm=float(theta[11]),
        overlap_p=float(theta[10]),
        synchronous_share=float(theta[17]),
        tuned_share=float(theta[18]),
        software_scaling_share=float(theta[19]),
        full_headroom=float(theta[21]),
        sustained_s=float(theta[22]),
    )


def cast_s(theta: Array, rows: Array, cast_bytes: Array, hw: HardwareArrays) -> Array:
    """Seconds of casting ``rows`` of activations, ``cast_bytes`` in all, by HBM and by SMs."""
    by_hbm = theta[14] * cast_bytes / hw.hbm_bandwidth_bytes_per_s
    clocks = theta[15] * cast_bytes + theta[20] * rows
    by_sm = clocks / (hw.sm_count * hw.boost_clock_hz)
    result: Array = by_hbm + by_sm
    return result


def fixed_s(theta: Array, hw: HardwareArrays, quantized: Array) -> tuple[Array, Array]:
    """(launch and on-chip overhead, what no lever moves) seconds, whatever the shape."""
    slower = REFERENCE_CLOCK_HZ / hw.boost_clock_hz
    launch: Array = theta[0] * hw.launch_latency_s + theta[1] * slower
    return launch, np.asarray(theta[2] + theta[16] * quantized)
