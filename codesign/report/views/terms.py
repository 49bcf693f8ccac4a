"""Words that a report uses, with their meaning."""

from __future__ import annotations

from typing import NamedTuple


class StatusWord(NamedTuple):
    """How a status is shown."""

    label: str
    tag: str


STATUS_WORDS = {
    "identified": StatusWord("Identified", "identified"),
    "assumed": StatusWord("Assumed", "assumed"),
    "contradicted": StatusWord("Contradicted", "refused"),
    "not_identifiable": StatusWord("Not identifiable", "unknown"),
    "no_effect": StatusWord("No effect", "none"),
    "not_studied": StatusWord("Not studied", "unknown"),
    "refused": StatusWord("Refused", "refused"),
}

VERDICT_WORDS = {
    "first": "First", "strong": "Strong", "costly": "Costly", "unpriced": "Unpriced",
    "untested": "Untested", "marginal": "Marginal", "uncertain": "Uncertain",
    "over_budget": "Over budget", "contradicted": "Contradicted", "open": "Open", "none": "None",
}  # fmt: skip

BASIS_WORDS = {
    "measured": "measured shape", "interpolated": "interpolated",
    "extrapolated": "beyond measured shapes", "other_op": "from another op",
    "other_precision": "from another precision", "other_gpu": "from another GPU",
    "speed_of_light": "speed-of-light bound", "assumed": "assumed",
}  # fmt: skip
"""Kinds of times in the extrapolation ledger, from the firm to the weak."""

GLOSSARY = (
    (
        "90 % interval",
        "The range that holds the true value in nine cases of ten if the model's own account "
        "of its uncertainty is right. Written in brackets: x1.234 [1.181, 1.295]. The backtest "
        "shows how often it was right.",
    ),
    (
        "attainable bound",
        "The step time if every op took what the fitted model gives kernels of its kind and "
        "shape, or its own time where that is shorter; never under the datasheet bound.",
    ),
    (
        "backtest",
        "A projection made without any data of the target GPU, scored against what the target"
        " measured.",
    ),
    (
        "baseline",
        "The system that all gains are against.",
    ),
    (
        "binding resource",
        "What an op waits for, at the margin: a share of 20 % for HBM means that 1 % more HBM "
        "bandwidth shortens the time by 0.2 %. SM clock is that of all on the chip but the tensor "
        "cores. No single resource: fixed latencies, and overlap where faster compute only "
        "uncovers communication.",
    ),
    (
        "bias",
        "Mean signed error: below zero, the projections were too fast.",
    ),
    (
        "bound of a cost",
        "≤ marks a cost that can only be less, ≥ one that can only be more than printed.",
    ),
    (
        "coverage",
        "Share of measured values that fell inside their 90 % interval; 90 % is right, less "
        "means overconfidence.",
    ),
    (
        "elasticity",
        "By how many per cent the time changes if the lever changes by one per cent. -1 means"
        " that the lever binds everything, 0 that it binds nothing.",
    ),
    (
        "evidence",
        "Where a value comes from. Measured: this shape was run. Interpolated: between "
        "measured shapes. Extrapolated: beyond them. Modelled: from the fitted model alone. "
        "Assumed: a stated value that nothing here measured.",
    ),
    (
        "extrapolation ledger",
        "Of every projection, the share of its time by how that time came about: this shape "
        "measured, between measured shapes, beyond them, from another op of this GPU (a backward "
        "pass from its forward pass, bytes at the rate of other kernels), from another precision, "
        "from another GPU, a datasheet bound, or an assumption.",
    ),
    (
        "exposed communication",
        "Collective time during which the GPU computes nothing.",
    ),
    (
        "gain",
        "Speedup: time on the baseline divided by time on the changed hardware. x1 is no change.",
    ),
    (
        "interaction",
        "Gain of two levers together divided by the product of their single gains. Above 1 "
        "they help each other, below 1 they compete for the same time.",
    ),
    (
        "lever",
        "One hardware quantity that an architect can change.",
    ),
    (
        "median APE, MAPE",
        "Median and mean of the absolute error in per cent of the measured time.",
    ),
    (
        "MFU, HFU",
        "Model FLOPs utilization: FLOPs the model needs per second, divided by the dense peak that "
        "the data sheet gives for the precision named beside it; never the 2:4 sparse one. Where "
        "a step multiplies in several precisions, each op counts against the peak of its own. "
        "Recomputed FLOPs are left out. Hardware FLOPs utilization counts them.",
    ),
    (
        "not identifiable",
        "The measured GPUs do not differ in a way that separates this lever from others, so "
        "the data cannot say what it does.",
    ),
    (
        "op class",
        "Kind of op: GEMM, grouped GEMM (MoE), attention, collective and so on.",
    ),
    (
        "P(best)",
        "Share of the joint draws in which this recommendation gains enough to be worth it and is "
        "first by its criterion among those that do: gain per cost among those with a cost; gain "
        "among all for those without. Only levers that measurements identify take part: the draws "
        "hold no doubt about an assumption. That of a package is among those of the front.",
    ),
    (
        "package, balanced set",
        "A package is a combination of lever steps. On the front no other package gains more for "
        "the same cost. The balanced set is the one that a fleet of fixed cost gains most by.",
    ),
    (
        "portfolio gain",
        "1 / sum(weight / gain) over the workloads; weights are shares of fleet GPU-hours.",
    ),
    (
        "saturation",
        "The step past which more of the lever adds less than a stated threshold.",
    ),
    (
        "speed of light",
        "The step time if every op ran at the datasheet peak of its binding resource. The gap"
        " is measured time divided by it.",
    ),
    (
        "spec-only, transfer",
        "Two tiers of projection. Spec-only uses nothing but the target's specification. "
        "Transfer also uses this op's measured time on the source GPU.",
    ),
    (
        "status",
        "Identified: measurements of several GPUs fix the effect. Assumed: "
        "the effect follows a stated physical assumption, and the interval covers only what is "
        "modelled. Contradicted: a natural experiment excludes the projected effect. Not studied: "
        "this kind of study cannot see the effect.",
    ),
)
