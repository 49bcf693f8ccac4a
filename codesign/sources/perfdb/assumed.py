"""What no table measured: each value named, with its source, and overridable in one place."""

from __future__ import annotations

from dataclasses import dataclass

from codesign._common.units import format_si


@dataclass(frozen=True)
class Assumption:
    """A value that a modelled time rests on."""

    value: float
    unit: str
    source: str

    def __str__(self) -> str:
        # A time takes its prefix: 8.40 µs, not 8.4e-06 s.
        if self.unit.startswith("s "):
            return f"{format_si(self.value, 's')}{self.unit[1:]} ({self.source})"
        return f"{self.value:g} {self.unit}".rstrip() + f" ({self.source})"


ATTENTION_BACKWARD_EFFICIENCY = Assumption(
    0.75, "of the forward pass's FLOP rate",
    "FlashAttention-3 reports about 550 TFLOP/s backward against 740 forward on H100; recalled",
)  # fmt: skip
SCALEOUT_EFFICIENCY = Assumption(
    0.80, "of a NIC's line rate", "assumed; ring all-reduce reaches 82 % of NVLink on 8 H100",
)  # fmt: skip
SCALEOUT_BASE_LATENCY_S = Assumption(
    8.4e-6, "s a collective", "NCCL src/graph/tuning.cc at 5067397, ring and tree, Simple",
)  # fmt: skip
SCALEOUT_HOP_LATENCY_S = Assumption(
    14e-6, "s a hop of log2(ranks)", "NCCL src/graph/tuning.cc at 5067397, NET, Simple",
)  # fmt: skip
PEER_EFFICIENCY = Assumption(
    0.87, "of NVLink's rate for a copy between two GPUs", "measured: H200 88 %, GB200 86 %",
)  # fmt: skip

ASSUMPTIONS = {
    "attention backward efficiency": ATTENTION_BACKWARD_EFFICIENCY,
    "scale-out efficiency": SCALEOUT_EFFICIENCY,
    "scale-out base latency": SCALEOUT_BASE_LATENCY_S,
    "scale-out hop latency": SCALEOUT_HOP_LATENCY_S,
    "peer copy efficiency": PEER_EFFICIENCY,
}
