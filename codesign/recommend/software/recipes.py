"""What a shipped recipe says of memory; nothing for captures, whose memory nobody recorded."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from codesign._common.errors import CodesignError
from codesign._common.units import format_si
from codesign.recommend.software.look import Look
from codesign.workload.footprint import footprint
from codesign.workload.recipe import Recipe, load_recipe

FREE_SHARE = 0.9
"""Share of HBM that a plan may fill: the rest is workspace and fragmentation."""


class Room(NamedTuple):
    """Whether a change of the recipe fits the GPU, and in words how closely."""

    fits: bool
    words: str


def recipe_of(look: Look) -> Recipe | None:
    """The recipe that a composed characterization was made from, if it is still the same."""
    if not look.composed:
        return None
    try:
        recipe = load_recipe(look.char.header.workload)
    except CodesignError:
        return None
    said = f"recipe sha256 {recipe.sha256()}"
    return recipe if said in look.char.header.notes else None


def unknown_room(look: Look) -> str:
    """Why nothing is known of the memory that is free, and what would tell."""
    if look.composed:
        return (
            "what memory is free is not known: it was composed from a recipe that is not here or "
            "has changed since; compose it again"
        )
    return "what memory is free is not known, since a capture does not record it"


def fits_without_recompute(look: Look) -> Room | None:
    """Room for all activations on one GPU; None where no recipe tells."""
    recipe = recipe_of(look)
    return None if recipe is None else _room(look, recipe, recompute="none")


def fits_with_batch(look: Look, factor: int) -> Room | None:
    """Room for ``factor`` times the sequences in decode; None where no recipe tells."""
    recipe = recipe_of(look)
    return None if recipe is None else _room(look, recipe, batch=recipe.batch * factor)


def _room(look: Look, recipe: Recipe, **changes: object) -> Room:
    need = footprint(msgspec.structs.replace(recipe, **changes)).total_bytes
    have = look.base.gpu.hbm_capacity_bytes
    fits = need <= FREE_SHARE * have
    words = f"each GPU needs about {format_si(need, 'B')} of HBM and has {format_si(have, 'B')}"
    if not fits:
        words += ", of which a tenth is left for workspace" if need <= have else ""
    return Room(fits, words)
