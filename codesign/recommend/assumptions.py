"""Every value that was not measured, with where it comes from and where to change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codesign.hardware.cost_ranges import range_of
from codesign.hardware.costs import title_of
from codesign.recommend.schema import Assumption

if TYPE_CHECKING:
    from codesign.hardware.costs import Costs
    from codesign.hardware.model import System
    from codesign.recommend.study import Study

_OWN = (
    Assumption(
        "projection onto hypothetical hardware",
        "measured time x model ratio; what the model does not explain carries over whole",
        "the same silicon runs the same kernels", "assumed", "codesign/projection/transfer.py"),
    Assumption(
        "overlap on faster hardware",
        "a collective hides behind a window of compute that shrinks as that compute does; what is "
        "partly hidden without a known window is read in the way that gains less",
        "docs/architecture.md, conventions of exposed_s", "assumed",
        "overlap of the recipe, or overlap_window_s of the characterization"),
    Assumption(
        "idle time", "idle time stays as it is; a pipeline bubble scales with the busy time",
        "docs/architecture.md, projection", "assumed", "idle_s, bubble_s of the characterization"),
    Assumption(
        "portfolio gain", "1 / sum(weight / gain), weights being shares of GPU-hours",
        "the fleet does the same work on fewer GPU-hours", "assumed", "weights of the portfolio"),
)  # fmt: skip


def assumptions(study: Study, costs: Costs | None) -> tuple[Assumption, ...]:
    """Assumptions of projection, model, hardware, workloads and costs, in that order."""
    found = [*_OWN, *_model(study.model), *_system(study.base)]
    for name in study.weights:
        for key, value in sorted(study.chars[name].header.assumptions.items()):
            found.append(Assumption(
                f"{name}: {key}", value, "the recipe or characterization", "assumed",
                f"reports/workloads/{name}.yaml",
            ))  # fmt: skip
    return tuple(found + _costs(costs))


def _model(model: Any) -> list[Assumption]:
    said = getattr(model, "assumptions", None) or {}
    return [
        Assumption(f"model: {key}", str(value), "the fitted sensitivity model", "assumed",
                   "codesign fit")
        for key, value in sorted(said.items())
    ]  # fmt: skip


def _system(base: System) -> list[Assumption]:
    found = []
    for holder, folder in ((base.gpu, "gpus"), (base, "systems")):
        for key, label in sorted(holder.labels.items()):
            if label in ("read", "measured"):
                continue
            found.append(Assumption(
                f"{holder.name}: {key}", label, holder.sources.get(key, ""), "assumed",
                f"hwspecs/{folder}/{holder.name}.yaml",
            ))  # fmt: skip
    return found


def _costs(costs: Costs | None) -> list[Assumption]:
    found = []
    for name, entry in sorted(({} if costs is None else costs.values).items()):
        if entry.evidence == "measured":
            continue
        low, high, why = range_of(entry)
        value = f"{entry.value:g} {entry.unit}".strip()
        value += {"lower": ", a lower bound", "upper": ", an upper bound"}.get(entry.bound, "")
        if low != high:
            value += f"; drawn from {low:.3g} to {high:.3g} ({why})"
        found.append(Assumption(
            f"cost: {title_of(name)}", value, entry.source, entry.evidence,
            f"{name} in hwspecs/costs.yaml, or --costs",
        ))  # fmt: skip
    return found
