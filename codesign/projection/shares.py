"""What a step waits for: the marginal shares of its ops, by the time that each is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from codesign.projection.projector import Projection

_NEGLIGIBLE = 1e-6
"""Share under which a resource is left out: below what any timer resolves."""


def step_shares(
    projection: Projection, shares: pd.DataFrame, index: int | None = None
) -> dict[str, float]:
    """Share of step time by what it waits for on system ``index``, None for the base.

    ``shares`` are the model's `sensitivity.shares.resource_shares` there. Idle time and
    bubble stand under ``idle`` and ``bubble``; shares sum to 1, the largest first.
    """
    exposed = projection.base_exposed_s if index is None else projection.exposed_s[index]
    bubble = projection.base_bubble_s if index is None else float(projection.bubble_s[index])
    by_resource = shares.to_numpy().T @ exposed.clip(min=0.0)
    seconds = {str(k): float(v) for k, v in zip(shares.columns, by_resource, strict=True)}
    seconds |= {"bubble": bubble, "idle": projection.fixed_idle_s}
    total = sum(seconds.values())
    found = {k: v / total for k, v in seconds.items() if v > _NEGLIGIBLE * total}
    whole = sum(found.values())
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return {name: value / whole for name, value in ordered}
