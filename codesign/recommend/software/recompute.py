"""Activations computed twice, where memory might hold them."""

from __future__ import annotations

import numpy as np

from codesign.recommend.software.draft import Draft, shrunk
from codesign.recommend.software.look import Look
from codesign.recommend.software.recipes import fits_without_recompute, unknown_room
from codesign.recommend.software.words import ops_in_words, seconds
from codesign.recommend.wording import percent
from codesign.workload.accounting import RECOMPUTE_SUFFIX

LEAST_SHARE = 0.01
FORWARD_ONLY = (
    r"aten::(addmm|native_layer_norm|_fused_rms_norm|gelu|silu|relu|_softmax|cudnn_convolution"
    r"|native_dropout|embedding|_(flash|efficient|cudnn)_attention_forward"
    r"|_scaled_dot_product\w*_attention)$"
)
"""Ops that autograd never calls itself: in the backward phase they recompute."""


def recomputation(look: Look) -> Draft | str | None:
    """Forward ops done again in the backward pass; at stake is their time."""
    again = look.named(rf"{RECOMPUTE_SUFFIX.replace('.', chr(92) + '.')}$")
    again |= (look.text("phase") == "backward") & look.named(FORWARD_ONLY)
    rows = np.flatnonzero(again & (look.step.exposed_s > 0))
    at_stake = float(look.step.exposed_s[rows].sum())
    if at_stake < LEAST_SHARE * look.step_s:
        return None
    room = fits_without_recompute(look)
    if room is not None and not room.fits:
        return f"recomputation takes {seconds(at_stake)}, but without it {room.words}"
    memory = unknown_room(look) if room is None else room.words
    return Draft(
        shrunk(look, rows, np.zeros(len(rows))), rows,
        f"forward ops run once more in the backward pass, {seconds(at_stake)} "
        f"({percent(at_stake / look.step_s)} of the step): {ops_in_words(look, rows)}; {memory}",
        at_stake, 0.0, "what is kept need not be computed again; no time is left of these ops",
        confidence="low" if room is None else "medium",
    )  # fmt: skip
