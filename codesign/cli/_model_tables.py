"""A fitted model in tables: how well it fits, and what its data tell of each lever."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codesign.sensitivity.modelfile import ModelFile, Unit

# The rank, not the condition number: a parameter that no row feels makes that meaningless.
SCORE_COLUMNS = ("op model", "variant", "n", "GPUs", "median APE", "bias", "between-GPU sd", "rank")
LEVER_COLUMNS = ("lever", "identified", "not told apart", "assumed")
_STATUSES = ("identified", "alias", "assumed")
_MEMORY_BOUND = ("norm", "softmax", "elementwise", "reduction", "embedding", "optimizer",
                 "quantize", "copy")  # fmt: skip
"""Op classes that one model times, so what is said of one is mostly said of all."""


def score_rows(model: ModelFile) -> list[tuple[str, ...]]:
    """A row for each op model: fit to its own training rows, in the order of `SCORE_COLUMNS`."""
    return [_score(unit) for unit in model.units]


def lever_rows(model: ModelFile) -> list[tuple[str, ...]]:
    """A row for each lever: op classes by whether the data tell what it does to their time.

    Levers without an effect on any are left out.
    """
    from codesign.hardware.lever_specs import shipped_levers

    titles = {name: lever.title for name, lever in shipped_levers().items()}
    rows = []
    for lever, by_class in model.identifiability.items():
        cells = [
            _classes([c for c, found in by_class.items() if found.status == status])
            for status in _STATUSES
        ]
        if any(cells):
            rows.append((titles.get(lever, lever), *cells))
    return rows


def _score(unit: Unit) -> tuple[str, ...]:
    from codesign._common.units import format_share
    from codesign.report.formatting import signed_share

    return (
        unit.model, unit.variant, str(unit.score.n), str(len(unit.gpus)),
        format_share(unit.score.median_ape), signed_share(unit.score.bias),
        format_share(unit.between.gpu_spread_sd), f"{unit.rank} of {len(unit.parameters)}",
    )  # fmt: skip


def _classes(found: list[str]) -> str:
    from codesign.recommend.wording import name_of

    rest = [c for c in found if c not in _MEMORY_BOUND]
    if len(found) - len(rest) == len(_MEMORY_BOUND):
        return ", ".join([*map(name_of, rest), "memory-bound ops"])
    return ", ".join(map(name_of, found))
