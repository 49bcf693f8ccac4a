"""Decode: weights read for few sequences, caches read in BF16."""

from __future__ import annotations

import numpy as np

from codesign.recommend.software.draft import Draft, shrunk
from codesign.recommend.software.look import Look, Mask
from codesign.recommend.software.recipes import fits_with_batch, unknown_room
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent
from codesign.workload.accounting import add_work

LEAST_SHARE = 0.01
BATCH_FACTOR = 2
"""Step of batch that is studied."""
_PHASES = ("decode", "rollout")


def decode_batching(look: Look) -> Draft | str | None:
    """GEMMs of decode that wait for weights: twice the sequences read them once.

    The gain is in tokens per GPU-second: a step of twice the batch takes longer.
    """
    rows = np.flatnonzero(
        _decoding(look) & look.of_class("gemm", "grouped_gemm") & _memory_bound(look)
        & (look.number("m", 0.0) > 0)
    )  # fmt: skip
    at_stake = float(look.step.exposed_s[rows].sum())
    if at_stake < 0.05 * look.step_s:
        return None
    room = fits_with_batch(look, BATCH_FACTOR)
    if room is not None and not room.fits:
        return f"at {BATCH_FACTOR} times the batch {room.words}"
    ops = look.ops.iloc[rows]
    scaled = {
        c: (ops[c] * BATCH_FACTOR) for c in ("m", "tokens") if ops[c].notna().any()
    }  # fmt: skip
    larger = add_work(ops.assign(**scaled, flops=float("nan"), bytes=float("nan")))
    before, after = look.modelled(ops), look.modelled(larger)
    if before is None or after is None or not np.isfinite(after / before).any():
        return "no model tells what these GEMMs take at a larger batch"
    # Time of a token: the larger op over twice the tokens.
    ratio = np.where(np.isfinite(after / before), after / before / BATCH_FACTOR, 1.0)
    ratio = np.minimum(ratio, 1.0)
    bound = float((look.step.exposed_s[rows] * ratio).sum())
    if at_stake - bound < LEAST_SHARE * look.step_s:
        return None
    roof = float(look.roofline_s()[rows].sum() / look.step.time_s[rows].sum())
    memory = (
        unknown_room(look) if room is None
        else f"at {BATCH_FACTOR} times the sequences {room.words}"
    )  # fmt: skip
    slower = (
        look.step_s
        + float((look.step.exposed_s[rows] * (ratio * BATCH_FACTOR - 1.0)).sum())
        + float(look.step.exposed_s[_decoding(look) & look.of_class("attention")].sum())
    )
    return Draft(
        shrunk(look, rows, ratio), rows,
        f"GEMMs of decode wait for weights in {seconds(at_stake)} "
        f"({percent(at_stake / look.step_s)} of the step), at {percent(roof)} of the memory "
        f"roofline: {ops_in_words(look, rows)}; {memory}",
        at_stake, bound,
        f"the fitted model's time of the same GEMMs at {BATCH_FACTOR} times the rows, per token; "
        f"the step itself grows from {seconds(look.step_s)} to about {seconds(slower)}, which is "
        "what each user then waits for a token",
        confidence="low" if room is None else None,
    )  # fmt: skip


def kv_precision(look: Look) -> Draft | str | None:
    """Attention of decode over caches in BF16 or FP16: in FP8 half the bytes are read."""
    cached = np.where(look.text("kv_precision") == "", look.text("precision"),
                      look.text("kv_precision"))  # fmt: skip
    rows = np.flatnonzero(
        _decoding(look) & look.of_class("attention") & np.isin(cached, ("bf16", "fp16"))
        & (look.number("kv_len", 0.0) > 0)
    )  # fmt: skip
    at_stake = float(look.step.exposed_s[rows].sum())
    if at_stake < LEAST_SHARE * look.step_s:
        return None
    if look.peak("fp8") is None:
        return "the part does not convert FP8 in hardware"
    ops = look.ops.iloc[rows]
    narrow = add_work(ops.assign(kv_precision="fp8", bytes=float("nan")))
    before, after = look.modelled(ops), look.modelled(narrow)
    if before is None or after is None or not np.isfinite(after / before).any():
        return "no model tells what attention over an FP8 cache takes"
    ratio = np.minimum(np.where(np.isfinite(after / before), after / before, 1.0), 1.0)
    bound = float((look.step.exposed_s[rows] * ratio).sum())
    if at_stake - bound < LEAST_SHARE * look.step_s:
        return None
    return Draft(
        shrunk(look, rows, ratio), rows,
        f"attention of decode reads a BF16 cache in {seconds(at_stake)} "
        f"({percent(at_stake / look.step_s)} of the step): {ops_in_words(look, rows)}",
        at_stake, bound,
        "the fitted model's time over an FP8 cache over that now; the room that the cache "
        "leaves for a larger batch is not counted",
    )  # fmt: skip


def _decoding(look: Look) -> Mask:
    phase = look.text("phase")
    if look.char.header.phase in _PHASES:
        return np.isin(phase, ("", *_PHASES))
    return np.isin(phase, _PHASES)


def _memory_bound(look: Look) -> Mask:
    peaks = np.array([look.peak(p) or np.nan for p in look.text("precision")])
    by_flops = look.number("flops") / peaks
    by_bytes = look.number("bytes") / look.base.gpu.hbm_bandwidth_bytes_per_s
    return np.asarray(by_bytes > by_flops)
