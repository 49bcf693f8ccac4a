"""Every parameter of an op model may differ from one silicon family to the next.

What a kernel reaches depends on the generation that it was written for. So the parameters of
a family that was trained on deviate from those for a family yet unknown, each by a share of
the width of its prior: a hierarchical model, its one variance estimated over all variants of
an op model (EM, shrunk to what is assumed). Deviations are looked for only in the few
directions that the training rows feel: the leading right singular vectors of the Jacobian in
units of the priors' widths. Along them the estimates hardly depend on one another, and what
no row feels stays as it is for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codesign.sensitivity.effects import (
    ROWS_OF_FAMILY,
    FamilyFit,
    WithEffects,
    as_effects,
    fit_families,
    residuals_with,
)
from codesign.sensitivity.estimate import SOFT_L1_SCALE, VAGUE_PRIOR_SD, Block, Estimate
from codesign.sensitivity.hardware_arrays import Array
from codesign.sensitivity.op_model import OpModel, Parameter

WIDTH = 0.5
"""Assumed spread of a family's parameters, in widths of their priors, worth `WIDTH_DEGREES`
deviations seen."""
WIDTH_DEGREES = 6.0
WIDEST_PRIOR_SD = 1.0
"""A vague prior says that nothing is known, not that families differ by e times."""
DIRECTIONS = 8
FELT = 0.25
"""A direction is looked at from where a family's rows tell this much of the prior's precision."""
_FIRST_WIDTH = 1.0
"""Spread, in the same widths, that lets the data speak before theirs is known."""


@dataclass(frozen=True)
class _Variant:
    model: OpModel
    name: str
    blocks: Sequence[Block]
    found: Estimate
    moves: Array
    """(p, directions) of one prior's width each."""

    def fit(self, width: float) -> FamilyFit:
        names = tuple(f"direction {i + 1}" for i in range(self.moves.shape[1]))
        spread = np.full(len(names), width)
        return fit_families(
            self.model, self.name, self.blocks, self.found.z, names, self.moves, spread
        )  # fmt: skip


def add_deviations(
    model: OpModel, variants: dict[str, tuple[Sequence[Block], Estimate]]
) -> dict[str, WithEffects]:
    """What the families of every variant of ``model`` have of their own."""
    known = {
        name: _Variant(model, name, blocks, found, directions(model.parameters(name), found))
        for name, (blocks, found) in variants.items()
    }
    width = spread_of([v.fit(_FIRST_WIDTH) for v in known.values()])
    result = {}
    for name, variant in known.items():
        fit = variant.fit(width)
        left = residuals_with(model, name, variant.blocks, variant.found.z, variant.moves, fit)
        # Of a family yet unknown the spread is that of left-out residuals: see `between`.
        effects = as_effects(fit, np.zeros(len(fit.names)), 1.0, variant.moves)
        result[name] = WithEffects(variant.found, effects, left)
    return result


def directions(parameters: Sequence[Parameter], found: Estimate) -> Array:
    """(p, directions) moves of the parameters that the rows feel most, each slowing ops.

    In each, the squared widths of priors add up to one.
    """
    width = np.array([min(p.prior_sd or VAGUE_PRIOR_SD, WIDEST_PRIOR_SD) for p in parameters])
    # Rows of all families alike: their weights are worth one family here.
    rows = found.weight / found.weight.sum() * ROWS_OF_FAMILY / SOFT_L1_SCALE**2
    felt = np.sqrt(rows)[:, None] * found.jacobian * width
    _, singular, right = np.linalg.svd(felt, full_matrices=False)
    kept = max(int((singular[:DIRECTIONS] ** 2 > FELT / WIDTH**2).sum()), 1)
    moves = width[:, None] * right[:kept].T
    slows = rows @ found.jacobian @ moves
    return np.asarray(moves * np.where(slows < 0.0, -1.0, 1.0))


def spread_of(fits: Sequence[FamilyFit]) -> float:
    """Spread of deviations between families: one EM step, and the prior.

    A deviation counts with its family's weight; what is unsure of it is part of the spread.
    """
    square = weight = 0.0
    for fit in fits:
        if len(fit.values) < 2:
            continue  # The parameters are that family's own.
        for family, values in fit.values.items():
            share = fit.weights[family]
            square += share * float(np.square(values).sum() + np.square(fit.sds[family]).sum())
            weight += share * len(values)
    return float(np.sqrt((square + WIDTH_DEGREES * WIDTH**2) / (weight + WIDTH_DEGREES)))
